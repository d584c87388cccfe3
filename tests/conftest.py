"""What every test is given."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def denormal_numbers() -> Iterator[None]:
    """Training flushes them to zero, in its own process: here the next test wants them back."""
    yield
    torch.set_flush_denormal(False)
