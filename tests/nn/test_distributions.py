"""What the parity of PPO with Stable-Baselines3 does not show of its policies, and the squashed
Gaussian against the change of variables and autograd.
"""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from hindsight.algorithms.ppo import Agent
from hindsight.nn import squashed
from hindsight.nn.entropy import categorical_entropy, gaussian_entropy
from tests.support.agents import agent as agent_for


@pytest.mark.parametrize("mean, sigma", [(0.0, 1.0), (0.8, 0.3), (-1.5, 0.6)])
def test_the_change_of_variables(mean, sigma):
    """log pi(a) of one action dimension, by our sample at the noise that leads to a."""
    a = np.linspace(-0.99, 0.99, 199)
    head = torch.tensor([mean, math.log(sigma)], dtype=torch.float64).expand(1, len(a), 2)
    noise = torch.from_numpy((np.arctanh(a) - mean) / sigma)[None, :, None]
    drawn = squashed.sample(head, noise)
    np.testing.assert_allclose(drawn.actions[0, :, 0], a, atol=1e-12)
    expected = norm.logpdf(np.arctanh(a), mean, sigma) - np.log(1 - a**2)
    np.testing.assert_allclose(drawn.log_prob[0], expected, rtol=0, atol=1e-4)


def test_values_and_gradient_equal_autograd():
    """With log sigma on either side of both limits."""
    generator = torch.Generator().manual_seed(0)
    head = torch.randn(3, 40, 8, generator=generator, dtype=torch.float64)
    head[..., 4] += 2
    head[..., 5] -= 20
    noise = torch.randn(3, 40, 4, generator=generator, dtype=torch.float64)
    head.requires_grad_()
    mean, log_std = head.chunk(2, dim=-1)
    inside = (log_std > -20) & (log_std < 2)
    assert 0 < int(inside[..., 0].sum()) < 120 and 0 < int(inside[..., 1].sum()) < 120
    log_std = log_std.clamp(-20, 2)
    actions = (mean + log_std.exp() * noise).tanh()
    log_prob = torch.distributions.Normal(0, 1).log_prob(noise) - log_std
    log_prob = (log_prob - torch.log(1 - actions**2 + 1e-6)).sum(-1)
    d_actions = torch.randn(actions.shape, dtype=torch.float64)
    d_log_prob = torch.randn(log_prob.shape, dtype=torch.float64)
    loss = (actions * d_actions).sum() + (log_prob * d_log_prob).sum()
    (expected,) = torch.autograd.grad(loss, head)
    drawn = squashed.sample(head.detach(), noise)
    torch.testing.assert_close(drawn.actions, actions.detach())
    torch.testing.assert_close(drawn.log_prob, log_prob.detach())
    gradient = squashed.gradient(drawn, d_actions, d_log_prob)
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-8)
    assert not gradient[..., 4:][~inside].any()


def test_saturated_actions_stay_finite():
    """In float32, at the largest sigma, an action at its bound has a log-probability still."""
    head = torch.tensor([30.0, 2.0]).expand(1, 1, 2)
    drawn = squashed.sample(head, torch.tensor([[[3.0]]]))
    assert float(drawn.actions) == 1
    assert math.isfinite(float(drawn.log_prob))
    one = torch.ones(1, 1)
    assert squashed.gradient(drawn, one[..., None], one).isfinite().all()


def test_known_entropies():
    # Of eight equally likely choices, whatever their logit: log 8 nats.
    known = categorical_entropy(torch.full((1, 1, 8), 37.0))
    assert math.isclose(float(known), math.log(8), rel_tol=1e-6)
    # Of three actions with sigma 1: 3/2 log(2 pi e) nats.
    known = gaussian_entropy(torch.zeros(1, 3))
    assert math.isclose(float(known), 1.5 * math.log(2 * math.pi * math.e), rel_tol=1e-6)


def test_large_logits():
    """Only differences count, also where exp() of a logit would overflow."""
    shift = torch.tensor([1e4, -1e4, 0.0], dtype=torch.float64)[:, None, None]
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(3, 7, 4, generator=generator, dtype=torch.float64)
    choices = torch.randint(4, (3, 7), generator=generator)
    agent, no_sigma = agent_for(Agent, 1, 4, (), (4,)), torch.empty(3, 0)

    def log_prob(logits: torch.Tensor) -> torch.Tensor:
        return agent.log_prob(logits, no_sigma, choices[..., None])

    for function in (log_prob, categorical_entropy):
        shifted, plain = function(logits + shift), function(logits)
        torch.testing.assert_close(shifted, plain, rtol=0, atol=1e-10)
