"""How many faults are injected, and the page whose table lists what happened."""

import re
from collections import Counter
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turns", type=int, default=1, help="faults of each kind of one cell")
    parser.addoption("--survival", type=Path, help="the page with the table")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "turn" in metafunc.fixturenames:
        metafunc.parametrize("turn", range(metafunc.config.getoption("turns", 1)))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """A line for each kind of fault: how often what happened."""
    passed = terminalreporter.stats.get("passed", [])
    found = [tuple(pair) for report in passed for pair in report.user_properties]
    rows = []
    for kind in dict.fromkeys(kind for kind, _ in found):
        times = Counter(happened for k, happened in found if k == kind)
        what = "; ".join(f"{happened} ({n})" for happened, n in sorted(times.items()))
        rows.append(f"| {kind} | {what} |")
        terminalreporter.write_line(rows[-1])
    if (page := config.getoption("survival", None)) and not terminalreporter.stats.get("failed"):
        text = re.sub(r"(?<=We injected )\d+", str(len(found)), page.read_text(), count=1)
        before, line, _, after = re.split(r"(\|---\|---\|\n)(.*?)(?=\n\n)", text, flags=re.S)
        page.write_text(before + line + "\n".join(rows) + after)
