"""EnvPool's Fetch beside gymnasium-robotics': is it the same environment, and is it quicker?

Needs `pip install envpool==1.2.5`, as nothing else here does.  Each is reset with the same seed and
given the same actions; that its goals are drawn otherwise does not touch the gripper.  Time is that
of one thread and 16 environments, ours on the run axis; the contenders take turns.
"""

import argparse
import os
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import envpool
import gymnasium as gym
import numpy as np
import torch

from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.specs.gymnasium import GymnasiumSpec

ENVS, EPISODE, SEEDS = 16, 50, 8


def aligned(name: str) -> None:
    """Print how far apart the two grippers are, at reset and under the same actions."""
    theirs = gym.make(name, disable_env_checker=True)
    at_reset, within = [], []
    for seed in range(SEEDS):
        pool = envpool.make(name, env_type="gymnasium", num_envs=1, seed=seed)
        ours, _ = pool.reset()
        expected, _ = theirs.reset(seed=seed)
        actions = np.random.default_rng(seed).uniform(-1, 1, (EPISODE, 4)).astype(np.float32)
        at_reset.append(np.abs(ours["observation"][0, :3] - expected["observation"][:3]).max())
        for action in actions:
            ours, *_ = pool.step(action[None])
            expected, *_ = theirs.step(action)
            within.append(np.abs(ours["observation"][0, :3] - expected["observation"][:3]).max())
    print(
        f"{name}: grippers apart by {1000 * max(at_reset):.3f} mm after a reset, at most "
        f"{1000 * max(within):.1f} mm within {EPISODE} steps ({SEEDS} seeds); goals drawn otherwise"
    )


def rates(name: str, steps: int, repeats: int) -> None:
    """Print steps per second of EnvPool and of the run axis."""
    pool = envpool.make(name, env_type="gymnasium", num_envs=ENVS, num_threads=1, seed=0)
    pool.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (ENVS, 4)).astype(np.float32)
    env = GoalEnvironments(GymnasiumSpec(id=name), [0], ENVS, workers=1)
    as_tensor = torch.from_numpy(actions)[None]
    taken: dict[str, list[float]] = {"EnvPool": [], "ours, 1 worker": []}
    for _ in range(repeats):
        for contender in taken:
            start = time.perf_counter()
            for _ in range(steps // ENVS):
                if contender == "EnvPool":
                    pool.step(actions)
                else:
                    env.step(as_tensor)
            taken[contender].append(steps // ENVS * ENVS / (time.perf_counter() - start))
    env.close()
    for contender, values in taken.items():
        print(f"{name}: {contender}: {np.median(values):,.0f} steps/s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--repeats", type=int, default=5)
    wanted = parser.parse_args()
    warnings.filterwarnings("ignore")
    for task in ("Reach", "Push", "Slide", "PickAndPlace"):
        name = f"Fetch{task}-v4"
        GymnasiumSpec(id=name)  # registers it
        aligned(name)
        rates(name, wanted.steps, wanted.repeats)


if __name__ == "__main__":
    main()
