#!/bin/sh
# gymnasium 1.4.0.
#
# A reset of some environments of a vector environment (`autoreset_mode=DISABLED`, `options={"reset_mask": ...}`) takes
# "reset_mask" out of the dictionary that it is given.  So RecordEpisodeStatistics, around it, forgets the episodes of all
# environments: one that has run for 3 of 4 steps reports a length of 1 and a return of 1.  And the same dictionary, passed
# again, resets everything.  SyncVectorEnv and AsyncVectorEnv agree.
#
# It matters to hindsight replay, which needs the observation that ends an episode and therefore this mode: returns and
# lengths of episodes come out too low wherever environments do not end together.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile gymnasium==1.4.0 numpy==2.4.6
cd "$work"
cat >partial.py <<'END_OF_PYTHON'
from functools import partial

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics


class Counts(gymnasium.Env):
    """Episodes of so many steps; the observation is the number of the step."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.float32([0]), {}

    def step(self, action):
        self.t += 1
        return np.float32([self.t]), 1.0, self.t == self.length, False, {}


if __name__ == "__main__":
    for kind in (SyncVectorEnv, AsyncVectorEnv):
        makers = [partial(Counts, length) for length in (3, 4)]
        envs = RecordEpisodeStatistics(kind(makers, autoreset_mode=AutoresetMode.DISABLED))
        envs.reset()
        reported = []
        for _ in range(12):
            *_, ended, _, info = envs.step(np.zeros(2, int))
            if ended.any():
                reported += info["episode"]["l"][ended].tolist()
                options = {"reset_mask": ended}
                envs.reset(options=options)
        print(f"{kind.__name__}: episodes last 3 and 4 steps; reported lengths {reported}, then")
        print(f"  the dictionary passed to reset is {options}")
        assert reported == [3, 1, 2, 2, 1, 3, 3] and options == {}

        envs.step(np.zeros(2, int))
        mask = {"reset_mask": np.array([True, False])}
        steps = [envs.reset(options=mask)[0].ravel().tolist() for _ in range(2)]
        print(f"  steps after a reset of the first environment {steps[0]}, and again {steps[1]}")
        assert steps == [[0, 1], [0, 0]]
        envs.close()
END_OF_PYTHON
"$work/venv/bin/python" partial.py
