"""Reading what analysis wrote for one experiment: the plan and the tidy tables beside it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from hindsight.analysis.summarise import level_text, read_table
from hindsight.figures.style import EXPLORATIONS, STRATEGIES, Look, arm_look, method_of

CELL = ["arm", "level", "condition"]
Key = tuple[str, str, str]  # arm, level, condition


@dataclass(frozen=True)
class Tables:
    """One experiment's folder, seen under one fidelity."""

    folder: Path
    fidelity: str

    @property
    def plan(self) -> dict[str, Any]:
        """The experiment as planned; its entries are those of this fidelity only."""
        plan: dict[str, Any] = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        plan["entries"] = [e for e in plan["entries"] if e["fidelity"] == self.fidelity]
        return plan

    def read(self, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Rows of this fidelity; of a parquet table `columns` alone, beside the key.

        A table that is not there has no rows, and a column that is not there (older results lack
        some) no values: what a preset does not train is missing on a figure, not an error.
        """
        path = self.folder / name
        if not path.exists():
            return pd.DataFrame(columns=["fidelity", *CELL, *(columns or ())])
        if path.suffix == ".parquet":
            wanted = None if columns is None else [*CELL, *columns]
            there = pq.read_schema(path).names
            found = None if wanted is None else [name for name in wanted if name in there]
            mine = [("fidelity", "==", self.fidelity)]
            table = pd.read_parquet(path, columns=found, filters=mine)
            return table if wanted is None else table.reindex(columns=wanted)
        table = read_table(path)
        return table[table["fidelity"] == self.fidelity].reset_index(drop=True)

    def beside(self, experiment: str) -> "Tables | None":
        """The tables of another experiment of the same source; None if it trains nothing here."""
        other = Tables(self.folder.parent / experiment, self.fidelity)
        there = (other.folder / "plan.json").exists() and other.plan["entries"]
        return other if there else None


def by_condition(table: pd.DataFrame) -> dict[Key, pd.DataFrame]:
    """The table cut into one piece per (arm, level, condition)."""
    groups = table.groupby(CELL, sort=False)
    return {(str(a), str(b), str(c)): piece for (a, b, c), piece in groups}


def arms_of(plan: dict[str, Any]) -> list[str]:
    """The names of the arms that have entries, in the experiment's order."""
    there = {entry["arm"] for entry in plan["entries"]}
    return [arm for arm in plan["arms"] if arm in there]


def look_of(plan: dict[str, Any], arm: str) -> Look:
    """How an arm of the plan is drawn: by what it is, whatever its name.

    Of arms that are one method only the first has its look, the others one by their names.
    """
    methods = {entry["arm"]: method_of(entry) for entry in reversed(plan["entries"])}
    method = methods.get(arm, arm)
    first = next((a for a in plan["arms"] if methods.get(a) == method), arm)
    return arm_look(method if first == arm else f"{method}: {arm}")


def in_role(plan: dict[str, Any], role: str) -> str | None:
    """The name of the first arm with this role; None without any."""
    return next((str(e["arm"]) for e in plan["entries"] if e["role"] == role), None)


def levels_of(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The plan's levels by their text, in ascending order of their values.

    PPO's strategy `final` makes one copy whatever k says: levels that are the same cells are one,
    the first.
    """
    cells: dict[str, tuple[str, ...]] = {}
    for entry in plan["entries"]:
        text = level_text(entry["level"])
        cells[text] = (*cells.get(text, ()), entry.get("cell", ""))
    levels: dict[str, dict[str, Any]] = {}
    finals: set[tuple[str, ...]] = set()
    for level in sorted((e["level"] for e in plan["entries"]), key=_rank):
        text = level_text(level)
        if level.get("strategy") == "final" and text not in levels:
            if cells[text] in finals:
                continue
            finals.add(cells[text])
        levels[text] = level
    return levels


def _rank(level: dict[str, Any]) -> tuple[float, ...]:
    """Numbers by size; words in the order in which figures bring them, others as planned."""
    order = {word: place for place, word in enumerate([*STRATEGIES, *EXPLORATIONS])}
    return tuple(order.get(v, len(order)) if isinstance(v, str) else v for v in level.values())


def seed_counts(table: pd.DataFrame) -> list[int]:
    """The distinct numbers of seeds per condition (`n_seeds` is lower before a first episode)."""
    return sorted({int(n) for n in table.groupby(CELL)["n_seeds"].max()})
