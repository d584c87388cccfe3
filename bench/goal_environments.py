"""Steps per second of an environment: alone in a loop, on the run axis, in gymnasium's vectors.

Ours observes robots sooner than gymnasium-robotics does (`envs/robots.py`); what is called
quickened does so, too, and shows what the processes alone gain or cost.  The contenders take
turns.  Time is wall time, since what is asked is whether several processes are quicker: the
machine must have nothing else to do.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.specs.gymnasium import GymnasiumSpec

LOOP = "one environment in a loop"
ONE, TWO = "ours, 1 worker", "ours, 2 workers"
VECTOR, BOUND = "AsyncVectorEnv", "AsyncVectorEnv, two at a time"
QUICK_LOOP, QUICK_VECTOR = f"{LOOP}, quickened", f"{VECTOR}, quickened"
#: (contender, peer, times the peer's steps per second; no bar where the issue names none)
RATIOS = [
    (TWO, LOOP, 1.8),
    (TWO, QUICK_LOOP, None),
    (TWO, VECTOR, 0.95),
    (TWO, BOUND, 0.95),
    (TWO, QUICK_VECTOR, 0.95),
]


def plain(name: str) -> gym.Env:
    """As gymnasium makes it."""
    return gym.make(name, disable_env_checker=True)


def quickened(name: str) -> gym.Env:
    """As the run axis makes it."""
    return GymnasiumSpec(id=name).make()


def loop(make: Callable[[], gym.Env]) -> Callable[[int], int]:
    """One environment; the result steps it so often and returns how many steps that were."""
    env = make()
    env.reset(seed=0)

    def step(n: int) -> int:
        for _ in range(n):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        return n

    return step


def ours(name: str, envs: int, workers: int) -> Callable[[int], int]:
    """So many environments of one run."""
    env = GoalEnvironments(GymnasiumSpec(id=name), [0], envs, workers=workers)
    generator = torch.Generator().manual_seed(0)

    def step(n: int) -> int:
        for _ in range(n // envs):
            env.step(2 * torch.rand(1, envs, env.action_size, generator=generator) - 1)
        return n // envs * envs

    return step


def theirs(
    make: Callable[[], gym.Env], envs: int, at_once: int | None = None
) -> Callable[[int], int]:
    """So many environments, each in a process of its own."""
    made = gym.vector.AsyncVectorEnv(
        [make] * envs,
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
        max_concurrency=at_once,
    )
    made.reset(seed=0)
    made.action_space.seed(0)

    def step(n: int) -> int:
        for _ in range(n // envs):
            made.step(made.action_space.sample())
        return n // envs * envs

    return step


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="FetchReach-v4")
    parser.add_argument("--envs", type=int, default=16, help="environments side by side")
    parser.add_argument("--steps", type=int, default=3200)
    parser.add_argument("--repeats", type=int, default=5)
    wanted = parser.parse_args()
    GymnasiumSpec(id=wanted.env)  # registers it
    name, envs = wanted.env, wanted.envs
    contenders = {
        LOOP: loop(partial(plain, name)),
        QUICK_LOOP: loop(partial(quickened, name)),
        ONE: ours(name, envs, 1),
        TWO: ours(name, envs, 2),
        VECTOR: theirs(partial(plain, name), envs),
        BOUND: theirs(partial(plain, name), envs, 2),
        QUICK_VECTOR: theirs(partial(quickened, name), envs),
    }
    rates: dict[str, list[float]] = {contender: [] for contender in contenders}
    for step in contenders.values():
        step(10 * envs)  # warm-up
    for _ in range(wanted.repeats):
        for contender, step in contenders.items():
            start = time.perf_counter()
            rates[contender].append(step(wanted.steps) / (time.perf_counter() - start))
    table = Table(title=f"{name}: steps per second, {envs} environments, {wanted.repeats} repeats")
    for column in ("", "median", "least", "most"):
        table.add_column(column, justify="right" if column else "left")
    for contender, values in rates.items():
        row = (np.median(values), min(values), max(values))
        table.add_row(contender, *(f"{value:,.0f}" for value in row))
    Console(width=100).print(table)
    for contender, peer, bar in RATIOS:
        pairs = zip(rates[contender], rates[peer], strict=True)
        ratio = statistics.median(a / b for a, b in pairs)
        verdict = "no bar" if bar is None else f"bar {bar:g}: {'met' if ratio >= bar else 'MISSED'}"
        print(f"{ratio:5.2f} x  ({verdict})  {contender} / {peer}")


if __name__ == "__main__":
    main()
