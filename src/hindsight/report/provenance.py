"""Collect where the numbers come from, from the metadata in the cells' files."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hindsight.analysis.cells import metadata_of


@dataclass(frozen=True)
class Provenance:
    """The origin of the cells on disk, all together."""

    cells: int
    runs: int
    steps: int
    seconds: float
    versions: int  # of the code that trained them
    facts: dict[str, list[str]]  # machines, packages and the like, with every value that occurs
    missing: list[str]  # the planned cells without a file


def collect(plans: Iterable[dict[str, Any]]) -> Provenance:
    """Read the metadata of the plans' cells, each once.

    Paths are relative to the working directory.
    """
    paths = dict.fromkeys(entry["cell"] for plan in plans for entry in plan["entries"])
    missing = [path for path in paths if not Path(path).exists()]
    found = [metadata_of(Path(path)) for path in paths if path not in missing]
    runs = [run for metadata in found for run in metadata["runs"]]
    facts: dict[str, set[str]] = {}
    for metadata in found:
        for name, value in _facts(metadata):
            facts.setdefault(name, set()).add(value)
    return Provenance(
        cells=len(found),
        runs=len(runs),
        steps=sum(run["end_step"] for run in runs),
        seconds=sum(metadata["seconds"] for metadata in found),
        versions=len({metadata["code"] for metadata in found}),
        facts={name: sorted(values) for name, values in facts.items()},
        missing=missing,
    )


def _facts(metadata: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield names and values of facts as text."""
    made_on = metadata.get("made_on", [metadata])  # several if continued on another machine
    for place in made_on:
        yield "hardware", ", ".join(f"{k} {v}" for k, v in place["machine"].items())
    yield "device", str(metadata["device"])
    yield "precision", str(metadata["precision"])
    clock = {"cpu": "CPU time of the process", "wall": "wall time"}[metadata["clock"]]
    yield "training time is", f"{clock}, shared among the runs that train together"
    for place in made_on:
        yield "packages", ", ".join(f"{k} {v}" for k, v in place["versions"].items())
