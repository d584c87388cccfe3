"""Replay buffers beside Stable-Baselines3's and cpprb's, in one run, on one core.

python bench/replay.py

1 000 000 slots, observations of 25 numbers, goals of 3, actions of 4, batches of 256, k = 4,
`future`.  The contenders take turns, and their processor time is measured, so that neighbours on
the machine slow all of them alike.  Prints a table, writes bench/results/replay.json.  cpprb has
no wheels for the newest Pythons: where it cannot be imported, its lines are left out.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer
from torch import Tensor

from hindsight.library import like_cpprb, like_stable_baselines3
from hindsight.replay.buffer import Relabelling, ReplayBuffer, RowLayout
from hindsight.replay.her import HindsightReplayBuffer
from hindsight.training.cell import prepare_process
from hindsight.training.record import machine

try:
    import cpprb
except ImportError:
    cpprb = None

SIZE, BATCH, EPISODE, RUNS = 1_000_000, 256, 50, 16
GOAL, REST, ACTION = 3, 25, 4
STORED = 50_000
Array = np.ndarray[Any, Any]


class Arm(gymnasium.Env[Any, Any]):
    """Spaces of a FetchReach's size, its reward, and nothing that is ever stepped."""

    observation_space = Dict(
        {
            "achieved_goal": Box(-1, 1, (GOAL,), np.float32),
            "desired_goal": Box(-1, 1, (GOAL,), np.float32),
            "observation": Box(-1, 1, (REST,), np.float32),
        }
    )
    action_space = Box(-1, 1, (ACTION,), np.float32)

    def reset(self, **_: Any) -> tuple[dict[str, Array], dict[str, Any]]:
        """For DummyVecEnv, which wants to see an observation."""
        return self.observation_space.sample(), {}

    def compute_reward(self, achieved: Array, desired: Array, infos: Any) -> Array:
        """0 within 0.05 of the goal, else -1."""
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.05).astype(np.float32)

    def compute_terminated(self, achieved: Array, desired: Array, infos: Any) -> Array:
        """As in Fetch, nothing terminates."""
        return np.zeros(len(achieved), bool)


RNG = np.random.default_rng(0)
OBS = {key: RNG.random((EPISODE, *s.shape), np.float32) for key, s in Arm.observation_space.items()}
ACTIONS = RNG.random((EPISODE, ACTION), np.float32)
REWARDS = np.zeros(EPISODE, np.float32)


# --- contenders: buffers with so many transitions stored ------------------------------------------


def of_sb3(stored: int, size: int = SIZE, kind: Any = HerReplayBuffer) -> Any:
    """Stable-Baselines3's, or another `kind` with its names."""
    spaces = Arm.observation_space, Arm.action_space
    buffer = kind(size, *spaces, DummyVecEnv([Arm]), device="cpu")
    for t in range(stored):
        add_to_sb3(buffer, t % EPISODE)
    return buffer


def add_to_sb3(buffer: Any, t: int) -> None:
    """Step t of an episode."""
    obs = {key: values[t : t + 1] for key, values in OBS.items()}
    done = np.array([t == EPISODE - 1])
    info = [{"TimeLimit.truncated": bool(done[0])}]
    buffer.add(obs, obs, ACTIONS[t : t + 1], REWARDS[t : t + 1], done, info)


def of_cpprb(
    stored: int, size: int = SIZE, *, kind: Any = None, prioritized: bool = False, **options: Any
) -> Any:
    """cpprb's, or another `kind` with its names: each transition is stored five times, so many
    lines in all."""
    env = {
        "obs": {"shape": REST},
        "act": {"shape": ACTION},
        "next_obs": {"shape": REST},
        "done": {},
    }
    buffer = (kind or cpprb.HindsightReplayBuffer)(
        size,
        env,
        EPISODE,
        lambda s, a, goal: Arm().compute_reward(s[:, :GOAL], goal, None),
        goal_func=lambda s: s[:, :GOAL],
        goal_shape=(GOAL,),
        prioritized=prioritized,
        **options,
    )
    while buffer.get_stored_size() < stored:
        add_to_cpprb(buffer)
    return buffer


def add_to_cpprb(buffer: Any) -> None:
    """An episode."""
    obs = OBS["observation"]
    buffer.add(obs=obs, act=ACTIONS, next_obs=obs, done=np.zeros(EPISODE))
    buffer.on_episode_end(OBS["desired_goal"][0])


def ours(stored: int, size: int = SIZE, **options: Any) -> HindsightReplayBuffer:
    """The buffer for NumPy."""
    buffer = HindsightReplayBuffer(size, Arm(), seed=0, **options)
    while len(buffer) < stored:
        add_to_ours(buffer)
    return buffer


def add_to_ours(buffer: HindsightReplayBuffer) -> None:
    """An episode."""
    buffer.add_episode(OBS, ACTIONS, REWARDS, OBS, False)


def step_of_ours(buffer: HindsightReplayBuffer) -> Callable[[], None]:
    """A step, every fiftieth the last of its episode."""
    steps = [{key: values[t] for key, values in OBS.items()} for t in range(EPISODE)]
    count = 0

    def add() -> None:
        nonlocal count
        t = count % EPISODE
        buffer.add(steps[t], ACTIONS[t], REWARDS[t], steps[t], False, t == EPISODE - 1)
        count += 1

    return add


def core(stored: int, size: int = SIZE) -> ReplayBuffer:
    """A run axis of sixteen; the slots of all runs are as many as the others have."""
    row = RowLayout.of(2 * GOAL + REST, GOAL, ACTION)
    buffer = ReplayBuffer(RUNS, 1, size // RUNS, row, Relabelling("future", 4))
    episode = torch.from_numpy(RNG.random((RUNS, 1, EPISODE, row.width), np.float32))
    while RUNS * buffer.position < stored:
        buffer.add_episodes(episode)
    return buffer


def reward(achieved: Tensor, desired: Tensor, terminated: Tensor) -> tuple[Tensor, Tensor]:
    """As `Arm.compute_reward`, and success."""
    success = torch.linalg.vector_norm(achieved - desired, dim=-1) <= 0.05
    return success.float() - 1, success


def sample_core(buffer: ReplayBuffer) -> Callable[[], object]:
    """Numbers are drawn for many updates at a time, as the training loop does."""
    numbers = RNG.random((64, RUNS, BATCH, 3))
    count = 0

    def sample() -> object:
        nonlocal count
        count += 1
        return buffer.sample(numbers[count % 64], reward)

    return sample


def step_of_core(buffer: ReplayBuffer) -> Callable[[], None]:
    """A step of sixteen runs, every fiftieth the last of their episodes."""
    obs, row = torch.rand(RUNS, 1, 2 * GOAL + REST), torch.rand(RUNS, 1, ACTION)
    zero, never = torch.zeros(RUNS, 1), torch.zeros(RUNS, 1, dtype=torch.bool)
    count = 0

    def add() -> None:
        nonlocal count
        count += 1
        buffer.add(obs, row, zero, obs, never, ~never if count % EPISODE == 0 else never)

    return add


# --- measuring ------------------------------------------------------------------------------------


def seconds(function: Callable[[], object], calls: int) -> float:
    """Processor time of a call, the mean over so many."""
    start = time.process_time()
    for _ in range(calls):
        function()
    return (time.process_time() - start) / calls


def resident_bytes() -> int:
    """Memory of this process, on Linux."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory() -> dict[str, float]:
    """A full buffer's memory, in units of the arrays that must be stored."""
    numbers = 2 * (2 * GOAL + REST) + ACTION + 2  # both observations, action, reward, terminated
    arrays = 4 * numbers * SIZE
    before = resident_bytes()
    buffer = ours(SIZE - EPISODE)
    assert len(buffer) >= SIZE - EPISODE
    return {"arrays_megabytes": arrays / 1e6, "ratio": (resident_bytes() - before) / arrays}


def contenders() -> dict[str, tuple[Callable[[], object], int, int]]:
    """Name -> function, calls per repeat, transitions per call."""
    sb3, plain, filled = of_sb3(STORED), ours(STORED), ours(SIZE - EPISODE)
    released, ranked = ours(STORED, fidelity="released"), ours(STORED, prioritized=True)
    runs = core(STORED)
    # Added to when they are full: a new page of memory costs more than what is written to it.
    full_sb3, full, full_runs = of_sb3(STORED, STORED), ours(STORED, STORED), core(STORED, STORED)
    full_too = ours(STORED, STORED)
    # Under the others' names, doing what the others do.
    named_sb3 = {"kind": like_stable_baselines3.HerReplayBuffer}
    named_cpprb: dict[str, Any] = {
        "kind": like_cpprb.HindsightReplayBuffer,
        "terminated_func": lambda s, a, goal: np.zeros(len(s), bool),
    }
    as_sb3, full_as_sb3 = of_sb3(STORED, **named_sb3), of_sb3(STORED, STORED, **named_sb3)
    as_cpprb, full_as_cpprb = (of_cpprb(STORED, size, **named_cpprb) for size in (SIZE, STORED))
    count, count_too = iter(range(10**9)), iter(range(10**9))
    timed: dict[str, tuple[Callable[[], object], int, int]] = {
        "sample: Stable-Baselines3": (lambda: sb3.sample(BATCH), 60, BATCH),
        "sample: ours, described": (lambda: plain.sample(BATCH), 400, BATCH),
        "sample: ours, released": (lambda: released.sample(BATCH), 400, BATCH),
        "sample: ours, 1 000 000 stored": (lambda: filled.sample(BATCH), 400, BATCH),
        "sample: ours, 16 runs": (sample_core(runs), 60, RUNS * BATCH),
        "sample: ours, prioritised": (lambda: ranked.sample(BATCH), 100, BATCH),
        "add steps: Stable-Baselines3": (
            lambda: add_to_sb3(full_sb3, next(count) % EPISODE),
            2000,
            1,
        ),
        "sample: ours under Stable-Baselines3's names": (
            lambda: as_sb3.sample(BATCH),
            400,
            BATCH,
        ),
        "add steps: ours under Stable-Baselines3's names": (
            lambda: add_to_sb3(full_as_sb3, next(count_too) % EPISODE),
            2000,
            1,
        ),
        "sample: ours under cpprb's names": (lambda: as_cpprb.sample(BATCH), 400, BATCH),
        "add episodes: ours under cpprb's names": (
            lambda: add_to_cpprb(full_as_cpprb),
            20,
            EPISODE,
        ),
        "add steps: ours": (step_of_ours(full_too), 2000, 1),
        "add steps: ours, 16 runs": (step_of_core(full_runs), 1000, RUNS),
        "add episodes: ours": (lambda: add_to_ours(full), 100, EPISODE),
    }
    if cpprb is not None:
        peer, peer_ranked = of_cpprb(STORED), of_cpprb(STORED, prioritized=True)
        full_peer = of_cpprb(STORED, STORED)
        timed |= {
            "sample: cpprb": (lambda: peer.sample(BATCH), 400, BATCH),
            "sample: cpprb, prioritised": (lambda: peer_ranked.sample(BATCH), 100, BATCH),
            "add episodes: cpprb": (lambda: add_to_cpprb(full_peer), 20, EPISODE),
        }
    return timed


#: contender, its peer, the ratio of their rates that is asked of it.  cpprb's rate is aimed at, not
#: asked for: it has computed rewards when an episode ended, and stores every transition five times.
BARS = [
    ("sample: ours, described", "sample: Stable-Baselines3", 3.0),
    ("sample: ours, described", "sample: cpprb", None),
    ("sample: ours, released", "sample: cpprb", None),
    ("sample: ours, prioritised", "sample: cpprb, prioritised", None),
    ("sample: ours, 16 runs", "sample: cpprb", 1.0),
    # What is left to lose are cache misses.
    ("sample: ours, 1 000 000 stored", "sample: ours, described", 0.9),
    ("add episodes: ours", "add steps: Stable-Baselines3", 10.0),
    ("sample: ours under Stable-Baselines3's names", "sample: Stable-Baselines3", 3.0),
    ("add steps: ours under Stable-Baselines3's names", "add steps: Stable-Baselines3", None),
    ("sample: ours under cpprb's names", "sample: cpprb", None),
    ("add episodes: ours under cpprb's names", "add episodes: cpprb", None),
]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    prepare_process("cpu")
    if cpprb is None:
        print("cpprb cannot be imported: its lines are left out", file=sys.stderr)
    taken = memory() if sys.platform == "linux" else None
    timed = contenders()
    rates: dict[str, list[float]] = {name: [] for name in sorted(timed)}
    for repeat in range(arguments.repeats + 1):
        for name in rates:
            function, calls, transitions = timed[name]
            rate = transitions / seconds(function, calls)
            if repeat:  # the first warms up
                rates[name].append(rate)
    table = Table(title=f"transitions per second, {arguments.repeats} repeats, one core")
    for column in ("", "median", "least", "most"):
        table.add_column(column, justify="right" if column else "left")
    for name, values in rates.items():
        row = (statistics.median(values), min(values), max(values))
        table.add_row(name, *(f"{value:,.0f}" for value in row))
    Console(width=100).print(table)
    ratios = {}
    for name, other, bar in BARS:
        if other not in rates:
            continue
        pairs = [a / b for a, b in zip(rates[name], rates[other], strict=True)]
        ratio = ratios[f"{name} / {other}"] = statistics.median(pairs)
        verdict = "" if bar is None else f"bar {bar:g}: {'met' if ratio >= bar else 'MISSED'}"
        print(f"{ratio:6.2f} x  {verdict:16}{name} / {other}")
    if taken is not None:
        verdict = "met" if taken["ratio"] <= 1.1 else "MISSED"
        print(f"{taken['ratio']:6.2f} x  {f'bar 1.1: {verdict}':16}memory / arrays")
    out = Path(__file__).parent / "results" / "replay.json"
    out.parent.mkdir(exist_ok=True)
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    versions |= {"numpy": np.__version__}
    measured = {"machine": machine(torch.device("cpu")), "versions": versions, "memory": taken}
    measured |= {"transitions_per_second": rates, "ratios": ratios}
    out.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
