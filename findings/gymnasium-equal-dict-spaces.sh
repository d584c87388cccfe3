#!/bin/sh
# gymnasium 1.4.0, Stable-Baselines3 2.9.2, torch 2.13.0.
#
# Dict({...}) sorts its keys; Dict(observation=..., desired_goal=...), a list of pairs and an OrderedDict keep
# theirs.  The four spaces are equal for ==, and flatten in different orders.  So a policy that was trained
# behind FlattenObservation loads into the same environment with its space written another way, passes
# Stable-Baselines3's check of the spaces, and takes the goal for the position.
#
# It matters when an environment's code is rewritten, or written again in another project.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile stable-baselines3==2.9.2 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
from collections import OrderedDict

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, flatten
from gymnasium.wrappers import FlattenObservation
from stable_baselines3 import PPO

box = Box(-9.0, 9.0, (1,), np.float32)
parts = {"observation": box, "desired_goal": box, "achieved_goal": box}
shown = {"observation": [1.0], "desired_goal": [2.0], "achieved_goal": [3.0]}
shown = {key: np.array(value, np.float32) for key, value in shown.items()}
spaces = {
    "Dict({...})": Dict(parts),
    "Dict(**{...})": Dict(**parts),
    "Dict([pairs])": Dict(list(parts.items())),
    "Dict(OrderedDict)": Dict(OrderedDict(parts)),
}
sorted_one = spaces["Dict({...})"]
for name, space in spaces.items():
    print(f"{name:18} equal: {space == sorted_one}, flat: {flatten(space, shown).tolist()}")
    assert space == sorted_one
assert flatten(sorted_one, shown).tolist() == [3, 2, 1]
assert all(flatten(space, shown).tolist() == [1, 2, 3] for space in list(spaces.values())[1:])


class Resting(gymnasium.Env):
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return shown, {}

    def step(self, action):
        return shown, 0.0, False, True, {}


def wrapped(space):
    return FlattenObservation(Resting(space))


def action_of(env, **how):
    model = PPO.load("policy", env, device="cpu", **how)
    return float(model.predict(model.env.reset(), deterministic=True)[0][0, 0])


PPO("MlpPolicy", wrapped(sorted_one), seed=0, device="cpu").save("policy")
trained, rewritten = (action_of(wrapped(spaces[name])) for name in ("Dict({...})", "Dict(**{...})"))
print(f"one policy, one state: action {trained:.4f} where it was trained, {rewritten:.4f} in the rewritten one")
assert trained != rewritten
END
