#!/bin/sh
# tianshou 2.0.1, numpy 2.4.6, torch 2.13.0.
#
# HERReplayBuffer with ignore_obs_next=True, which saves half the memory, changes the goal of a
# transition but computes its reward for the original goal: a relabelled transition that reaches its new
# goal has the reward of a failure.  Nothing is said.
#
# It matters because hindsight then teaches that goals are not worth reaching.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile tianshou==2.0.1 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" - <<'END'
import numpy as np
from tianshou.data import Batch, HERReplayBuffer

LENGTH = 10


def reward(achieved, desired):
    return (achieved == desired)[:, 0] - 1.0


def observation(state):
    achieved = np.array([state], np.float32)
    return {"achieved_goal": achieved, "desired_goal": -np.ones(1, np.float32), "observation": achieved}


for ignore in (False, True):
    buffer = HERReplayBuffer(1000, reward, horizon=LENGTH, future_k=4, ignore_obs_next=ignore)
    for t in range(200):  # the state is 100 x episode + step
        state = 100 * (t // LENGTH) + t % LENGTH
        step = {"obs": observation(state), "act": np.zeros(1), "rew": -1.0, "info": {}}
        ends = {"terminated": False, "truncated": t % LENGTH == LENGTH - 1}
        buffer.add(Batch(**step, **ends, obs_next=observation(state + 1)))
    batch, _ = buffer.sample(2000)
    goal, after = batch.obs.desired_goal[:, 0], batch.obs.achieved_goal[:, 0] + 1
    reached = goal == after
    rewarded = int((batch.rew[reached] == 0).sum())
    print(f"ignore_obs_next={ignore}: {int((goal >= 0).sum())} of 2000 relabelled,", end=" ")
    print(f"{reached.sum()} reach their new goal, {rewarded} of these are rewarded")
    assert reached.any() and rewarded == (0 if ignore else reached.sum())
END
