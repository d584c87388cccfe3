"""What a test wants of the system: without it, it is left out; where CI is set, it fails, unless
WITHOUT says that it cannot be had there.
"""

import os

import pytest


def wants(there: object, what: str, packages: str) -> None:
    """Leave the running test out unless it is there; `packages` are Debian's."""
    if there:
        return
    message = f"wants {what}: install {packages}"
    if os.environ.get("CI") and what not in os.environ.get("WITHOUT", "").split():
        pytest.fail(message)
    pytest.skip(message)
