"""Check that today's code reproduces the published numbers by retraining their first iterations.

Published cells were trained by earlier versions of the code.  Each run has its own random streams,
so its first iterations repeat up to rounding unless a change of the code moves the numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from hindsight.analysis.cells import CLOCKS, metadata_of
from hindsight.io.files import FileError
from hindsight.specs.cell import SECTIONS, CellSpec
from hindsight.specs.config import PUBLISHED
from hindsight.specs.cost import seconds
from hindsight.specs.from_file import cell_of
from hindsight.specs.manifest import read_manifest, verify

#: Iterations and runs to retrain.  No iteration starts after this many updates, because updates
#: amplify rounding differences between processors (after 2900, to a quarter of a critic's loss).
ITERATIONS, RUNS, UPDATES = 2, 2, 1000
#: Largest relative difference allowed in the median column, ...
TOLERANCE = 1e-4
#: ... and in the worst one.  Processors round differently, and Adam amplifies that where gradients
#: vanish; a changed learning rule moves most columns.
WORST = 0.1
#: Simulators (FetchSlide), updates at each step, PPO's KL limit, and a catch that is just missed
#: amplify rounding until runs diverge.  A difference of up to CHAOS times that caused by NUDGES,
#: relative changes of the initial parameters, says nothing about the code.
CHAOS, NUDGES = 10.0, (1e-6, -1e-6, 3e-6)
#: Columns that published cells measure in another way: in units of sigma after the iteration's
#: update instead of before it (docs/findings.md, "Why it works").
MEASURED_OTHERWISE = ("z_squared", "relabelled_z_squared")


@dataclass(frozen=True)
class Comparison:
    """Comparison of a published cell's first iterations with today's code."""

    name: str
    middle: float  # median over columns of the largest relative difference
    worst: float  # the same for the column that differs most
    column: str  # the name of that column
    #: `middle` between today's code with and without nudged initial parameters, if measured.
    nudged: float | None = None
    closest: float = np.inf  # `worst` of the run that differs least

    @property
    def verdict(self) -> str:
        """`same` up to rounding; `chaos` if rounding alone parts runs; else `OTHER`.

        In chaos, one of the runs is the same in every column; or rounding moves all numbers about
        as far, judged by the median column, because the worst may be a loss close to zero.
        """
        if self.middle <= TOLERANCE and self.worst <= WORST:
            return "same"
        chaotic = self.nudged is not None and self.middle <= CHAOS * self.nudged
        return "chaos" if chaotic or self.closest <= TOLERANCE else "OTHER"


def kind_of(spec: CellSpec) -> Any:
    """A key for the code that a cell exercises: its settings, and whether each number is 0."""
    return _coarse(spec.model_dump(include=set(SECTIONS), exclude={"environment": {"spawn"}}))


def _coarse(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _coarse(each)) for name, each in value.items())
    return value if value is None or isinstance(value, str) else bool(value)


def published() -> dict[str, CellSpec]:
    """Read the specifications of the published cells that can be made again, by cell name.

    Not those with standardised observations, which were trained by another rule: desired goals had
    a mean and a deviation of their own, and nothing was clipped.

    Raises FileError for a cell that does not match the manifest or cannot be read.
    """
    entries = read_manifest()
    verify(PUBLISHED / name for name in entries)
    found = {}
    for name in entries:
        if name.endswith(".parquet"):
            path = PUBLISHED / name
            spec = cell_of(metadata_of(path)["spec"], path)
            if not getattr(spec.algorithm, "normalize_observations", False):
                found[name.removeprefix("cells/").removesuffix(".parquet")] = spec
    return found


def one_of_each_kind(cells: dict[str, CellSpec]) -> dict[str, CellSpec]:
    """The cheapest cell of each kind."""
    cheapest: dict[Any, str] = {}
    for name, spec in sorted(cells.items(), key=lambda item: (seconds(item[1]), item[0])):
        cheapest.setdefault(kind_of(spec), name)
    return {name: cells[name] for name in cheapest.values()}


def compare(name: str, spec: CellSpec) -> Comparison:
    """Retrain a cell's first iterations and compare all common columns."""
    table = pd.read_parquet(PUBLISHED / "cells" / f"{name}.parquet")
    seeds = sorted(table["seed"].unique().tolist())[:RUNS]
    made = first_iterations(spec, seeds)
    rows = table[(table["phase"] == "train") & (table["iteration"] <= made["iteration"].max())]
    rows = rows[rows["seed"].isin(seeds)].sort_values(["iteration", "seed"])
    if len(made) != len(rows):
        return Comparison(name, np.inf, np.inf, "iteration")
    off = _apart(made, rows)
    # A changed rule moves every run, but rounding may part one: a catch is just missed.
    each = [_apart(made[made.seed == seed], rows[rows.seed == seed]) for seed in seeds]
    closest = min(float(off.max()) for off in each)
    found = Comparison(
        name, float(off.median()), float(off.max()), str(off.idxmax()), closest=closest
    )
    # In our own tasks, chaos excuses a cell only if most columns differ: off-policy, or where
    # PPO's KL limit ended an update earlier or later, which rounding decides.
    may_part = spec.replay is not None or off["updates"] > 0
    if found.verdict != "OTHER" or not (
        spec.environment.foreign or (may_part and found.middle > TOLERANCE)
    ):
        return found
    nudged = [_apart(first_iterations(spec, seeds, nudge), made).median() for nudge in NUDGES]
    return replace(found, nudged=float(max(nudged)))


def _apart(made: pd.DataFrame, rows: pd.DataFrame) -> pd.Series:
    """Largest difference by column, relative to its largest value; infinite where NaNs differ."""
    both = made.columns.intersection(rows.columns)
    both = both.difference([*CLOCKS.values(), *MEASURED_OTHERWISE, "seed"])
    a, b = (table[both].reset_index(drop=True).astype(np.float64) for table in (made, rows))
    off = (a - b).abs().max().fillna(0.0) / b.abs().max().clip(lower=0.01).fillna(0.01)
    return off.mask((a.isna() != b.isna()).any(), np.inf)


def first_iterations(spec: CellSpec, seeds: list[int], nudge: float = 0.0) -> pd.DataFrame:
    """Train these runs' first iterations; returns their rows, sorted by iteration and seed.

    nudge: relative change of all initial parameters.
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
    """Multiply all floating-point tensors of a state by a factor."""
    if isinstance(state, dict):
        return {name: _nudged(value, factor) for name, value in state.items()}
    return state * factor if getattr(state, "is_floating_point", bool)() else state


def must_hold(comparisons: Iterable[Comparison]) -> None:
    """Raise FileError for published cells that today's code does not reproduce."""
    other = [
        f"{one.name} ({one.column} by {one.worst:.2g})"
        for one in comparisons
        if one.verdict == "OTHER"
    ]
    if other:
        raise FileError(
            f"{len(other)} published cells differ from what today's code trains: {', '.join(other)}"
        )
