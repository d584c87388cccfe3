"""Compute differences between arms, paired by seed, and their mean over conditions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hindsight.analysis import statistics

CONDITION = "condition"
RUN = [CONDITION, "seed"]
NAN = float("nan")
#: The difference, in standard errors, that a two-sided 5 % test detects with 80 % power.
FOUND_AT = statistics.NORMAL_95 + 0.8416212335729143


@dataclass(frozen=True)
class Effect:
    """A mean over conditions, equally weighted; NaN without a value or enough for an interval.

    Attributes:
        low, high: the interval over seeds, with the conditions fixed.
        wide_low, wide_high: the interval over conditions, for claims about tasks in general.
        detectable: the difference that would be detected with 80 % power.
        ahead, behind: the numbers of conditions whose own mean is above or below 0.
    """

    mean: float
    low: float
    high: float
    wide_low: float
    wide_high: float
    detectable: float
    ahead: int
    behind: int
    n_conditions: int
    n_seeds: int


def paired(
    arm: pd.DataFrame, baseline: pd.DataFrame, metric: str, on: Sequence[str] = RUN
) -> pd.Series:
    """Return `arm` minus `baseline` where both have a row with the same values of `on`."""
    a, b = (frame.set_index(list(on))[metric].astype(float) for frame in (arm, baseline))
    return (a - b.reindex(a.index)).dropna()


def effect(values: pd.Series, confidence: float = 0.95) -> Effect:
    """Return the effect of values that are indexed by condition and seed."""
    strata = [group.to_numpy() for _, group in values.groupby(level=CONDITION, sort=False)]
    means = np.array([group.mean() for group in strata])
    if not means.size:
        return Effect(NAN, NAN, NAN, NAN, NAN, NAN, 0, 0, 0, 0)
    n_seeds = min(map(len, strata))
    interval, detectable = statistics.NO_INTERVAL, NAN
    if n_seeds >= statistics.FEWEST_SEEDS:
        replicates = statistics.stratified_means(strata)
        interval = statistics.percentile_interval(replicates, confidence)
        detectable = FOUND_AT * float(replicates.std())
    wide = statistics.bootstrap([means], statistics.mean, confidence=confidence)
    return Effect(
        float(means.mean()), *interval, *wide, detectable,
        int((means > 0).sum()), int((means < 0).sum()), len(means), n_seeds,
    )  # fmt: skip
