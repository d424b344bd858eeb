"""The tests of the harness draw the same examples on every run: a red test stays red until it is mended."""

import signal

from hypothesis import HealthCheck, settings

# A shell that starts a program in the background has it ignore Ctrl-C, and so would the tests about Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "keel",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("keel")
