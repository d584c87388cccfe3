"""Results files of the experiments on other systems' tasks, and their tables."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.analysis import synthetic

Array = NDArray[np.float64]
Level = dict[str, Any]
EPISODES = 180
BITS = [{"n_bits": n} for n in (5, 10, 20, 40)]
GRID = [
    {"strategy": strategy, "k": k}
    for strategy in ("final", "future", "episode", "random")
    for k in (1, 4)
]
FETCH = ["FetchReach", "FetchPush", "FetchSlide", "FetchPickAndPlace"]
DECAYS = [{"weight_decay": x} for x in (1e-2, 1e-4)]
ROLLOUTS = [decay | {"n_steps": n} for decay in DECAYS for n in (2048, 8192, 32768)]
#: How often the achieved goal moves under an untrained policy; later half as often.
MOVES = {
    "predator-prey": 1.0, "predator-prey with an object": 0.2, "PointReach": 1.0,
    "FetchReach": 0.98, "FetchPush": 0.05,
}  # fmt: skip
#: Arms, levels of what varies, tasks, rows of a run.
EXPERIMENTS: dict[str, tuple[Sequence[str], Sequence[Level], Sequence[str], int]] = {
    "point_reach": (
        ["the notebook's DDPG + HER", "the notebook's, bootstrapped", "DDPG + HER", "DDPG"],
        [{}], ["PointReach"], EPISODES,
    ),
    "bit_flipping": (
        ["DQN", "DQN + PER", "DQN + HER", "DQN + HER + PER", "DQN + HER (final)"],
        BITS, ["BitFlipping"], 20,
    ),
    "bit_strategies": (["DQN + HER"], GRID, ["BitFlipping"], 20),
    "reach_strategies": (["DDPG + HER"], GRID, ["PointReach"], 20),
    "generalise": (
        ["PPO", "PPO-HER", *(f"MEHER, S = {s}" for s in (0.3, 0.5, 0.7))],
        [{}], ["PointReach", "BitFlipping"], 20,
    ),
    "fetch": (["PPO", "PPO-HER"], DECAYS, FETCH, 20),
    "fetch_rollout": (["PPO", "PPO-HER"], ROLLOUTS, FETCH[:2], 20),
    "fetch_off_policy": (["SAC-HER", "TD3-HER", "DDPG-HER"], [{}], FETCH, 20),
    "fetch_strategies": (["SAC-HER"], GRID[1::2], FETCH[:1], 20),
    "moving_goals": (
        ["PPO", "PPO-HER", "PPO-HER, moved only", "PPO-HER, after contact", "PPO-HER, moved goals"],
        [{}], list(MOVES), 20,
    ),
}  # fmt: skip


def top(arm: str, level: Level, task: str) -> float:
    """The success that a run reaches, but for its seed: what the tests expect to find."""
    if arm in ("DQN", "DQN + PER", "PPO"):
        return 0.95 if level.get("n_bits", 10) < 10 else 0.0
    tops = {
        "the notebook's DDPG + HER": 0.3,
        "the notebook's, bootstrapped": 0.4,
        "DDPG + HER": 0.8,
        "DDPG": 0.05,
        "DDPG-HER": 0.5,
    }
    value = tops.get(arm, 0.92)
    value -= 0.1 * (level.get("n_bits", 0) >= 40) + 0.02 * ("PER" in arm)
    value -= {"final": 0.3, "episode": 0.1, "random": 0.6}.get(level.get("strategy", ""), 0.0)
    value -= 0.2 * (level.get("k", 4) == 1)
    value -= 0.1 * (level.get("weight_decay") == 1e-2) + 0.8 * (level.get("n_steps") == 32768)
    if arm.startswith("PPO-HER") and task in FETCH[1:]:
        value = 0.1 + 0.1 * (arm != "PPO-HER")
    if arm.startswith("MEHER"):
        value -= 0.2 * (not arm.endswith("0.5"))
    return round(max(value, 0.0), 6)


def write(
    root: Path,
    name: str,
    *,
    fidelities: Sequence[str] = (),
    seeds: int = 5,
    iterations: int | None = None,
    levels: Sequence[Level] | None = None,
    rows_of: Callable[[str, str], int] | None = None,
) -> Path:
    """Train nothing, summarise: the folder of the experiment's tables below `root`.

    Success is 0 in the first half of a run, and then `top` less a thousandth for each seed.
    `rows_of`: rows of a run by its arm and task, in place of `iterations`.
    """
    arms, all_levels, tasks, rows = EXPERIMENTS[name]
    rows = iterations or rows

    def curve(arm: str, level: Level, spawn: str, task: str) -> synthetic.CurveFunction:
        reached = top(arm, level, task)
        budget = synthetic.N_STEPS * (rows_of(arm, task) if rows_of else rows)
        return lambda seed, steps: np.where(
            steps > budget / 2, np.maximum(reached - 0.001 * seed, 0.0), 0.0
        )

    def more(arm: str, level: Level, spawn: str, task: str) -> dict[str, Any]:
        def extra(seed: int, steps: Array) -> dict[str, Array]:
            success = np.clip(curve(arm, level, spawn, task)(seed, steps), 0.0, 1.0)
            return _columns(name, task, seed, success, steps)

        here = {} if task.startswith("predator-prey") else {"environment.id": f"{task}-v0"}
        length = {"iterations": rows_of(arm, task)} if rows_of else {}
        return {"extra": extra, "spec_overrides": here, **length}

    plan = synthetic.write_experiment(
        root, name, arms=arms, levels=levels or all_levels, seeds=seeds, iterations=rows,
        conditions=[("", task) for task in tasks], curve_of=curve, more_of=more,
        fidelities=fidelities or ("described",),
    )  # fmt: skip
    synthetic.summarise(plan, root)
    return plan.parent


def _columns(name: str, task: str, seed: int, success: Array, steps: Array) -> dict[str, Array]:
    """Returns that have no scale of -1 to 1, and what the algorithms note; of point_reach a row is
    an episode, whose success is all or nothing.
    """
    row = np.arange(1, len(steps) + 1)
    columns: dict[str, Array] = {}
    if not task.startswith("predator-prey"):
        columns["return_mean"] = -50.0 * (1.0 - 0.5 * success)
    if name == "moving_goals":
        columns["goal_moved"] = MOVES[task] * np.where(row == 1, 1.0, 0.5)
        columns["goal_displacement"] = 1.5 * columns["goal_moved"]
    if name == "point_reach":
        updated = row > 40
        luck = np.random.default_rng([seed, 7]).random(len(row))
        columns |= {
            "episodes": row.astype(float),
            "episode_return": -50.0 + 30.0 * (luck < success),
            "episode_success": (luck < success).astype(float),
            "updates": np.where(updated, 50.0, 0.0),
            "critic_loss": np.where(updated, 0.5 + 0.001 * row, np.nan),
            "actor_loss": np.where(updated, 0.02 * row, np.nan),
            "q_mean": np.where(updated, -0.02 * row, np.nan),
        }
    return columns
