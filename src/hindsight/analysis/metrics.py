"""The papers' own statistics (PPO-HER section 4, MEHER section 4), as pure functions on arrays.

Arrays are `[seed, step]` on one grid of steps. Returns lie in [-1, 1], scaled returns in [0, 1].
Values after a run's early end are NaN until `carry_forward` fills them.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

LEARNT_SHARE = 0.95  # time to learn: the first step at this share of the scaled maximum
LEARNT = 0.5  # scaled maximum median return at which the median run succeeds in half the episodes
FLOOR = 0.005  # smallest scaled return to divide by: half an episode in a hundred
SOLVED_SUCCESS = 0.95
SOLVED_EPISODES = 100
#: Results files are in single precision, where 0.95 is less than 0.95.
ROUNDING = 1e-6


def scaled(returns: ArrayLike) -> Array:
    """Scale returns from [-1, 1] to [0, 1]."""
    return (np.asarray(returns, dtype=np.float64) + 1.0) / 2.0


def carry_forward(values: ArrayLike) -> Array:
    """Replace each NaN in `[seed, step]` by the seed's last value before it; leading NaN stay."""
    values = np.asarray(values, dtype=np.float64)
    columns = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    last = np.maximum.accumulate(np.where(np.isnan(values), 0, columns), axis=1)
    return np.take_along_axis(values, last, axis=1)


def quantiles(values: ArrayLike, levels: ArrayLike) -> Array:
    """Return quantiles over seeds `[level, step]`, ignoring NaN; NaN where all seeds are NaN."""
    values = np.asarray(values, dtype=np.float64)
    levels = np.asarray(levels, dtype=np.float64)
    result = np.full((levels.size, values.shape[1]), np.nan)
    missing = np.isnan(values)
    whole = ~missing.any(axis=0)
    result[:, whole] = np.quantile(values[:, whole], levels, axis=0)
    # nanquantile is slow; only the columns before every seed's first episode need it.
    partial = ~whole & ~missing.all(axis=0)
    if partial.any():
        result[:, partial] = np.nanquantile(values[:, partial], levels, axis=0)
    return result


def median_curve(values: ArrayLike) -> Array:
    """Return the median over seeds `[step]` of carried-forward values `[seed, step]`."""
    return quantiles(values, [0.5])[0]


def maximum_steps(median: Array) -> tuple[int, int]:
    """Return the first and last index at which a median curve, not all NaN, is at its maximum."""
    reached = np.flatnonzero(median >= np.nanmax(median) - ROUNDING)
    return int(reached[0]), int(reached[-1])


def iqr_at_maximum(values: Array) -> float:
    """Return the interquartile range over seeds at the last step where the median is maximal."""
    last = maximum_steps(median_curve(values))[1]
    low, high = quantiles(values[:, [last]], [0.25, 0.75])[:, 0]
    return float(high - low)


def time_to_learn(median: Array, x: Array) -> float:
    """Return the first `x` at which a scaled median curve `[step]` has 0.95 of its own maximum.

    `x` are steps or minutes. This is the papers' definition. It has a value even for a curve that
    never leaves -1, so it must be read together with the maximum.
    """
    curve = scaled(median)
    return float(first_at(curve, x, LEARNT_SHARE * curve[maximum_steps(median)[0]]))


def first_at(values: Array, x: ArrayLike, level: float) -> Array:
    """Return the first `x`, ascending, at which `values` `[..., step]` reach a level, or NaN."""
    reached = np.where(values >= level - ROUNDING, x, np.inf).min(axis=-1, initial=np.inf)
    return np.where(np.isfinite(reached), reached, np.nan)


def m_c(scaled_maximum: ArrayLike, times: ArrayLike) -> Array:
    """Return MEHER's M_c `[..., setting]`: scaled maximum x (1 - time to learn / the longest time).

    The slowest setting always scores 0, so only the shape over settings has a meaning.
    """
    times = np.asarray(times, dtype=np.float64)
    slowest = np.nanmax(times, axis=-1, keepdims=True)
    return np.asarray(scaled_maximum, dtype=np.float64) * (1.0 - times / slowest)


def sensitivity(scaled_maximum: ArrayLike) -> Array:
    """Return (best - worst) / worst over settings `[..., setting]` in per cent.

    The worst is at least FLOOR, which avoids infinity if a setting never succeeds; NaN if none
    does.
    """
    values = np.asarray(scaled_maximum, dtype=np.float64)
    best, worst = values.max(axis=-1), np.maximum(values.min(axis=-1), FLOOR)
    found = 100.0 * np.maximum(best - worst, 0.0) / worst
    return np.where(best <= 0.0, np.nan, found)


def extend_grid(env_steps: ArrayLike, budget: float) -> Array:
    """Continue the grid of steps at its last spacing up to the budget, if all runs ended early."""
    grid = np.asarray(env_steps, dtype=np.float64)
    spacing = grid[-1] - grid[-2] if grid.size > 1 else grid[-1]
    count = max(0, int((budget - grid[-1]) // spacing))
    return np.concatenate([grid, grid[-1] + spacing * np.arange(1, count + 1)])


def on_time_grid(values: ArrayLike, minutes: ArrayLike, edges: ArrayLike) -> Array:
    """Return each seed's last value by every bin's right edge, which ascend, `[seed, bin]`.

    NaN before a seed's first value; a run that has ended keeps its last one. `values` and `minutes`
    are `[seed, step]`, the latter NaN after a run's end.
    """
    # A value exactly at an edge, such as the end of the longest run, belongs to the bin before it.
    closed = np.asarray(edges, dtype=np.float64) * (1.0 + ROUNDING)
    clocks = np.asarray(minutes, dtype=np.float64)
    ticks = (clock[~np.isnan(clock)] for clock in clocks)
    rows = np.array([np.searchsorted(own, closed, side="right") - 1 for own in ticks])
    found = np.take_along_axis(np.asarray(values, np.float64), np.maximum(rows, 0), axis=1)
    return np.where(rows >= 0, found, np.nan)


def thin(count: int, limit: int) -> NDArray[np.intp]:
    """Return at most `limit` evenly spaced indices out of `count`, including both ends."""
    return np.linspace(0, count - 1, min(count, limit)).round().astype(np.intp)


def of_hundred(success: ArrayLike, episodes: ArrayLike) -> Array:
    """Return the success rates of full windows of episodes; NaN elsewhere."""
    return np.where(np.asarray(episodes) >= SOLVED_EPISODES, success, np.nan)
