"""Tables of other systems' tasks, on results whose answer is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hindsight.analysis.summarise import read_table
from hindsight.figures.tables import early_success
from tests.analysis.synthetic import summarise, write_experiment

TASK = [("", "PointReach")]


def written(
    root: Path, name: str, success: Callable[[str, dict[str, Any], int], float], **settings: Any
) -> Path:
    """The tables of an experiment whose runs have one success rate throughout."""
    task = settings.get("conditions", TASK)[0][1]

    def more(arm: str, level: dict[str, Any], *_: str) -> dict[str, Any]:
        def extra(seed: int, steps: np.ndarray) -> dict[str, np.ndarray]:
            row = np.arange(1.0, len(steps) + 1)
            share = success(arm, level, seed)
            # Of every twenty episodes, this share succeed, the last ones first.
            lucky = (row % 20 >= 20 * (1 - share) - 1e-9).astype(float)
            return {
                "episodes": row, "return_mean": -50 + 20 * np.full(len(steps), share),
                "episode_success": lucky, "goal_moved": np.where(row == 1, 0.5 + 0.01 * seed, 0.1),
            }  # fmt: skip

        return {"extra": extra, "spec_overrides": {"environment.id": f"{task}-v0"}}

    plan = write_experiment(
        root, name, curve_of=lambda arm, level, *_: lambda seed, steps: np.full(
            len(steps), success(arm, level, seed)
        ),
        more_of=more, **({"fidelities": ("described",), "seeds": 6, "iterations": 10,
                          "conditions": TASK} | settings),
    )  # fmt: skip
    summarise(plan, root)
    return plan.parent.parent


def test_other_tasks_have_no_number_that_supposes_returns_of_minus_one_to_one(tmp_path):
    success = {"DDPG": 0.2, "DDPG + HER": 0.6}
    folder = written(
        tmp_path, "point_reach", lambda arm, _, seed: success[arm] + 0.01 * seed, arms=success
    ) / "point_reach"  # fmt: skip
    runs = read_table(folder / "runs.parquet")
    assert runs["auc"].isna().all()
    her = runs[runs["arm"] == "DDPG + HER"].sort_values("seed")
    np.testing.assert_allclose(her["success_auc"], 0.6 + 0.01 * np.arange(6), atol=1e-6)
    np.testing.assert_allclose(her["goal_moved_first"], 0.5 + 0.01 * np.arange(6), atol=1e-6)
    row = read_table(folder / "summary.csv").set_index("arm").loc["DDPG + HER"]
    assert np.isnan(row["time_to_learn_steps"]) and np.isnan(row["time_to_learn_minutes"])
    assert row["mean_success"] == row["mean_success_auc"] == pytest.approx(0.625)
    assert 0.6 <= row["success_low"] < 0.625 < row["success_high"] <= 0.65
    assert row["max_median_return"] == pytest.approx(-50 + 20 * 0.625)  # in the task's own units
    assert np.isposinf(row["solve_step_median"])
    for name in ("aggregate.csv", "sensitivity.csv", "m_c.csv", "best_level.csv"):
        assert read_table(folder / name).empty
    tests = read_table(folder / "tests.csv").set_index("metric")
    assert set(tests.index) == {"success_auc", "final_evaluation_success"}
    np.testing.assert_allclose(tests["mean_difference"], 0.4, atol=1e-6)


def test_rows_of_one_episode_each_are_all_kept(tmp_path):
    folder = written(
        tmp_path, "point_reach", lambda *_: 0.5, arms=("DDPG",), iterations=400, seeds=2
    ) / "point_reach"  # fmt: skip
    curves = read_table(folder / "seed_curves.parquet")
    assert (curves.groupby("seed").size() == 400).all()
    first = curves[curves["seed"] == 0].sort_values("env_steps")
    np.testing.assert_allclose(first["updates"], 320.0 * np.arange(1, 401))  # since the beginning


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
