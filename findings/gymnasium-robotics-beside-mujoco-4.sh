#!/bin/sh
# gymnasium-robotics 1.4.2, mujoco 4.0.0, gymnasium 1.4.0.
#
# gymnasium-robotics sets no upper bound for MuJoCo, so pip takes 4.0.0, and `pip check` finds no conflict.
# The mazes work; Fetch and the hands raise an AssertionError without text.  With mujoco==3.10.0 all work.
#
# It matters to anyone who installs the two without versions: neither pip nor the error names MuJoCo's.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile gymnasium-robotics==1.4.2 gymnasium==1.4.0 mujoco==4.0.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -m pip check
"$work/venv/bin/python" - <<'END'
import gymnasium
import gymnasium_robotics

gymnasium.register_envs(gymnasium_robotics)
seen = {}
for name in "PointMaze_UMaze-v3", "FetchReach-v4", "HandReach-v3":
    try:
        gymnasium.make(name).reset(seed=0)
        seen[name] = "works"
    except AssertionError as error:
        seen[name] = repr(error)
    print(f"{name}: {seen[name]}")
assert [*seen.values()] == ["works", "AssertionError()", "AssertionError()"]
END
