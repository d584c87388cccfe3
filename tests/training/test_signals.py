"""Entropies against closed forms and NumPy's histograms."""

import math

import numpy as np
import pytest
import torch

from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.cell import CellSpec, EvaluationSpec
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.specs.hindsight import HindsightSpec
from hindsight.training.on_policy import OnPolicyRuns
from hindsight.training.signals import BINS, entropies, entropy


def miller_madow(occupied: int, n: int) -> float:
    """The correction, in bits."""
    return (occupied - 1) / (2 * n * math.log(2))


@pytest.mark.parametrize("each", [1, 7])
@pytest.mark.parametrize("bins", [2, 3, 32])
def test_uniform_over_the_bins(bins, each):
    middles = np.repeat((np.arange(bins) + 0.5) / bins * 2 - 1, each)
    expected = math.log2(bins) + miller_madow(bins, bins * each)
    x = torch.tensor(middles, dtype=torch.float32)[None, :, None]
    found = entropy(x, torch.ones(1, len(middles), dtype=torch.bool), torch.ones(1), bins)
    assert float(found[0]) == pytest.approx(expected, rel=1e-6)


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


def test_rewards_have_three_values_and_coordinates_their_limits():
    n = 90
    rewards = torch.tensor([-1.0, 0.0, 1.0]).repeat(n // 3)[None]
    obs = torch.linspace(-1, 1, n)[None, :, None] * torch.tensor([10.0, 2.0])
    actions = torch.linspace(-0.999, 0.999, n)[None, :, None].expand(1, n, 3)
    valid = torch.ones(1, n, dtype=torch.bool)
    found = entropies(obs, actions, rewards, valid, torch.tensor([10.0, 2.0]))
    assert float(found["reward_entropy"]) == pytest.approx(math.log2(3) + miller_madow(3, n))
    wide = entropies(obs, actions, rewards, valid, torch.tensor([40.0, 8.0]))
    assert float(wide["observation_entropy"]) < float(found["observation_entropy"]) - 1.5
    assert float(wide["action_entropy"]) == float(found["action_entropy"]) > 4.9


def bits(values: np.ndarray, low: float, high: float, bins: int) -> float:
    """The corrected entropy, by NumPy's histogram."""
    counts = np.histogram(np.clip(values, low, high), bins, (low, high))[0]
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log2(p)).sum() + miller_madow(len(p), counts.sum()))


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
