#!/bin/sh
# gymnasium 1.4.0.
#
# NormalizeReward divides by the deviation of a discounted return, and a truncated episode does not restart that return.
# Where every episode is cut off by a time limit, it settles at one value, its deviation shrinks, and the same reward grows
# with the square root of the steps: -1 becomes -0.05 after 1,000 steps and -0.45 after 100,000.  If the same episodes end
# by termination, it stays -0.09.  The vector wrapper does the same.
#
# It matters to sparse rewards before the first success (Fetch): the rewards' scale, and with it the step size and the
# entropy's weight, changes all the time.
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


class Never(gymnasium.Env):
    """Costs 1 a step and never succeeds; an episode has 50 steps."""

    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, terminates):
        self.terminates = terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == 50
        ends = (over, False) if self.terminates else (False, over)
        return np.zeros(1, np.float32), -1.0, *ends, {}


def normalized(terminates, vector):
    """What the reward -1 is after 1,000, 10,000 and 100,000 steps."""
    if vector:
        env = gymnasium.vector.SyncVectorEnv([lambda: Never(terminates)])
        env = gymnasium.wrappers.vector.NormalizeReward(env, gamma=0.99)
    else:
        env = gymnasium.wrappers.NormalizeReward(Never(terminates), gamma=0.99)
    action, rewards = np.zeros(env.action_space.shape, np.float32), []
    env.reset(seed=0)
    for _ in range(100_000):
        _, reward, terminated, truncated, _ = env.step(action)
        rewards.append(float(np.ravel(reward)[0]))
        if not vector and (terminated or truncated):
            env.reset()
    return [round(rewards[n - 1], 3) for n in (1_000, 10_000, 100_000)]


for vector in (False, True):
    kind = "a vector environment" if vector else "an environment"
    cut, ended = normalized(False, vector), normalized(True, vector)
    print(f"{kind}, -1 after 1,000, 10,000 and 100,000 steps: truncated {cut}, terminated {ended}")
    assert cut[1] < 2 * cut[0] and cut[2] < 2.5 * cut[1] and -0.1 < min(ended) <= max(ended) < -0.08
END
