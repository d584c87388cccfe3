"""Cells that are trained already: whether their files can be believed, and runs to take from them.

A cell of three seeds holds the runs of the cell that differs from it in having two: a run does not
depend on its neighbours.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from torch import Tensor

from hindsight.io.checksums import about, is_whole, read_table
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import file_name, is_of
from hindsight.training.files import load

#: Why a run ended whose parameters are no numbers any more.
DIVERGED = "diverged"
#: A cell's number of seeds, in its file's name.
SEEDS = re.compile(r"-(\d+)seeds")


@dataclass(frozen=True)
class Finished:
    """Runs of a cell that is trained."""

    table: pa.Table  # their rows
    policies: dict[int, Tensor]  # parameters at the end [parameter], by seed; none if it diverged
    runs: list[dict[str, Any]]  # how each ended
    seconds: float  # their share of the cell's
    origin: dict[str, Any]  # the cell, and what it was trained on


def finished(root: Path, spec: CellSpec) -> Finished | None:
    """A cell below `root`, if curves and policies are there, whole, and made by today's code."""
    name = file_name(spec)
    path = root / "cells" / f"{name}.parquet"
    if not is_of(found := about(path), spec):
        return None
    try:
        table = read_table(path)
        saved = load(root / "policies" / f"{name}.pt")
        if not is_whole(table):
            return None
        policies = dict(zip(saved["seeds"], saved["rows"], strict=True))
        runs = list(found["runs"])
        origin = {"cell": spec.name, **{key: found[key] for key in ("machine", "versions")}}
        seconds = float(found["seconds"])
    except Exception:  # of a damaged file a reader can raise anything; it is trained again
        return None
    return Finished(table.replace_schema_metadata(), policies, runs, seconds, origin)


def reusable(root: Path, spec: CellSpec) -> Finished | None:
    """Runs that a cell with another number of seeds has trained already: the most there are."""
    beside = (root / "cells" / spec.name).parent.glob("*seeds*.parquet")
    there = {int(words[1]) for path in beside if (words := SEEDS.search(path.name))}
    more = sorted(seeds for seeds in there if seeds > spec.seeds)
    fewer = sorted((seeds for seeds in there if seeds < spec.seeds), reverse=True)
    for seeds in (*more, *fewer):
        other = spec.model_copy(update={"seeds": seeds})
        if (found := finished(root, other)) is not None:
            return _within(found, spec.run_seeds)
    return None


def _within(found: Finished, seeds: range) -> Finished:
    """Those of a cell's runs that have these seeds."""
    runs = [run for run in found.runs if run["seed"] in seeds]
    return Finished(
        found.table.filter(pc.less(found.table["seed"], seeds.stop)),
        {seed: row for seed, row in found.policies.items() if seed in seeds},
        runs,
        found.seconds * len(runs) / len(found.runs),
        {**found.origin, "seeds": [run["seed"] for run in runs]},
    )


def diverged_runs(runs: Iterable[dict[str, Any]]) -> dict[int, int]:
    """The step at which each run ended that diverged, by seed."""
    return {run["seed"]: run["end_step"] for run in runs if run["ended"] == DIVERGED}
