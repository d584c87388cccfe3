"""Arms of unequal budgets and seeds are compared within what they had in common.

PPO and PPO-HER have 20 rollouts of 2048 steps and five seeds; SAC and SAC-HER 20 rows of 512 steps
(five rollouts' worth) and four seeds. PPO succeeds in 0.7 of its episodes from the 18th rollout on,
PPO-HER in 0.99 from the 4th; SAC-HER in 0.9 from step 4096, and SAC never in more than 0.1.
"""

import numpy as np
import pytest

from hindsight.analysis.summarise import read_table
from tests.analysis.synthetic import CONDITIONS, N_STEPS, summarise, write_experiment

BUDGET, SAC_BUDGET = 20 * N_STEPS, 20 * 512
#: By arm: the step from which it succeeds, how often before it, and how often after it.
SUCCESS = {
    "PPO": (18 * N_STEPS, 0.0, 0.7),
    "PPO-HER": (4 * N_STEPS, 0.0, 0.99),
    "SAC": (0, 0.1, 0.1),
    "SAC-HER": (2 * N_STEPS, 0.0, 0.9),
}


def curve_of(arm, *_):
    begins, low, high = SUCCESS[arm]
    return lambda seed, env_steps: np.where(env_steps < begins, low, high)


def more_of(arm, *_):
    sac = {"spec_overrides": {"algorithm.name": "sac"}, "seeds": 4, "every": 512}
    return sac if arm.startswith("SAC") else {}


def test_pairs_are_compared_within_the_steps_that_both_had(tmp_path):
    plan = write_experiment(
        tmp_path, "algorithms", arms=list(SUCCESS), conditions=CONDITIONS[:1], seeds=5,
        fidelities=("released",), iterations=20, curve_of=curve_of, more_of=more_of,
    )  # fmt: skip
    assert summarise(plan, tmp_path) == []
    table = read_table(plan.parent / "tests.csv").set_index(["baseline", "arm", "metric"])
    row = table.loc["PPO-HER", "SAC-HER", "auc"]
    assert (row["steps"], row["n_seeds"]) == (SAC_BUDGET, 4)
    # Of the five rollouts' ends in common, SAC-HER is at 0.9 in four, PPO-HER at 0.99 in two.
    assert row["mean_difference"] == pytest.approx(0.9 * 4 / 5 - 0.99 * 2 / 5)
    final = table.loc["PPO-HER", "SAC-HER", "final_return"]
    assert final["mean_difference"] == pytest.approx(0.8 - 0.98)
    # Every run of PPO-HER solves the task by then, none of SAC's.
    assert (row["solved_baseline"], row["solved_arm"]) == (1.0, 0.0)
    # The two that had as many steps are compared over all of them.
    row = table.loc["PPO", "PPO-HER", "auc"]
    assert (row["steps"], row["n_seeds"]) == (BUDGET, 5)
    assert row["mean_difference"] == pytest.approx(0.99 * 17 / 20 - 0.7 * 3 / 20)
