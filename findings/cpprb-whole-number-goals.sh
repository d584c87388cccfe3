#!/bin/sh
# cpprb 11.0.0 (Python 3.8 to 3.12), numpy 2.4.6.
#
# HindsightReplayBuffer stores goals in the type of the observations. Beside observations of whole numbers, a
# goal that `goal_func` computes, such as a mean, loses its fraction: a sample has the goal 2 and the reward
# for the goal 2.5, without a warning.
#
# It matters for grids and counts: what is learned from says that a step missed the goal that it reached.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile cpprb==11.0.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'END'
import numpy as np
from cpprb import HindsightReplayBuffer


def middle(states):
    return states.mean(-1, keepdims=True)


def reward(next_states, actions, goals):
    return -np.abs(middle(next_states) - goals)


state = {"shape": 2, "dtype": np.int64}
buffer = HindsightReplayBuffer(
    100, {"obs": state, "act": {"dtype": np.int64}, "next_obs": state}, 4, reward,
    goal_func=middle, goal_shape=1, strategy="final", prioritized=False,
)
buffer.add(obs=[0, 0], act=0, next_obs=[0, 1])
buffer.on_episode_end([2.5])
found = buffer.sample(100)
pairs = sorted({(float(g), float(r)) for g, r in zip(found["goal"].ravel(), found["rew"].ravel())})
print(f"goals are {found['goal'].dtype}; goal and reward of a step that reaches 0.5: {pairs}")
# asked for 2.5 and for its own 0.5
assert pairs == [(0.0, 0.0), (2.0, -2.0)]
assert reward(found["next_obs"], None, found["goal"]).min() == -1.5
END
