#!/bin/sh
# gymnasium-robotics 1.4.2, gymnasium 1.4.0, mujoco 3.10.0.
#
# PointMaze with reset_target=True: the step that reaches a goal returns the old goal in its observation,
# though the environment holds the next one already; `success` in its info is True, and False again one
# step later.  An episode that reaches many goals ends with success False.
#
# It matters to a success rate that reads the last step's info, as is usual: it is near 0 for a policy
# that reaches goal after goal.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile gymnasium-robotics==1.4.2 gymnasium==1.4.0 mujoco==3.10.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'END'
import gymnasium
import gymnasium_robotics
import numpy as np

gymnasium.register_envs(gymnasium_robotics)
env = gymnasium.make("PointMaze_Open-v3", reset_target=True)
obs, info = env.reset(seed=0)
truncated, successes = False, []
while not truncated:
    away, velocity = obs["desired_goal"] - obs["achieved_goal"], obs["observation"][2:]
    goal = obs["desired_goal"]
    obs, reward, _, truncated, info = env.step((5 * away - velocity).clip(-1, 1).astype(np.float32))
    successes.append(bool(info["success"]))
    if reward:
        shown, held = obs["desired_goal"], env.unwrapped.goal
        print(f"step {len(successes)}: goal shown {shown.round(2)}, held {held.round(2)}")
        assert (shown == goal).all() and not np.allclose(shown, held)
print(f"{sum(successes)} goals reached in {len(successes)} steps; success of the last: {successes[-1]}")
assert sum(successes) >= 3 and not successes[-1]
END
