"""Compute differences between arms, paired by seed, and their mean over conditions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from hindsight.analysis import statistics

CONDITION = "condition"
RUN = [CONDITION, "seed"]
NAN = float("nan")
#: The difference, in standard errors, that a two-sided 5 % test detects with 80 % power.
FOUND_AT = statistics.NORMAL_95 + NormalDist().inv_cdf(0.8)


@dataclass(frozen=True)
class Measured:
    """What a measure found; NaN without a value or enough for an interval.

    Attributes:
        value: the measured value.
        low, high: its interval over seeds, with the conditions fixed.
        wide_low, wide_high: its interval over conditions, for claims about tasks in general.
        detectable: the difference that would be detected with 80 % power.
        ahead, behind, open: in how many conditions it is for the claim, against it, or neither.
        conditions: the value in each condition.
        words: further values for the verdict's sentence.
        missing: which of the paper's results are missing.
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


def paired(
    arm: pd.DataFrame, baseline: pd.DataFrame, metric: str, on: Sequence[str] = RUN
) -> pd.Series:
    """Return `arm` minus `baseline` where both have a row with the same values of `on`."""
    a, b = (frame.set_index(list(on))[metric].astype(float) for frame in (arm, baseline))
    return (a - b.reindex(a.index)).dropna()


def effect(values: pd.Series) -> Measured:
    """Return the mean over conditions, equally weighted, of one value per run, indexed by condition
    and seed; ahead and behind are the conditions whose own mean is above or below 0.
    """
    strata = [group.to_numpy() for _, group in values.groupby(level=CONDITION, sort=False)]
    means = np.array([group.mean() for group in strata])
    if not means.size:
        return Measured(NAN)
    n_seeds = min(map(len, strata))
    interval, detectable = statistics.NO_INTERVAL, NAN
    if n_seeds >= statistics.FEWEST_SEEDS:
        replicates = statistics.stratified_means(strata)
        interval = statistics.percentile_interval(replicates)
        detectable = FOUND_AT * float(replicates.std())
    wide = statistics.bootstrap([means], statistics.mean)
    return Measured(
        float(means.mean()), *interval, *wide, detectable, len(means), n_seeds,
        int((means > 0).sum()), int((means < 0).sum()),
        conditions=by_condition(values.groupby(level=CONDITION).mean()),
    )  # fmt: skip


def by_condition(values: pd.Series) -> dict[str, float]:
    """Return a value per condition as plain data."""
    return {str(name): float(value) for name, value in values.items()}
