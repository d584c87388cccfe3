#!/bin/sh
# gymnasium 1.4.0, Stable-Baselines3 2.9.2, on Linux with Python 3.11.
#
# AsyncVectorEnv forks its workers, and each inherits the state of NumPy's global generator.  Environments that draw from it
# (np.random.uniform) therefore draw the same numbers: four environments play one and the same episode, reset after reset,
# whatever their seeds.  In SyncVectorEnv they differ, and so they do in Stable-Baselines3's SubprocVecEnv, whose workers
# start anew.
#
# It matters where goals or starts are drawn from the global generator, as in older environments: four workers collect a
# quarter of the data that they seem to, and episodes of an evaluation are copies.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile gymnasium==1.4.0 numpy==2.4.6 stable-baselines3==2.9.2
cd "$work"
cat >goals.py <<'END'
import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from stable_baselines3.common.vec_env import SubprocVecEnv


class Goal(gymnasium.Env):
    """Its observation is a goal that it draws."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.random.uniform(0, 1, 1), {}

    def step(self, action):
        return np.zeros(1), 0.0, True, False, {}


if __name__ == "__main__":
    for kind, expected in ((SyncVectorEnv, 4), (AsyncVectorEnv, 1), (SubprocVecEnv, 4)):
        envs = kind([Goal] * 4)
        for i in range(2):
            if kind is SubprocVecEnv:
                envs.seed(4 * i)
                goals = envs.reset()
            else:
                goals, _ = envs.reset(seed=4 * i)
            found = np.unique(goals).size
            print(f"{kind.__name__}: reset {i} of four environments: {found} different goals")
            assert found == expected
        envs.close()
END
"$work/venv/bin/python" goals.py
