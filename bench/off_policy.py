"""SAC with hindsight beside Stable-Baselines3's: environment steps per second of one core.

One update per step, networks of 2 x 64, batches of 256, two goals per transition; the contenders
take turns.  Time is the process's own, so that neighbours on the machine matter less.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
from rich.console import Console
from rich.table import Table
from stable_baselines3 import SAC, HerReplayBuffer

import hindsight.envs  # noqa: F401  (registers the environment)
from hindsight.specs.cell import CellSpec
from hindsight.training.cell import prepare_process
from hindsight.training.runs import runs_of

STEPS = 500


def ours(runs: int) -> Callable[[], int]:
    """So many runs of ours on one axis; the result trains STEPS of each and returns all steps."""
    spec = CellSpec(
        algorithm={"name": "sac", "log_interval": STEPS},
        replay={"strategy": "final", "k": 2},
        seeds=runs,
        steps=200_000,
        early_end=None,
    )
    training = runs_of(spec, list(range(runs)), "cpu")

    def train() -> int:
        training.iterate()
        return STEPS * runs

    return train


def theirs() -> Callable[[], int]:
    """Stable-Baselines3 with the same setting, through the gymnasium wrapper."""
    model = SAC(
        "MultiInputPolicy",
        gym.make("PredatorPrey-v0"),
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 2, "goal_selection_strategy": "final"},
        policy_kwargs={"net_arch": [64, 64]},
        gamma=0.95,
        tau=0.05,
        seed=0,
        device="cpu",
    )

    def train() -> int:
        model.learn(STEPS, reset_num_timesteps=False)
        return STEPS

    return train


PEER = "Stable-Baselines3 SAC + HER"
CONTENDERS = {
    PEER: theirs,
    "ours SAC-HER, 16 runs": lambda: ours(16),
    "ours SAC-HER, 1 run": lambda: ours(1),
}
#: how many times the peer's rate is asked for
BARS = {"ours SAC-HER, 16 runs": 5.0, "ours SAC-HER, 1 run": 2.5}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    repeats = parser.parse_args().repeats
    prepare_process("cpu")
    trainers = {name: make() for name, make in CONTENDERS.items()}
    for train in trainers.values():
        train()  # warm-up: the first steps are random and without updates
    rates: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(repeats):
        for name, train in trainers.items():
            start = time.process_time()
            rates[name].append(train() / (time.process_time() - start))
    table = Table(title=f"environment steps per second of one core, {repeats} repeats")
    for column in ("", "median", "least", "most"):
        table.add_column(column, justify="right" if column else "left")
    for name, values in rates.items():
        row = (statistics.median(values), min(values), max(values))
        table.add_row(name, *(f"{value:,.0f}" for value in row))
    Console(width=110).print(table)
    for name, bar in BARS.items():
        ratio = statistics.median(a / b for a, b in zip(rates[name], rates[PEER], strict=True))
        verdict = "met" if ratio >= bar else "MISSED"
        print(f"{ratio:5.2f} x  (bar {bar:g}: {verdict})  {name} / {PEER}")


if __name__ == "__main__":
    main()
