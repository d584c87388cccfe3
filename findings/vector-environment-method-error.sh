#!/bin/sh
# Stable-Baselines3 2.9.2, gymnasium 1.4.0, torch 2.13.0.
#
# A method that is called in the environments of a vector environment, with env_method() or call(), may
# raise an error, for example where it is asked whether it takes many goals at once.  In one process the
# caller gets that error and goes on.  With worker processes the vector environment is lost: in
# SubprocVecEnv the caller gets EOFError without the error's text, and every later call and step is a broken
# pipe; in AsyncVectorEnv the caller gets the error, and every later call and step is an AttributeError.
#
# It matters to hindsight buffers, which ask environments for rewards: nothing may be tried out there.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile stable-baselines3==2.9.2 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
cat >asked.py <<'END'
import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv


class Asked(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def root(self, number):
        if number < 0:
            raise ValueError("a negative number has none")
        return number**0.5


def outcome(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "no error"


if __name__ == "__main__":
    seen = {}
    for kind in (DummyVecEnv, SubprocVecEnv, SyncVectorEnv, AsyncVectorEnv):
        env = kind([Asked] * 2)
        env.reset()
        ask = env.env_method if hasattr(env, "env_method") else env.call
        actions = np.zeros((2, 1), np.float32)
        calls = (lambda: ask("root", -1), lambda: ask("root", 4), lambda: env.step(actions))
        seen[kind.__name__] = [outcome(call) for call in calls]
        print(kind.__name__, *seen[kind.__name__])
    assert seen == {
        "DummyVecEnv": ["ValueError", "no error", "no error"],
        "SubprocVecEnv": ["EOFError", "BrokenPipeError", "BrokenPipeError"],
        "SyncVectorEnv": ["ValueError", "no error", "no error"],
        "AsyncVectorEnv": ["ValueError", "AttributeError", "AttributeError"],
    }
END
"$work/venv/bin/python" -W ignore asked.py 2>/dev/null
