"""Generalised advantage estimation by doubling, against the recurrence and against analysis."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from hindsight.algorithms.ppo import advantages


def recurrence(
    rewards: np.ndarray,
    values: np.ndarray,
    last_value: float,
    ends: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """The definition (Schulman et al. 2016, eq. 16), backwards through one path."""
    result, running, following = np.zeros(len(rewards)), 0.0, last_value
    for t in reversed(range(len(rewards))):
        if ends[t]:
            running, following = 0.0, 0.0
        running = rewards[t] + gamma * following - values[t] + gamma * lam * running
        result[t], following = running, values[t]
    return result


def random_paths(steps: int, p_end: float, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rewards, values, last values and ends of [2 runs, 3 paths, steps], float64."""
    rng = np.random.default_rng(seed)
    size = (2, 3, steps)
    arrays = (
        rng.standard_normal(size),
        rng.standard_normal(size),
        rng.standard_normal(size[:2]),
        rng.random(size) < p_end,
    )
    return tuple(map(torch.from_numpy, arrays))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.5, 0.95, 1.0])
def test_doubling_equals_the_recurrence(gamma, lam):
    """All lengths from 1 to 70, around every power of two, with few, many and only ends."""
    for steps, p_end in itertools.product(range(1, 71), (0.0, 0.1, 0.5, 1.0)):
        rewards, values, last, ends = random_paths(steps, p_end, seed=steps)
        result = advantages(rewards, values, last, ends, gamma, lam).numpy()
        for where in np.ndindex(2, 3):
            expected = recurrence(
                rewards[where].numpy(),
                values[where].numpy(),
                float(last[where]),
                ends[where].numpy(),
                gamma,
                lam,
            )
            np.testing.assert_allclose(result[where], expected, rtol=0, atol=1e-10)


def test_float32_of_a_whole_rollout():
    rewards, values, last, ends = random_paths(2048, 0.05, seed=0)
    given = rewards.float(), values.float(), last.float(), ends
    before = [x.clone() for x in given]
    result = advantages(*given, 0.99, 0.95)
    assert all(map(torch.equal, given, before)), "arguments are left alone"
    one = [x[1, 2].numpy() for x in (rewards, values, last, ends)]
    expected = recurrence(*one, 0.99, 0.95)
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result[1, 2].numpy(), expected, rtol=0, atol=2e-5)


def test_constant_reward_for_ever():
    """With the true value 1 / (1 - gamma) everywhere, also after the rollout, advantages are 0."""
    steps, gamma = 50, 0.9
    true = torch.full((1, steps), 1 / (1 - gamma), dtype=torch.float64)
    never = torch.zeros(1, steps, dtype=torch.bool)
    result = advantages(torch.ones_like(true), true, true[:, 0], never, gamma, 0.95)
    assert float(result.abs().max()) < 1e-12
    # A control: treating the rollout's end as an episode's end loses the future.
    cut = never.clone()
    cut[:, -1] = True
    wrong = advantages(torch.ones_like(true), true, true[:, 0], cut, gamma, 0.95)
    assert float(wrong[0, -1]) == pytest.approx(1 - 1 / (1 - gamma))
