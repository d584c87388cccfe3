#!/bin/sh
# Meta-World 3.1.1, gymnasium 1.4.0, mujoco 3.3.0.
#
# reset(seed=5) goes on to the next goal of a list that the seed of make() has drawn: four resets with
# one seed have four goals, and the seed changes nothing.  Made anew with the same seed, the environment
# repeats the list.
#
# It matters to evaluations on the same episodes, and to whoever resets with a seed to repeat one.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile metaworld==3.1.1 packaging==26.4 gymnasium==1.4.0 mujoco==3.3.0 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import gymnasium
import metaworld  # registers the environments


def goals(made, resets):
    env = gymnasium.make("Meta-World/MT1", env_name="reach-v3", seed=made)
    return [env.reset(seed=seed)[0][-3:].round(3).tolist() for seed in resets]


first, other, again = goals(1, (5, 5, 5, 5)), goals(1, (6, 7, 8, 9)), goals(2, (5, 5, 5, 5))
print(f"make(seed=1), four reset(seed=5): {first}")
print(f"make(seed=1), reset(seed=6 to 9): the same goals: {other == first}")
print(f"make(seed=2), four reset(seed=5): the same goals: {again == first}")
assert len({*map(tuple, first)}) == 4 and other == first and again != first
END
