"""What every tier may use."""

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
