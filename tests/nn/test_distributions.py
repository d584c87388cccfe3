"""What the parity of PPO with Stable-Baselines3 does not show of its policies, and the squashed
Gaussian against autograd.
"""

import math

import torch

from hindsight.algorithms.ppo import Agent
from hindsight.nn import squashed
from hindsight.nn.entropy import categorical_entropy
from tests.support.agents import agent as agent_for


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
