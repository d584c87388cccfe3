"""The categorical policy against `torch.distributions`."""

import math

import torch

from hindsight.nn.categorical import entropy, log_prob

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = 3 * torch.randn(3, 7, 4, generator=GENERATOR, dtype=torch.float64)
ACTIONS = torch.randint(4, (3, 7), generator=GENERATOR)


def test_log_probability():
    expected = torch.distributions.Categorical(logits=LOGITS).log_prob(ACTIONS)
    torch.testing.assert_close(log_prob(LOGITS, ACTIONS), expected, rtol=0, atol=1e-12)


def test_entropy():
    expected = torch.distributions.Categorical(logits=LOGITS).entropy()
    torch.testing.assert_close(entropy(LOGITS), expected, rtol=0, atol=1e-12)
    # Of eight equally likely choices, whatever their logit: log 8 nats.
    known = entropy(torch.full((1, 1, 8), 37.0))
    assert math.isclose(float(known), math.log(8), rel_tol=1e-6)


def test_gradients():
    ours, theirs = LOGITS.clone().requires_grad_(), LOGITS.clone().requires_grad_()
    (2 * log_prob(ours, ACTIONS) + entropy(ours)).sum().backward()
    categorical = torch.distributions.Categorical(logits=theirs)
    (2 * categorical.log_prob(ACTIONS) + categorical.entropy()).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)


def test_large_logits():
    """Only differences count, also where exp() of a logit would overflow."""
    shift = torch.tensor([1e4, -1e4, 0.0], dtype=torch.float64)[:, None, None]
    torch.testing.assert_close(
        log_prob(LOGITS + shift, ACTIONS), log_prob(LOGITS, ACTIONS), rtol=0, atol=1e-10
    )
    torch.testing.assert_close(entropy(LOGITS + shift), entropy(LOGITS), rtol=0, atol=1e-10)
