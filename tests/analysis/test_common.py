"""Arms of unequal budgets, seeds and conditions are compared within what they had in common.

PPO and PPO-HER have 20 rollouts of 2048 steps and five seeds in three conditions; SAC and SAC-HER
20 rows of 512 steps (five rollouts' worth) and four seeds in the first two of them. PPO succeeds in
0.7 of its episodes from the 18th rollout on; PPO-HER in 0.99 from the 4th in the first condition,
from the 10th in the others; SAC-HER in 0.9 from step 4096, and SAC never in more than 0.1.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from hindsight.analysis.summarise import read_table
from tests.analysis.synthetic import CONDITIONS, N_STEPS, CurveFunction, summarise, write_experiment

ARMS = ("PPO", "PPO-HER", "SAC", "SAC-HER")
BUDGET, SAC_BUDGET = 20 * N_STEPS, 20 * 512


def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
    begins, low, high = {
        "PPO": (18 * N_STEPS, 0.0, 0.7),
        "PPO-HER": ((4 if prey == "static" else 10) * N_STEPS, 0.0, 0.99),
        "SAC": (0, 0.1, 0.1),
        "SAC-HER": (2 * N_STEPS, 0.0, 0.9),
    }[arm]
    return lambda seed, env_steps: np.where(env_steps < begins, low, high)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Their tables."""

    def more_of(arm: str, *_: object) -> dict[str, Any]:
        if not arm.startswith("SAC"):
            return {}
        return {"spec_overrides": {"algorithm.name": "sac"}, "seeds": 4, "every": 512}

    root = tmp_path_factory.mktemp("unequal")
    plan = write_experiment(
        root, "algorithms", arms=ARMS, conditions=CONDITIONS[:3], fidelities=("released",),
        seeds=5, iterations=20, curve_of=curve_of, more_of=more_of,
        trains=lambda arm, spawn, prey: not arm.startswith("SAC") or prey != "attract",
    )  # fmt: skip
    assert summarise(plan, root) == []
    return plan.parent


def pair(table: pd.DataFrame, baseline: str, arm: str, metric: str) -> pd.Series:
    here = (table["prey"] == "static") & (table["metric"] == metric)
    rows = table[here & (table["baseline"] == baseline) & (table["arm"] == arm)]
    assert len(rows) == 1
    return rows.iloc[0]


def test_pairs_are_compared_within_the_steps_that_both_had(folder):
    table = read_table(folder / "tests.csv")
    row = pair(table, "PPO-HER", "SAC-HER", "auc")
    assert (row["steps"], row["n_seeds"]) == (SAC_BUDGET, 4)
    # Of the five rollouts' ends in common, SAC-HER is at 0.9 in four, PPO-HER at 0.99 in two.
    assert row["mean_difference"] == pytest.approx(0.9 * 4 / 5 - 0.99 * 2 / 5)
    assert pair(table, "PPO-HER", "SAC-HER", "final_return")["mean_difference"] == pytest.approx(
        0.8 - 0.98
    )
    # Every run of PPO-HER solves the task by then, none of SAC's.
    assert (row["solved_baseline"], row["solved_arm"]) == (1.0, 0.0)
    # The two that had as many steps are compared over all of them.
    row = pair(table, "PPO", "PPO-HER", "auc")
    assert (row["steps"], row["n_seeds"]) == (BUDGET, 5)
    assert row["mean_difference"] == pytest.approx(0.99 * 17 / 20 - 0.7 * 3 / 20)


def test_summary_has_both_its_own_budget_and_the_common(folder):
    summary = read_table(folder / "summary.csv").set_index(["arm", "prey"])
    her = summary.loc[("PPO-HER", "random")]
    assert (her["budget"], her["common_steps"]) == (BUDGET, SAC_BUDGET)
    assert her["max_median_return"] == pytest.approx(0.98)
    assert her["common_steps_max_median_return"] == -1.0
    # Without SAC nothing is cut off.
    alone = summary.loc[("PPO-HER", "attract")]
    assert alone["common_steps"] == BUDGET
    assert alone["steps_to_0.8"] == alone["time_to_learn_steps"] == 10 * N_STEPS
    assert alone["common_steps_max_median_return"] == pytest.approx(0.98)
