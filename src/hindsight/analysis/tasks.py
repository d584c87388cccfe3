"""The tasks of other systems: what figures show of them beyond the tables.

Success is what counts there: the tasks' returns have no common scale.
"""

from __future__ import annotations

import pandas as pd

from hindsight.analysis.arms import select

AREA = "success_auc"
#: The notebook's setting, and what it printed of one run: success over its last episodes.
NOTEBOOK_EPISODES, NOTEBOOK_LAST, NOTEBOOK_SUCCESS = 150, 25, 0.12


def best_decays(runs: pd.DataFrame) -> dict[tuple[str, str], str]:
    """By arm and task the level with the highest mean success over training, of `fetch`."""
    means = runs.dropna(subset=[AREA]).groupby(["arm", "task", "level"], sort=False)[AREA].mean()
    best = means.groupby(level=["arm", "task"], sort=False).idxmax()
    return {(str(arm), str(task)): str(level) for arm, task, level in best}


def goal_movement(runs: pd.DataFrame) -> pd.DataFrame:
    """By task how the achieved goal moves in an episode of PPO, means over seeds.

    `often`: share of the untrained policy's episodes in which it moves, [0, 1]; `trained`: the same
    over training; `far`: from first to last in an episode of the untrained policy, in distances
    between the first and the desired goal.  Tasks of older results are left out.
    """
    names = {
        "goal_moved_first": "often",
        "goal_moved_mean": "trained",
        "goal_displacement_first": "far",
    }
    own = select(runs, "baseline").dropna(subset=list(names))
    return own.groupby("task", sort=False)[list(names)].mean().rename(columns=names)


def gains(tests: pd.DataFrame, arm: str, baseline: str) -> pd.DataFrame:
    """By task what `arm` has more of than `baseline` in mean success over training.

    Columns mean_difference, low, high (NaN: no interval): paired by seed, within the steps that
    both had. `tests`: rows of tests.csv.
    """
    area = tests[tests["metric"] == AREA].set_index("task")
    columns = ["mean_difference", "low", "high"]
    same = area[(area["arm"] == arm) & (area["baseline"] == baseline)][columns]
    turned = area[(area["arm"] == baseline) & (area["baseline"] == arm)]
    turned = -turned[["mean_difference", "high", "low"]].set_axis(columns, axis=1)
    return pd.concat([same, turned])


def early_success(rows: pd.DataFrame) -> pd.Series:
    """What the notebook prints: success over episodes 126 to 150, by arm and seed.

    rows: of seed_curves.parquet with a row per episode; runs with fewer episodes are left out.
    """
    rows = rows.sort_values(["arm", "seed", "env_steps"])
    episode = rows.groupby(["arm", "seed"], sort=False).cumcount() + 1
    window = rows[(episode > NOTEBOOK_EPISODES - NOTEBOOK_LAST) & (episode <= NOTEBOOK_EPISODES)]
    runs = window.groupby(["arm", "seed"], sort=False)["episode_success"]
    return runs.mean()[runs.count() == NOTEBOOK_LAST]
