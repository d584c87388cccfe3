#!/bin/sh
# Stable-Baselines3 2.9.2, gymnasium 1.4.0, torch 2.13.0.
#
# PPO's train/n_updates counts epochs, not updates: 3 rollouts with 10 epochs of 10 minibatches are 30.  An
# epoch that target_kl ends counts whole, even if none of its minibatches was learned from.  And target_kl
# ends an epoch at 1.5 times the value given: 0.02 allows 0.03.  SAC's n_updates counts updates.
#
# It matters to comparisons by updates, as of how many a method saves, and to "the same target_kl" in
# another library or in one's own code.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile stable-baselines3==2.9.2 gymnasium==1.4.0 numpy==2.4.6 torch==2.13.0
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import torch
from stable_baselines3 import PPO, SAC


def trained(rollouts, **arguments):
    """Updates that were made, n_updates, and the divergence before each update."""
    model = PPO(
        "MlpPolicy", "Pendulum-v1", n_steps=640, batch_size=64, n_epochs=10, seed=0, device="cpu",
        **arguments,
    )
    get, step = model.rollout_buffer.get, model.policy.optimizer.step
    latest, divergences = [], []

    def watched(*given):
        for batch in get(*given):
            latest[:] = [batch]
            yield batch

    def counted(*given):
        (batch,) = latest
        with torch.no_grad():
            now = model.policy.evaluate_actions(batch.observations, batch.actions)[1]
        change = now - batch.old_log_prob
        divergences.append(float((change.exp() - 1 - change).mean()))
        return step(*given)

    model.rollout_buffer.get, model.policy.optimizer.step = watched, counted
    model.learn(640 * rollouts)
    return len(divergences), model.logger.name_to_value.get("train/n_updates", model._n_updates), divergences


made, said, _ = trained(3)
print(f"3 rollouts, 10 epochs of 10 minibatches: {made} updates, train/n_updates {said}")
assert (made, said) == (300, 30)

target = 0.02
made, said, divergences = trained(10, target_kl=target, learning_rate=1e-2)
beyond = sum(one > target for one in divergences)
print(f"target_kl {target}: {made} updates, train/n_updates {said} (10 for each would be {10 * said})")
print(f"  {beyond} updates followed a divergence above {target}, up to {max(divergences):.4f}; none above {1.5 * target:.3f}")
assert made < 10 * said < 1000
assert beyond > 0 and target < max(divergences) <= 1.5 * target

sac = SAC("MlpPolicy", "Pendulum-v1", learning_starts=100, seed=0, device="cpu")
sac.learn(150)
print(f"SAC, 50 steps after the warm-up: n_updates {sac._n_updates}")
assert sac._n_updates == 50
END
