#!/bin/sh
# Stable-Baselines3 2.9.2, gymnasium 1.4.0, torch 2.13.0.
#
# On-policy algorithms ask a schedule after a rollout, when its steps are done.  So with a learning rate
# that falls linearly to 0 the last rollout is not learned from, though it is sampled and its losses are
# logged.  A learn() of one rollout changes no parameter, and neither do any number of them with
# reset_num_timesteps=False: each is the last.  In longer pieces, each piece ends at 0 and the next begins
# higher, at its own share of all steps so far.
#
# It matters where a training is cut into pieces (learn, evaluate, learn), and with few, long rollouts: of
# four, a quarter of the steps is lost.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile stable-baselines3==2.9.2 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import torch
from stable_baselines3 import A2C, PPO


def linear(left):
    return 1e-3 * left


def trained(kind, pieces, **arguments):
    """How far parameters moved, and the learning rate of each rollout."""
    model = kind("MlpPolicy", "Pendulum-v1", learning_rate=linear, seed=0, device="cpu", **arguments)
    before = torch.nn.utils.parameters_to_vector(model.policy.parameters()).clone()
    update, rates = model._update_learning_rate, []

    def watched(optimizers):
        update(optimizers)
        rates.append(model.policy.optimizer.param_groups[0]["lr"])

    model._update_learning_rate = watched
    for steps in pieces:
        model.learn(steps, reset_num_timesteps=False)
    after = torch.nn.utils.parameters_to_vector(model.policy.parameters())
    return float((after - before).abs().max()), [f"{rate * 1e3:.2f}" for rate in rates]


ppo = {"n_steps": 100, "batch_size": 50, "n_epochs": 5}
moved, rates = trained(PPO, [400], **ppo)
print("PPO, four rollouts in one learn(): learning rates of", *rates, "thousandths")
assert moved > 0 and rates == ["0.75", "0.50", "0.25", "0.00"]
moved, rates = trained(PPO, [200, 200], **ppo)
print("the same in two pieces:           learning rates of", *rates, "thousandths")
assert rates == ["0.50", "0.00", "0.25", "0.00"]
moved, rates = trained(PPO, [100] * 10, **ppo)
print(f"PPO, ten pieces of one rollout: 1,000 steps, 100 updates; the parameters moved by {moved}")
assert moved == 0 and set(rates) == {"0.00"}
moved, rates = trained(A2C, [5] * 10, n_steps=5)
print(f"A2C, ten pieces of one rollout: the parameters moved by {moved}")
assert moved == 0
END
