"""Finished cells are left alone; with more seeds, only the missing runs are trained."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from hindsight.analysis.cells import load_cell
from hindsight.analysis.reduce import reduce_cell
from hindsight.io.checkpoints import load, save
from hindsight.io.checksums import about
from hindsight.io.files import FileError
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import file_name
from hindsight.specs.errors import SpecError
from hindsight.specs.from_file import read_spec
from hindsight.training.cell import Execution, train_cell
from hindsight.training.on_policy import OnPolicyRuns
from tests.analysis.test_cells import rewrite
from tests.support.curves import curves
from tests.training import small
from tests.training.small import interrupted

SPEC = small.SPEC.model_copy(update={"steps": 64 * 6})


def with_seeds(n: int) -> CellSpec:
    return SPEC.model_copy(update={"seeds": n})


def policies(root: Path, spec: CellSpec) -> dict[int, torch.Tensor]:
    saved = load(root / "policies" / f"{file_name(spec)}.safetensors")
    return dict(zip(saved["seeds"], saved["rows"], strict=True))


@pytest.fixture
def trained_seeds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of every run that is created."""
    made: list[int] = []
    begin = OnPolicyRuns.__init__

    def begin_and_record(self, specs, seeds, *rest):
        made.extend(seeds)
        begin(self, specs, seeds, *rest)

    monkeypatch.setattr(OnPolicyRuns, "__init__", begin_and_record)
    return made


def as_of_other_code(path: Path) -> None:
    rewrite(path, code="0123456789ab")


@pytest.mark.parametrize(
    "what", ["code", "curves", "policies", "another's policies", "older policies", "truncated"]
)
def test_only_what_cannot_be_believed_is_trained_again(tmp_path, trained_seeds, what):
    path = train_cell(SPEC, tmp_path)
    before = path.stat().st_mtime_ns
    assert train_cell(SPEC, tmp_path) == path
    assert path.stat().st_mtime_ns == before and trained_seeds == [0, 1, 2]
    if what == "code":  # nor are such runs reused
        as_of_other_code(train_cell(with_seeds(2), tmp_path))
        del trained_seeds[3:]
    expected = curves(path)
    policy = tmp_path / "policies" / f"{file_name(SPEC)}.safetensors"
    if what == "code":
        as_of_other_code(path)
    elif what == "truncated":
        os.truncate(path, path.stat().st_size // 2)
    elif what == "older policies":  # of another training of the same cell
        save(policy, {**(saved := load(policy)), "rows": saved["rows"] + 1})
    elif what == "another's policies":  # of the same number of parameters
        other = SPEC.model_copy(
            update={"algorithm": SPEC.algorithm.model_copy(update={"learning_rate": 0.01})}
        )
        train_cell(other, tmp_path)
        del trained_seeds[3:]
        shutil.copy(tmp_path / "policies" / f"{file_name(other)}.safetensors", policy)
    else:
        (path if what == "curves" else policy).unlink()
    train_cell(SPEC, tmp_path)
    assert trained_seeds == [0, 1, 2] * 2 and "reused" not in about(path)
    pd.testing.assert_frame_equal(curves(path), expected, check_exact=True)
    assert sorted(policies(tmp_path, SPEC)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("first", "then", "missing", "pauses"),
    [(2, 3, [2], False), (3, 2, [], False), (1, 3, [1, 2], True)],
)
def test_with_more_seeds_the_missing_ones_are_trained(
    tmp_path, trained_seeds, capsys, first, then, missing, pauses
):
    """Also if their training was interrupted."""
    train_cell(with_seeds(first), tmp_path)
    del trained_seeds[:]
    if pauses:
        interrupted(with_seeds(then), tmp_path)
    path = train_cell(with_seeds(then), tmp_path)
    assert trained_seeds == missing * (1 + pauses)
    taken = f"{min(first, then)} of {then} runs are taken over from {with_seeds(first).name}"
    assert taken in capsys.readouterr().err
    cell = load_cell(path)
    assert [run["seed"] for run in cell.metadata["runs"]] == list(range(then))
    assert cell.metadata["reused"]["seeds"] == list(range(min(first, then)))
    # Reused runs are those of the other file.
    old = curves(tmp_path / "cells" / f"{file_name(with_seeds(first))}.parquet")
    new = curves(path)
    kept = list(range(min(first, then)))
    pd.testing.assert_frame_equal(
        new[new.seed.isin(kept)].reset_index(drop=True),
        old[old.seed.isin(kept)].reset_index(drop=True),
        check_exact=True,
    )
    rows, before = policies(tmp_path, with_seeds(then)), policies(tmp_path, with_seeds(first))
    assert sorted(rows) == list(range(then))
    assert all(torch.equal(rows[seed], before[seed]) for seed in kept)


OLDER = {"torch": "2.0.0"}


def test_runs_of_another_world_are_not_reused(tmp_path, trained_seeds, capsys):
    """Other versions of packages could give other numbers, and a cell would hold both."""
    first = train_cell(with_seeds(2), tmp_path)
    rewrite(first, versions=about(first)["versions"] | OLDER)
    path = train_cell(SPEC, tmp_path)
    assert trained_seeds == [0, 1, 0, 1, 2] and "reused" not in about(path)
    assert f"trained with torch 2.0.0 (now {torch.__version__}" in capsys.readouterr().err


def test_runs_of_another_device_are_not_reused_and_another_processor_is_named(tmp_path, capsys):
    """Minutes of two clocks cannot be added, and those of two processors cannot be compared."""
    first = train_cell(with_seeds(2), tmp_path)
    rewrite(first, device="cuda", clock="wall")
    path = train_cell(SPEC, tmp_path)
    assert "reused" not in about(path)
    assert "trained with cuda (now cpu), so its runs are not reused" in capsys.readouterr().err
    path.unlink()
    rewrite(first, device="cpu", clock="cpu", machine=about(first)["machine"] | {"processor": "A"})
    own = about(train_cell(SPEC, tmp_path))
    assert [place["machine"]["processor"] for place in own["made_on"]] == [
        "A", own["machine"]["processor"]
    ]  # fmt: skip
    timed_on = reduce_cell(load_cell(path)).timed_on
    assert timed_on.startswith(f"A and {own['machine']['processor']}, ")


def test_a_checkpoint_of_another_world_is_kept_but_not_continued(tmp_path, capsys):
    interrupted(SPEC, tmp_path, 2)
    (checkpoint,) = (tmp_path / "checkpoints").rglob("*.safetensors")
    saved = load(checkpoint)
    saved["made_on"][-1]["versions"] |= OLDER
    save(checkpoint, saved)
    path = train_cell(SPEC, tmp_path)
    told = capsys.readouterr().err
    assert "torch 2.0.0 (now" in told and "training starts from scratch" in told
    assert checkpoint.with_name(f"{checkpoint.name}.damaged").exists()
    assert "made_on" not in about(path)


def test_runs_of_a_checkpoint_are_not_taken_from_another_cell(tmp_path, trained_seeds, capsys):
    """A smaller cell was trained in the meantime: no seed is there twice, and no step is lost."""
    interrupted(SPEC, tmp_path)
    train_cell(with_seeds(2), tmp_path)
    del trained_seeds[:]
    cell = load_cell(train_cell(SPEC, tmp_path))
    assert [run["seed"] for run in cell.metadata["runs"]] == [0, 1, 2]
    assert trained_seeds == [0, 1, 2]  # continued
    assert "taken over" not in capsys.readouterr().err
    assert not list((tmp_path / "checkpoints").rglob("*damaged*"))


def test_files_come_back_from_the_last_checkpoint(tmp_path, trained_seeds, capsys):
    """A finished cell whose files were deleted writes them again, and trains nothing.

    Nor does it take runs from a smaller cell, trained in the meantime.
    """
    execution = Execution(keep_finished=True)
    path = train_cell(SPEC, tmp_path, execution)
    before, rows = path.read_bytes(), policies(tmp_path, SPEC)
    path.unlink()
    (tmp_path / "policies" / f"{file_name(SPEC)}.safetensors").unlink()
    train_cell(with_seeds(2), tmp_path)
    train_cell(SPEC, tmp_path, execution)
    # Measured times, too, are those of the only training.
    assert path.read_bytes() == before and trained_seeds == [0, 1, 2, 0, 1]
    assert all(torch.equal(row, rows[seed]) for seed, row in policies(tmp_path, SPEC).items())
    assert "was finished" in capsys.readouterr().err
    # What is asked for again is trained again, whatever stands beside it.
    again = Execution(again=True, keep_finished=True)
    train_cell(SPEC, tmp_path, again)
    assert trained_seeds == [0, 1, 2, 0, 1, 0, 1, 2]
    # Without `keep_finished`, no checkpoint stays.
    train_cell(SPEC, tmp_path)
    assert not list((tmp_path / "checkpoints").rglob("*.safetensors"))
    # Also the runs that a cell took over.
    train_cell(with_seeds(4), tmp_path, execution)
    del trained_seeds[:]
    train_cell(with_seeds(4), tmp_path, again)
    assert trained_seeds == [0, 1, 2, 3]


def test_a_job_refuses_other_code_than_it_was_planned_with(tmp_path):
    planned, alone = tmp_path / f"{Path(file_name(SPEC)).name}.json", tmp_path / "spec.json"
    for path in (planned, alone):
        path.write_text(SPEC.model_dump_json())
        assert read_spec(path) == SPEC
    edited = planned.rename(tmp_path / "cell-0123456789ab.json")
    with pytest.raises(SpecError, match="planned with the code 0123456789ab"):
        read_spec(edited)


#: What the machine lacks, and where: nothing of it says that a file is damaged.
LACKING = {
    "a GPU's memory": ("training.record.runs_of", torch.OutOfMemoryError("CUDA out of memory")),
    "a working GPU": ("training.record.runs_of", torch.AcceleratorError("CUDA error: busy")),
    "memory for runs": ("training.record.runs_of", RuntimeError("can't allocate memory: 9 GB")),
    "an environment": ("training.record.runs_of", SpecError("its simulator is not there")),
    "memory": ("io.checkpoints.safe_open", MemoryError()),
    "a disk": ("io.checkpoints.safe_open", OSError(errno.EIO, "Input/output error")),
}


def fails_for_lack(monkeypatch: pytest.MonkeyPatch, root: Path, place: str, error: Any) -> None:
    """The training ends with an error of the machine at this place."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as lack:
        lack.setattr(f"hindsight.{place}", fail)
        with pytest.raises((type(error), FileError)):
            train_cell(SPEC, root)


@pytest.mark.parametrize("lacking", LACKING)
def test_a_checkpoint_waits_for_what_the_machine_lacks(tmp_path, lacking, monkeypatch, capsys):
    """It is not taken for damaged, and the next attempt continues."""
    interrupted(SPEC, tmp_path, 2)
    fails_for_lack(monkeypatch, tmp_path, *LACKING[lacking])
    (checkpoint,) = (tmp_path / "checkpoints").rglob("*.*")
    assert checkpoint.suffix == ".safetensors"
    train_cell(SPEC, tmp_path)
    assert "continued at 384 of 1,152 steps" in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EIO, "Input/output error")])
@pytest.mark.parametrize("reads", ["about", "read_table", "load"])
def test_a_finished_cell_that_cannot_be_read_now_is_not_trained_again(
    tmp_path, trained_seeds, error, reads, monkeypatch
):
    path = train_cell(SPEC, tmp_path)
    before = path.read_bytes()
    reader = {"about": "pq.read_schema", "read_table": "pq.ParquetFile"}.get(reads)
    place = f"io.checksums.{reader}" if reader else "io.checkpoints.safe_open"
    fails_for_lack(monkeypatch, tmp_path, place, error)
    assert path.read_bytes() == before and trained_seeds == [0, 1, 2]
