"""Entropies against NumPy's histograms."""

import math

import numpy as np
import pytest
import torch

from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.cell import CellSpec, EvaluationSpec
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.specs.hindsight import HindsightSpec
from hindsight.training.on_policy import OnPolicyRuns
from hindsight.training.signals import BINS, entropy


def test_many_coordinates_and_runs_against_numpy():
    rng = np.random.default_rng(1)
    limit = np.array([10.0, 0.5, 3.0])
    x = np.clip(rng.standard_normal((4, 500, 3)) * [4.0, 0.1, 0.01], -limit, limit)
    valid = rng.random((4, 500)) < np.array([[1.0], [0.5], [0.1], [0.01]])
    assert valid.any(1).all()
    found = entropy(torch.tensor(x), torch.tensor(valid), torch.tensor(limit))
    for run in range(4):
        values = x[run, valid[run]].T
        each = [bits(v, -bound, bound, BINS) for v, bound in zip(values, limit, strict=True)]
        assert float(found[run]) == pytest.approx(np.mean(each), rel=1e-6)


def bits(values: np.ndarray, low: float, high: float, bins: int) -> float:
    """The corrected entropy, by NumPy's histogram."""
    counts = np.histogram(np.clip(values, low, high), bins, (low, high))[0]
    p = counts[counts > 0] / counts.sum()
    miller_madow = (len(p) - 1) / (2 * counts.sum() * math.log(2))
    return float(-(p * np.log2(p)).sum() + miller_madow)


@pytest.mark.parametrize("exploration", ["gaussian", "squashed"])
@pytest.mark.parametrize(
    "hindsight",
    [
        None,
        HindsightSpec(strategy="future", k=2),
        HindsightSpec(fidelity="described"),
        HindsightSpec(s_ratio=0.3, fidelity="described"),
        HindsightSpec(s_ratio=0.3),
        HindsightSpec(until_steps=1),
    ],
)
def test_the_columns_are_of_what_the_last_iteration_learned_from(exploration, hindsight):
    """Rewards, executed actions and observations of the valid samples, real and copied."""
    spec = CellSpec(
        environment=PredatorPreySpec(
            n_dims=2, grid_size=4.0, interception_distance=1.5, max_steps=8, pushes_object=True
        ),
        algorithm=PPOSpec(hidden=(8,), n_steps=64, n_epochs=1, exploration=exploration),
        hindsight=hindsight,
        evaluation=EvaluationSpec(episodes=3),
        steps=1000,
    )
    runs = OnPolicyRuns(spec, [3, 4], "cpu")
    runs.iterate()
    runs.iterate()
    found = runs.evaluate()
    ((_, _, real, copies),) = runs.learned
    paths = [real] if copies is None else [real, copies]
    # Goals, prey's velocity (at most |(1, 1)| / 2), predator.
    limits = [4.0] * 4 + [math.sqrt(2) / 2] * 2 + [4.0] * 2
    for run in range(2):
        obs, actions, rewards = (
            np.concatenate([getattr(p, name)[run][p.valid[run]].numpy() for p in paths])
            for name in ("obs", "actions", "rewards")
        )
        if exploration == "squashed":
            actions = np.tanh(actions)
        expected = {
            "reward_entropy": bits(rewards, -1, 1, 3),
            "action_entropy": np.mean([bits(a, -1, 1, BINS) for a in actions.T]),
            "observation_entropy": np.mean(
                [bits(o, -g, g, BINS) for o, g in zip(obs.T, limits, strict=True)]
            ),
        }
        for name, value in expected.items():
            assert float(found[name][run]) == pytest.approx(value, abs=0.02), name
    assert float(found["reward_entropy"].min()) > 0.1
