"""Replay buffers beside Stable-Baselines3's and cpprb's: transitions per second of one core.

    python bench/replay.py

1,000,000 slots, observations of 25 numbers, goals of 3, actions of 4, batches of 256, k = 4,
`future`.  cpprb has no wheels for the newest Pythons: where it cannot be imported, its lines are
left out.
"""

import os
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from harness import Turn, race, timed
from torch import Tensor

from hindsight.replay.buffer import Relabelling, ReplayBuffer, RowLayout
from hindsight.replay.her import HindsightReplayBuffer

SIZE, BATCH, EPISODE, RUNS = 1_000_000, 256, 50, 16
GOAL, REST, ACTION = 3, 25, 4
STORED = 50_000
Array = np.ndarray[Any, Any]


class Arm(gymnasium.Env[Any, Any]):
    """Spaces of a FetchReach's size, its reward, and nothing that is ever stepped."""

    sizes: ClassVar = {"achieved_goal": GOAL, "desired_goal": GOAL, "observation": REST}
    observation_space = Dict({key: Box(-1, 1, (n,), np.float32) for key, n in sizes.items()})
    action_space = Box(-1, 1, (ACTION,), np.float32)

    def compute_reward(self, achieved: Array, desired: Array, infos: Any) -> Array:
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.05).astype(np.float32)

    def compute_terminated(self, achieved: Array, desired: Array, infos: Any) -> Array:
        return np.zeros(len(achieved), bool)


RNG = np.random.default_rng(0)
SPACES = Arm.observation_space.items()
STATES = {key: RNG.random((EPISODE + 1, *space.shape), np.float32) for key, space in SPACES}
OBS, NEXT_OBS = ({key: x[i : EPISODE + i].copy() for key, x in STATES.items()} for i in (0, 1))
ACTIONS = RNG.random((EPISODE, ACTION), np.float32)
REWARDS = np.zeros(EPISODE, np.float32)


# --- buffers with so many transitions stored: a turn samples, or adds to a full one ---------------
# A new page of memory costs more than what is written to it.


def of_sb3(adds: bool = False, named: bool = False) -> Turn:
    """Stable-Baselines3's, or ours under its names."""
    from stable_baselines3.common.vec_env import DummyVecEnv
    from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

    from hindsight.library import like_stable_baselines3

    kind: Any = like_stable_baselines3.HerReplayBuffer if named else HerReplayBuffer
    spaces, steps = (Arm.observation_space, Arm.action_space), count()
    buffer = kind(STORED if adds else SIZE, *spaces, DummyVecEnv([Arm]), device="cpu")

    def add() -> None:
        t = next(steps) % EPISODE
        obs = {key: values[t : t + 1] for key, values in OBS.items()}
        next_obs = {key: values[t : t + 1] for key, values in NEXT_OBS.items()}
        done = np.array([t == EPISODE - 1])
        info = [{"TimeLimit.truncated": bool(done[0])}]
        buffer.add(obs, next_obs, ACTIONS[t : t + 1], REWARDS[t : t + 1], done, info)

    for _ in range(STORED):
        add()
    return timed(add, 2000, 1) if adds else timed(lambda: buffer.sample(BATCH), 400, BATCH)


def of_cpprb(adds: bool = False, named: bool = False, prioritized: bool = False) -> Turn:
    """cpprb's, or ours under its names: each transition is stored five times, so many in all."""
    more: dict[str, Any] = {}
    if named:
        from hindsight.library.like_cpprb import HindsightReplayBuffer as Kind

        more["terminated_func"] = lambda s, a, goal: np.zeros(len(s), bool)
    else:
        from cpprb import HindsightReplayBuffer as Kind
    shapes = {"obs": {"shape": REST}, "act": {"shape": ACTION}, "next_obs": {"shape": REST}}
    buffer = Kind(
        STORED if adds else SIZE, {**shapes, "done": {}}, EPISODE,
        lambda s, a, goal: Arm().compute_reward(s[:, :GOAL], goal, None),
        goal_func=lambda s: s[:, :GOAL], goal_shape=(GOAL,), prioritized=prioritized, **more,
    )  # fmt: skip

    def add() -> None:
        obs, next_obs = OBS["observation"], NEXT_OBS["observation"]
        buffer.add(obs=obs, act=ACTIONS, next_obs=next_obs, done=np.zeros(EPISODE))
        buffer.on_episode_end(OBS["desired_goal"][0])

    while buffer.get_stored_size() < STORED:
        add()
    return timed(add, 20, EPISODE) if adds else timed(lambda: buffer.sample(BATCH), 100, BATCH)


def filled(stored: int, size: int = SIZE, **options: Any) -> HindsightReplayBuffer:
    buffer = HindsightReplayBuffer(size, Arm(), seed=0, **options)
    while len(buffer) < stored:
        buffer.add_episode(OBS, ACTIONS, REWARDS, NEXT_OBS, False)
    return buffer


def ours(what: str, stored: int = STORED, **options: Any) -> Turn:
    buffer = filled(stored, SIZE if what == "sample" else stored, **options)
    rows, after = ([{key: x[t] for key, x in both.items()} for t in range(EPISODE)]
                   for both in (OBS, NEXT_OBS))  # fmt: skip
    number = count()

    def step() -> None:
        t = next(number) % EPISODE
        buffer.add(rows[t], ACTIONS[t], REWARDS[t], after[t], False, t == EPISODE - 1)

    def episode() -> None:
        buffer.add_episode(OBS, ACTIONS, REWARDS, NEXT_OBS, False)

    return {
        "sample": timed(lambda: buffer.sample(BATCH), 100, BATCH),
        "steps": timed(step, 2000, 1),
        "episodes": timed(episode, 100, EPISODE),
    }[what]


def axis(adds: bool = False) -> Turn:
    """Ours for training: sixteen runs, whose slots are together as many as the others have."""
    row = RowLayout.of(2 * GOAL + REST, GOAL, ACTION)
    slots = (STORED if adds else SIZE) // RUNS
    buffer = ReplayBuffer(RUNS, 1, slots, row, Relabelling("future", 4))
    episode = torch.from_numpy(RNG.random((RUNS, 1, EPISODE, row.width), np.float32))
    while RUNS * buffer.position < STORED:
        buffer.add_rows(episode, np.ones((RUNS, 1), bool))
    # Numbers are drawn for many updates at a time, as the training loop does.
    numbers, number = RNG.random((64, RUNS, BATCH, 3)), count(1)
    obs, action = torch.rand(RUNS, 1, 2 * GOAL + REST), torch.rand(RUNS, 1, ACTION)
    zero, never = torch.zeros(RUNS, 1), torch.zeros(RUNS, 1, dtype=torch.bool)

    def reward(achieved: Tensor, desired: Tensor, terminated: Tensor) -> tuple[Tensor, Tensor]:
        success = torch.linalg.vector_norm(achieved - desired, dim=-1) <= 0.05
        return success.float() - 1, success

    def add() -> None:
        last = next(number) % EPISODE == 0
        buffer.add(obs, action, zero, obs, never, ~never if last else never, never)

    def sample() -> object:
        return buffer.sample(numbers[next(number) % 64], reward)

    return timed(add, 1000, RUNS) if adds else timed(sample, 60, RUNS * BATCH)


SB3, CPPRB = "Stable-Baselines3", "cpprb"
CONTENDERS = {
    f"sample: {SB3}": of_sb3,
    f"sample: {CPPRB}": of_cpprb,
    f"sample: {CPPRB}, prioritised": partial(of_cpprb, prioritized=True),
    "sample: ours, described": partial(ours, "sample"),
    "sample: ours, released": partial(ours, "sample", fidelity="released"),
    "sample: ours, prioritised": partial(ours, "sample", prioritized=True),
    "sample: ours, 1,000,000 stored": partial(ours, "sample", SIZE - EPISODE),
    "sample: ours, 16 runs": axis,
    f"sample: ours under {SB3}'s names": partial(of_sb3, named=True),
    f"sample: ours under {CPPRB}'s names": partial(of_cpprb, named=True),
    f"add steps: {SB3}": partial(of_sb3, adds=True),
    f"add steps: ours under {SB3}'s names": partial(of_sb3, adds=True, named=True),
    "add steps: ours": partial(ours, "steps"),
    "add steps: ours, 16 runs": partial(axis, adds=True),
    f"add episodes: {CPPRB}": partial(of_cpprb, adds=True),
    f"add episodes: ours under {CPPRB}'s names": partial(of_cpprb, adds=True, named=True),
    "add episodes: ours": partial(ours, "episodes"),
}
#: cpprb's rate is aimed at, not asked for: it has computed rewards when an episode ended, and
#: stores every transition five times.
RATIOS = [
    ("sample: ours, described", f"sample: {SB3}", 3.0),
    ("sample: ours, described", f"sample: {CPPRB}", None),
    ("sample: ours, released", f"sample: {CPPRB}", None),
    ("sample: ours, prioritised", f"sample: {CPPRB}, prioritised", None),
    ("sample: ours, 16 runs", f"sample: {CPPRB}", 1.0),
    # What is left to lose are cache misses.
    ("sample: ours, 1,000,000 stored", "sample: ours, described", 0.9),
    ("add episodes: ours", f"add steps: {SB3}", 10.0),
    (f"sample: ours under {SB3}'s names", f"sample: {SB3}", 3.0),
    (f"add steps: ours under {SB3}'s names", f"add steps: {SB3}", None),
    (f"sample: ours under {CPPRB}'s names", f"sample: {CPPRB}", None),
    (f"add episodes: ours under {CPPRB}'s names", f"add episodes: {CPPRB}", None),
]


def memory() -> float:
    """A full buffer's memory, in units of the arrays that must be stored."""
    numbers = 2 * (2 * GOAL + REST) + ACTION + 2  # both observations, action, reward, terminated

    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    buffer = filled(SIZE - EPISODE)
    return (resident() - before) / (4 * numbers * len(buffer))


if __name__ == "__main__":
    race("replay, transitions per second of one core", CONTENDERS, RATIOS, repeats=9)
    print(f"{memory():6.2f} x  memory / arrays")
