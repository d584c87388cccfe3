"""The papers' own statistics (PPO-HER section 4, MEHER section 4), as pure functions on arrays.

Arrays are `[seed, step]` and share one grid of steps; returns lie in [-1, 1], scaled returns in [0,
1]. A run that ended early holds NaN after its end until `carry_forward` fills it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

LEARNT_SHARE = 0.95  # "time to learn": the first point at this share of the scaled maximum
LEARNT = 0.5  # scaled maximum median return: the median run succeeds in half of its episodes
FLOOR = 0.005  # of a scaled return that is divided by: half an episode of a hundred
SOLVED_SUCCESS = 0.95
SOLVED_EPISODES = 100
#: Results files hold their numbers in single precision: 0.95 there is less than 0.95.
ROUNDING = 1e-6


def scaled(returns: ArrayLike) -> Array:
    """(return + 1) / 2: from [-1, 1] to [0, 1]."""
    return (np.asarray(returns, dtype=np.float64) + 1.0) / 2.0


def carry_forward(values: ArrayLike) -> Array:
    """`[seed, step]` with each NaN replaced by the seed's last value before; leading NaN stay."""
    values = np.asarray(values, dtype=np.float64)
    columns = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    last = np.maximum.accumulate(np.where(np.isnan(values), 0, columns), axis=1)
    return np.take_along_axis(values, last, axis=1)


def quantiles(values: ArrayLike, levels: ArrayLike) -> Array:
    """`[level, step]`: quantiles over the seeds that have a value; NaN where none has."""
    values = np.asarray(values, dtype=np.float64)
    levels = np.asarray(levels, dtype=np.float64)
    result = np.full((levels.size, values.shape[1]), np.nan)
    missing = np.isnan(values)
    whole = ~missing.any(axis=0)
    result[:, whole] = np.quantile(values[:, whole], levels, axis=0)
    # nanquantile walks column by column; only those before every seed's first episode need it.
    partial = ~whole & ~missing.all(axis=0)
    if partial.any():
        result[:, partial] = np.nanquantile(values[:, partial], levels, axis=0)
    return result


def median_curve(values: ArrayLike) -> Array:
    """`[step]`: the median over seeds of carried-forward `[seed, step]` values."""
    return quantiles(values, [0.5])[0]


def maximum_steps(median: ArrayLike) -> tuple[int, int]:
    """First and last index at which a median curve is at its maximum; ValueError if it has no
    value.
    """
    median = np.asarray(median, dtype=np.float64)
    if np.isnan(median).all():
        raise ValueError("a median curve without any value has no maximum")
    reached = np.flatnonzero(median >= np.nanmax(median) - ROUNDING)
    return int(reached[0]), int(reached[-1])


def maximum_median_return(median: ArrayLike) -> float:
    """The maximum of a median curve, in its units."""
    median = np.asarray(median, dtype=np.float64)
    return float(median[maximum_steps(median)[0]])


def iqr_at_maximum(values: ArrayLike) -> float:
    """Interquartile range of the seeds at the last step at which the median is at its maximum."""
    values = np.asarray(values, dtype=np.float64)
    last = maximum_steps(median_curve(values))[1]
    low, high = quantiles(values[:, [last]], [0.25, 0.75])[:, 0]
    return float(high - low)


def time_to_learn(median: ArrayLike, x: ArrayLike) -> float:
    """First `x` at which the scaled median curve reaches 0.95 of its own maximum.

    `median`: return units, `[step]`; `x`: steps or minutes, `[step]`. The papers' definition: it
    gives a value for a curve that never leaves -1 as well, so read it together with the maximum.
    """
    curve = scaled(median)
    top = curve[maximum_steps(median)[0]]
    learnt = np.flatnonzero(curve >= LEARNT_SHARE * top - ROUNDING)
    return float(np.asarray(x, dtype=np.float64)[learnt[0]])


def first_at(median: ArrayLike, x: ArrayLike, level: float) -> float:
    """First `x` at which a median curve `[step]` reaches a level, in its units; NaN if never."""
    reached = np.flatnonzero(np.asarray(median, dtype=np.float64) >= level - ROUNDING)
    return float(np.asarray(x, dtype=np.float64)[reached[0]]) if reached.size else float("nan")


def m_c(scaled_maximum: ArrayLike, times: ArrayLike) -> Array:
    """M_c `[..., setting]` = scaled maximum median return x (1 - time to learn / its largest)
    (MEHER).

    The slowest setting therefore scores 0: only the shape over settings is to be read.
    """
    times = np.asarray(times, dtype=np.float64)
    slowest = np.nanmax(times, axis=-1, keepdims=True)
    return np.asarray(scaled_maximum, dtype=np.float64) * (1.0 - times / slowest)


def sensitivity(scaled_maximum: ArrayLike) -> Array:
    """(best - worst) / worst `[...]` over the settings `[..., setting]`, per cent; NaN where none
    succeeds.

    The worst is taken for FLOOR at least, so that a setting that never succeeds is no infinity.
    """
    values = np.asarray(scaled_maximum, dtype=np.float64)
    best, worst = values.max(axis=-1), np.maximum(values.min(axis=-1), FLOOR)
    found = 100.0 * np.maximum(best - worst, 0.0) / worst
    return np.where(best <= 0.0, np.nan, found)


def extend_grid(env_steps: ArrayLike, budget: float) -> Array:
    """The step grid continued at its last spacing, within the budget: all may have ended before."""
    grid = np.asarray(env_steps, dtype=np.float64)
    spacing = grid[-1] - grid[-2] if grid.size > 1 else grid[-1]
    count = max(0, int((budget - grid[-1]) // spacing))
    return np.concatenate([grid, grid[-1] + spacing * np.arange(1, count + 1)])


def on_time_grid(values: ArrayLike, minutes: ArrayLike, edges: ArrayLike) -> Array:
    """`[seed, bin]`: each seed's last value by every bin's right edge; NaN before its first.

    `values`, `minutes`: `[seed, step]`, minutes NaN after a run's end; `edges`: the right edges,
    increasing, `[bin]`. A run that has ended keeps its last value.
    """
    # A tick on an edge, as the longest run's end is, belongs to the bin that it closes.
    closed = np.asarray(edges, dtype=np.float64) * (1.0 + ROUNDING)
    clocks = np.asarray(minutes, dtype=np.float64)
    ticks = (clock[~np.isnan(clock)] for clock in clocks)
    rows = np.array([np.searchsorted(own, closed, side="right") - 1 for own in ticks])
    found = np.take_along_axis(np.asarray(values, np.float64), np.maximum(rows, 0), axis=1)
    return np.where(rows >= 0, found, np.nan)


def thin(count: int, limit: int) -> NDArray[np.intp]:
    """At most `limit` evenly spread indices out of `count`, with both ends."""
    return np.linspace(0, count - 1, min(count, limit)).round().astype(np.intp)


def first_solved(success: ArrayLike, episodes: ArrayLike) -> Array:
    """`[seed]`: index of the first step with success >= 0.95 over at least 100 episodes; NaN if
    none.
    """
    met = np.asarray(success) >= SOLVED_SUCCESS - ROUNDING
    met &= np.asarray(episodes) >= SOLVED_EPISODES
    return np.where(met.any(axis=1), met.argmax(axis=1), np.nan)
