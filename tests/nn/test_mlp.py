"""Parts of stacked networks.

Their outputs and gradients are held to Stable-Baselines3's in `tests/algorithms`.
"""

import numpy as np
import torch

from hindsight.nn.mlp import MLP, orthogonal, orthogonal_row


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
