"""Read the tables that a claim is judged by, and hold what was measured in them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from hindsight.analysis.effects import Measured, effect
from hindsight.analysis.summarise import read_plan, read_table
from hindsight.io.checksums import RECORD

#: How many missing cells are named.
NAMED = 12
#: The columns that are read of seed_curves.parquet, the only large table.
CURVES = [
    "fidelity", "arm", "role", "level", "condition", "seed", "env_steps", "minutes", "updates",
    "return_mean", "policy_entropy",
]  # fmt: skip


class Untested(Exception):
    """A claim cannot be judged by these results."""


def of_values(values: pd.Series, **more: Any) -> Measured:
    """Measure the mean over conditions of one value per run, indexed by condition and seed."""
    if values.empty:
        raise Untested("no condition has results of both sides")
    return replace(effect(values), **more)


@dataclass(frozen=True)
class Evidence:
    """The tables in results/tables/<source> under one fidelity.

    `read` holds the tables read so far, by path and fidelity, which claims and fidelities share.
    """

    directory: Path
    fidelity: str
    read: dict[Path, dict[Any, pd.DataFrame]]

    def table(self, experiment: str, name: str, *roles: str) -> pd.DataFrame:
        """Return the rows of this fidelity and of arms with these roles (none: any).

        Raises:
            Untested: a role has no rows, or planned cells are missing.
        """
        lacking = self._missing(experiment, roles)
        if lacking:
            rest = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
            cells = "1 cell is" if len(lacking) == 1 else f"{len(lacking)} cells are"
            raise Untested(f"{cells} missing of {experiment}: {', '.join(lacking[:NAMED])}{rest}")
        path = self.directory / experiment / name
        if not path.exists():
            raise Untested(f"the experiment {experiment} has no results")
        if path not in self.read:
            table = read_table(path, CURVES if path.stem == "seed_curves" else None)
            self.read[path] = dict(iter(table.groupby("fidelity")))
        rows = self.read[path].get(self.fidelity, pd.DataFrame(columns=["role"]))
        absent = set(roles) - set(rows["role"].unique())
        if absent or rows.empty:
            which = f" of {' and '.join(sorted(absent))}" if absent else ""
            raise Untested(f"the experiment {experiment} has no results{which}")
        return rows[rows["role"].isin(roles)] if roles else rows

    def _missing(self, experiment: str, roles: Sequence[str]) -> list[str]:
        """Return the planned cells of this fidelity and these roles without a file."""
        record = self.directory / experiment / RECORD
        if not record.exists():
            return []
        entries = json.loads(record.read_text(encoding="utf-8"))["missing"]
        cells = [
            Path(e["cell"])
            for e in entries
            if e["fidelity"] == self.fidelity and (not roles or e["role"] in roles)
        ]
        return list(dict.fromkeys(f"{path.parent.name}/{path.stem}" for path in cells))

    def cells(self, experiment: str, arm: str) -> dict[tuple[Any, ...], str]:
        """Return the files of an arm's cells by level and condition."""
        plan = read_plan(self.directory / experiment / "plan.json")
        return {
            (*entry["level"].values(), entry["condition"]): entry["cell"]
            for entry in plan["entries"]
            if entry["fidelity"] == self.fidelity and entry["arm"] == arm
        }
