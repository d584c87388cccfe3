"""The DDPG + HER notebook's training beside Stable-Baselines3's: 150 episodes of PointReach.

Networks of 2 x 256, batches of 256, an episode of 50 steps and then 50 updates, the time limit
counting as an end.  The notebook's own print-out says 104.5 s, on a machine it does not name.  Time
is the process's own, one thread.  Beside it: how much of that is arithmetic, from the rate at which
this core multiplies matrices of that size; and the same training with products that round their
operands to bfloat16, which only a core with AMX takes in less time.
"""

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DDPG, HerReplayBuffer
from stable_baselines3.common.noise import NormalActionNoise

import hindsight.envs  # noqa: F401  (registers the environment)
from hindsight.specs.cell import CellSpec
from hindsight.training.cell import prepare_process
from hindsight.training.runs import runs_of

NOTEBOOK_SECONDS, EPISODES, LENGTH = 104.5, 150, 50
BATCH, WIDTH, INPUTS = 256, 256, 8


def ours() -> int:
    """The notebook's setting; returns the number of updates."""
    spec = CellSpec(
        environment={"id": "PointReach-v0"},
        algorithm={"name": "ddpg", "log_interval": LENGTH, "random_warm_up": False},
        replay={"strategy": "future", "time_limit_terminates": True},
        seeds=1,
        steps=EPISODES * LENGTH,
        early_end=None,
    )
    training = runs_of(spec, [0], "cpu")
    return sum(int(training.iterate()["updates"]) for _ in range(EPISODES))


def theirs() -> int:
    """The same with Stable-Baselines3 (which bootstraps at the limit and does not clip)."""
    model = DDPG(
        "MultiInputPolicy",
        gym.make("PointReach-v0"),
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        policy_kwargs={"net_arch": [WIDTH, WIDTH]},
        action_noise=NormalActionNoise(np.zeros(2), np.full(2, 0.2)),
        gamma=0.98,
        buffer_size=100_000,
        learning_starts=2000,
        train_freq=LENGTH,
        gradient_steps=LENGTH,
        batch_size=BATCH,
        seed=0,
        device="cpu",
    )
    model.learn(EPISODES * LENGTH)
    return int(model._n_updates)


def arithmetic() -> float:
    """Seconds that the matrix products of one update take at this core's own rate."""
    x, w = torch.randn(BATCH, WIDTH), torch.randn(WIDTH, WIDTH)
    calls = 2000
    start = time.process_time()
    for _ in range(calls):
        torch.mm(x, w)
    rate = calls * BATCH * WIDTH * WIDTH / (time.process_time() - start)
    # A pass through a network; the critic's update has three forward passes, the actor's two, and
    # each of the two a backward pass through both of its ends (twice a forward one) but for the
    # critic's weights in the actor's.
    network = BATCH * (INPUTS * WIDTH + WIDTH * WIDTH + 2 * WIDTH)
    return 10 * network / rate


def main() -> None:
    """Measure and print."""
    prepare_process("cpu")
    seconds = {}
    for name, train, products in (
        ("ours", ours, "ieee"),
        ("Stable-Baselines3", theirs, "ieee"),
        ("ours, products in bfloat16", ours, "bf16"),
    ):
        torch.backends.mkldnn.matmul.fp32_precision = products
        start = time.process_time()
        updates = train()
        seconds[name] = time.process_time() - start
        print(f"{name}: {seconds[name]:.1f} s for {updates} updates")
        print(f"    the products alone: {arithmetic() * updates:.1f} s")
    print(f"{seconds['Stable-Baselines3'] / seconds['ours']:.2f} x Stable-Baselines3's speed")
    ratio = NOTEBOOK_SECONDS / seconds["ours"]
    print(f"{ratio:.1f} x the notebook's (bar 10: {'met' if ratio >= 10 else 'MISSED'})")


if __name__ == "__main__":
    main()
