"""The tables that a claim is judged by, and what was measured in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from hindsight.analysis.arms import SET, select
from hindsight.analysis.effects import NAN, effect
from hindsight.analysis.summarise import read_plan, read_table
from hindsight.io.checksums import RECORD

#: Cells that are named where some are missing.
NAMED = 12


class Untested(Exception):
    """Why a claim cannot be judged by these results, in words."""


@dataclass(frozen=True)
class Measured:
    """What a measure found.

    value: with its interval over seeds, and (wide) over conditions; detectable: as `Effect` has it;
    conditions: its value in each; ahead, behind, open: in how many it is in the claim's favour,
    against it, or neither; words: what its sentence names beside; missing: what the results lack of
    the paper's.
    """

    value: float
    low: float = NAN
    high: float = NAN
    wide_low: float = NAN
    wide_high: float = NAN
    detectable: float = NAN
    n_conditions: int = 0
    n_seeds: int = 0
    ahead: int = 0
    behind: int = 0
    open: int = 0
    conditions: dict[str, float] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def of_values(values: pd.Series, **more: Any) -> Measured:
    """The mean over conditions of one value a run, indexed by condition and seed."""
    if values.empty:
        raise Untested("no condition has results of both sides")
    found = effect(values)
    return Measured(
        found.mean, found.low, found.high, found.wide_low, found.wide_high, found.detectable,
        **{"n_conditions": found.n_conditions, "n_seeds": found.n_seeds, "ahead": found.ahead,
           "behind": found.behind, "conditions": by_condition(values.groupby(level=0).mean()),
           **more},
    )  # fmt: skip


def by_condition(values: pd.Series) -> dict[str, float]:
    """A value per condition as plain data."""
    return {str(name): float(value) for name, value in values.items()}


@dataclass(frozen=True)
class Evidence:
    """The tables under results/tables/<source>, seen at one fidelity."""

    directory: Path
    fidelity: str

    def table(self, experiment: str, name: str, *roles: str) -> pd.DataFrame:
        """The rows of this fidelity and of arms with these roles (none: any).

        Raises Untested where there are none of a role, or fewer cells than were planned.
        """
        lacking = self._missing(experiment, roles)
        if lacking:
            rest = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
            cells = "1 cell is" if len(lacking) == 1 else f"{len(lacking)} cells are"
            raise Untested(f"{cells} missing of {experiment}: {', '.join(lacking[:NAMED])}{rest}")
        path = self.directory / experiment / name
        if not path.exists():
            raise Untested(f"the experiment {experiment} has no results")
        rows = read_table(path)
        rows = rows[rows["fidelity"] == self.fidelity]
        if absent := set(roles) - set(rows["role"]) or rows.empty:
            which = f" of {' and '.join(sorted(absent))}" if isinstance(absent, set) else ""
            raise Untested(f"the experiment {experiment} has no results{which}")
        return rows[rows["role"].isin(roles)] if roles else rows

    def _missing(self, experiment: str, roles: Sequence[str]) -> list[str]:
        """Planned cells of this fidelity and these roles that were not there."""
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
        """Files of an arm's cells by level and condition."""
        plan = read_plan(self.directory / experiment / "plan.json")
        return {
            (*entry["level"].values(), entry["condition"]): entry["cell"]
            for entry in plan["entries"]
            if entry["fidelity"] == self.fidelity and entry["arm"] == arm
        }


def chosen(table: pd.DataFrame, role: str, **keys: str) -> pd.DataFrame:
    """The rows of arms with a role and keys, as an entry names them: `set` or a value."""
    return select(table, role, **{k: SET if v == "set" else v for k, v in keys.items()})


def planned(plan: Path) -> set[str]:
    """Fidelities of an experiment's plan; none if there is no plan."""
    return {entry["fidelity"] for entry in read_plan(plan)["entries"]} if plan.exists() else set()
