"""The compiled network beside PyTorch's autograd."""

import numba
import numpy as np
import pytest
import torch

from hindsight.nn import compiled
from hindsight.nn.mlp import MLP
from hindsight.nn.numba_cache import OPTIONS

SIZES = (7, 33, 40, 3)


def in_python(function):
    return getattr(function, "py_func", function)


def test_which_products_are_in_blocks(monkeypatch):
    """Only what is too large as a whole and small enough in blocks, and only with such kernels."""
    rows = in_python(compiled._rows_at_once)
    monkeypatch.setattr(compiled, "_HAS_UNPACKED", True)
    assert rows(256, 64, 64) == 128 and rows(512, 64, 64) == 128
    assert rows(64, 64, 64) == 64 and rows(256, 12, 64) == 256
    assert rows(256, 512, 512) == 256
    monkeypatch.setattr(compiled, "_HAS_UNPACKED", False)
    assert rows(256, 64, 64) == 256


@pytest.fixture(scope="module", params=[128, 1_000])
def network(request):
    """`forward` and `backward`, compiled with a block of this size whatever the processor."""
    with pytest.MonkeyPatch.context() as patch:
        block = request.param
        rows_at_once = compiled.compiled(lambda n, n_in, n_out: min(n, block))
        patch.setattr(compiled, "_rows_at_once", rows_at_once)
        both = compiled.forward, compiled.backward
        yield [numba.njit(in_python(x), **OPTIONS) for x in both]


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("n", [1, 128, 256, 300])
def test_products_in_blocks(network, n, relu):
    """Outputs and gradients do not depend on how many samples a product takes at a time."""
    forward, backward = network
    mlp, sizes, rng = MLP(SIZES), np.array(SIZES), np.random.default_rng(n)
    row = (0.3 * rng.normal(size=mlp.n_parameters)).astype(np.float32)
    inputs, d_outputs = (rng.normal(size=(n, m)).astype(np.float32) for m in (SIZES[0], SIZES[-1]))
    most = n + 5
    layers, delta = np.empty(most * sizes.sum(), np.float32), np.empty((2, most * 40), np.float32)
    grad, nothing = np.empty(len(row), np.float32), np.empty(0, np.float32)
    space = row, sizes, n, layers, most, relu

    layers[: inputs.size] = inputs.ravel()
    outputs = forward(*space)
    delta[0, : d_outputs.size] = d_outputs.ravel()
    backward(*space, delta, grad)
    delta[0, : d_outputs.size] = d_outputs.ravel()
    d_inputs = backward(*space, delta, nothing)

    rows = torch.from_numpy(row)[None].double().requires_grad_()
    x = torch.from_numpy(inputs)[None].double().requires_grad_()
    expected = x
    for i, (bias, weight) in enumerate(mlp.layers(rows)):
        expected = expected @ weight.transpose(1, 2) + bias.unsqueeze(1)
        if i < len(SIZES) - 2:
            expected = expected.relu() if relu else expected.tanh()
    expected.backward(torch.from_numpy(d_outputs)[None].double())
    pairs = (outputs, expected.detach()), (grad, rows.grad), (d_inputs, x.grad)
    for ours, theirs in pairs:
        scale = float(theirs.abs().max())
        np.testing.assert_allclose(ours / scale, theirs[0] / scale, rtol=0, atol=2e-6)
