"""The diagonal Gaussian against `torch.distributions`."""

import math

import torch

from hindsight.nn.gaussian import entropy, log_prob

GENERATOR = torch.Generator().manual_seed(0)
MEAN = torch.randn(3, 7, 4, generator=GENERATOR, dtype=torch.float64)
ACTIONS = 3 * torch.randn(3, 7, 4, generator=GENERATOR, dtype=torch.float64)
LOG_STD = torch.randn(3, 4, generator=GENERATOR, dtype=torch.float64)


def torch_distribution() -> torch.distributions.Distribution:
    normal = torch.distributions.Normal(MEAN, LOG_STD.exp()[:, None].expand_as(MEAN))
    return torch.distributions.Independent(normal, 1)


def test_log_probability():
    expected = torch_distribution().log_prob(ACTIONS)
    torch.testing.assert_close(log_prob(MEAN, LOG_STD, ACTIONS), expected, rtol=0, atol=1e-12)


def test_gradient_of_the_log_probability():
    ours = [x.clone().requires_grad_() for x in (MEAN, LOG_STD)]
    log_prob(*ours, ACTIONS).sum().backward()
    theirs = [x.clone().requires_grad_() for x in (MEAN, LOG_STD)]
    normal = torch.distributions.Normal(theirs[0], theirs[1].exp()[:, None].expand_as(MEAN))
    normal.log_prob(ACTIONS).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-12, atol=1e-12)


def test_entropy():
    expected = torch_distribution().entropy()[:, 0]
    torch.testing.assert_close(entropy(LOG_STD), expected, rtol=0, atol=1e-12)
    # Of three actions with sigma 1: 3/2 log(2 pi e) nats.
    known = 1.5 * math.log(2 * math.pi * math.e)
    assert math.isclose(float(entropy(torch.zeros(1, 3))), known, rel_tol=1e-6)
