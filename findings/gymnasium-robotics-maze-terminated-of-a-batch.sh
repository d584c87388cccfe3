#!/bin/sh
# gymnasium-robotics 1.4.2, gymnasium 1.4.0, mujoco 3.10.0.
#
# In the mazes compute_reward takes one goal or many; compute_terminated takes many, too, and returns one
# bool: the distance of the whole batch is compared.  Three positions that each reach their goal are not
# terminated together.
#
# It matters to hindsight, which asks for many new goals at once (continuing_task=False, where success
# ends the episode): no relabelled success is a termination, and the bool fits any shape without an error.
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
for name in "PointMaze_UMaze-v3", "AntMaze_UMaze-v5":
    env = gymnasium.make(name, continuing_task=False).unwrapped
    env.reset(seed=0)
    achieved, desired = np.full((3, 2), 0.3), np.zeros((3, 2))  # 0.42 apart; 0.45 is a success
    rewards = env.compute_reward(achieved, desired, {})
    single = [env.compute_terminated(*goals, {}) for goals in zip(achieved, desired)]
    batch = env.compute_terminated(achieved, desired, {})
    print(f"{name}: rewards {rewards}, terminated one by one {single}, as a batch {batch}")
    assert rewards.tolist() == [1, 1, 1] and all(single) and batch is False
END
