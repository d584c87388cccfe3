#!/bin/sh
# gymnasium 1.4.0.
#
# By default a vector environment resets in the step after an episode's end.  That step ignores its
# action, and its reward is 0, whatever the environment's rewards are, with an empty info.
#
# It matters where a step costs 1 and success pays 0 (Fetch, bit flipping, most goal environments): a
# buffer that stores that step stores a success that jumps from the last state to a new episode's first.
# AutoresetMode.DISABLED or SAME_STEP has no such step.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile gymnasium==1.4.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'END'
import gymnasium
import numpy as np


class Walk(gymnasium.Env):
    """Costs 1 a step and never succeeds; an episode has three steps."""

    observation_space = gymnasium.spaces.Box(-10, 10, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.steps = np.zeros(1, np.float32), 0
        return self.x.copy(), {}

    def step(self, action):
        self.x += action
        self.steps += 1
        return self.x.copy(), -1.0, False, self.steps == 3, {"is_success": False}


envs = gymnasium.vector.SyncVectorEnv([Walk])
envs.reset(seed=0)
rewards, infos = [], []
for _ in range(8):
    obs, reward, terminated, truncated, info = envs.step(np.ones((1, 1), np.float32))
    rewards.append(float(reward[0]))
    infos.append(info)
    print(f"state {obs[0, 0]:.0f}, reward {reward[0]:.0f}, truncated {truncated[0]}, info {[*info]}")
assert rewards == [-1, -1, -1, 0] * 2 and [*map(bool, infos)] == [True, True, True, False] * 2
END
