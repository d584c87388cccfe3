"""Entropies against NumPy's histograms."""

import math

import numpy as np
import pytest

from hindsight.specs.hindsight import HindsightSpec
from hindsight.training.signals import BINS
from tests.training import small


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
        HindsightSpec(s_ratio=0.3, fidelity="described"),
        HindsightSpec(until_steps=1),
    ],
)
def test_the_columns_are_of_what_the_last_iteration_learned_from(exploration, hindsight):
    """Rewards, executed actions and observations of the valid samples, real and copied."""
    where = {"n_dims": 2, "pushes_object": True}
    runs = small.runs(small.cell(hindsight, where=where, exploration=exploration), 3, 4)
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
        }
        places = [bits(o, -g, g, BINS) for o, g in zip(obs.T, limits, strict=True)]
        expected["observation_entropy"] = np.mean(places)
        for name, value in expected.items():
            assert float(found[name][run]) == pytest.approx(value, abs=0.02), name
    assert float(found["reward_entropy"].min()) > 0.1
