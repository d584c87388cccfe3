"""Compute what is saved by ending hindsight before the run ends (MEHER section 5).

Runs with and without that end are paired by seed and compared at the earlier of their last steps,
so that an early end of a run does not count as a saving. Minutes are compared only where both arms
were timed alike: on the same processor, with the same number of runs sharing an axis. Bootstraps
are as in `best_level`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hindsight.analysis import statistics
from hindsight.analysis.best_level import DRAWS, draw_seeds
from hindsight.analysis.reduce import EVERYWHERE, Array, Key, Reduced, grouped

#: A 90 % interval within a margin amounts to an equivalence test at 5 %.
EQUIVALENCE_CONFIDENCE = 0.9


@dataclass(frozen=True)
class Pairs:
    """A condition's paired runs `[seed]`: (baseline, arm) totals, and differences of return."""

    minutes: tuple[Array, Array]
    updates: tuple[Array, Array]
    switch_step: Array
    difference: Array
    timed_alike: bool


Statistic = Callable[[Pairs, NDArray[np.int64]], Array]  # draws `[draw, n]` -> `[draw]`


def time_saved(cells: Sequence[tuple[Key, Reduced]]) -> list[Key]:
    """Return a row per arm whose hindsight ends, level, and condition that its baseline has too.

    Each arm and level starts with a row over ALL conditions in which a run switched; elsewhere both
    arms are the same runs. `saved_share` (over the `n_timed_alike` conditions, else NaN) and
    `updates_saved_share` are 1 - arm / baseline of the totals. `return_difference` is that of the
    last evaluation, arm - baseline, with a 90 % interval; all other intervals are 95 %.
    """
    paired = []
    for group in grouped(cells, "fidelity", "level", "condition").values():
        baselines = [cell for key, cell in group if key["role"] == "baseline"]
        if baselines:
            paired += [(key, pair(baselines[-1], cell)) for key, cell in group if cell.switches]
    rows = []
    for own in grouped(paired, "fidelity", "arm", "level").values():
        switched = [pairs for _, pairs in own if not np.isnan(pairs.switch_step).all()]
        if switched:
            rows.append(own[0][0] | EVERYWHERE | _row(switched))
        rows += [key | _row([pairs]) for key, pairs in own]
    return rows


def pair(baseline: Reduced, arm: Reduced) -> Pairs:
    """Pair two cells' runs by seed, up to the earlier of their last steps."""
    _, *index = np.intersect1d(baseline.seeds, arm.seeds, return_indices=True)
    both = list(zip((baseline, arm), index, strict=True))
    last = np.minimum(*(cell.runs["end_step"][i] for cell, i in both)).astype(np.float64)
    at = [np.searchsorted(cell.env_steps, last, side="right") - 1 for cell, _ in both]
    minutes = [cell.minutes[i, j] for (cell, i), j in zip(both, at, strict=True)]
    updates = [np.nancumsum(cell.updates, axis=1)[i, j]
               for (cell, i), j in zip(both, at, strict=True)]  # fmt: skip
    finals = [cell.runs["final_evaluation_return"][i] for cell, i in both]
    switch_step = arm.runs["switch_step"][index[1]]
    return Pairs(
        (minutes[0], minutes[1]), (updates[0], updates[1]), switch_step, finals[1] - finals[0],
        baseline.timed_on == arm.timed_on,
    )  # fmt: skip


def _row(conditions: Sequence[Pairs]) -> Key:
    """Return means over conditions, equally weighted, with their intervals."""
    alike = [pairs for pairs in conditions if pairs.timed_alike]
    minutes = saved = (np.nan, np.nan, np.nan)
    if alike:
        minutes = np.mean([[total.mean() for total in pairs.minutes] for pairs in alike], axis=0)
        saved = _estimate(alike, lambda pairs, draws: saved_share(pairs.minutes, draws))
    steps = np.concatenate([pairs.switch_step for pairs in conditions])
    switched = ~np.isnan(steps)
    updates = _estimate(conditions, lambda pairs, draws: saved_share(pairs.updates, draws))
    returns = _estimate(
        conditions,
        lambda pairs, draws: pairs.difference[draws].mean(axis=-1),
        EQUIVALENCE_CONFIDENCE,
    )
    return {
        "minutes_baseline": minutes[0], "minutes_arm": minutes[1],
        "saved_share": saved[0], "low": saved[1], "high": saved[2],
        "updates_saved_share": updates[0], "updates_low": updates[1], "updates_high": updates[2],
        "switch_step_median": np.median(steps[switched]) if switched.any() else np.nan,
        "switched_share": switched.mean(),
        "return_difference": returns[0], "return_low": returns[1], "return_high": returns[2],
        "n_seeds": min(len(pairs.difference) for pairs in conditions),
        "n_conditions": len(conditions), "n_timed_alike": len(alike),
    }  # fmt: skip


def saved_share(totals: tuple[Array, Array], draws: NDArray[np.int64]) -> Array:
    """Return 1 - arm / baseline `[draw]` of means over the seeds in `draws` `[draw, n]`."""
    baseline, arm = (total[draws].mean(axis=-1) for total in totals)
    return np.asarray(1.0 - arm / baseline)


def _estimate(
    conditions: Sequence[Pairs], statistic: Statistic, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return a statistic's mean over conditions, and its interval."""
    sizes = [len(pairs.difference) for pairs in conditions]
    values, replicates = [], []
    for pairs, n in zip(conditions, sizes, strict=True):
        (value,) = statistic(pairs, np.arange(n)[None])
        few = n < statistics.FEWEST_SEEDS
        values.append(value)
        replicates.append(np.full(DRAWS, value) if few else statistic(pairs, draw_seeds(n)))
    pooled = statistics.over_conditions(np.stack(replicates))
    n = max(len(conditions), min(sizes))
    return float(np.mean(values)), *statistics.percentile_interval(pooled, n, confidence)
