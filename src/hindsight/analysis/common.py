"""Compare arms of different budgets within the steps that all of them had.

An arm with more steps is not better for that reason. Curves are read at the steps of the coarsest
grid, so that no arm's maximum is taken over more points than another's.
"""

from collections.abc import Sequence

import numpy as np

from hindsight.analysis import metrics
from hindsight.analysis.reduce import Array, Columns, Reduced


class CommonBudget:
    """What several cells have in common.

    The smallest budget in steps; the coarsest grid `[step]` up to it, which may be empty; and that
    grid's spacing.
    """

    def __init__(self, cells: Sequence[Reduced]) -> None:
        end = min(cell.env_steps[-1] for cell in cells)
        grids = [cell.env_steps[cell.env_steps <= end] for cell in cells]
        self.grid = min(grids, key=len)
        self.spacing = max(float(cell.env_steps[0]) for cell in cells)
        self.budget = min(cell.budget for cell in cells)

    def runs(self, cell: Reduced) -> Columns:
        """Return the runs' statistics at the end of the common grid, by seed."""
        returns = values_at(self.grid, cell, cell.carried_returns)
        last, seen = self.grid[-1], cell.evaluations
        by_then = (seen["env_steps"] <= self.budget) & ~np.isnan(seen["success_rate"])
        rates = seen["success_rate"][by_then]
        final = dict(zip(seen["seed"][by_then], rates, strict=True))  # keeps the last
        solve_step = cell.runs["solve_step"]
        solved = solve_step <= last
        return {
            "seed": cell.seeds,
            "auc": np.nanmean(metrics.scaled(returns), axis=1),
            "final_return": returns[:, -1],
            "solved": solved,
            "solve_step": np.where(solved, solve_step, np.nan),
            "success_auc": np.nanmean(values_at(self.grid, cell, cell.carried_success), axis=1),
            "final_evaluation_success": np.array(
                [final.get(seed, np.nan) for seed in cell.seeds], dtype=rates.dtype
            ),
            "end_step": np.minimum(cell.runs["end_step"], last),
        }


def values_at(steps: Array, cell: Reduced, carried: Array) -> Array:
    """Return each run's last value by these steps, `[seed, step]`.

    carried: the cell's values `[seed, step]`, carried forward.
    """
    index = np.searchsorted(cell.env_steps, steps, side="right") - 1
    return np.where(index < 0, np.nan, carried[:, np.maximum(index, 0)])
