"""Parts of stacked networks.

Their outputs and gradients are held to Stable-Baselines3's in `tests/algorithms`.
"""

import numpy as np
import pytest
import torch

from hindsight.nn.mlp import MLP, Network, orthogonal, orthogonal_row


def test_a_network_follows_its_rows():
    """It holds views: rows that an optimiser changes in place are the network's at once."""
    mlp = MLP((5, 6, 2))
    rows, x = torch.randn(3, mlp.n_parameters), torch.randn(3, 11, 5)
    network = Network(mlp, rows)
    before = network(x)
    rows += 0.1
    assert torch.equal(network(x), mlp(rows, x)) and not torch.equal(network(x), before)


@pytest.mark.parametrize("shape", [(16, 9), (9, 16), (8, 8), (1, 5), (3, 1)])
def test_orthogonal_matrices_are_orthogonal(shape):
    gain = 1.7
    matrix = orthogonal(*shape, gain, np.random.default_rng(0))
    assert matrix.shape == shape
    gram = matrix @ matrix.T if shape[0] <= shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, gain**2 * np.eye(min(shape)), atol=1e-12)


def test_orthogonal_matrices_are_uniform():
    """Every entry is as often positive as negative, and has mean square 1 / n."""
    rng = np.random.default_rng(0)
    matrices = np.stack([orthogonal(4, 4, 1.0, rng) for _ in range(4000)])
    assert np.abs(matrices.mean(0)).max() < 5 * 0.5 / np.sqrt(4000)
    assert np.abs((matrices**2).mean(0) - 0.25).max() < 0.02


def test_an_initial_row():
    mlp = MLP((9, 16, 3))
    row = orthogonal_row(mlp, [np.sqrt(2), 0.01], np.random.default_rng(3))
    assert row.dtype == np.float32 and row.shape == (mlp.n_parameters,)
    (bias1, weight1), (bias2, weight2) = mlp.layers(torch.from_numpy(row)[None])
    assert not bias1.any() and not bias2.any()
    torch.testing.assert_close(weight1[0].T @ weight1[0], 2 * torch.eye(9), rtol=0, atol=1e-5)
    torch.testing.assert_close(weight2[0] @ weight2[0].T, 1e-4 * torch.eye(3), rtol=0, atol=1e-9)
