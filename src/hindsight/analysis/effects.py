"""Differences between arms, paired by seed, and what they show over conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy

from hindsight.analysis import statistics

CONDITION = "condition"
RUN = [CONDITION, "seed"]
NAN = float("nan")


#: Standard errors that a difference must have to be found four times in five (two-sided, 5 %).
FOUND_AT = float(scipy.stats.norm.ppf(0.975) + scipy.stats.norm.ppf(0.8))


@dataclass(frozen=True)
class Effect:
    """A mean over conditions, each counting alike.

    low, high: the interval over seeds, the conditions being fixed; wide_low, wide_high: over
    conditions, for claims about tasks in general; detectable: the difference that would be found
    four times in five; ahead, behind: conditions whose own mean is above or below 0. NaN where
    there is no value, or too few seeds or conditions for an interval.
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
    """`arm` less `baseline` by what they share of `on` (columns of both, unique in each)."""
    a, b = (frame.set_index(list(on))[metric].astype(float) for frame in (arm, baseline))
    return (a - b.reindex(a.index)).dropna()


def effect(values: pd.Series, confidence: float = 0.95) -> Effect:
    """The effect of values indexed by condition and seed."""
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
