"""What the DDPG + HER notebook prints of a run, from a table."""

from __future__ import annotations

import pandas as pd

#: The notebook's setting: it prints success over the last of so many episodes.
NOTEBOOK_EPISODES, NOTEBOOK_LAST = 150, 25


def early_success(rows: pd.DataFrame) -> pd.Series:
    """Success over episodes 126 to 150, by arm and seed.

    rows: of seed_curves.parquet with a row per episode; runs with fewer episodes are left out.
    """
    rows = rows.sort_values(["arm", "seed", "env_steps"])
    episode = rows.groupby(["arm", "seed"], sort=False).cumcount() + 1
    window = rows[(episode > NOTEBOOK_EPISODES - NOTEBOOK_LAST) & (episode <= NOTEBOOK_EPISODES)]
    runs = window.groupby(["arm", "seed"], sort=False)["episode_success"]
    return runs.mean()[runs.count() == NOTEBOOK_LAST]
