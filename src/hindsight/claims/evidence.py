"""Read the tables that a claim is judged by, and measure means over conditions and seeds."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from hindsight.analysis import statistics
from hindsight.analysis.metrics import ROUNDING
from hindsight.analysis.reduce import Array
from hindsight.analysis.summarise import read_plan, read_table
from hindsight.io.records import RECORD, read_record

CONDITION = "condition"
RUN = [CONDITION, "seed"]
NAN = float("nan")
#: The difference, in standard errors, that a two-sided 5% test detects with 80% power.
FOUND_AT = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
#: How many missing cells are named.
NAMED = 12
#: The columns that are read of seed_curves.parquet, the only large table.
CURVES = [
    "fidelity", "arm", "role", "level", "condition", "seed", "env_steps", "minutes", "updates",
    "return_mean", "policy_entropy",
]  # fmt: skip


class Untested(Exception):
    """A claim cannot be judged by these results."""


@dataclass(frozen=True)
class Measured:
    """What a measure found; NaN without a value or enough for an interval."""

    value: float
    low: float = NAN  # of the value's interval over seeds, with the conditions fixed
    high: float = NAN
    wide_low: float = NAN  # of that over conditions, for claims about tasks in general
    wide_high: float = NAN
    detectable: float = NAN  # the difference that would be detected with 80% power
    n_conditions: int = 0
    n_seeds: int = 0
    ahead: int = 0  # in how many conditions it is for the claim
    behind: int = 0  # against it
    open: int = 0  # neither
    conditions: Mapping[Any, float] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)  # more values for the verdict's sentence
    missing: list[str] = field(default_factory=list)  # which of the paper's results are missing


def paired(
    arm: pd.DataFrame, baseline: pd.DataFrame, metric: str, on: Sequence[str] = RUN
) -> pd.Series:
    """Return `arm` minus `baseline` where both have a row with the same values of `on`.

    Raises:
        Untested: one of them has several such rows.
    """
    a, b = (_each_once(x.set_index(list(on))[metric].astype(float)) for x in (arm, baseline))
    return (a - b.reindex(a.index)).dropna()


def _each_once(values: Any) -> Any:
    """Return values of runs; with several of one run, levels or arms would count as seeds."""
    for run in values.index[values.index.duplicated()]:
        named = ", ".join(f"{key} {x}" for key, x in zip(values.index.names, run, strict=True))
        raise Untested(f"{named} has several values, each of which would count as a seed")
    return values


def by_condition(values: pd.Series | pd.DataFrame) -> list[Array]:
    """Return an array `[seed, ...]` per condition of values indexed by condition and seed.

    Raises:
        Untested: a run has several values.
    """
    groups = _each_once(values).groupby(level=CONDITION, sort=False)
    return [own.to_numpy() for _, own in groups]


def detectable(replicates: Array, n_seeds: int) -> float:
    """Return the difference that 80% of studies like this one would detect; NaN with few seeds."""
    return FOUND_AT * float(replicates.std()) if n_seeds >= statistics.FEWEST_SEEDS else NAN


def sides(leads: Any) -> tuple[int, int, int]:
    """How many of an array or a series are above 0, below it, and neither, but for rounding."""
    ahead, behind = int((leads > ROUNDING).sum()), int((leads < -ROUNDING).sum())
    return ahead, behind, len(leads) - ahead - behind


def of_values(values: pd.Series, **more: Any) -> Measured:
    """Measure the mean over conditions, equally weighted, of one value per run.

    `values` are indexed by condition and seed; ahead and behind are the conditions whose own mean
    is above or below 0.
    """
    if values.empty:
        raise Untested("no condition has results of both sides")
    strata = by_condition(values)
    means = np.array([group.mean() for group in strata])
    n_seeds = min(map(len, strata))
    replicates = statistics.stratified_means(strata)
    found = Measured(
        float(means.mean()), *statistics.percentile_interval(replicates, n_seeds),
        *statistics.bootstrap([means], statistics.mean), detectable(replicates, n_seeds),
        len(means), n_seeds, *sides(means),
        conditions=values.groupby(level=CONDITION).mean().to_dict(),
    )  # fmt: skip
    return replace(found, **more)


@dataclass(frozen=True)
class Evidence:
    """The tables in results/tables/<source> under one fidelity.

    Those of some experiments (None: of all that are there); `read` holds those read so far.
    """

    directory: Path
    fidelity: str
    experiments: Collection[str] | None = None
    read: dict[Path, pd.DataFrame] = field(default_factory=dict)

    def table(self, experiment: str, name: str, *roles: str, over: str = "role") -> pd.DataFrame:
        """Return the rows of this fidelity and of arms with these roles (none: any).

        over: the key whose levels the measure tells apart, or `level` for the levels of all keys.

        Raises:
            Untested: a role has no rows, planned cells are missing, or several levels, or several
                subjects or baselines, would count as seeds.
        """
        if self.experiments is not None and experiment not in self.experiments:
            raise Untested(f"the experiment {experiment} has no results")
        record = read_record(self.directory / experiment / RECORD)
        planned = [
            Path(e["cell"]).with_suffix("")
            for e in record.get("missing", ())
            if e["fidelity"] == self.fidelity and (not roles or e["role"] in roles)
        ]
        lacking = list(dict.fromkeys(f"{cell.parent.name}/{cell.name}" for cell in planned))
        if lacking:
            rest = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
            cells = "1 cell is" if len(lacking) == 1 else f"{len(lacking)} cells are"
            raise Untested(f"{cells} missing of {experiment}: {', '.join(lacking[:NAMED])}{rest}")
        path = self.directory / experiment / name
        if not path.exists():
            raise Untested(f"the experiment {experiment} has no results")
        if path not in self.read:
            columns = CURVES if path.stem == "seed_curves" else None
            self.read[path] = read_table(path, columns, self.fidelity)
        rows = self.read[path]
        absent = set(roles) - set(rows["role"].unique() if "role" in rows else ())
        if absent or rows.empty:
            which = f" of {' and '.join(sorted(absent))}" if absent else ""
            raise Untested(f"the experiment {experiment} has no results{which}")
        rows = rows[rows["role"].isin(roles)] if roles else rows
        compared = rows[rows["role"].isin(("subject", "baseline"))]
        for what in ("arm", "level"):
            if what in rows and (compared.groupby(["role", over])[what].nunique() > 1).any():
                raise Untested(f"several {what}s of {experiment} would count as seeds")
        return rows

    def cells(self, experiment: str, arm: str) -> dict[tuple[Any, ...], str]:
        """Return the files of an arm's cells by level and condition."""
        plan = read_plan(self.directory / experiment / "plan.json")
        return {
            (*entry["level"].values(), entry["condition"]): entry["cell"]
            for entry in plan["entries"]
            if entry["fidelity"] == self.fidelity and entry["arm"] == arm
        }
