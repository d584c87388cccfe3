"""What the parity of PPO with Stable-Baselines3 does not show of its policies."""

import math

import torch

from hindsight.algorithms.ppo import ActorCritic
from hindsight.nn.entropy import categorical_entropy, gaussian_entropy

GENERATOR = torch.Generator().manual_seed(0)

LOGITS = 3 * torch.randn(3, 7, 4, generator=GENERATOR, dtype=torch.float64)
CHOICES = torch.randint(4, (3, 7), generator=GENERATOR)


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
    agent, no_sigma = ActorCritic.of(1, 4, (), discrete=True), torch.empty(3, 0)

    def log_prob(logits: torch.Tensor) -> torch.Tensor:
        return agent.log_prob(logits, no_sigma, CHOICES[..., None])

    for function in (log_prob, categorical_entropy):
        shifted, plain = function(LOGITS + shift), function(LOGITS)
        torch.testing.assert_close(shifted, plain, rtol=0, atol=1e-10)
