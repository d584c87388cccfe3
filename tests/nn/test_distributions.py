"""The diagonal Gaussian and the categorical policy against `torch.distributions`."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal

from hindsight.nn import categorical, gaussian

GENERATOR = torch.Generator().manual_seed(0)
MEAN = torch.randn(3, 7, 4, generator=GENERATOR, dtype=torch.float64)
LOG_STD = torch.randn(3, 4, generator=GENERATOR, dtype=torch.float64)
LOGITS = 3 * torch.randn(3, 7, 4, generator=GENERATOR, dtype=torch.float64)
CHOICES = torch.randint(4, (3, 7), generator=GENERATOR)
ACTIONS = 3 * torch.randn(3, 7, 4, generator=GENERATOR, dtype=torch.float64)


def normal(mean: Tensor, log_std: Tensor) -> Independent:
    return Independent(Normal(mean, log_std.exp()[:, None].expand_as(mean)), 1)


#: Ours, theirs, parameters, actions, and which of the parameters our entropy is of.
KINDS: dict[str, tuple[Any, Any, tuple[Tensor, ...], Tensor, int]] = {
    "gaussian": (gaussian, normal, (MEAN, LOG_STD), ACTIONS, 1),
    "categorical": (categorical, lambda logits: Categorical(logits=logits), (LOGITS,), CHOICES, 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_log_probability_entropy_and_their_gradients(kind):
    ours, theirs, parameters, actions, of = KINDS[kind]
    found = [x.clone().requires_grad_() for x in parameters]
    wanted = [x.clone().requires_grad_() for x in parameters]
    log_prob, expected = ours.log_prob(*found, actions), theirs(*wanted).log_prob(actions)
    torch.testing.assert_close(log_prob, expected, rtol=0, atol=1e-12)
    entropy = ours.entropy(found[of])
    # A Gaussian's is the same in every state.
    entropy = entropy if entropy.shape == expected.shape else entropy[:, None].expand(3, 7)
    torch.testing.assert_close(entropy, theirs(*wanted).entropy(), rtol=0, atol=1e-12)
    (2 * log_prob + entropy).sum().backward()
    (2 * expected + theirs(*wanted).entropy()).sum().backward()
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-12, atol=1e-12)


def test_known_entropies():
    # Of eight equally likely choices, whatever their logit: log 8 nats.
    known = categorical.entropy(torch.full((1, 1, 8), 37.0))
    assert math.isclose(float(known), math.log(8), rel_tol=1e-6)
    # Of three actions with sigma 1: 3/2 log(2 pi e) nats.
    known = gaussian.entropy(torch.zeros(1, 3))
    assert math.isclose(float(known), 1.5 * math.log(2 * math.pi * math.e), rel_tol=1e-6)


def test_large_logits():
    """Only differences count, also where exp() of a logit would overflow."""
    shift = torch.tensor([1e4, -1e4, 0.0], dtype=torch.float64)[:, None, None]
    for function, more in ((categorical.log_prob, (CHOICES,)), (categorical.entropy, ())):
        shifted, plain = function(LOGITS + shift, *more), function(LOGITS, *more)
        torch.testing.assert_close(shifted, plain, rtol=0, atol=1e-10)
