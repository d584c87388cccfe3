#!/bin/sh
# gymnasium-robotics 1.4.2, gymnasium 1.4.0, mujoco 3.10.0.
#
# HandManipulatePen's compute_reward is right for one goal and wrong for many.  It is to ignore the pen's
# turn about its own axis, the third Euler angle, and sets entry 2: of a batch, that is the third goal.  So
# the third goal of a batch counts as reached whatever the pen's direction, the turn counts for all others,
# and batches of one or two raise an IndexError.
#
# It matters to hindsight in these environments: relabelling asks for batches.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile gymnasium-robotics==1.4.2 gymnasium==1.4.0 mujoco==3.10.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import gymnasium
import gymnasium_robotics
import numpy as np
from gymnasium_robotics.utils.rotations import euler2quat, quat2euler

gymnasium.register_envs(gymnasium_robotics)
env = gymnasium.make("HandManipulatePenRotate-v1").unwrapped
seen = [env.reset(seed=seed)[0] for seed in range(6)]
achieved, desired = (np.array([obs[key] for obs in seen]) for key in ("achieved_goal", "desired_goal"))


def rewards(achieved):
    """One by one, and all together; 0 is a success."""
    each = [float(env.compute_reward(*goals, {})) for goals in zip(achieved, desired)]
    return each, env.compute_reward(achieved, desired, {}).tolist()


each, together = rewards(achieved)
print("goals of six resets, one by one: ", *each)
print("together:                        ", *together)
assert each == [-1.0] * 6 and together == [-1.0, -1.0, 0.0, -1.0, -1.0, -1.0]

turned = desired.copy()
for pose in turned:
    angles = quat2euler(pose[3:])
    pose[3:] = euler2quat(angles + [0.0, 0.0, 1.0])
each, together = rewards(turned)
print("turned about its axis, one by one:", *each)
print("together:                         ", *together)
assert each == [0.0] * 6 and together == [-1.0, -1.0, 0.0, -1.0, -1.0, -1.0]

for n in (1, 2):
    try:
        env.compute_reward(achieved[:n], desired[:n], {})
    except IndexError as error:
        print(f"a batch of {n}: IndexError: {error}")
    else:
        raise AssertionError(n)
END
