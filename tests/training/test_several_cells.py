"""Cells that one process trains: one after the other, each as if alone."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hindsight.analysis.cells import load_cell
from hindsight.files import FileError
from hindsight.interruption import Interrupted
from hindsight.specs.cell import CellSpec
from hindsight.training.cell import Execution, train_cell, train_cells
from hindsight.training.files import load

CLOCKS = ["wall_seconds", "cpu_seconds"]
OFTEN = Execution(checkpoint_seconds=0)
STEPS = 64


def cell(prey: str = "random", seeds: int = 2, rate: float = 3e-4, **environment: Any) -> CellSpec:
    return CellSpec.model_validate(
        {
            "algorithm": {"hidden": [8, 8], "n_steps": STEPS, "learning_rate": rate},
            "hindsight": {"strategy": "final"},
            "environment": {"n_dims": 2, "prey": prey, **environment},
            "seeds": seeds,
            "steps": STEPS * 8,
            "evaluation": {"points": 2, "episodes": 5},
        }
    )


CELLS = [cell("random"), cell("attract", 3, 3e-3), cell("static", 1, grid_size=5.0)]


def curves(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path).drop(columns=CLOCKS)


def paths(root: Path) -> list[Path]:
    return [root / "cells" / f"{spec.name}.parquet" for spec in CELLS]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[pd.DataFrame]:
    """The curves of each cell, trained alone."""
    return [curves(train_cell(spec, tmp_path_factory.mktemp("alone"))) for spec in CELLS]


def test_each_cell_is_what_it_is_alone(tmp_path: Path, whole: list[pd.DataFrame]) -> None:
    made = train_cells(CELLS, tmp_path)
    assert made == paths(tmp_path)
    for spec, path, expected in zip(CELLS, made, whole, strict=True):
        pd.testing.assert_frame_equal(curves(path), expected, check_exact=True)
        found = load_cell(path).metadata
        assert found["spec"] == spec.model_dump(mode="json")
        assert found["runs_per_axis"] == spec.seeds
        policy = load(tmp_path / "policies" / f"{spec.name}.pt")
        assert policy["seeds"] == list(range(spec.seeds))
    assert not list((tmp_path / "checkpoints").rglob("*.pt"))
    before = [(path.stat().st_mtime_ns, path.read_bytes()) for path in made]
    heard: list[object] = []
    train_cells(CELLS, tmp_path, OFTEN, heard.append)
    assert not heard
    assert [(path.stat().st_mtime_ns, path.read_bytes()) for path in made] == before


@pytest.mark.parametrize("after", [3, 9, 13])
def test_interrupted_they_continue_where_they_were(
    tmp_path: Path, whole: list[pd.DataFrame], after: int
) -> None:
    heard = 0

    class Enough(Exception):
        pass

    def interrupt(progress: object) -> None:
        nonlocal heard
        heard += 1
        if heard == after:
            raise Enough

    with pytest.raises(Enough):
        train_cells(CELLS, tmp_path, OFTEN, interrupt)
    left: list[object] = []
    train_cells(CELLS, tmp_path, OFTEN, left.append)
    assert len(left) == 3 * 8 - after
    for path, expected in zip(paths(tmp_path), whole, strict=True):
        pd.testing.assert_frame_equal(curves(path), expected, check_exact=True)


@pytest.mark.parametrize("kind", ["cells", "policies", "checkpoints"])
def test_a_cell_whose_file_cannot_be_written_leaves_the_others(
    tmp_path: Path, whole: list[pd.DataFrame], kind: str
) -> None:
    """A folder stands where its file should be."""
    bad = CELLS[1]
    blocked = tmp_path / kind / f"{bad.name}.{'parquet' if kind == 'cells' else 'pt'}"
    (blocked / "in the way").mkdir(parents=True)
    with pytest.raises(FileError, match=bad.name) as error:
        train_cells(CELLS, tmp_path, OFTEN)
    assert "\n" not in str(error.value)
    for spec, path, expected in zip(CELLS, paths(tmp_path), whole, strict=True):
        assert path.is_file() == (spec is not bad)
        if spec is not bad:
            pd.testing.assert_frame_equal(curves(path), expected, check_exact=True)


def test_asked_to_stop_it_names_the_cell_and_keeps_what_is_finished(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from hindsight.interruption import Interrupted\n"
        "from hindsight.training.cell import Execution, train_cells\n"
        "from tests.training.test_several_cells import CELLS, STEPS\n"
        "long = CELLS[1].model_copy(update={'steps': 10**6, 'early_end': None})\n"
        "try: train_cells([CELLS[0], long], Path(sys.argv[1]))\n"
        "except Interrupted as stop: sys.exit(str(stop))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not paths(tmp_path)[0].exists():
        time.sleep(0.05)
    time.sleep(1)
    process.terminate()
    _, told = process.communicate(timeout=60)
    assert process.returncode and "stopped by SIGTERM after" in told
    assert paths(tmp_path)[0].exists() and len(list(tmp_path.rglob("checkpoints/**/*.pt"))) == 1
    assert issubclass(Interrupted, KeyboardInterrupt)
