"""The tests of the harness draw the same examples on every run: a red test stays red until it is mended."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "keel",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("keel")
