"""Tables of other systems' tasks, on results whose answer is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hindsight.figures.tables import early_success
from tests.analysis.synthetic import tables_of


def point_reach(
    root: Path, success: Callable[[str, int], float], **settings: Any
) -> dict[str, pd.DataFrame]:
    """The tables of runs that have one success rate throughout, by arm and seed."""

    def more(arm: str, *_: Any) -> dict[str, Any]:
        def extra(seed: int, steps: np.ndarray) -> dict[str, np.ndarray]:
            row = np.arange(1.0, len(steps) + 1)
            return {
                "episodes": row,
                "return_mean": np.full(len(steps), -50 + 20 * success(arm, seed)),
                "goal_moved": np.where(row == 1, 0.5 + 0.01 * seed, 0.1),
            }

        return {"extra": extra, "spec_overrides": {"environment.id": "PointReach-v0"}}

    own = {
        "fidelities": ("described",), "conditions": [("", "PointReach")], "more_of": more,
        "curve_of": lambda arm, *_: lambda seed, steps: np.full(len(steps), success(arm, seed)),
    }  # fmt: skip
    return tables_of(root, "point_reach", **(own | settings))


def test_other_tasks_have_no_number_that_supposes_returns_of_minus_one_to_one(tmp_path):
    success = {"DDPG": 0.2, "DDPG + HER": 0.6}
    tables = point_reach(
        tmp_path, lambda arm, seed: success[arm] + 0.01 * seed, arms=success, seeds=6, iterations=10
    )
    runs = tables["runs.parquet"]
    assert runs["auc"].isna().all()
    her = runs[runs["arm"] == "DDPG + HER"].sort_values("seed")
    np.testing.assert_allclose(her["success_auc"], 0.6 + 0.01 * np.arange(6), atol=1e-6)
    np.testing.assert_allclose(her["goal_moved_first"], 0.5 + 0.01 * np.arange(6), atol=1e-6)
    row = tables["summary.csv"].set_index("arm").loc["DDPG + HER"]
    assert np.isnan(row["time_to_learn_steps"]) and np.isnan(row["time_to_learn_minutes"])
    assert row["mean_success"] == row["mean_success_auc"] == pytest.approx(0.625)
    assert 0.6 <= row["success_low"] < 0.625 < row["success_high"] <= 0.65
    assert row["max_median_return"] == pytest.approx(-50 + 20 * 0.625)  # in the task's own units
    assert np.isposinf(row["solve_step_median"])
    for name in ("aggregate.csv", "sensitivity.csv", "m_c.csv", "best_level.csv"):
        assert tables[name].empty
    tests = tables["tests.csv"].set_index("metric")
    assert set(tests.index) == {"success_auc", "final_evaluation_success"}
    np.testing.assert_allclose(tests["mean_difference"], 0.4, atol=1e-6)


def test_rows_of_one_episode_each_are_all_kept(tmp_path):
    """Longer curves with many episodes a row are thinned to 500 rows."""
    tables = point_reach(tmp_path, lambda *_: 0.5, arms=("DDPG",), iterations=600)
    curves = tables["seed_curves.parquet"]
    assert (curves.groupby("seed").size() == 600).all()
    first = curves[curves["seed"] == 0].sort_values("env_steps")
    np.testing.assert_allclose(first["updates"], 320.0 * np.arange(1, 601))  # since the beginning


def test_the_printed_window_is_episodes_126_to_150():
    episodes = np.arange(1, 201)
    inside = (episodes >= 126) & (episodes <= 150)
    rows = pd.concat(
        pd.DataFrame({"arm": "x", "seed": seed, "env_steps": 50 * episodes,
                      "episode_success": np.where(inside, 0.5 * seed, 1.0)})
        for seed in range(2)
    )  # fmt: skip
    short = rows[(rows["env_steps"] <= 140 * 50)].assign(arm="short")
    found = early_success(pd.concat([rows, short]).sample(frac=1, random_state=0))
    assert found.to_dict() == {("x", 0): 0.0, ("x", 1): 0.5}
