"""Results files of the second paper's experiments and of the open questions, and their tables."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.analysis import synthetic

Array = NDArray[np.float64]
Level = dict[str, Any]
PPO, HER = "PPO", "PPO-HER"
SWITCHED = ("PPO-HER-2-PPO", "PPO-HER-2-MEHER", "PPO-HER-2-MEHER (steps)")
S_RATIOS = synthetic.levels_of("s_ratio")
#: As config.yaml has them, but for fewer levels of the last.
EXPERIMENTS = (
    "s_ratio", "targeted", "stop_her", "stop_her_steps", "to_meher", "forced_entropy",
    "rarely_moves", "stability", "stochasticity", "switch_off", "sac_stop_her", "network",
    "near_far", "sac_grid",
)  # fmt: skip


def write(
    root: Path,
    name: str,
    conditions: Sequence[tuple[str, str]],
    *,
    fidelities: Sequence[str] = ("released", "described"),
    levels: Sequence[Level] | None = None,
    seeds: int = 5,
    iterations: int = 16,
) -> Path:
    """Train nothing, summarise: the folder of the experiment's tables below `root`.

    Under `released` the targeted runs are those of MEHER, as in the real plans (which have no
    near_far there).
    """
    if name == "sac_grid":
        levels = [level for level in synthetic.levels_of(name)
                  if level["k"] in (1, 4) and level["strategy"] != "episode"
                  and level["learning_rate"] > 3e-5]  # fmt: skip
    budget = iterations * synthetic.N_STEPS

    def more(arm: str, level: Level, spawn: str, prey: str) -> dict[str, Any]:
        def switch(seed: int) -> int | None:
            grid = synthetic.N_STEPS * np.arange(1, iterations + 1)
            success = synthetic.success_of(arm, level, spawn, prey, seed, grid / budget)
            above = np.flatnonzero(success >= level.get("until_success", 0.5))
            return int(grid[above[0]]) if above.size and arm in SWITCHED else None

        def extra(seed: int, steps: Array) -> dict[str, Array]:
            success = synthetic.success_of(arm, level, spawn, prey, seed, steps / budget)
            off = switch(seed)
            hindsight = np.full(steps.shape, arm != PPO) & (steps <= (off or np.inf))
            return _columns(level, success, steps, hindsight)

        overrides = {"hindsight": {"until_success": 0.5}} if arm in SWITCHED else {}
        return {"extra": extra, "switch_step": switch, "spec_overrides": overrides}

    plan_path = synthetic.write_experiment(
        root, name, arms=synthetic.arms_of(name), levels=levels, conditions=conditions, seeds=seeds,
        iterations=iterations, more_of=more, fidelities=fidelities,
    )  # fmt: skip
    plan = json.loads(plan_path.read_text())
    for entry in plan["entries"]:
        if entry["arm"] == "targeted MEHER" and entry["fidelity"] == "released":
            entry["cell"] = entry["cell"].replace("cells/targeted-", "cells/s_ratio-")
            if name != "near_far":
                entry["cell"] = entry["cell"].replace("/targeted meher-", "/meher-")
    plan_path.write_text(json.dumps(plan))
    synthetic.summarise(plan_path, root)
    return plan_path.parent


def _columns(
    level: Level, success: Array, steps: Array, hindsight: NDArray[np.bool_]
) -> dict[str, Array]:
    """What the second paper's training records besides: cost, importance weights, entropies."""
    updates = np.where(hindsight, 640.0, 320.0)
    seconds = 2.0 * np.cumsum(np.where(hindsight, 2.2, 1.0))
    weight = {"squashed": 30.0, "annealed": 400.0}.get(level.get("exploration", ""), 4.0)
    share = level.get("s_ratio", 0.5) * success
    return {
        "hindsight": hindsight.astype(float), "updates": updates, "cpu_seconds": seconds,
        "wall_seconds": seconds,
        "hindsight_log_ratio_max": np.where(hindsight, weight * np.exp(0.5 * success), -np.inf),
        "reward_entropy": 0.2 + share * (1.3 - share), "action_entropy": 3.2 - 1.1 * success,
        "observation_entropy": 4.2 - 0.4 * success,
    }  # fmt: skip
