#!/bin/sh
# gymnasium-robotics 1.4.2, gymnasium 1.4.0, mujoco 3.10.0.
#
# FrankaKitchen's compute_reward counts only the tasks that the environment has still to do: for the same goals it returns 2,
# then 1 once the running episode has done one of them, then 2 after a reset.  Of three pairs of goals at once it returns one
# number.  And `episode_task_completions` in an info is the environment's own list: the reset empties it in every kept info.
#
# It matters to hindsight, which asks for the reward of stored goals while another episode runs, and to success rates from
# infos that were kept until the end.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile \
    gymnasium-robotics==1.4.2 gymnasium==1.4.0 mujoco==3.10.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - 2>errors <<'END' || { cat errors; exit 1; }
import gymnasium
import gymnasium_robotics
import numpy as np
from gymnasium_robotics.envs.franka_kitchen.kitchen_env import OBS_ELEMENT_INDICES

gymnasium.register_envs(gymnasium_robotics)
env = gymnasium.make("FrankaKitchen-v1", tasks_to_complete=["microwave", "kettle"])
obs, _ = env.reset(seed=0)
goal, rewards = obs["desired_goal"], []


def reward_of_the_goal(when):
    """Goals that are achieved: the reward should be 2, for two tasks, whenever it is asked for."""
    rewards.append(env.unwrapped.compute_reward(goal, goal, {}))
    print(f"reward where all goals are achieved, {when}: {rewards[-1]}")


reward_of_the_goal("at the start")
env.unwrapped.data.qpos[OBS_ELEMENT_INDICES["microwave"]] = goal["microwave"]  # as if opened
kept = env.step(np.zeros(9))[-1]
reward_of_the_goal("once the microwave is open")
before = list(kept["episode_task_completions"])
env.reset()
reward_of_the_goal("after a reset")
after = list(kept["episode_task_completions"])
print(f"completed tasks in an info of the first episode: {before}, after the reset {after}")

three = {task: np.stack([place] * 3) for task, place in goal.items()}
of_three = env.unwrapped.compute_reward(three, three, {})
print(f"reward of three such pairs of goals: {of_three}")
assert rewards == [2, 1, 2] and (before, after) == (["microwave"], []) and of_three == 2
END
