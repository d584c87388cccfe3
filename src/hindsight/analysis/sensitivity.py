"""Compute how much an arm's maximum depends on the level of a swept key (PPO-HER section 4).

Intervals are percentile bootstraps over seeds. Each cell is resampled on its own, because levels
may have different numbers of seeds. There is no interval if a cell has fewer than five.
"""

from collections.abc import Sequence

import numpy as np

from hindsight.analysis import metrics, statistics
from hindsight.analysis.best_level import draw_seeds, resampled_medians, scaled_curves
from hindsight.analysis.reduce import EVERYWHERE, Array, Key, Reduced, grouped


def sensitivities(cells: Sequence[tuple[Key, Reduced]]) -> list[Key]:
    """Return the sensitivities per fidelity and arm.

    First the worst case over ALL complete conditions, then a row per condition: best and worst
    scaled maximum median return over the levels, and the sensitivity in per cent.
    """
    rows = []
    for cells_of_arm in grouped(cells, "fidelity", "arm").values():
        conditions = grouped(cells_of_arm, "condition").values()
        own = [(group[0][0], *_row([cell for _, cell in group])) for group in conditions]
        every = max(row["n_levels"] for _, row, _ in own)
        whole = [
            (row, draws)
            for _, row, draws in own
            if row["n_levels"] == every and not np.isnan(row["sensitivity_percent"])
        ]
        if whole:
            rows.append(own[0][0] | EVERYWHERE | _worst_case(whole))
        rows += [key | row for key, row, _ in own]
    return rows


def _row(levels: Sequence[Reduced]) -> tuple[Key, Array]:
    """Return a condition's row and its resampled sensitivity `[draw]`."""
    curves = [scaled_curves(cell)[1] for cell in levels]  # [step, seed]
    tops = np.array([np.nanmax(metrics.median_curve(curve.T)) for curve in curves])
    n_seeds = min(curve.shape[1] for curve in curves)
    resampled = [
        np.fmax.reduce(resampled_medians(curve, draw_seeds(curve.shape[1], [0, i])))
        for i, curve in enumerate(curves)
    ]
    draws = metrics.sensitivity(np.stack(resampled, axis=-1))
    low, high = statistics.percentile_interval(draws, n_seeds)
    found = float(metrics.sensitivity(tops))
    if len(levels) < 2:  # the others are missing
        found = low = high = float("nan")
    row = {
        "best": tops.max(), "worst": tops.min(),
        "sensitivity_percent": found, "low": low, "high": high,
        "n_levels": len(levels), "n_conditions": 1, "n_seeds": n_seeds,
    }  # fmt: skip
    return row, draws


def _worst_case(conditions: Sequence[tuple[Key, Array]]) -> Key:
    """Return the largest sensitivity over conditions; its interval if every condition has one."""
    worst = max((row for row, _ in conditions), key=lambda row: float(row["sensitivity_percent"]))
    fewest = {name: min(row[name] for row, _ in conditions) for name in ("n_levels", "n_seeds")}
    replicates = np.fmax.reduce([draws for _, draws in conditions])
    low, high = statistics.percentile_interval(replicates, fewest["n_seeds"])
    return worst | fewest | {"low": low, "high": high, "n_conditions": len(conditions)}
