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
    result = advantages(rewards.float(), values.float(), last.float(), ends, 0.99, 0.95)
    one = [x[1, 2].numpy() for x in (rewards, values, last, ends)]
    expected = recurrence(*one, 0.99, 0.95)
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result[1, 2].numpy(), expected, rtol=0, atol=2e-5)


def test_arguments_are_left_alone():
    arguments = random_paths(33, 0.1, seed=1)
    before = [x.clone() for x in arguments]
    advantages(*arguments, 0.9, 0.9)
    assert all(torch.equal(x, y) for x, y in zip(arguments, before, strict=True))


def test_constant_reward_for_ever():
    """With the true value 1 / (1 - gamma) everywhere, behind the cut too, nothing is better."""
    steps, gamma = 50, 0.9
    true = torch.full((1, steps), 1 / (1 - gamma), dtype=torch.float64)
    never = torch.zeros(1, steps, dtype=torch.bool)
    result = advantages(torch.ones_like(true), true, true[:, 0], never, gamma, 0.95)
    assert float(result.abs().max()) < 1e-12
    # A control: an end where the rollout is merely cut takes the future away.
    cut = never.clone()
    cut[:, -1] = True
    wrong = advantages(torch.ones_like(true), true, true[:, 0], cut, gamma, 0.95)
    assert float(wrong[0, -1]) == pytest.approx(1 - 1 / (1 - gamma))


def test_constant_reward_of_one_step_episodes():
    """Episodes of one step and reward 1 are worth 1, whatever stands behind them."""
    ones, ends = torch.ones(1, 40), torch.ones(1, 40, dtype=torch.bool)
    behind = torch.full((1,), 1e6)
    assert float(advantages(ones, ones, behind, ends, 0.99, 0.95).abs().max()) == 0
    # A control: where ends are forgotten, the next episode's value leaks in.
    leaking = advantages(ones, ones, torch.ones(1), ~ends, 0.99, 0.0)
    assert torch.allclose(leaking, torch.full((1, 40), 0.99))


def test_delayed_reward():
    """A reward 1 after n steps is worth gamma^n (lambda 1, no baseline), and no more behind it."""
    n, gamma = 12, 0.9
    rewards = torch.zeros(1, 20, dtype=torch.float64)
    rewards[0, n] = 1
    ends = rewards == 1
    zeros = torch.zeros_like(rewards)
    result = advantages(rewards, zeros, torch.ones(1).double(), ends, gamma, 1.0)[0]
    for t in range(n + 1):
        assert float(result[t]) == pytest.approx(gamma ** (n - t))
    for t in range(n + 1, 20):  # the last episode is cut, and followed by a value of 1
        assert float(result[t]) == pytest.approx(gamma ** (20 - t))


def test_lambda_weighs_as_its_name_says():
    """One reward of 1 in n steps, no baseline: the advantage before it is (gamma lambda)^n."""
    rewards = torch.zeros(1, 9, dtype=torch.float64)
    rewards[0, 8] = 1
    ends = rewards == 1
    result = advantages(rewards, torch.zeros_like(rewards), torch.zeros(1), ends, 0.9, 0.5)[0]
    assert torch.allclose(result, 0.45 ** torch.arange(8, -1, -1, dtype=torch.float64))
