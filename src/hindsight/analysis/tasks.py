"""The success rate that the DDPG + HER notebook prints, computed from a table."""

import pandas as pd

#: The notebook trains for 150 episodes and prints the success rate of the last 25.
NOTEBOOK_EPISODES, NOTEBOOK_LAST = 150, 25


def early_success(rows: pd.DataFrame) -> pd.Series:
    """Return the success rate over episodes 126 to 150, by arm and seed.

    Runs with fewer episodes are left out. `rows` are those of seed_curves.parquet, one per episode.
    """
    rows = rows.sort_values(["arm", "seed", "env_steps"])
    episode = rows.groupby(["arm", "seed"], sort=False).cumcount() + 1
    window = rows[(episode > NOTEBOOK_EPISODES - NOTEBOOK_LAST) & (episode <= NOTEBOOK_EPISODES)]
    runs = window.groupby(["arm", "seed"], sort=False)["episode_success"]
    return runs.mean()[runs.count() == NOTEBOOK_LAST]
