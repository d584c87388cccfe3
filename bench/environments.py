"""Steps per second of FetchReach: alone in a loop, on the run axis, in gymnasium's vectors.

    python bench/environments.py

Ours also observes robots sooner than gymnasium-robotics does (`specs/robots.py`).  Time is the
wall's, since what is asked is whether several processes are quicker: the machine must have nothing
else to do.
"""

from functools import partial

import gymnasium as gym
import torch
from harness import Turn, race, timed

from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.specs.gymnasium import GymnasiumSpec

SPEC = GymnasiumSpec(id="FetchReach-v4")
STEPS, ENVS = 3200, 16
PLAIN = partial(gym.make, SPEC.id, disable_env_checker=True)
LOOP, TWO, VECTOR = "one environment in a loop", "ours, 2 workers", "AsyncVectorEnv"


def loop() -> Turn:
    env = PLAIN()
    env.reset(seed=0)

    def step() -> None:
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()

    return timed(step, STEPS, 1)


def ours(workers: int) -> Turn:
    env = GoalEnvironments(SPEC, [0], ENVS, workers=workers)
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        env.step(2 * torch.rand(1, ENVS, env.action_size, generator=generator) - 1)

    return timed(step, STEPS // ENVS, ENVS)


def theirs() -> Turn:
    made = gym.vector.AsyncVectorEnv(
        [PLAIN] * ENVS, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP, context="fork"
    )
    made.reset(seed=0)
    made.action_space.seed(0)
    return timed(lambda: made.step(made.action_space.sample()), STEPS // ENVS, ENVS)


CONTENDERS = {
    LOOP: loop,
    "ours, 1 worker": partial(ours, 1),
    TWO: partial(ours, 2),
    VECTOR: theirs,
}

if __name__ == "__main__":
    title = f"environments, steps per second of {ENVS} of {SPEC.id}"
    ratios = [(TWO, LOOP, 1.8), (TWO, VECTOR, 0.95)]
    race(title, CONTENDERS, ratios, wall=True)
