#!/bin/sh
# gymnasium-robotics 1.4.2, gymnasium 1.4.0, mujoco 3.10.0.
#
# The sparse reward of a success in Fetch is -0.0, as a float32: equal to 0, but not the same bytes, and
# printed as -0.  A vector environment of it returns float64.
#
# It matters to whoever compares recomputed rewards with stored ones by their bytes or by a digest, keys
# something by the text of a reward, or takes its sign with np.signbit or np.copysign.
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
env = gymnasium.make("FetchReach-v4")
obs, _ = env.reset(seed=0)
for _ in range(50):
    action = np.append(10 * (obs["desired_goal"] - obs["achieved_goal"]), 0).clip(-1, 1)
    obs, reward, terminated, truncated, info = env.step(action.astype(np.float32))
print(f"success {info['is_success']}: reward {reward!r}, as text {reward}, bytes {reward.tobytes()}")
assert info["is_success"] and reward == 0 and np.signbit(reward) and reward.dtype == np.float32
envs = gymnasium.make_vec("FetchReach-v4", num_envs=1, vectorization_mode="sync")
envs.reset(seed=0)
rewards = envs.step(envs.action_space.sample())[1]
print(f"of a vector environment: {rewards.dtype}")
assert rewards.dtype == np.float64
END
