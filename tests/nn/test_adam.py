"""Adam on rows against `torch.optim.Adam`, one optimiser per run."""

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor

from hindsight.nn.adam import Adam, clip_by_norm_

RATES = (3e-3, 3e-4, 3e-5)


def gradients(steps: int, runs: int = 3, n: int = 20) -> Tensor:
    """[step, run, parameter], of magnitudes from 1e-6 to 1."""
    generator = torch.Generator().manual_seed(0)
    scale = 10.0 ** -torch.linspace(0, 6, n, dtype=torch.float64)
    return scale * torch.randn(steps, runs, n, generator=generator, dtype=torch.float64)


def reference(
    row: Tensor, rate: float, eps: float, grads: Iterable[Tensor], weight_decay: float = 0.0
) -> Tensor:
    """The row after these gradients, by `torch.optim.Adam`."""
    parameter = torch.nn.Parameter(row.clone())
    optimiser = torch.optim.Adam([parameter], lr=rate, eps=eps, weight_decay=weight_decay)
    for grad in grads:
        parameter.grad = grad.clone()
        optimiser.step()
    return parameter.detach()


@pytest.mark.parametrize(
    ("eps", "dtype", "tolerance"),
    [(1e-8, torch.float64, 1e-12), (1e-5, torch.float64, 1e-12), (1e-8, torch.float32, 1e-6)],
)
def test_each_run_equals_its_own_adam(eps, dtype, tolerance):
    grads = gradients(30).to(dtype)
    rows = grads[0].clone()
    ours = Adam(rows.clone(), torch.tensor(RATES, dtype=dtype), eps=eps)
    for grad in grads:
        ours.step(grad.clone())
    for run, rate in enumerate(RATES):
        expected = reference(rows[run], rate, eps, grads[:, run])
        torch.testing.assert_close(ours.rows[run], expected, rtol=0, atol=tolerance)


def test_an_inactive_run_is_left_alone_and_counts_no_step():
    """Each run takes part in its own subset of the steps, and sees no others."""
    grads = gradients(24)
    part = torch.rand(24, 3, generator=torch.Generator().manual_seed(1)) < 0.5
    part[:3] = torch.tensor([[False, True, True], [False, False, True], [True, False, True]])
    rows = grads[0].clone()
    ours = Adam(rows.clone(), torch.tensor(RATES, dtype=torch.float64))
    for grad, active in zip(grads, part, strict=True):
        before = {n: getattr(ours, n).clone() for n in ("rows", "m", "v", "steps")}
        ours.step(grad.clone(), active)
        for name, value in before.items():
            assert torch.equal(getattr(ours, name)[~active], value[~active]), name
            assert not torch.equal(getattr(ours, name)[active], value[active]) or not active.any()
    for run, rate in enumerate(RATES):
        seen = [g for g, active in zip(grads[:, run], part[:, run], strict=True) if active]
        expected = reference(rows[run], rate, 1e-8, seen)
        torch.testing.assert_close(ours.rows[run], expected, rtol=0, atol=1e-12)
        assert int(ours.steps[run]) == len(seen)


def test_take_and_put():
    """A part that went on by itself and came back equals having gone on together."""
    grads = gradients(9)
    everyone, some = torch.ones(3, dtype=torch.bool), torch.tensor([2, 0])
    together = Adam(grads[0].clone(), torch.tensor(RATES, dtype=torch.float64))
    apart = Adam(grads[0].clone(), torch.tensor(RATES, dtype=torch.float64))
    for grad in grads[:4]:
        together.step(grad.clone(), everyone)
        apart.step(grad.clone(), everyone)
    rows = apart.rows
    part = apart.take(some)
    frozen = rows.clone()
    for grad in grads[4:]:
        together.step(grad.clone(), torch.tensor([True, False, True]))
        part.step(grad[some].clone(), torch.ones(2, dtype=torch.bool))
    assert torch.equal(apart.rows, frozen), "a part is a copy"
    apart.put(some, part)
    assert apart.rows is rows, "the rows stay the same tensor: others hold it"
    for name in ("rows", "m", "v", "steps", "learning_rate"):
        assert torch.equal(getattr(apart, name), getattr(together, name)), name


def test_clipping_by_norm():
    """Each run by its own norm, as `torch.nn.utils.clip_grad_norm_` does for one."""
    grad = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    expected = []
    for row in grad:
        parameter = torch.nn.Parameter(torch.zeros(2))
        parameter.grad = row.clone()
        torch.nn.utils.clip_grad_norm_([parameter], 0.6)
        expected.append(parameter.grad)
    norms = clip_by_norm_(grad, 0.6)
    torch.testing.assert_close(norms, torch.tensor([5.0, 0.5, 0.0]))
    torch.testing.assert_close(grad, torch.stack(expected), rtol=0, atol=1e-9)


def test_long_rows_take_one_pass_and_the_same_steps(monkeypatch):
    """Every run its own rate, one of them 0, and its own subset of the steps."""
    rates, part = torch.tensor([3e-3, 3e-4, 0.0]), torch.rand(30, 3) < 0.7
    part[:, 2] = True
    grads = gradients(30).float()
    ours = {}
    for name, long in (("one pass", 1), ("seven", 10**9)):
        monkeypatch.setattr("hindsight.nn.adam.LONG", long)
        ours[name] = Adam(grads[0].clone(), rates, weight_decay=0.01)
        for grad, active in zip(grads, part, strict=True):
            ours[name].step(grad.clone(), active)
    one, seven = ours["one pass"], ours["seven"]
    torch.testing.assert_close(one.rows, seven.rows, rtol=0, atol=1e-6)
    torch.testing.assert_close(one.m, seven.m, rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(one.v, seven.v, rtol=1e-5, atol=1e-12)
    assert torch.equal(one.steps, seven.steps) and torch.equal(one.rows[2], grads[0, 2])
    for run in range(2):
        seen = grads[part[:, run], run]
        expected = reference(grads[0, run], float(rates[run]), 1e-8, seen, 0.01)
        torch.testing.assert_close(one.rows[run], expected, rtol=0, atol=1e-6)
