#!/bin/sh
# Stable-Baselines3 2.9.2, gymnasium-robotics 1.4.2, gymnasium 1.4.0, mujoco 3.10.0, torch 2.13.0.
#
# env.reset(seed=s) and env.action_space.seed(s) make the same generator twice.  FetchReach draws its goal first, as three
# numbers around the gripper, and a random action is four numbers: the first three are the same.  So the first random action
# points exactly at the goal.  SAC(seed=s) of Stable-Baselines3 seeds both, and the first transition of its buffer is such a
# step.  np.random.default_rng(s) is that generator, too.
#
# It matters to random baselines, warm-ups and tests of exploration, where actions are meant not to know the goal.  Give the
# action space another seed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile \
    stable-baselines3==2.9.2 gymnasium-robotics==1.4.2 gymnasium==1.4.0 mujoco==3.10.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" -W ignore - 2>errors <<'END' || { cat errors; exit 1; }
import gymnasium
import gymnasium_robotics
import numpy as np
from stable_baselines3 import SAC

gymnasium.register_envs(gymnasium_robotics)


def cosine(obs, action):
    """Between the action's movement and the way to the goal."""
    x, y = (obs["desired_goal"] - obs["achieved_goal"]).ravel(), action.ravel()[:3]
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def first_random_action(seed, seed_of_actions):
    obs, _ = env.reset(seed=seed)
    env.action_space.seed(seed_of_actions)
    return cosine(obs, env.action_space.sample())


def first_transition(seed):
    model = SAC("MultiInputPolicy", env, buffer_size=10, learning_starts=100, seed=seed).learn(1)
    obs = {key: values[0] for key, values in model.replay_buffer.observations.items()}
    return cosine(obs, model.replay_buffer.actions[0])


env = gymnasium.make("FetchReach-v4")
same = [first_random_action(seed, seed) for seed in range(10)]
other = [first_random_action(seed, 1000 + seed) for seed in range(10)]
stored = [first_transition(seed) for seed in range(3)]
print("cosine of the first random action and the way to the goal, seeds 0 to 9:")
print(f"  the same seed for both: at least {min(same):.6f}")
print(f"  another for actions: {min(other):.2f} to {max(other):.2f}, on average {np.mean(other):.2f}")
print(f"  first transition of SAC(seed=0), 1 and 2: at least {min(stored):.6f}")
assert min(same) > 0.99999 and abs(np.mean(other)) < 0.5 and min(stored) > 0.99999

obs, _ = env.reset(seed=0)
drawn = np.random.default_rng(0).uniform(-0.15, 0.15, 3)
print(f"  goal - gripper: {(obs['desired_goal'] - obs['achieved_goal']).round(4)};", end=" ")
print(f"default_rng(0).uniform(-0.15, 0.15, 3): {drawn.round(4)}")
assert np.allclose(obs["desired_goal"] - obs["achieved_goal"], drawn, atol=1e-5)
END
