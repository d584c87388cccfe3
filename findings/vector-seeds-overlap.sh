#!/bin/sh
# gymnasium 1.4.0, Stable-Baselines3 2.9.2, torch 2.13.0.
#
# A vector environment gives its environments the seeds s, s + 1, s + 2, ...  So runs with the seeds 0, 1,
# 2, ... and eight environments each are not independent: seven of eight environments of one run begin and
# go on as those of the next do, as long as the actions agree.  So it is in gymnasium's vectors, in
# make_vec_env, and in PPO(seed=s).
#
# It matters to statistics over seeds: sixteen runs with eight environments have 23 streams of beginnings,
# not 128.  Seeds that are far apart (0, 1000, 2000) do not overlap.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile stable-baselines3==2.9.2 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

NAME, ENVS = "CartPole-v1", 8


def played(kind):
    """What each environment of a run shows in 200 steps to the right and left, [environment, ...]."""

    def of(seed):
        envs = gymnasium.make_vec(NAME, ENVS, vectorization_mode=kind)
        shown = [envs.reset(seed=seed)[0]]
        shown += [envs.step(np.full(ENVS, t % 3 > 0, int))[0] for t in range(200)]
        envs.close()
        return np.stack(shown, axis=1)

    return of


def shared(of):
    """How many of the environments of seed 1 are the same as one of seed 0's."""
    first, second = of(0), of(1)
    return sum(any(np.array_equal(a, b) for b in first) for a in second)


ways = {
    "gymnasium, sync": played("sync"),
    "gymnasium, async": played("async"),
    "make_vec_env": lambda seed: make_vec_env(NAME, ENVS, seed=seed).reset(),
    "PPO(seed)": lambda seed: PPO("MlpPolicy", make_vec_env(NAME, ENVS), seed=seed, device="cpu").env.reset(),
}
if __name__ == "__main__":
    for name, of in ways.items():
        found = shared(of)
        print(f"{name:16} {found} of {ENVS} environments of seed 1 are environments of seed 0")
        assert found == ENVS - 1
    beginnings = {tuple(row) for seed in range(16) for row in ways["make_vec_env"](seed)}
    print(f"16 runs of {ENVS} environments: {len(beginnings)} different beginnings")
    assert len(beginnings) == 16 + ENVS - 1
    far = {tuple(row) for seed in range(16) for row in ways["make_vec_env"](1000 * seed)}
    assert len(far) == 16 * ENVS
END
