"""SAC with hindsight on FetchReach or PandaReach, beside Stable-Baselines3: steps until it reaches.

    python bench/reach.py --env PandaReach-v3 --steps 10000 --seeds 4    # pip install panda-gym

Both have the same setting, are tested at the same steps with 20 episodes of the
mean action, and need as many steps as pass before the first test with a success rate of 0.95.  The
authors' learning rate of 3e-4, with networks of 2 x 64, reaches nothing in 15 000 steps, ours or
Stable-Baselines3's: the temperature begins at 1 and falls too slowly.
"""

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table
from stable_baselines3 import SAC, HerReplayBuffer

from hindsight.specs.cell import CellSpec
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.training.cell import Execution, train_cell
from hindsight.training.progress import show

EVERY, EPISODES, ENOUGH, WITHIN = 1000, 20, 0.95, 15_000
SETTING = {"gamma": 0.95, "tau": 0.05, "batch_size": 256, "learning_rate": 1e-3}
WARM_UP = 100
SB3 = "Stable-Baselines3"


def ours(
    env: str,
    steps: int,
    seeds: int,
    strategy: str,
    k: int,
    hidden: tuple[int, ...],
    workers: int | None,
) -> tuple[dict[int, list[float]], list[float]]:
    """Success rates at each test, by seed; and processor seconds of each seed's training."""
    spec = CellSpec(
        environment={"id": env},
        algorithm={
            "name": "sac",
            **SETTING,
            "hidden": hidden,
            "learning_starts": WARM_UP,
            "log_interval": EVERY,
        },
        replay={"strategy": strategy, "k": k, "fidelity": "described"},
        seeds=seeds,
        steps=steps,
        early_end=None,
        evaluation={"points": steps // EVERY, "episodes": EPISODES},
    )
    with tempfile.TemporaryDirectory() as folder, show() as tell:
        curves = pd.read_parquet(train_cell(spec, Path(folder), Execution(workers=workers), tell))
    tests = curves[curves.phase == "evaluation"].sort_values("env_steps")
    seconds = curves[curves.phase == "train"].groupby("seed").cpu_seconds.max()
    rates = {int(seed): list(rows.success_rate) for seed, rows in tests.groupby("seed")}
    return rates, list(seconds)


def theirs(
    env: str, steps: int, seeds: int, strategy: str, k: int, hidden: tuple[int, ...]
) -> tuple[dict[int, list[float]], list[float]]:
    """The same of Stable-Baselines3, one seed after the other."""
    rates: dict[int, list[float]] = {}
    seconds = []
    for seed in range(seeds):
        model = SAC(
            "MultiInputPolicy",
            gym.make(env),
            replay_buffer_class=HerReplayBuffer,
            replay_buffer_kwargs={"n_sampled_goal": k, "goal_selection_strategy": strategy},
            policy_kwargs={"net_arch": list(hidden)},
            learning_starts=WARM_UP,
            seed=seed,
            device="cpu",
            **SETTING,
        )
        rates[seed] = []
        seconds.append(0.0)
        for _ in range(steps // EVERY):
            began = time.process_time()
            model.learn(EVERY, reset_num_timesteps=False)
            seconds[-1] += time.process_time() - began
            rates[seed].append(tested(model, env))
        print(f"Stable-Baselines3, seed {seed}: {rates[seed]}", flush=True)
    return rates, seconds


def tested(model: SAC, task: str) -> float:
    """Success rate of fixed episodes with the mean action."""
    env = gym.make(task)
    successes = []
    for episode in range(EPISODES):
        obs, _ = env.reset(seed=episode)
        over = False
        while not over:
            obs, _, *ends, info = env.step(model.predict(obs, deterministic=True)[0])
            over = any(ends)
        successes.append(float(info["is_success"]))
    return float(np.mean(successes))


def needed(rates: list[float]) -> float:
    """Steps before the first test that is good enough."""
    good = [i for i, rate in enumerate(rates) if rate >= ENOUGH - 1e-6]
    return (good[0] + 1) * EVERY if good else math.inf


def main() -> None:
    """Train, and print the steps that were needed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="FetchReach-v4")
    parser.add_argument("--steps", type=int, default=WITHIN)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--strategy", default="future", choices=["final", "future", "episode"])
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--workers", type=int)
    parser.add_argument("--only", choices=["ours", "theirs"])
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    GymnasiumSpec(id=wanted.env)  # registers it
    setting = (
        wanted.env,
        wanted.steps,
        wanted.seeds,
        wanted.strategy,
        wanted.k,
        tuple(wanted.hidden),
    )
    found: dict[str, dict[int, list[float]]] = {}
    seconds: dict[str, list[float]] = {}
    if wanted.only != "theirs":
        found["ours"], seconds["ours"] = ours(*setting, wanted.workers)
    if wanted.only != "ours":
        found[SB3], seconds[SB3] = theirs(*setting)
    out = Path(__file__).parent / "results" / f"{wanted.env}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(
        json.dumps(
            {"setting": vars(wanted), "success_rates": found, "cpu_seconds": seconds}, indent=1
        )
    )
    table = Table(title=f"{wanted.env}: steps to a success rate of {ENOUGH}, {wanted.seeds} seeds")
    for column in ("", "CPU s a seed", "median", *(f"seed {seed}" for seed in range(wanted.seeds))):
        table.add_column(column, justify="right" if column else "left")
    medians: dict[str, float] = {}
    means = {name: statistics.mean(values) for name, values in seconds.items()}
    for name, rates in found.items():
        steps = [needed(rates[seed]) for seed in sorted(rates)]
        medians[name] = statistics.median(steps)
        table.add_row(
            name,
            f"{means[name]:.0f}",
            *(f"{value:,.0f}" for value in (medians[name], *steps)),
        )
    Console(width=110).print(table)
    if "ours" in medians:
        within = min(WITHIN, wanted.steps)
        verdict = "met" if medians["ours"] <= within else "MISSED"
        print(f"median within {within:,} steps: {verdict}")
    if len(medians) == 2:
        verdict = "met" if medians["ours"] <= medians[SB3] else "MISSED"
        print(f"no more steps than Stable-Baselines3: {verdict}")
        verdict = "met" if means["ours"] <= means[SB3] / 2 else "MISSED"
        print(f"at most half of Stable-Baselines3's processor time per seed: {verdict}")


if __name__ == "__main__":
    main()
