"""PPO's parts: sample orders and advantages.

The update itself is held to Stable-Baselines3 in `test_ppo_parity`.
"""

import itertools

import numpy as np
import pytest
import torch

from hindsight.algorithms import ppo


def test_orders_belong_to_run_epoch_and_iteration():
    """Each epoch of a run deals its valid samples once; neighbours only change the padding."""
    valid = torch.ones(2, 50, dtype=torch.bool)
    order = ppo.orders([3, 4], 7, valid, 3)
    assert torch.equal(order.sort(-1).values, torch.arange(50).expand(3, 2, 50))
    assert torch.equal(order, ppo.orders([4, 3], 7, valid, 3).flip(1))
    other = ppo.orders([3, 4], 8, valid, 3)
    assert len(torch.cat([order, other]).flatten(0, 1).unique(dim=0)) == 12
    fewer = valid.clone()
    fewer[0, ::2] = False
    dealt = ppo.orders([3, 4], 7, fewer, 3)[:, 0, :25]
    assert torch.equal(dealt.sort(-1).values, torch.arange(1, 50, 2).expand(3, 25))
    assert torch.equal(dealt, ppo.orders([3], 7, fewer[:1], 3)[:, 0])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.5, 0.95, 1.0])
def test_doubling_equals_the_recurrence(gamma, lam):
    """Schulman et al. 2016, eq. 16.

    All lengths from 1 to 70, around every power of two, with few, many and only ends.
    """
    for steps, p_end in itertools.product(range(1, 71), (0.0, 0.1, 0.5, 1.0)):
        rng = np.random.default_rng(steps)
        rewards, values = rng.standard_normal((2, 6, steps))
        last, ends = rng.standard_normal(6), rng.random((6, steps)) < p_end
        given = [torch.from_numpy(x) for x in (rewards, values, last, ends)]
        found = ppo.advantages(*given, gamma, lam)
        expected, running, following = np.zeros_like(values), 0.0, last
        for t in reversed(range(steps)):
            goes_on = ~ends[:, t]
            delta = rewards[:, t] + gamma * following * goes_on - values[:, t]
            expected[:, t] = running = delta + gamma * lam * running * goes_on
            following = values[:, t]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
