"""What a test wants of the system: without it, it is left out; where CI is set, it fails."""

import os

import pytest

WANTS = "wants "


def wants(there: object, what: str, packages: str) -> None:
    """Leave the running test out unless it is there; `packages` are Debian's."""
    if there:
        return
    message = f"{WANTS}{what}: install {packages}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
