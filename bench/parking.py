"""SAC with hindsight on highway-env's parking-v0, beside Stable-Baselines3: who parks, who crashes.

    python bench/parking.py --steps 15000 --seeds 2    # pip install highway-env

A crash costs 5 there, which no goal explains: ours keeps that reward beside the relabelled one,
Stable-Baselines3's relabelling computes every reward anew.  Both have the same setting and budget,
and are tested on the same episodes with the mean action at the end.
"""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from rich.console import Console
from rich.table import Table

from hindsight import SAC

ENV = "highway_env:parking-v0"
SETTING = {"gamma": 0.95, "tau": 0.05, "batch_size": 256, "learning_rate": 1e-3}
WARM_UP, HIDDEN, K = 1000, [256, 256], 4
#: Steps of an episode: the environment is registered without a limit.
LIMIT = 100

Act = Callable[[dict[str, Any]], Any]


def ours(steps: int, seeds: int) -> list[Act]:
    """What each seed's last policy does."""
    model = SAC(
        ENV, her="future", k=K, seeds=seeds, max_episode_steps=LIMIT, evaluate_every=steps,
        hidden=HIDDEN, learning_starts=WARM_UP, **SETTING,
    )  # fmt: skip
    model.learn(steps, progress=True)

    def act(seed: int) -> Act:
        return lambda obs: model.predict(obs, run=seed, which="last")[0]

    return [act(seed) for seed in range(seeds)]


def theirs(steps: int, seeds: int) -> list[Act]:
    """The same of Stable-Baselines3."""

    def train(seed: int) -> Act:
        model = stable_baselines3.SAC(
            "MultiInputPolicy",
            gym.make(ENV, max_episode_steps=LIMIT),
            replay_buffer_class=stable_baselines3.HerReplayBuffer,
            replay_buffer_kwargs={"n_sampled_goal": K, "goal_selection_strategy": "future"},
            policy_kwargs={"net_arch": HIDDEN},
            learning_starts=WARM_UP,
            seed=seed,
            device="cpu",
            **SETTING,
        ).learn(steps)
        return lambda obs: model.predict(obs, deterministic=True)[0]

    return [train(seed) for seed in range(seeds)]


def tested(act: Act, episodes: int) -> dict[str, float]:
    """Shares of episodes that end parked and that end in a crash, and the mean return."""
    env = gym.make(ENV, max_episode_steps=LIMIT)
    parked, crashed, returns = [], [], []
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        over, total = False, 0.0
        while not over:
            obs, reward, *ends, info = env.step(act(obs))
            total += float(reward)
            over = any(ends)
        parked.append(float(info["is_success"]))
        crashed.append(float(info["crashed"]))
        returns.append(total)
    return {
        name: float(np.mean(values))
        for name, values in (("parked", parked), ("crashed", crashed), ("return", returns))
    }


def main() -> None:
    """Train both, test, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=50)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    table = Table(title=f"parking-v0, {wanted.steps:,} steps, {wanted.seeds} seeds")
    for column in ("", "parked", "crashed", "return"):
        table.add_column(column, justify="right" if column else "left")
    for name, train in (("ours", ours), ("Stable-Baselines3", theirs)):
        tests = [tested(act, wanted.episodes) for act in train(wanted.steps, wanted.seeds)]
        found[name] = tests
        means = {key: float(np.mean([test[key] for test in tests])) for key in tests[0]}
        shares = (f"{means[key]:.0%}" for key in ("parked", "crashed"))
        table.add_row(name, *shares, f"{means['return']:.1f}")
        print(name, tests, flush=True)
    out = Path(__file__).parent / "results" / "parking.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"setting": vars(wanted), **found}, indent=1))
    Console().print(table)


if __name__ == "__main__":
    main()
