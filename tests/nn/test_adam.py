"""Adam on rows against `torch.optim.Adam`, one optimiser per run."""

import pytest
import torch

from hindsight.nn.adam import Adam


@pytest.mark.parametrize("long", [1, 10**9])
@pytest.mark.parametrize(
    ("eps", "dtype", "tolerance"),
    [(1e-8, torch.float64, 1e-12), (1e-5, torch.float64, 1e-12), (1e-8, torch.float32, 1e-6)],
)
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_each_run_equals_its_own_adam(monkeypatch, long, eps, dtype, tolerance, weight_decay):
    """Short rows, and long ones, which take one pass.

    Each run has its own rate, one of them 0, and its own subset of the steps; it sees no others.
    """
    monkeypatch.setattr("hindsight.nn.adam.LONG", long)
    generator = torch.Generator().manual_seed(0)
    scale = 10.0 ** -torch.linspace(0, 6, 20, dtype=torch.float64)
    grads = (scale * torch.randn(30, 3, 20, generator=generator, dtype=torch.float64)).to(dtype)
    part = torch.rand(30, 3, generator=generator) < 0.7
    part[0] = torch.tensor([False, True, True])
    rates = torch.tensor([3e-3, 3e-4, 0.0], dtype=dtype)
    ours = Adam(grads[0].clone(), rates, eps=eps, weight_decay=weight_decay)
    for grad, active in zip(grads, part, strict=True):
        before = {name: x.clone() for name, x in ours.state_dict().items()}
        ours.step(grad.clone(), active)
        for name, x in before.items():
            assert torch.equal(ours.state_dict()[name][~active], x[~active]), name
    assert torch.equal(ours.steps, part.sum(0).double())
    for run, rate in enumerate(rates.tolist()):
        parameter = torch.nn.Parameter(grads[0, run].clone())
        theirs = torch.optim.Adam([parameter], lr=rate, eps=eps, weight_decay=weight_decay)
        for grad in grads[part[:, run], run]:
            parameter.grad = grad.clone()
            theirs.step()
        torch.testing.assert_close(ours.rows[run], parameter.detach(), rtol=0, atol=tolerance)
        state = theirs.state[parameter]
        for found, expected in ((ours.m, state["exp_avg"]), (ours.v, state["exp_avg_sq"])):
            torch.testing.assert_close(found[run], expected, rtol=1e-5, atol=1e-9)
