"""A GPU gives the CPU's results; skipped where there is none."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from hindsight.nn.cuda_graph import Repeated
from hindsight.training.cell import Execution, prepare_process, train_cell
from tests.curves import curves
from tests.training.small import SPEC, interrupted
from tests.training.test_golden import CELLS, trained

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")


@pytest.mark.parametrize("kind", CELLS)
def test_every_algorithm_gives_the_same_numbers(kind: str) -> None:
    """Curves, evaluation and parameters after two iterations; products round differently."""
    assert_same_numbers(kind, (16, 16))


@pytest.mark.parametrize("kind", ["ppo", "meher-described", "sac"])
def test_so_do_long_rows_of_parameters(kind: str) -> None:
    """A fused kernel updates them."""
    assert_same_numbers(kind, (256, 256))


def assert_same_numbers(kind: str, hidden: tuple[int, ...]) -> None:
    prepare_process("cpu")
    expected = trained(kind, hidden=hidden)
    found = trained(kind, "cuda", hidden)
    assert found.keys() == expected.keys()
    for name, values in found.items():
        assert values == pytest.approx(expected[name], rel=1e-3, abs=1e-3, nan_ok=True), name


def test_a_function_is_repeated() -> None:
    """Each call gets its own arguments and sees what the calls before changed in place."""
    total = torch.zeros(3, device="cuda")

    def add(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total.add_(x)
        return (total * 2,)

    repeated = Repeated(add)
    found = [repeated(torch.full((3,), n, device="cuda"))[0].tolist() for n in (1.0, 2.0, 3.0, 4.0)]
    assert found == [[2 * n] * 3 for n in (1, 3, 6, 10)]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_training_interrupted_on_a_gpu_continues(device: str, tmp_path: Path) -> None:
    """There or on the CPU, to the curves of a training that was not interrupted."""
    whole = curves(train_cell(SPEC, tmp_path / "whole", Execution("cuda")))
    on_a_gpu = Execution("cuda", checkpoint_seconds=0)
    interrupted(SPEC, tmp_path / "parts", execution=on_a_gpu)
    parts = curves(train_cell(SPEC, tmp_path / "parts", Execution(device)))
    pd.testing.assert_frame_equal(parts, whole, rtol=1e-3, atol=1e-3)
