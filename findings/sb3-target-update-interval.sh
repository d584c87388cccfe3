#!/bin/sh
# Stable-Baselines3 2.9.2, sb3-contrib 2.9.2, gymnasium 1.4.0, torch 2.13.0.
#
# SAC and TQC have a target_update_interval in gradient steps, but they count these from 0 in each call of train(), and the
# first one always updates.  With the default gradient_steps=1 the target moves after every step, whatever the interval: in
# 200 of 200 steps with 1 and with 1000.  With tau=1, a copy now and then, the target is always the critic itself.
#
# It matters to whoever tunes or reports the interval, and to copied targets: there is no target network.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile \
    stable-baselines3==2.9.2 sb3-contrib==2.9.2 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import torch
from sb3_contrib import TQC
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from torch.nn.utils import parameters_to_vector


class Watch(BaseCallback):
    """Counts the environment's steps between which the target network moved."""

    moved, last = 0, None

    def _on_step(self):
        now = parameters_to_vector(self.model.critic_target.parameters()).clone()
        self.moved += self.last is not None and not torch.equal(now, self.last)
        self.last = now
        return True


for algorithm in (SAC, TQC):
    for interval in (1, 1000):
        model = algorithm(
            "MlpPolicy",
            "Pendulum-v1",
            tau=1,
            target_update_interval=interval,
            learning_starts=100,
            batch_size=16,
            policy_kwargs={"net_arch": [16]},
            seed=0,
        )
        watch = Watch()
        model.learn(301, callback=watch)  # trains after steps 101 to 301; the last is not watched
        networks = model.critic_target, model.critic
        same = torch.equal(*(parameters_to_vector(x.parameters()) for x in networks))
        print(f"{algorithm.__name__}, tau=1, target_update_interval={interval}: the target moved", end=" ")
        print(f"in {watch.moved} of 200 steps; at the end it is the critic: {same}")
        assert watch.moved == 200 and same
END
