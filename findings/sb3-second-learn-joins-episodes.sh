#!/bin/sh
# Stable-Baselines3 2.9.2, gymnasium 1.4.0, torch 2.13.0.
#
# A second call of learn() with its defaults resets the environment, and HerReplayBuffer is not told:
# the steps of the open episode and the next episode become one, and relabelled transitions get goals
# that were achieved in the other episode, after a jump that no action makes.  There is no warning.  With
# reset_num_timesteps=False the environment is not reset, and all is well.
#
# It matters to anyone who trains in pieces: learn, evaluate, learn.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile stable-baselines3==2.9.2 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" -W error::UserWarning - <<'END'
import gymnasium
import numpy as np
from stable_baselines3 import SAC, HerReplayBuffer


def box(low, high):
    return gymnasium.spaces.Box(low, high, (1,), np.float32)


class Counting(gymnasium.Env):
    """The state is 100 x episode + step; an episode has ten steps."""

    observation_space = gymnasium.spaces.Dict(
        {key: box(-1e6, 1e6) for key in ("achieved_goal", "desired_goal", "observation")}
    )
    action_space = box(-1, 1)
    episode = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.state = 100 * self.episode
        return self.observation(), {}

    def step(self, action):
        self.state += 1
        return self.observation(), -1.0, False, self.state % 100 == 10, {}

    def observation(self):
        state, goal = (np.array([x], np.float32) for x in (self.state, -1))
        return {"achieved_goal": state, "desired_goal": goal, "observation": state}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (achieved_goal == desired_goal)[..., 0] - 1.0


def after_a_second_learn(**arguments):
    """The longest episode in the buffer, and the samples with a goal of another episode."""
    buffer = {"replay_buffer_class": HerReplayBuffer, "buffer_size": 1000}
    model = SAC("MultiInputPolicy", Counting(), **buffer, learning_starts=10**6, seed=0)
    model.learn(26)  # two episodes, and six steps of the third
    model.learn(26, **arguments)
    batch = model.replay_buffer.sample(4000).observations
    state, goal = (batch[key].cpu().numpy() for key in ("achieved_goal", "desired_goal"))
    foreign = (goal >= 0) & (goal // 100 != state // 100)
    return int(model.replay_buffer.ep_length.max()), int(foreign.sum())


longest, foreign = after_a_second_learn()
print("episodes of ten steps; learn(26), then learn(26):")
print(f"  the longest in the buffer has {longest}; {foreign} of 4000 samples have another's goal")
assert longest == 16 and foreign > 100

longest, foreign = after_a_second_learn(reset_num_timesteps=False)
print("learn(26), then learn(26, reset_num_timesteps=False):")
print(f"  the longest in the buffer has {longest}; {foreign} of 4000 samples have another's goal")
assert longest == 10 and foreign == 0
END
