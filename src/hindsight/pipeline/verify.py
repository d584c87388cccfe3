"""Whether today's code still makes the published numbers: their first iterations, trained again.

Published cells were trained by the code of their day.  A change that moves their numbers shows in
the first iterations already: random streams belong to a run, so that these repeat to rounding.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hindsight.analysis.cells import metadata_of
from hindsight.io.files import FileError
from hindsight.specs.cell import CellSpec
from hindsight.specs.config import PUBLISHED
from hindsight.specs.cost import seconds
from hindsight.specs.from_file import cell_of
from hindsight.specs.manifest import read_manifest
from hindsight.specs.manifest import verify as must_be_vouched_for

#: Iterations that are trained again, and of how many runs; none begins after so many updates, for
#: each enlarges what a processor rounds otherwise: the loss of a critic by a quarter after 2900.
ITERATIONS, RUNS, UPDATES = 2, 2, 1000
#: What differs from column to column, in sizes of the column in these rows: at most this in the
#: middle one, ...
TOLERANCE = 1e-4
#: ... and this in the worst.  Other processors round products otherwise, and Adam enlarges it where
#: there is hardly a gradient; a changed rule of learning moves most columns.
WORST = 0.1
#: A simulator enlarges a rounding until runs part (FetchSlide, whose puck slides on); so does an
#: update at each step: what differs by no more than this many times what nudges of so little do,
#: says nothing about the code.
CHAOS, NUDGES = 10.0, (1e-6, -1e-6, 3e-6)
#: What the machine decides, not the code.
CLOCKS = ("wall_seconds", "cpu_seconds")


@dataclass(frozen=True)
class Comparison:
    """A published cell beside its first iterations of today."""

    name: str
    middle: float  # median over columns of the largest difference, in sizes of the column
    worst: float  # the same of the column that differs most
    column: str  # which that is
    #: `middle` of today's code beside itself, its first parameters nudged; if measured.
    nudged: float | None = None

    @property
    def same(self) -> bool:
        """Whether the code makes the same numbers, to rounding."""
        return self.middle <= TOLERANCE and self.worst <= WORST

    @property
    def chaotic(self) -> bool:
        """Whether nobody can say: a rounding alone moves the numbers about as far.

        By the middle column: the worst is then a loss that happens to be near zero.
        """
        return not self.same and self.nudged is not None and self.middle <= CHAOS * self.nudged

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the code."""
        return self.same or self.chaotic


def kind_of(spec: CellSpec) -> tuple[Any, ...]:
    """What decides which code a cell exercises: algorithm, hindsight, environment, fidelity."""
    her, replay = spec.hindsight, spec.replay
    how: tuple[Any, ...] = ()
    if her is not None:
        chosen = ("only_if_moved", "after_contact", "moved_goals", "inside", "cut_at_success")
        how = (
            her.strategy, her.fidelity, her.s_ratio is not None, her.failures, her.then,
            her.until_success is not None or her.until_steps is not None,
            *(bool(getattr(her, name)) for name in chosen),
        )  # fmt: skip
    if replay is not None:
        how = (replay.strategy, replay.fidelity if replay.strategy else None, replay.prioritized)
    where = spec.environment
    task = (where.id, getattr(where, "prey", None), getattr(where, "pushes_object", None))
    exploration = getattr(spec.algorithm, "exploration", None)
    return (spec.algorithm.name, exploration, how, task, getattr(where, "fidelity", None))


def published() -> dict[str, CellSpec]:
    """Every published cell's specification by the cell's name.

    Raises FileError for one that its manifest does not vouch for, or that cannot be read.
    """
    entries = read_manifest()
    must_be_vouched_for(PUBLISHED / name for name in entries)
    found = {}
    for name in entries:
        if name.endswith(".parquet"):
            path = PUBLISHED / name
            spec = cell_of(metadata_of(path)["spec"], path)
            found[name.removeprefix("cells/").removesuffix(".parquet")] = spec
    return found


def one_of_each_kind(cells: dict[str, CellSpec]) -> dict[str, CellSpec]:
    """The cheapest cell of each kind."""
    cheapest: dict[tuple[Any, ...], str] = {}
    for name, spec in sorted(cells.items(), key=lambda item: (seconds(item[1]), item[0])):
        cheapest.setdefault(kind_of(spec), name)
    return {name: cells[name] for name in cheapest.values()}


def compare(name: str, spec: CellSpec, root: Path = PUBLISHED) -> Comparison:
    """Train a cell's first iterations again and compare every column that both have."""
    table = pd.read_parquet(root / "cells" / f"{name}.parquet")
    seeds = sorted(table["seed"].unique().tolist())[:RUNS]
    made = first_iterations(spec, seeds)
    rows = table[(table["phase"] == "train") & (table["iteration"] <= made["iteration"].max())]
    rows = rows[rows["seed"].isin(seeds)].sort_values(["iteration", "seed"])
    if len(made) != len(rows):
        return Comparison(name, np.inf, np.inf, "iteration")
    middle, worst, column = _apart(made, rows)
    found = Comparison(name, middle, worst, column)
    # An off-policy cell is asked where most columns differ; where few do, they may not by so much.
    parts = spec.replay is not None and middle > TOLERANCE
    if found.same or not (spec.environment.foreign or parts):
        return found
    moved = [_apart(first_iterations(spec, seeds, nudge), made)[0] for nudge in NUDGES]
    return replace(found, nudged=max(moved))


def _apart(made: pd.DataFrame, rows: pd.DataFrame) -> tuple[float, float, str]:
    """Median over columns of the largest difference, the largest of them, and its column."""
    both = made.columns.intersection(rows.columns).difference([*CLOCKS, "seed"])
    off = {
        column: _difference(*(x[column].to_numpy(np.float64) for x in (made, rows)))
        for column in both
    }
    column = max(off, key=lambda column: off[column])
    return float(np.median(list(off.values()))), off[column], column


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference in sizes of the column, at least 1e-2; infinite where one alone is NaN."""
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    size = max(float(np.nanmax(np.abs(b), initial=0.0)), 1e-2)
    return float(np.nanmax(np.abs(a - b), initial=0.0)) / size


def first_iterations(spec: CellSpec, seeds: list[int], nudge: float = 0.0) -> pd.DataFrame:
    """Training rows of these runs' first iterations, sorted by iteration and seed.

    nudge: by which share of itself every first parameter is larger.
    """
    from hindsight.training.cell import prepare_process
    from hindsight.training.runs import runs_of

    prepare_process("cpu")
    runs, rows = runs_of(spec, seeds, "cpu", 1), []
    for part in runs.parts.values() if nudge else ():
        part.load_state_dict(_nudged(part.state_dict(), 1 + nudge))
    updates = 0.0
    for _ in range(ITERATIONS):
        if not runs.within_budget or updates > UPDATES:
            break
        columns = {k: v.detach().double().numpy() for k, v in runs.iterate().items()}
        updates += float(columns["updates"].max())
        place = {"seed": runs.seeds, "iteration": runs.iteration, "env_steps": runs.env_steps}
        rows.append(pd.DataFrame({**place, **columns}).astype({"seed": int}))
    return pd.concat(rows, ignore_index=True).astype(np.float32)


def _nudged(state: Any, factor: float) -> Any:
    """A state with every number but the integers times a factor."""
    if isinstance(state, dict):
        return {name: _nudged(value, factor) for name, value in state.items()}
    return state * factor if getattr(state, "is_floating_point", bool)() else state


def verify(cells: dict[str, CellSpec]) -> Iterator[Comparison]:
    """Each of these cells beside its first iterations of today."""
    for name, spec in cells.items():
        yield compare(name, spec)


def must_hold(found: Iterable[Comparison]) -> None:
    """Raise FileError for published cells that today's code makes otherwise."""
    other = [f"{one.name} ({one.column} by {one.worst:.2g})" for one in found if not one.holds]
    if other:
        raise FileError(
            f"{len(other)} published cells are not what today's code makes: {', '.join(other)}"
        )
