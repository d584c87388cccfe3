"""Where the numbers come from: read from the metadata that every cell's file carries."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hindsight.analysis.cells import metadata_of


@dataclass(frozen=True)
class Provenance:
    """What the cells on disk say about themselves, and which planned cells are not there.

    seconds: training time of all cells together; steps: their environment steps, runs summed;
    versions: how many versions of the code trained them.
    """

    cells: int
    runs: int
    steps: int
    seconds: float
    versions: int
    facts: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def collect(plans: Iterable[dict[str, Any]]) -> Provenance:
    """Metadata of the plans' cells (paths relative to the working folder); each counts once.

    Facts keep every value that occurs: more than one machine is worth knowing.
    """
    paths = dict.fromkeys(entry["cell"] for plan in plans for entry in plan["entries"])
    there = [path for path in paths if Path(path).exists()]
    found = [metadata_of(Path(path)) for path in there]
    runs = [run for metadata in found for run in metadata["runs"]]
    facts: dict[str, set[str]] = {}
    for metadata in found:
        for name, value in _facts(metadata):
            facts.setdefault(name, set()).add(value)
    return Provenance(
        cells=len(there),
        runs=len(runs),
        steps=sum(run["end_step"] for run in runs),
        seconds=sum(metadata["seconds"] for metadata in found),
        versions=len({metadata["code"] for metadata in found}),
        facts={name: sorted(values) for name, values in facts.items()},
        missing=[path for path in paths if path not in set(there)],
    )


def _facts(metadata: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Names and values as a reader wants them."""
    made_on = metadata.get("made_on", [metadata])  # a checkpoint may have been continued elsewhere
    for place in made_on:
        yield "hardware", ", ".join(f"{k} {v}" for k, v in place["machine"].items())
    yield "device", str(metadata["device"])
    yield "precision", str(metadata["precision"])
    clock = {"cpu": "CPU time of the process", "wall": "wall time"}[metadata["clock"]]
    yield "training time is", f"{clock}, shared among the runs that train together"
    for place in made_on:
        yield "packages", ", ".join(f"{k} {v}" for k, v in place["versions"].items())
