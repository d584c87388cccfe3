"""What was trained of each of the papers' figures, and what is missing of it: made from the plans,
from the cells that are there, and from what the papers' own grids are (papers.json).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hindsight.analysis.summarise import level_text
from hindsight.figures.names import CONDITIONS, PREYS, SPAWNS, level_label, network_note
from hindsight.report import present

#: So many names are named one by one.
NAMED = 6


@dataclass(frozen=True)
class Covered:
    """Arms of an experiment that were trained alike, beside what the papers trained of them.

    figures: where it is published; paper: the paper that these figures are of, or None; conditions,
    settings: names of those that are there, and in whole_* all of the papers'; cells: places of
    that grid that are there, and how many there are; seeds, steps: fewest and most; whole: the
    papers' seeds, steps and hidden.
    """

    experiment: str
    title: str
    figures: str
    paper: str | None
    arms: tuple[str, ...]
    fidelities: tuple[str, ...]
    conditions: tuple[str, ...]
    whole_conditions: tuple[str, ...]
    settings: tuple[str, ...]
    whole_settings: tuple[str, ...]
    cells: tuple[int, int]
    seeds: tuple[int, int]
    steps: tuple[int, int]
    hidden: tuple[int, ...]
    whole: dict[str, Any]

    @property
    def lacking(self) -> list[str]:
        """What is missing, in words; nothing if it is all of the papers'."""
        if not self.conditions:
            return ["everything: not trained"]
        found = [
            *_absent("conditions", self.conditions, self.whole_conditions),
            *_absent("settings", self.settings, self.whole_settings),
        ]
        if self.cells[0] < len(self.conditions) * len(self.settings):
            found.append(f"{self.cells[0]} of these {len(self.conditions) * len(self.settings)} "
                         "combinations alone are there")  # fmt: skip
        if self.seeds[0] < self.whole["seeds"]:
            found.append("seeds")
        if self.steps[0] < self.whole["steps"]:
            found.append("steps")
        if self.hidden and list(self.hidden) != self.whole["hidden"]:  # () where arms differ in it
            found.append("network size")
        return found


def coverage(plans: Iterable[dict[str, Any]], papers: Path) -> list[Covered]:
    """Every experiment of the papers' grids, in their order; none without the file.

    Cells are found where the plans say, relative to the working folder.
    """
    if not papers.exists():
        return []
    grids: dict[str, dict[str, Any]] = json.loads(papers.read_text(encoding="utf-8"))
    by_name = {plan["experiment"]: plan for plan in plans}
    # All seeds of a cell count, whichever experiment asked for so many.
    seeds: dict[str, int] = {}
    for entry in (entry for plan in by_name.values() for entry in plan["entries"]):
        seeds[entry["cell"]] = max(entry["seeds"], seeds.get(entry["cell"], 0))
    return [
        row for name, grid in grids.items() for row in _rows(name, grid, by_name.get(name), seeds)
    ]


def _rows(
    name: str, grid: dict[str, Any], plan: dict[str, Any] | None, seeds: dict[str, int]
) -> list[Covered]:
    """Arms, then fidelities, of which everything is alike share a row."""
    planned = [] if plan is None else plan["entries"]
    entries = [e | {"seeds": seeds[e["cell"]]} for e in planned if Path(e["cell"]).exists()]
    hidden = tuple(plan["preset"]["hidden"]) if plan is not None else ()
    rows: list[Covered] = []
    for fidelity in grid["fidelities"]:
        own: list[Covered] = []
        for arm, whole in grid["arms"].items():
            mine = [e for e in entries if (e["fidelity"], e["arm"]) == (fidelity, arm)]
            _merge(own, replace(_row(name, grid, whole, mine, hidden), arms=(arm,)))
        for row in own:
            _merge(rows, replace(row, fidelities=(fidelity,)))
    return rows


def _row(
    name: str,
    grid: dict[str, Any],
    whole: dict[str, Any],
    entries: Sequence[dict[str, Any]],
    hidden: tuple[int, ...],
) -> Covered:
    places = {(level_text(e["level"]), e["condition"]) for e in entries}
    levels = {level_text(level): level for level in whole["levels"]}
    seeds, steps = ([e[key] for e in entries] or [0] for key in ("seeds", "steps"))
    return Covered(
        name, grid["title"], grid["figures"], grid["paper"], (), (),
        tuple(_condition(c) for c in whole["conditions"] if any(c == p[1] for p in places)),
        tuple(map(_condition, whole["conditions"])),
        tuple(_setting(levels[t]) for t in levels if any(t == p[0] for p in places)),
        tuple(map(_setting, levels.values())),
        (len(places), len(levels) * len(whole["conditions"])),
        (min(seeds), max(seeds)), (min(steps), max(steps)), hidden,
        {key: grid[key] for key in ("seeds", "steps", "hidden")},
    )  # fmt: skip


def _condition(name: str) -> str:
    """`random spawn static`; a task is called by its own name."""
    spawn, prey = CONDITIONS.get(name, (None, None))
    return name if spawn is None else f"{SPAWNS[spawn]} {PREYS[str(prey)]}"


def _setting(level: dict[str, Any]) -> str:
    return level_label(level) if level else ""


def _merge(rows: list[Covered], row: Covered) -> None:
    """Add a row, or its arms or fidelities to the row that is like it but for these."""
    for i, other in enumerate(rows):
        if replace(other, arms=row.arms) == row:
            rows[i] = replace(other, arms=(*other.arms, *row.arms))
            return
        if replace(other, fidelities=row.fidelities) == row:
            rows[i] = replace(other, fidelities=(*other.fidelities, *row.fidelities))
            return
    rows.append(row)


def _absent(what: str, there: Sequence[str], whole: Sequence[str]) -> list[str]:
    """`conditions: spawn apart static`; of many `conditions: all but random spawn static`."""
    absent = [name for name in whole if name not in there]
    if not absent:
        return []
    if len(absent) <= NAMED:
        return [f"{what}: {', '.join(absent)}"]
    return [f"{what}: all but {', '.join(there)}" if len(there) <= NAMED else what]


def tables(rows: Sequence[Covered]) -> list[present.Table]:
    """In words: what there is of the papers' figures, and of the experiments beside them."""
    header = ["figure", "arms", "fidelity", "conditions", "settings", "seeds", "steps of a run",
              "network", "what is missing"]  # fmt: skip
    parts = {
        "The papers' figures": [row for row in rows if row.paper],
        "The other experiments, beside the preset `paper`": [row for row in rows if not row.paper],
    }
    return [present.Table(title, header, list(map(_words, own)))
            for title, own in parts.items() if own]  # fmt: skip


def _words(row: Covered) -> list[str]:
    def of(there: Sequence[Any], whole: Sequence[Any]) -> str:
        return present.NOTHING if len(whole) < 2 else f"{len(there)} of {len(whole)}"

    def least(numbers: tuple[int, int], whole: int) -> str:
        here = " to ".join(map(present.count, dict.fromkeys(numbers)))
        return here if numbers[0] >= whole else f"{here} of {present.count(whole)}"

    figure = row.figures if row.paper else f"{row.figures}: {row.title}"
    where = [figure, ", ".join(row.arms), " and ".join(row.fidelities)]
    if not row.conditions:
        return [*where, *[present.NOTHING] * 5, "everything: not trained"]
    network, theirs = (
        network_note(x).removeprefix("network ") for x in (row.hidden, row.whole["hidden"])
    )
    return [
        *where,
        of(row.conditions, row.whole_conditions),
        of(row.settings, row.whole_settings),
        least(row.seeds, row.whole["seeds"]),
        least(row.steps, row.whole["steps"]),
        network if network == theirs or not row.hidden else f"{network} for {theirs}",
        "; ".join(row.lacking) or "nothing",
    ]
