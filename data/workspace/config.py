"""Settings of the service."""

SETTINGS = {"intervall": 30}


def load_settings():
    return SETTINGS
