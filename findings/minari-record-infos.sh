#!/bin/sh
# Minari 0.5.4 (h5py 3.16.0, jax 0.10.2), gymnasium-robotics 1.4.2, gymnasium 1.4.0, mujoco 3.10.0.
#
# DataCollector drops `info`, and with it a goal environment's `is_success`.  record_infos=True raises a
# ValueError at the first step if the info of reset() has not the keys of a step's: FetchReach's is empty,
# AntMaze's has four of ten.  In PointMaze it works, and stores one info more than there are steps.
#
# It matters to data sets of goal environments: success has to be computed anew, or recorded by a wrapper
# whose reset() gives the same keys.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile minari==0.5.4 h5py==3.16.0 jax==0.10.2 pillow==13.0.0 gymnasium-robotics==1.4.2 gymnasium==1.4.0 mujoco==3.10.0 numpy==2.4.6
cd "$work"
export MINARI_DATASETS_PATH="$work/datasets"
"$work/venv/bin/python" -W ignore - <<'END'
import gymnasium
import gymnasium_robotics
import minari

gymnasium.register_envs(gymnasium_robotics)


def recorded(name, record_infos):
    """Two episodes of five steps: the infos of the first."""
    env = gymnasium.make(name, max_episode_steps=5)
    env = minari.DataCollector(env, record_infos=record_infos)
    for _ in range(2):
        env.reset(seed=0)
        for _ in range(5):
            env.step(env.action_space.sample())
    dataset = f"{name.split('_')[0].split('-')[0].lower()}-v{int(record_infos)}"
    return env.create_dataset(dataset, algorithm_name="random")[0].infos


for name in "PointMaze_UMaze-v3", "FetchReach-v4", "AntMaze_UMaze-v5":
    assert recorded(name, False) == {}
    try:
        infos = {key: len(values) for key, values in recorded(name, True).items()}
        print(f"{name}: infos of five steps: {infos}")
        assert name == "PointMaze_UMaze-v3" and infos == {"success": 6}
    except ValueError as error:
        print(f"{name}: ValueError: {str(error).splitlines()[0]}")
        assert name != "PointMaze_UMaze-v3"
END
