#!/bin/sh
# gymnasium-robotics 1.4.2, gymnasium 1.4.0, mujoco 3.10.0.
#
# In Fetch, putting a saved state back does not continue the episode.  mjSTATE_FULLPHYSICS with mj_forward
# lacks the warm start of the solver: no later step is equal to the last bit.  mjSTATE_INTEGRATION has it
# but without mj_forward the gripper is centimetres off after one action, since each step moves the arm's
# handle to where the gripper was last computed to be.  Both together continue bit for bit.
#
# It matters to checkpoints, planning from a state, and any `set_state`.
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
import mujoco
import numpy as np

gymnasium.register_envs(gymnasium_robotics)
SPECS = {name: getattr(mujoco.mjtState, f"mjSTATE_{name}") for name in ("FULLPHYSICS", "INTEGRATION")}


def make():
    env = gymnasium.make("FetchPush-v4")
    env.reset(seed=0)
    return env, env.unwrapped.model, env.unwrapped.data


def observed(env, actions):
    return np.array([env.step(action)[0]["observation"] for action in actions])


env, model, data = make()
actions = np.random.default_rng(0).uniform(-1, 1, (40, 4)).astype(np.float32)
observed(env, actions[:20])
saved = {}
for name, spec in SPECS.items():
    saved[name] = np.empty(mujoco.mj_stateSize(model, spec))
    mujoco.mj_getState(model, data, saved[name], spec)
expected = observed(env, actions[20:])

for name, spec in SPECS.items():
    for forward in (True, False):
        other, model, data = make()
        mujoco.mj_setState(model, data, saved[name], spec)
        if forward:
            mujoco.mj_forward(model, data)
        off = abs(observed(other, actions[20:]) - expected)
        equal, gripper = int((off == 0).all(axis=1).sum()), off[0, :3].max()
        how = "mj_forward" if forward else "no mj_forward"
        print(f"{name}, {how}: {equal} of 20 steps equal; gripper {gripper:.0e} off after the first")
        assert (equal == 20) == (forward and name == "INTEGRATION")
        assert (gripper > 0.01) == (not forward)
END
