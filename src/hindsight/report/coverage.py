"""What was trained, compared with the papers' grids (papers.json), and where numbers come from."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hindsight.analysis.cells import metadata_of
from hindsight.analysis.summarise import level_text
from hindsight.figures.names import level_label, network_note, place_name
from hindsight.report.present import NOTHING, Table, count

HEADER = ["figure", "arms", "fidelity", "conditions", "settings", "seeds", "steps of a run",
          "network", "what is missing"]  # fmt: skip
#: Longer lists of missing names are shortened.
NAMED = 6
Entry = dict[str, Any]


def coverage(plans: Iterable[dict[str, Any]], papers: Path) -> list[Table]:
    """Return a table for the papers' figures and one for the other experiments.

    A row is an arm of an experiment under one fidelity. Arms, and then fidelities, whose rows are
    equal share one. The cells' paths are relative to the working directory.
    """
    grids: dict[str, dict[str, Any]] = json.loads(papers.read_text(encoding="utf-8"))
    by_name = {plan["experiment"]: plan for plan in plans}
    titles = {True: "The papers' figures", False: "The other experiments"}
    rows: dict[bool, list[list[str]]] = {}
    for name, grid in grids.items():
        plan = by_name.get(name, {"entries": [], "preset": {"hidden": []}})
        there = [e for e in plan["entries"] if Path(e["cell"]).exists()]
        rows.setdefault(bool(grid["paper"]), []).extend(
            _rows(grid, there, list(plan["preset"]["hidden"]))
        )
    return [Table(titles[of], HEADER, rows[of]) for of in (True, False) if of in rows]


def _rows(grid: dict[str, Any], there: Sequence[Entry], hidden: list[int]) -> list[list[str]]:
    """Return an experiment's rows; `there`: the entries whose cells exist."""
    figure = grid["figures"] if grid["paper"] else f"{grid['figures']}: {grid['title']}"
    alike: dict[tuple[str, ...], dict[str, list[str]]] = {}  # by row: its arms by fidelity
    for fidelity in grid["fidelities"]:
        for arm, whole in grid["arms"].items():
            own = [e for e in there if (e["fidelity"], e["arm"]) == (fidelity, arm)]
            row = tuple(_row(grid, whole, own, hidden))
            alike.setdefault(row, {}).setdefault(fidelity, []).append(arm)
    found = []
    for row, arms in alike.items():
        shared: dict[str, list[str]] = {}
        for fidelity, named in arms.items():
            shared.setdefault(", ".join(named), []).append(fidelity)
        found += [[figure, names, " and ".join(of), *row] for names, of in shared.items()]
    return found


def _row(
    grid: dict[str, Any], whole: dict[str, Any], own: Sequence[Entry], hidden: list[int]
) -> list[str]:
    """Return the columns of one arm from `conditions` on."""
    if not own:
        return [NOTHING] * 5 + ["everything: not trained"]
    levels = {level_text(level): level for level in whole["levels"]}
    places = {(level_text(e["level"]), e["condition"]) for e in own}
    settings = [text for text in levels if any(text == level for level, _ in places)]
    conditions = [c for c in whole["conditions"] if any(c == place for _, place in places)]
    lacking = [
        *_absent("conditions", conditions, whole["conditions"], place_name),
        *_absent("settings", settings, levels, lambda text: level_label(levels[text])),
    ]
    if len(places) < (possible := len(conditions) * len(settings)):
        lacking.append(f"only {len(places)} of these {possible} combinations are there")
    least = []
    for key in ("seeds", "steps"):
        numbers = sorted({e[key] for e in own})
        words = " to ".join(map(count, dict.fromkeys((numbers[0], numbers[-1]))))
        if numbers[0] < grid[key]:
            words += f" of {count(grid[key])}"
            lacking.append(key)
        least.append(words)
    network, theirs = (network_note(x).removeprefix("network ") for x in (hidden, grid["hidden"]))
    if hidden and network != theirs:  # empty if the arms' networks differ
        lacking.append("network size")
        network += f" for {theirs}"
    counts = [
        f"{len(here)} of {len(all_)}" if len(all_) > 1 else NOTHING
        for here, all_ in ((conditions, whole["conditions"]), (settings, levels))
    ]
    return [*counts, *least, network, "; ".join(lacking) or "nothing"]


def _absent(what: str, there: Sequence[str], whole: Iterable[str], name: Any) -> list[str]:
    """List what is missing, `conditions: static, spawn apart`, or what is not, `all but …`."""
    absent = [name(one) for one in whole if one not in there]
    if not absent:
        return []
    if len(absent) <= NAMED:
        return [f"{what}: {', '.join(absent)}"]
    return [f"{what}: all but {', '.join(map(name, there))}" if len(there) <= NAMED else what]


@dataclass(frozen=True)
class Provenance:
    cells: int
    runs: int
    steps: int
    seconds: float
    versions: int  # of the code that trained them
    facts: dict[str, list[str]]  # machines, packages and the like, with every value that occurs
    missing: list[str]  # the planned cells without a file


def collect(plans: Iterable[dict[str, Any]]) -> Provenance:
    """Read the metadata of the plans' cells, whose paths are relative to the working directory."""
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
