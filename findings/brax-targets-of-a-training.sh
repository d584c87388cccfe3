#!/bin/sh
# brax 0.14.2, jax 0.10.2, mujoco 4.0.0.
#
# The wrappers of brax's trainers start every episode of an environment in the state of its first, with the same target: they
# keep that state and put it back.  Four environments of the reacher see four targets in 400 episodes.  ppo.train resets anew
# only with num_resets_per_eval above 0, and its default is 0.
#
# It matters to goal-conditioned policies: by default PPO sees as many goals as it has environments, however long it trains.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile \
    brax==0.14.2 jax==0.10.2 jaxlib==0.10.2 flax==0.12.8 optax==0.2.8 mujoco==4.0.0 mujoco-mjx==3.17.0 numpy==2.4.6
cd "$work"
JAX_PLATFORMS=cpu "$work/venv/bin/python" -W ignore - <<'END'
import inspect

import jax
import numpy as np
from brax import envs
from brax.training.agents.ppo import train as ppo

ENVS, LENGTH, EPISODES = 4, 5, 100
env = envs.training.wrap(envs.get_environment("reacher"), episode_length=LENGTH)
state = jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(0), ENVS))
step, rng = jax.jit(env.step), np.random.default_rng(0)
targets, starts, ends = [], [], 0
for t in range(LENGTH * EPISODES):
    state = step(state, rng.uniform(-1, 1, (ENVS, env.action_size)).astype(np.float32))
    targets.append(np.array(state.obs[:, 4:6]))
    ended = np.array(state.done) == 1
    ends += ended.sum()
    starts.append(np.array(state.obs)[ended])
targets, starts = (np.unique(np.concatenate(x), axis=0) for x in (targets, starts))
default = inspect.signature(ppo.train).parameters["num_resets_per_eval"].default
print(f"{ends} episodes in {ENVS} environments: {len(targets)} targets, {len(starts)} first observations")
print(f"num_resets_per_eval of ppo.train: {default}")
assert ends == ENVS * EPISODES and len(targets) == len(starts) == ENVS and default == 0
END
