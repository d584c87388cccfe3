#!/bin/sh
# Stable-Baselines3 2.9.2, gymnasium 1.4.0, torch 2.13.0.
#
# VecNormalize keeps statistics for each key of an observation, and those of `desired_goal` never see a
# relabelled goal.  If the goal is always the same, its deviation is 0, and every relabelled goal enters
# the network as the clip, -10 or 10, wherever it lies.
#
# It matters for hindsight with `normalize: True` where goals are fixed or nearly so: all new goals on
# one side of the real one look the same.
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
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


def box(low, high):
    return gymnasium.spaces.Box(low, high, (1,), np.float32)


class Line(gymnasium.Env):
    """A point moves along a line; its goal is always at 20."""

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
        return self.observation(), -1.0, False, self.steps == 20, {}

    def observation(self):
        x, goal = (np.array([value], np.float32) for value in (self.x, 20))
        return {"achieved_goal": x, "desired_goal": goal, "observation": x}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (abs(achieved_goal - desired_goal) < 0.1)[..., 0] - 1.0


env = VecNormalize(DummyVecEnv([Line]))
buffer = {"replay_buffer_class": HerReplayBuffer, "buffer_size": 1000}
model = SAC("MultiInputPolicy", env, **buffer, learning_starts=10**6, seed=0).learn(400)
goals = []
for given in (None, env):  # the same samples, as they are and as the networks see them
    np.random.seed(0)
    batch = model.replay_buffer.sample(256, env=given)
    goals.append(batch.observations["desired_goal"].cpu().numpy()[:, 0])
raw, seen = goals
relabelled = raw != 20
values = np.unique(raw[relabelled])
print(f"{len(values)} different relabelled goals, {values[0]:.1f} to {values[-1]:.1f};", end=" ")
print(f"the networks see {np.unique(seen[relabelled])}")
print(f"the real goal, 20: {np.unique(seen[~relabelled]).round(2)}")
assert len(values) > 50 and np.unique(seen[relabelled]).tolist() == [-10]
END
