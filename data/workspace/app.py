"""A small service that counts logins. It fails when it starts."""

from config import load_settings


def main():
    settings = load_settings()
    print("counting logins every", settings["interval"], "seconds")


main()
