"""How many examples hypothesis tries, and nothing else that differs from test to test."""

from hypothesis import HealthCheck, settings


def quick(examples: int) -> settings:
    """So many examples, the same in every run, however long one takes."""
    unhurried = list(HealthCheck)
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=unhurried
    )
