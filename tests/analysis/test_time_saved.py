"""What ending hindsight saves, on runs whose times and ends are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hindsight.analysis.summarise import read_table
from tests.analysis.synthetic import CONDITIONS, N_STEPS, constant, summarise, write_experiment

STOPS = {"hindsight": {"strategy": "final", "until_success": 0.5}}
#: Iteration of each seed's switch; seed 4 never does.
SWITCH = (4, 6, 8, 10, None)


def costs(arm: str) -> dict[str, Any]:
    """Seconds and updates of an iteration: 2 and 640 with hindsight, 1 and 320 without."""

    def extra(seed: int, env_steps: np.ndarray) -> dict[str, np.ndarray]:
        iteration = env_steps / N_STEPS
        switch = SWITCH[seed] if arm == "PPO-HER-2-PPO" else None
        is_on = iteration < (switch or np.inf)
        return {"cpu_seconds": np.cumsum(1.0 + is_on), "updates": 320.0 * (1 + is_on)}

    if arm != "PPO-HER-2-PPO":
        return {"extra": extra}
    steps = [None if i is None else i * N_STEPS for i in SWITCH]
    return {"extra": extra, "switch_step": steps.__getitem__, "spec_overrides": STOPS}


def table_of(root: Path, **kwargs: Any) -> pd.DataFrame:
    settings: dict[str, Any] = {
        "arms": ("PPO-HER", "MEHER", "PPO-HER-2-PPO"), "seeds": 5, "iterations": 20,
        "fidelities": ("released",), "conditions": CONDITIONS[:2],
        "curve_of": lambda *_: constant(0.6),
        "more_of": lambda arm, level, spawn, prey: costs(arm),
    }  # fmt: skip
    plan = write_experiment(root, "stop_her", **(settings | kwargs))
    assert summarise(plan, root) == []
    return read_table(plan.parent / "time_saved.csv")


def test_conditions_in_which_no_run_switches_are_not_in_the_mean(tmp_path):
    def more(arm: str, level: Any, spawn: str, prey: str) -> dict[str, Any]:
        if arm != "PPO-HER-2-PPO" or prey == "static":
            return costs(arm)
        return costs("PPO-HER") | {"switch_step": lambda seed: None, "spec_overrides": STOPS}

    table = table_of(tmp_path, more_of=more)
    assert table["n_conditions"].tolist() == [1, 1, 1]
    assert table.iloc[0]["saved_share"] == table.iloc[1]["saved_share"] > 0
    never = table.iloc[2]
    assert (never["saved_share"], never["switched_share"]) == (0.0, 0.0)
    assert np.isnan(never["switch_step_median"])


def test_minutes_are_compared_where_both_were_timed_alike(tmp_path):
    def more(arm: str, level: Any, spawn: str, prey: str) -> dict[str, Any]:
        beside = arm == "PPO-HER-2-PPO" and prey != "static"
        return costs(arm) | ({"runs_per_axis": 64} if beside else {})

    table, found = table_of(tmp_path / "alike"), table_of(tmp_path, more_of=more)
    assert found["n_timed_alike"].tolist() == [1, 1, 0]
    times = ["minutes_baseline", "minutes_arm", "saved_share"]
    assert found.iloc[0][times].tolist() == found.iloc[1][times].tolist()
    assert found.iloc[2][[*times, "low", "high"]].isna().all()
    everywhere = ["updates_saved_share", "return_difference", "n_conditions"]
    pd.testing.assert_frame_equal(found[everywhere], table[everywhere])


def test_levels_are_compared_with_their_own_baseline(tmp_path):
    levels = [{"learning_rate": rate} for rate in (3e-3, 3e-4)]
    table = table_of(tmp_path, levels=levels, conditions=CONDITIONS[:1])
    assert table["level"].tolist() == ["learning_rate=0.003"] * 2 + ["learning_rate=0.0003"] * 2
    assert table["learning_rate"].tolist() == [3e-3] * 2 + [3e-4] * 2


def test_without_ppo_her_there_is_nothing_to_compare_with(tmp_path):
    table = table_of(tmp_path, arms=("MEHER", "PPO-HER-2-PPO"))
    assert table.empty
