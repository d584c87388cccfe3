#!/bin/sh
# Stable-Baselines3 2.9.2, gymnasium 1.4.0, torch 2.13.0.
#
# HerReplayBuffer keeps only what is left of an episode that is longer than its capacity: of 50 steps in
# 30 slots, 20; of 31, one; of 30 or 60, nothing, and then sample() blames learning_starts.  No episode
# is rejected, and nothing is said while it fills.  buffer_size is shared among the environments, so
# 1000 slots of 20 environments never hold an episode of 50.
#
# It matters with many environments, long episodes, or a small buffer for a quick test.
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
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv


def box(low, high):
    return gymnasium.spaces.Box(low, high, (1,), np.float32)


class Goals(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict(
        {key: box(-1e6, 1e6) for key in ("achieved_goal", "desired_goal", "observation")}
    )
    action_space = box(-1, 1)

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (achieved_goal == desired_goal)[..., 0] - 1.0


def different_steps(capacity, n_envs, length):
    """How many different steps there are in 4,000 samples, after three episodes of each."""
    env = DummyVecEnv([Goals] * n_envs)
    buffer = HerReplayBuffer(capacity, env.observation_space, env.action_space, env, n_envs=n_envs)
    action, reward = np.zeros((n_envs, 1), np.float32), np.full(n_envs, -1.0)
    for t in range(3 * length):
        now, after = (
            {key: np.full((n_envs, 1), x, np.float32) for key in env.observation_space}
            for x in (t, t + 1)
        )
        done = np.full(n_envs, (t + 1) % length == 0)
        buffer.add(now, after, action, reward, done, [{"TimeLimit.truncated": True}] * n_envs)
    try:
        return len(np.unique(buffer.sample(4000).observations["achieved_goal"].numpy()))
    except RuntimeError as error:
        return f"RuntimeError: {str(error).split('.')[0]}"


seen = {}
for capacity, n_envs, length in (
    (30, 1, 29), (30, 1, 31), (30, 1, 50), (30, 1, 30), (30, 1, 60), (1000, 20, 40), (1000, 20, 50)
):
    seen[capacity, n_envs, length] = steps = different_steps(capacity, n_envs, length)
    print(f"{capacity} slots, {n_envs} environments, episodes of {length}: {steps}")
values = list(seen.values())
assert values[:3] + values[5:6] == [29, 1, 20, 40]
assert all("end of the first episode" in values[i] for i in (3, 4, 6))
END
