#!/bin/sh
# OGBench 1.2.2, gymnasium 1.4.0, mujoco 4.0.0.
#
# reset(seed=0) of the mazes gives another start and another goal each time: they come from NumPy's global
# generator, in the ant's maze also from the action space's.  Seeding these before each reset repeats it.
#
# It matters to evaluations on the same episodes, to paired seeds, and to every checkpoint that holds a
# seed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile ogbench==1.2.2 gymnasium==1.4.0 mujoco==4.0.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import gymnasium
import numpy as np
import ogbench  # registers the environments


def different_resets(name, *seeded):
    """How many of four resets with seed 0 differ in state or goal."""
    env, seen = gymnasium.make(name), []
    for _ in range(4):
        if "NumPy" in seeded:
            np.random.seed(0)
        if "action space" in seeded:
            env.unwrapped.action_space.seed(0)
        obs, info = env.reset(seed=0)
        seen.append(np.append(obs, info["goal"]))
    return len(np.unique(seen, axis=0))


for name, counts in (("pointmaze-medium-v0", [4, 1, 1]), ("antmaze-medium-v0", [4, 4, 1])):
    seen = [different_resets(name, *what) for what in ((), ("NumPy",), ("NumPy", "action space"))]
    print(f"{name}: of four reset(seed=0), {seen[0]} differ;", end=" ")
    print(f"with np.random.seed(0) before each {seen[1]}; and action_space.seed(0) {seen[2]}")
    assert seen == counts
END
