"""Intervals and tests for few, often bimodal, paired seeds; all random draws are seeded.

Definitions follow Agarwal et al. 2021 (interquartile mean = 25% trimmed mean, probability of
improvement = U / nm). Percentile bootstraps of fewer than five values undercover badly, so they
return NaN.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

import numpy as np
import pandas as pd
import scipy  # imports scipy.stats on first use, which saves all but the tables a second
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]  # [..., value] -> [...]

DRAWS = 2000
TAILS = (0.025, 0.975)  # quantiles at which intervals end
FLIPS = 20_000
EXACT_UP_TO = 12
FEWEST_SEEDS = 5

Interval = tuple[float, float]  # lower and upper bound, or NaN
NO_INTERVAL: Interval = (float("nan"), float("nan"))


def mean(values: Array) -> Array:
    return np.mean(values, axis=-1)


def iqm(values: Array) -> Array:
    """Return the interquartile mean over the last axis."""
    return np.asarray(scipy.stats.trim_mean(values, 0.25, axis=-1))


@cache  # few seeds have few possible shares
def wilson(successes: int, n: int) -> Interval:
    """Return Wilson's 95% score interval of a share; NaN for n = 0."""
    if n == 0:
        return NO_INTERVAL
    low, high = scipy.stats.binomtest(successes, n).proportion_ci(method="wilson")
    return low, high


def student(n: int) -> float:
    """Return the half-width of a 95% interval in standard deviations estimated from n values."""
    return float(scipy.stats.t.ppf(TAILS[1], n - 1))


def bootstrap(strata: Sequence[ArrayLike], statistic: Statistic, draws: int = DRAWS) -> Interval:
    """Return a percentile bootstrap interval of a statistic of the pooled values.

    Values are resampled within each stratum: one `[seed]` array per condition. There is no interval
    if a stratum has fewer than five values.
    """
    arrays = [np.asarray(values, dtype=np.float64) for values in strata]
    if not arrays or min(len(values) for values in arrays) < FEWEST_SEEDS:
        return NO_INTERVAL
    drawn = _drawn(tuple(map(len, arrays)), draws)
    pooled = [a[index] for a, index in zip(arrays, drawn, strict=True)]
    return percentile_interval(statistic(np.concatenate(pooled, axis=1)))


def stratified_means(strata: Sequence[ArrayLike]) -> Array:
    """Return the mean over conditions, equally weighted, of means of resampled seeds `[draw]`.

    Conditions are fixed (Agarwal et al. 2021). `strata`: one `[seed]` array per condition.
    """
    arrays = [np.asarray(values, dtype=np.float64) for values in strata]
    drawn = _drawn(tuple(map(len, arrays)), DRAWS)
    return np.asarray(np.mean([a[i].mean(axis=1) for a, i in zip(arrays, drawn, strict=True)], 0))


def mean_over_conditions(strata: Sequence[ArrayLike]) -> tuple[float, float, float]:
    """Return the mean over conditions, equally weighted, and its interval as of `bootstrap`."""
    arrays = [np.asarray(values, dtype=np.float64) for values in strata]
    fewest = min(map(len, arrays))
    interval = percentile_interval(stratified_means(arrays), fewest) if fewest else NO_INTERVAL
    return float(np.mean([values.mean() for values in arrays])), *interval


def share_over_conditions(strata: Sequence[ArrayLike]) -> tuple[float, float, float]:
    """Return the mean of shares, conditions weighing alike, and Wilson's interval.

    Its number of runs is that of the mean's variance: all of them, if conditions have equally many.
    """
    arrays = [np.asarray(values, dtype=np.float64) for values in strata]
    value = float(np.mean([values.mean() for values in arrays]))
    n = round(len(arrays) ** 2 / sum(1.0 / len(values) for values in arrays))
    return value, *wilson(round(value * n), n)


@lru_cache(maxsize=8)  # most cells have the same number of seeds
def _drawn(sizes: tuple[int, ...], draws: int) -> list[NDArray[np.int64]]:
    """Return resampled positions `[draw, size]` for strata of these sizes."""
    generator = np.random.default_rng(0)
    return [generator.integers(0, size, size=(draws, size)) for size in sizes]


@lru_cache(maxsize=8)
def _times_drawn(sizes: tuple[int, ...], draws: int) -> list[NDArray[np.int64]]:
    """Return how often each value is drawn `[draw, size]`, for strata of these sizes."""
    generator = np.random.default_rng(0)
    return [generator.multinomial(n, np.full(n, 1.0 / n), size=draws) for n in sizes]


@lru_cache(maxsize=4)  # tens of megabytes for many pairs
def _signs(n: int) -> Array:
    """Return all sign flips `[flip, n]`, or a sample of them, with the observed signs first."""
    if n <= EXACT_UP_TO:
        return np.asarray(1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(FLIPS, n))
    signs[0] = 1.0
    return signs


def percentile_interval(replicates: Array, n: int = FEWEST_SEEDS) -> Interval:
    """Return the central 95% interval of bootstrap replicates `[draw]`.

    NaN if fewer than five values, `n`, were resampled.
    """
    if n < FEWEST_SEEDS:
        return NO_INTERVAL
    low, high = np.quantile(replicates, TAILS)
    return float(low), float(high)


def over_conditions(replicates: Array) -> Array:
    """Average bootstrap replicates `[condition, draw, ...]` over conditions to `[draw, ...]`.

    Five or more conditions are resampled, too, with another generator than the seeds.
    """
    n, draws = replicates.shape[:2]
    if n < FEWEST_SEEDS:
        return np.asarray(replicates.mean(axis=0))
    drawn = np.random.default_rng([0, 1]).integers(0, n, size=(n, draws))
    return np.asarray(np.mean([replicates[c, np.arange(draws)] for c in drawn], axis=0))


def probability_of_improvement(
    arm: ArrayLike, baseline: ArrayLike, draws: int = DRAWS
) -> tuple[float, Interval]:
    """Return U / nm of `[seed]` values, and its percentile bootstrap interval.

    U / nm is P(a run of `arm` beats one of `baseline`), ties half. The interval is NaN with fewer
    than five seeds.
    """
    differences = np.subtract.outer(np.asarray(arm, np.float64), np.asarray(baseline, np.float64))
    wins = (np.sign(differences) + 1.0) / 2.0  # [n, m]
    # Counts [draw, n] suffice instead of values [draw, n, m].
    counts = _times_drawn(wins.shape, draws)
    replicates = ((counts[0] @ wins) * counts[1]).sum(axis=1) / wins.size
    return float(wins.mean()), percentile_interval(replicates, min(wins.shape))


def sign_flip_test(differences: ArrayLike) -> float:
    """Return the two-sided p-value of a paired permutation test by sign flips of `[pair]` values.

    Values are differences of returns or shares, of a size of about 1: sums that differ by no more
    than their rounding in single precision are equal.

    Exact up to 12 pairs, otherwise from 20,000 draws that include the observed signs; NaN without
    pairs, or if one is not finite. scipy.stats.permutation_test is not used because it treats sums
    that differ only by rounding as less extreme (scipy 1.17: p = 0.94 instead of 1 for 0.5, 0.7,
    0.9, -0.9, -0.5, -0.7), and returns here are hundredths.
    """
    differences = np.asarray(differences, dtype=np.float64)
    n = differences.size
    if not (n and np.isfinite(differences).all()):
        return float("nan")
    sums, sizes = np.abs(_signs(n) @ differences), np.abs(differences)
    # Equal sums differ by rounding: of hundredths in float32, and in another order.
    rounding = n * min(np.finfo(np.float32).eps, 1e-4 * sizes.max()) + 1e-6 * sizes.sum()
    return float(np.mean(sums >= abs(differences.sum()) - rounding))


def holm(p_values: ArrayLike) -> Array:
    """Return Holm's step-down adjusted p-values; NaN, no test, stays NaN.

    scipy 1.17 does not have it.
    """
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    return adjusted


@cache
def fisher(solved_a: int, n_a: int, solved_b: int, n_b: int) -> float:
    """Return Fisher's exact two-sided p-value for two shares of solved runs."""
    table = [[solved_a, n_a - solved_a], [solved_b, n_b - solved_b]]
    return float(scipy.stats.fisher_exact(table).pvalue)


def logrank(
    event_a: ArrayLike, censored_a: ArrayLike, event_b: ArrayLike, censored_b: ArrayLike
) -> float:
    """Return the two-sided log-rank p-value of steps to solve.

    `event_*` are the steps at which runs solved the task, `censored_*` those at which the other
    runs ended. 1 if the test has no information: no run solved it, or all did at the same step.
    """
    samples = [
        scipy.stats.CensoredData(uncensored=events, right=censored)
        for events, censored in ((event_a, censored_a), (event_b, censored_b))
    ]
    if not all(map(len, samples)):
        return float("nan")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        p = float(scipy.stats.logrank(samples[0], samples[1]).pvalue)
    return 1.0 if np.isnan(p) else p


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Return Spearman's rank correlation of two `[step]` curves.

    NaN with fewer than three common points, or if one curve is flat. Those of scipy and pandas
    would change the last digits of published results.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    both = ~(np.isnan(a) | np.isnan(b))
    if both.sum() < 3:
        return float("nan")
    ranks = np.stack([pd.Series(values[both]).rank() for values in (a, b)])
    deviations = ranks - ranks.mean(axis=1, keepdims=True)
    norms = np.sqrt((deviations**2).sum(axis=1))
    if norms.min() == 0.0:
        return float("nan")
    return float(deviations[0] @ deviations[1] / norms.prod())
