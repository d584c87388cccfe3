#!/bin/sh
# Stable-Baselines3 2.9.2, gymnasium 1.4.0, torch 2.13.0.
#
# HerReplayBuffer calls the compute_reward of the innermost environment, beneath every reward wrapper: with TransformReward
# (times 10) a real step that fails costs 10 and a relabelled one 1, in the same batch.  Nothing is said.  A wrapper that has
# a compute_reward of its own is asked instead.
#
# It matters wherever rewards are scaled, shifted or given a penalty by a wrapper: the critic learns two scales at once.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile stable-baselines3==2.9.2 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" - <<'END'
import gymnasium
import numpy as np
from stable_baselines3 import SAC, HerReplayBuffer


def box(low, high):
    return gymnasium.spaces.Box(low, high, (1,), np.float32)


class Line(gymnasium.Env):
    """A point moves along a line; its goal, 50, is out of reach."""

    observation_space = gymnasium.spaces.Dict(
        {key: box(-100, 100) for key in ("achieved_goal", "desired_goal", "observation")}
    )
    action_space = box(-1, 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.steps = 0.0, 0
        return self.observation(), {}

    def step(self, action):
        self.x += float(action[0])
        self.steps += 1
        obs = self.observation()
        reward = self.compute_reward(obs["achieved_goal"], obs["desired_goal"], {})
        return obs, float(reward), False, self.steps == 20, {}

    def observation(self):
        x, goal = (np.array([value], np.float32) for value in (self.x, 50))
        return {"achieved_goal": x, "desired_goal": goal, "observation": x}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (abs(achieved_goal - desired_goal) < 0.1)[..., 0] - 1.0


class Tenfold(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 10 * reward

    def compute_reward(self, *goals_and_info):
        return 10 * self.env.get_wrapper_attr("compute_reward")(*goals_and_info)


def different_rewards(env):
    """In the real rows of a batch, and in the relabelled ones."""
    buffer = {"replay_buffer_class": HerReplayBuffer, "buffer_size": 1000}
    model = SAC("MultiInputPolicy", env, **buffer, learning_starts=10**6, seed=0).learn(400)
    batch = model.replay_buffer.sample(256)
    real = (batch.observations["desired_goal"] == 50)[:, 0]
    return [batch.rewards[rows].unique().tolist() for rows in (real, ~real)]


for name, env, expected in (
    ("no wrapper", Line(), [[-1], [-1, 0]]),
    ("TransformReward, 10 x", gymnasium.wrappers.TransformReward(Line(), lambda r: 10 * r), [[-10], [-1, 0]]),
    ("a wrapper with compute_reward", Tenfold(Line()), [[-10], [-10, 0]]),
):
    seen = different_rewards(env)
    print(f"{name}: rewards of real rows {seen[0]}, of relabelled rows {seen[1]}")
    assert seen == expected
END
