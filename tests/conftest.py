"""What every test is given."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.wants import WANTS

#: What takes longest, by file.  It is begun first: `make test` gives a file to one process, and no
#: process is to be alone with a long one at the end.
LONGEST = (
    "workflow/test_pipeline.py",
    "workflow/test_published.py",
    "test_how_to_add.py",
    "test_cli.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files of LONGEST first, each as it is."""
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.fixture(autouse=True)
def denormal_numbers() -> Iterator[None]:
    """Training flushes them to zero, in its own process: here the next test wants them back."""
    yield
    torch.set_flush_denormal(False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line of what was left out for want of something, and what to install."""
    said = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    found = [text.removeprefix("Skipped: ") for text in said]
    lacking = sorted({text.removeprefix(WANTS) for text in found if text.startswith(WANTS)})
    if lacking:
        count = sum(text.startswith(WANTS) for text in found)
        terminalreporter.write_line(f"{count} left out for want of {'; '.join(lacking)}")
