"""How many faults are injected, and the page that lists what happened."""

from collections import Counter
from pathlib import Path

import pytest

PAGE = """# What it survives

What happens to your work if a process is killed, the disk fills up or a file is damaged? The same
command continues, and ends with the same results.

We injected {count} faults (`make faults`). After each there was no traceback,
no process left behind and no lock in the way. Once the cause was gone, the same command finished,
and curves and policies were equal, bit for bit, to those of an undisturbed run (except for
clocks). `make test-slurm` tests what a cluster does to its jobs
([details](cluster.md)). The test suite covers what needs no particular moment: mistakes in commands
and configuration, files that are absurd or name a module, closed streams, too little memory,
environments that hang or exit.

| fault | what happened, and how often |
|---|---|
{rows}

## What cannot be detected

A results file carries a checksum of its content. A person who changes numbers and recomputes the
checksum is caught only if the numbers contradict each other or the specification: a
return that does not follow from the success rate, two seeds that are equal, a run that ends
early without a reason, a missing last evaluation, a time that the runs cannot have taken.
Plausible numbers pass. `hindsight verify-published` retrains the first iterations of published
cells.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turns", type=int, default=1, help="faults of each kind of one cell")
    parser.addoption("--survival", type=Path, help="the page to write")


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
        page.write_text(PAGE.format(count=len(found), rows="\n".join(rows)))
