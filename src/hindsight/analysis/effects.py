"""Differences between arms, paired by seed, and what they show over conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from hindsight.analysis import statistics

CONDITION = "condition"
RUN = [CONDITION, "seed"]
NAN = float("nan")


@dataclass(frozen=True)
class Effect:
    """A mean over conditions, with its bootstrap interval and sign-flip test.

    unit: what is resampled and flipped; seeds within conditions under five conditions. NaN where
    there is no value, or no interval; ahead, behind: conditions whose own mean is above or below 0.
    """

    mean: float
    low: float
    high: float
    p_value: float
    unit: Literal["conditions", "seeds"]
    ahead: int
    behind: int
    n_conditions: int
    n_seeds: int

    def numbers(self) -> dict[str, float]:
        """The mean and its interval, and what they rest on, as data."""
        bounds = {"mean": self.mean, "low": self.low, "high": self.high}
        return bounds | {"n_seeds": self.n_seeds, "n_conditions": self.n_conditions}

    def sign(self) -> int:
        """1 or -1 where the interval lies above or below 0, else 0."""
        return int(self.low > 0) - int(self.high < 0)


def paired(
    arm: pd.DataFrame, baseline: pd.DataFrame, metric: str, on: Sequence[str] = RUN
) -> pd.Series:
    """`arm` less `baseline` by what they share of `on` (columns of both, unique in each)."""
    a, b = (frame.set_index(list(on))[metric].astype(float) for frame in (arm, baseline))
    return (a - b.reindex(a.index)).dropna()


def effect(values: pd.Series, confidence: float = 0.95) -> Effect:
    """The effect of values indexed by condition and seed."""
    by_condition = [group.to_numpy() for _, group in values.groupby(level=CONDITION, sort=False)]
    means = np.array([group.mean() for group in by_condition])
    n = len(means)
    if not n:
        return Effect(NAN, NAN, NAN, NAN, "seeds", 0, 0, 0, 0)
    over_conditions = n >= statistics.FEWEST_SEEDS
    strata = [means] if over_conditions else by_condition
    low, high = statistics.bootstrap(strata, statistics.mean, confidence=confidence)
    return Effect(
        float(means.mean()),
        low,
        high,
        statistics.sign_flip_test(np.concatenate(strata)),
        "conditions" if over_conditions else "seeds",
        int((means > 0).sum()),
        int((means < 0).sum()),
        n,
        min(len(group) for group in by_condition),
    )
