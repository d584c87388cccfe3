#!/bin/sh
# panda-gym 3.0.7, pybullet 3.2.7, gymnasium 1.4.0.
#
# PandaFlip cannot be made of what PyPI has: its cube's texture, colored_cube.png, is in no file of the
# distribution.  And its compute_reward, which says that it is vectorised, multiplies all goals with all
# others: the rewards of n goals are [n, n], with the right ones on the diagonal.
#
# It matters to hindsight with rotations as goals: a buffer that flattens the rewards gets n times too many.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile panda-gym==3.0.7 pybullet==3.2.7 gymnasium==1.4.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
from importlib.metadata import files
from types import SimpleNamespace

import gymnasium
import numpy as np
import panda_gym
import pybullet
from panda_gym.envs.tasks.flip import Flip

pictures = [str(file) for file in files("panda-gym") if file.suffix == ".png"]
print("pictures in the distribution:", pictures)
assert not pictures
try:
    gymnasium.make("PandaFlip-v3")
except pybullet.error as error:
    print(f"gymnasium.make('PandaFlip-v3'): {error}")
else:
    raise AssertionError("it can be made")

task = SimpleNamespace(reward_type="sparse", distance_threshold=0.2)  # its defaults
turns = np.random.default_rng(0).normal(size=(2, 5, 4))
achieved, desired = turns / np.linalg.norm(turns, axis=-1, keepdims=True)
together = Flip.compute_reward(task, achieved, desired, {})
each = [float(Flip.compute_reward(task, *goals, {})) for goals in zip(achieved, desired)]
print(f"compute_reward of five goals: shape {together.shape}; one by one: {len(each)} numbers")
assert together.shape == (5, 5) and np.array_equal(np.diag(together), each)
END
