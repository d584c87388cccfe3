"""What arms of unequal budgets have in common: the steps that each of them had.

An arm that had more steps than another has not thereby done better. So, beside each arm's whole
budget, arms are compared within what all had, and read at the steps of the coarsest grid, so that
none is looked at more often than another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hindsight.analysis import metrics
from hindsight.analysis.reduce import Array, Reduced


@dataclass(frozen=True)
class Common:
    """What several cells have in common.

    budget: the smallest, in steps; grid `[step]`: the steps at which they are compared, none where
    the coarsest grid begins beyond that budget; spacing: the coarsest grid's, in steps.
    """

    budget: int
    grid: Array
    spacing: float

    @classmethod
    def of(cls, cells: Sequence[Reduced]) -> Common:
        """What these have in common."""
        end = min(cell.env_steps[-1] for cell in cells)
        grids = [cell.env_steps[cell.env_steps <= end] for cell in cells]
        spacing = max(float(cell.env_steps[0]) for cell in cells)
        budget = min(cell.budget for cell in cells)
        return cls(budget, min(grids, key=len), spacing)

    def returns(self, cell: Reduced) -> Array:
        """`[seed, step]` on the common grid: each run's last return by then."""
        return self.on_grid(cell, cell.carried_returns)

    def to_own_end(self, cell: Reduced) -> tuple[Array, Array]:
        """The coarsest grid's steps up to the cell's own budget, and `[seed, step]` at them."""
        steps = self.spacing * np.arange(1, cell.budget // self.spacing + 1)
        return steps, self.on_grid(cell, cell.carried_returns, steps)

    def on_grid(self, cell: Reduced, carried: Array, steps: Array | None = None) -> Array:
        """Of a cell's values `[seed, step]`, carried forward, each run's last by these steps (the
        common grid's).
        """
        steps = self.grid if steps is None else steps
        index = np.searchsorted(cell.env_steps, steps, side="right") - 1
        return np.where(index < 0, np.nan, carried[:, np.maximum(index, 0)])

    def runs(self, cell: Reduced) -> pd.DataFrame:
        """By seed, what the runs had reached at the end of the common grid: auc, final_return,
        solved, solve_step (NaN if not by then), end_step; and of success success_auc and
        final_evaluation_success.
        """
        returns, last, seen = self.returns(cell), self.grid[-1], cell.evaluations
        by_then = seen[seen["env_steps"] <= self.budget].dropna(subset="success_rate")
        final = dict(zip(by_then["seed"], by_then["success_rate"], strict=True))  # the last stays
        success = [final.get(seed, np.nan) for seed in cell.runs["seed"]]
        solve_step, end_step = (
            cell.runs[name].to_numpy(dtype=np.float64) for name in ("solve_step", "end_step")
        )
        solved = solve_step <= last
        return pd.DataFrame({
            "auc": np.nanmean(metrics.scaled(returns), axis=1),
            "final_return": returns[:, -1],
            "solved": solved,
            "solve_step": np.where(solved, solve_step, np.nan),
            "success_auc": np.nanmean(self.on_grid(cell, cell.carried_success), axis=1),
            "final_evaluation_success": np.array(success, seen["success_rate"].to_numpy().dtype),
            "end_step": np.minimum(end_step, last),
        }, index=pd.Index(cell.runs["seed"]))  # fmt: skip
