#!/bin/sh
# highway-env 1.12.1, gymnasium 1.4.0.
#
# parking-v0 is a goal environment, but its rewards are not those of its compute_reward: at a crash, step()
# returns 5 less.  And no limit is registered: it truncates itself after 500 steps, which random driving
# hardly ever sees, as it crashes first.
#
# It matters to hindsight, which asks compute_reward: in a relabelled transition crashing costs nothing.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile highway-env==1.12.1 gymnasium==1.4.0 numpy==2.4.6 pandas==3.1.1
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import gymnasium
import highway_env
import numpy as np

gymnasium.register_envs(highway_env)
env = gymnasium.make("parking-v0")
env.action_space.seed(0)
differences, lengths = {True: [], False: []}, []
for episode in range(4):
    env.reset(seed=episode)
    over, steps = False, 0
    while not over:
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        over, steps = terminated or truncated, steps + 1
        own = env.unwrapped.compute_reward(obs["achieved_goal"], obs["desired_goal"], info)
        differences[info["crashed"]].append(float(reward - own))
    lengths.append(steps)
for crashed, values in differences.items():
    extremes = f"{min(values):.2f} to {max(values):.2f}"
    print(f"{len(values)} steps with crashed={crashed}: reward - compute_reward = {extremes}")
    np.testing.assert_allclose(values, -5 if crashed else 0, atol=1e-5)
env.reset(seed=0)
standing, over = 0, False
while not over:
    _, _, terminated, over, _ = env.step(np.zeros(2, np.float32))
    standing += 1
print(f"registered limit: {env.spec.max_episode_steps}; random episodes of {lengths} steps;", end=" ")
print(f"one of {standing} with the car at rest")
assert env.spec.max_episode_steps is None and standing == 500 > max(lengths) and not terminated
END
