"""Compute M_c at each level of a swept key, and the level with the largest M_c (MEHER section 4).

Intervals are percentile bootstraps over seeds. Each draw takes the same seeds at every level and in
every condition, because runs of one seed share initial weights and random streams. With five or
more conditions, conditions are resampled as well. Noise within conditions then counts twice, so
that the interval is conservative.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight.analysis import metrics, statistics
from hindsight.analysis.reduce import EVERYWHERE, Array, Key, Reduced, grouped

DRAWS = 1000


@dataclass(frozen=True)
class Scores:
    """M_c of one arm in one condition, in ascending order of levels."""

    keys: Sequence[Key]  # of its cells
    levels: Array
    m_c: Array  # [level], from all seeds
    replicates: Array  # [draw, level], from resampled seeds; copies of `m_c` with fewer than five
    n_seeds: int


def score(cells: Sequence[tuple[Key, Reduced]], vary: Sequence[str]) -> list[Scores]:
    """Return the scores of every arm in every condition, in the order given.

    There are none unless exactly one key varies and its levels are numbers.
    """
    if len(vary) != 1 or not all(type(key[vary[0]]) in (int, float) for key, _ in cells):
        return []
    found = []
    for group in grouped(cells, "fidelity", "arm", "condition").values():
        group.sort(key=lambda item: item[0][vary[0]])
        curves = [scaled_curves(cell) for _, cell in group]
        n_seeds = min(len(cell.seeds) for _, cell in group)
        m_c = _m_c(curves, np.arange(n_seeds)[None])
        replicates = np.broadcast_to(m_c, (DRAWS, len(group)))
        if n_seeds >= statistics.FEWEST_SEEDS:
            replicates = _m_c(curves, draw_seeds(n_seeds))
        keys = [key for key, _ in group]
        levels = np.array([key[vary[0]] for key in keys], dtype=float)
        found.append(Scores(keys, levels, m_c[0], replicates, n_seeds))
    return found


def draw_seeds(n: int, entropy: int | list[int] = 0) -> NDArray[np.int64]:
    """Return the positions of resampled seeds `[draw, n]`, the same for the same arguments."""
    return np.random.default_rng(entropy).integers(0, n, size=(DRAWS, n))


def scaled_curves(cell: Reduced) -> tuple[Array, Array]:
    """Return steps `[step]` and carried-forward scaled returns `[step, seed]`.

    They go up to the end of the last run; later steps change neither the maximum nor the time to
    learn.
    """
    there = np.flatnonzero(~np.isnan(cell.returns).all(axis=0))
    end = int(there[-1]) + 1 if there.size else 1
    returns = cell.carried_returns[:, :end]
    return cell.env_steps[:end], np.ascontiguousarray(metrics.scaled(returns).T)


def _m_c(curves: Sequence[tuple[Array, Array]], draws: NDArray[np.int64]) -> Array:
    """Return M_c `[draw, level]` for the seeds in `draws` `[draw, n]`."""
    tops, times = [], []
    for env_steps, scaled in curves:
        medians = resampled_medians(scaled, draws)
        top = np.nanmax(medians, axis=0)
        reached = medians >= metrics.LEARNT_SHARE * top - metrics.ROUNDING
        tops.append(top)
        times.append(env_steps[reached.argmax(axis=0)])
    return metrics.m_c(np.stack(tops, axis=-1), np.stack(times, axis=-1))


def resampled_medians(curve: Array, draws: NDArray[np.int64]) -> Array:
    """Return medians `[step, draw]` of a curve `[step, seed]`, over the seeds in `draws`.

    draws: `[draw, n]`. NaN is ignored; a median is NaN where all are NaN.

    The seeds are sorted once per step. A draw's median lies where the counts of its seeds add up to
    half. Sorting each draw would take fifty times as long.
    """
    (steps, seeds), (n_draws, n) = curve.shape, draws.shape
    order = np.argsort(curve, axis=1)  # NaN last
    by_draw = np.bincount((draws + seeds * np.arange(n_draws)[:, None]).ravel(),
                          minlength=seeds * n_draws).reshape(n_draws, seeds)  # fmt: skip
    times = np.ascontiguousarray(by_draw.T.astype(np.min_scalar_type(n)))  # [seed, draw]
    missing = np.isnan(curve)
    count: Any = n
    if missing.any():
        count = np.rint((~missing).astype(np.float32) @ times.astype(np.float32)).astype(int)
    lower, upper = (np.maximum((count - half) // 2, 0).astype(times.dtype) for half in (1, 0))
    up_to, below, beyond = (np.zeros((steps, n_draws), times.dtype) for _ in range(3))
    for seed in order.T[:-1]:
        up_to += times[seed]
        below += up_to <= lower
        beyond += up_to <= upper
    ordered = np.take_along_axis(curve, order, axis=1).ravel()
    row = seeds * np.arange(steps)[:, None]
    medians = (ordered.take(row + below) + ordered.take(row + beyond)) / 2.0
    return np.where(count > 0, medians, np.nan) if missing.any() else medians


def m_c_rows(scores: Sequence[Scores]) -> list[Key]:
    """Return a row per cell: M_c and its interval."""
    rows = []
    for own in scores:
        for at, key in enumerate(own.keys):
            low, high = statistics.percentile_interval(own.replicates[:, at], own.n_seeds)
            rows.append(key | {
                "m_c": own.m_c[at], "m_c_low": low, "m_c_high": high, "n_seeds": own.n_seeds,
            })  # fmt: skip
    return rows


def best_levels(scores: Sequence[Scores]) -> list[Key]:
    """Return, per fidelity and arm, a row over ALL complete conditions, then one per condition."""
    rows = []
    for group in grouped([(own.keys[0], own) for own in scores], "fidelity", "arm").values():
        every = {level for _, own in group for level in own.levels}
        complete = [own for _, own in group if len(own.keys) == len(every)]
        if complete:
            rows.append(group[0][0] | EVERYWHERE | best_of(complete))
        rows += [key | best_of([own]) for key, own in group]
    return rows


def best_of(scores: Sequence[Scores]) -> Key:
    """Return the level with the largest mean M_c over these conditions, and its interval.

    NaN if M_c is 0 everywhere.
    """
    levels = scores[0].levels
    n_seeds = min(s.n_seeds for s in scores)
    m_c = np.mean([s.m_c for s in scores], axis=0)
    by_condition = np.stack([s.replicates for s in scores])
    replicates = statistics.over_conditions(by_condition)
    has_interval = max(len(scores), n_seeds) >= statistics.FEWEST_SEEDS
    first, last = (ends[~np.isnan(ends)] for ends in best_range(levels, replicates))
    low, high = statistics.NO_INTERVAL
    if has_interval and first.size:
        low = float(np.quantile(first, 0.025, method="lower"))  # a bound is one of the levels
        high = float(np.quantile(last, 0.975, method="higher"))
    best = [float(end) for end in best_range(levels, m_c)]
    return {
        "best_level": best[0], "best_to": best[1], "low": low, "high": high, "m_c": m_c.max(),
        "n_levels": len(levels), "n_conditions": len(scores), "n_seeds": n_seeds,
    }  # fmt: skip


def best_range(levels: Array, m_c: Array) -> tuple[Array, Array]:
    """Return the lowest and the highest level `[...]` with the largest M_c `[..., level]`.

    NaN where no M_c is above 0.
    """
    top = m_c.max(axis=-1, keepdims=True)
    is_best = m_c >= top - metrics.ROUNDING
    learns = top[..., 0] > 0.0
    first = levels[is_best.argmax(axis=-1)]
    last = levels[m_c.shape[-1] - 1 - is_best[..., ::-1].argmax(axis=-1)]
    return np.where(learns, first, np.nan), np.where(learns, last, np.nan)
