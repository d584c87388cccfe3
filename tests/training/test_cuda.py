"""A GPU gives the CPU's results; skipped where there is none."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from hindsight.training.cell import Execution, prepare_process, train_cell
from tests.support.curves import curves
from tests.training.small import SPEC, interrupted
from tests.training.test_golden import CELLS, trained

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")


@pytest.mark.parametrize(
    ("kind", "width"),
    # A fused kernel updates long rows of parameters.
    [*((kind, 16) for kind in CELLS), ("ppo", 256), ("meher-described", 256), ("sac", 256)],
)
def test_every_algorithm_gives_the_same_numbers(kind: str, width: int) -> None:
    """Curves, evaluation and parameters after two iterations; products round differently."""
    prepare_process("cpu")
    expected, found = (trained(kind, device, (width, width)) for device in ("cpu", "cuda"))
    assert found.keys() == expected.keys()
    for name, values in found.items():
        assert values == pytest.approx(expected[name], rel=1e-3, abs=1e-3, nan_ok=True), name


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_training_interrupted_on_a_gpu_continues(device: str, tmp_path: Path) -> None:
    """There or on the CPU, to the curves of a training that was not interrupted."""
    whole = curves(train_cell(SPEC, tmp_path / "whole", Execution("cuda")))
    on_a_gpu = Execution("cuda", checkpoint_seconds=0)
    interrupted(SPEC, tmp_path / "parts", execution=on_a_gpu)
    parts = curves(train_cell(SPEC, tmp_path / "parts", Execution(device)))
    pd.testing.assert_frame_equal(parts, whole, rtol=1e-3, atol=1e-3)
