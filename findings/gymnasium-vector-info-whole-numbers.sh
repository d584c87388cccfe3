#!/bin/sh
# gymnasium 1.4.0.
#
# A vector environment puts its environments' infos into one array, whose type is that of the first environment's value.  A
# cost `max(0, x)` is the whole number 0 where x is negative; if that is the first environment, the array holds whole numbers
# and the others' 0.7 and 0.9 become 0.  Another step, with 0.7 first, keeps them.  Nothing is said.
#
# It matters to costs, distances and shares of success that are read from infos: means come out too low, some of the time.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile gymnasium==1.4.0 numpy==2.4.6
cd "$work"
cat >costs.py <<'END'
import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv


class Cost(gymnasium.Env):
    """Tells in its info how much it is beyond a limit."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {"cost": max(0, float(action[0]))}


if __name__ == "__main__":
    for kind in (SyncVectorEnv, AsyncVectorEnv):
        envs, sums = kind([Cost] * 3), []
        envs.reset(seed=0)
        for beyond in ([-0.5, 0.7, 0.9], [0.7, 0.9, -0.5]):
            cost = envs.step(np.array(beyond, np.float32)[:, None])[-1]["cost"]
            sums.append(round(float(cost.sum()), 3))
            print(f"{kind.__name__}: beyond the limit by {beyond}: costs {cost.round(3)}")
        envs.close()
        assert sums == [0, 1.6]
END
"$work/venv/bin/python" costs.py
