"""The squashed Gaussian against the change of variables, its integral, and autograd."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from hindsight.nn import squashed

CASES = [(0.0, 1.0), (0.8, 0.3), (-1.5, 0.6)]


def log_density(a: np.ndarray, mean: float, sigma: float) -> np.ndarray:
    """log pi(a) of one action dimension, by our sample at the noise that leads to a."""
    head = torch.tensor([mean, math.log(sigma)], dtype=torch.float64).expand(1, len(a), 2)
    noise = torch.from_numpy((np.arctanh(a) - mean) / sigma)[None, :, None]
    drawn = squashed.sample(head, noise)
    np.testing.assert_allclose(drawn.actions[0, :, 0].numpy(), a, atol=1e-12)
    return drawn.log_prob[0].numpy()


@pytest.mark.parametrize("mean, sigma", CASES)
def test_the_density_integrates_to_one(mean, sigma):
    a = np.linspace(-1, 1, 400_001)[1:-1]
    density = np.exp(log_density(a, mean, sigma))
    assert np.trapezoid(density, a) == pytest.approx(1, abs=1e-3)
    # The probability of an interval is that of its preimage.
    part = (a > 0.1) & (a < 0.7)
    expected = np.diff(norm.cdf(np.arctanh([0.1, 0.7]), mean, sigma))[0]
    assert np.trapezoid(density[part], a[part]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("mean, sigma", CASES)
def test_the_change_of_variables(mean, sigma):
    a = np.linspace(-0.99, 0.99, 199)
    expected = norm.logpdf(np.arctanh(a), mean, sigma) - np.log(1 - a**2)
    np.testing.assert_allclose(log_density(a, mean, sigma), expected, rtol=0, atol=1e-4)


def random_case() -> tuple[Tensor, Tensor]:
    """Heads [3, 40, 2 x 4] with log sigma on either side of both limits, and noise [3, 40, 4]."""
    generator = torch.Generator().manual_seed(0)
    head = torch.randn(3, 40, 8, generator=generator, dtype=torch.float64)
    head[..., 4] += 2
    head[..., 5] -= 20
    return head, torch.randn(3, 40, 4, generator=generator, dtype=torch.float64)


def reference(head: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions and log pi for autograd."""
    mean, log_std = head.chunk(2, dim=-1)
    log_std = log_std.clamp(-20, 2)
    actions = (mean + log_std.exp() * noise).tanh()
    log_prob = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
    return actions, (log_prob - torch.log(1 - actions**2 + 1e-6)).sum(-1)


def test_many_dimensions():
    """The dimensions are independent: their logarithms add up."""
    head, noise = random_case()
    drawn = squashed.sample(head, noise)
    actions, log_prob = reference(head, noise)
    torch.testing.assert_close(drawn.actions, actions)
    torch.testing.assert_close(drawn.log_prob, log_prob)
    each = [squashed.sample(head[..., i::4], noise[..., i : i + 1]).log_prob for i in range(4)]
    torch.testing.assert_close(drawn.log_prob, sum(each))


def test_the_gradient_equals_autograd():
    head, noise = random_case()
    leaf = head.clone().requires_grad_()
    actions, log_prob = reference(leaf, noise)
    d_actions = torch.randn(actions.shape, dtype=torch.float64)
    d_log_prob = torch.randn(log_prob.shape, dtype=torch.float64)
    loss = (actions * d_actions).sum() + (log_prob * d_log_prob).sum()
    (expected,) = torch.autograd.grad(loss, leaf)
    gradient = squashed.gradient(squashed.sample(head, noise), d_actions, d_log_prob)
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-8)
    log_std = head[..., 4:]
    inside = (log_std > -20) & (log_std < 2)
    assert 0 < int(inside[..., 0].sum()) < 120 and 0 < int(inside[..., 1].sum()) < 120
    assert not gradient[..., 4:][~inside].any()


def test_saturated_actions_stay_finite():
    """In float32, at the largest sigma, an action at its bound has a log-probability still."""
    head = torch.tensor([30.0, 2.0]).expand(1, 1, 2)
    drawn = squashed.sample(head, torch.tensor([[[3.0]]]))
    assert float(drawn.actions) == 1
    assert math.isfinite(float(drawn.log_prob))
    one = torch.ones(1, 1)
    assert squashed.gradient(drawn, one[..., None], one).isfinite().all()
