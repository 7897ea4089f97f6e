"""What every tier may use."""

import logging

from hypothesis import HealthCheck, settings

settings.register_profile(
    "penstock",
    deadline=None,
    max_examples=18,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
settings.load_profile("penstock")


def pytest_unconfigure() -> None:
    """py4j says goodbye as the interpreter ends, when the stream it would write to is closed."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
