"""A finished cell whose files were deleted writes them again, and trains nothing."""

import pytest

from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.cell import CellSpec, EvaluationSpec
from hindsight.training.cell import Execution, train_cell, write_finished
from hindsight.training.files import load


def test_files_come_back_from_the_last_checkpoint(tmp_path, capsys):
    spec = CellSpec(
        algorithm=PPOSpec(hidden=(8,), n_steps=64),
        seeds=2,
        steps=128,
        evaluation=EvaluationSpec(points=1, episodes=2),
    )
    execution = Execution(keep_finished=True)
    curves = train_cell(spec, tmp_path, execution)
    policies = tmp_path / "policies" / f"{spec.name}.pt"
    before, rows = curves.read_bytes(), load(policies)["rows"]
    curves.unlink()
    policies.unlink()
    steps = []
    train_cell(spec, tmp_path, execution, steps.append)
    # The clocks, too, are those of the one training there was.
    assert curves.read_bytes() == before
    assert load(policies)["rows"].equal(rows)
    assert not steps
    assert "was finished" in capsys.readouterr().err
    # Asked without it, a cell leaves no checkpoint behind.
    train_cell(spec, tmp_path, Execution())
    assert not list((tmp_path / "checkpoints").rglob("*.pt"))


def test_only_what_was_finished_is_written_again(tmp_path):
    """One was finished, one interrupted, one not begun; the files of another cannot be written."""
    specs = [
        CellSpec(
            algorithm=PPOSpec(hidden=(8,), n_steps=64, learning_rate=rate), seeds=1, steps=192,
            evaluation=EvaluationSpec(points=1, episodes=2),
        )
        for rate in (1e-3, 1e-4, 1e-5, 1e-6)
    ]  # fmt: skip
    finished, interrupted, _, blocked = specs
    for spec in (finished, blocked):
        train_cell(spec, tmp_path, Execution(keep_finished=True))
    curves = {spec: tmp_path / "cells" / f"{spec.name}.parquet" for spec in specs}
    before = curves[finished].read_bytes()
    for spec in (finished, blocked):
        curves[spec].unlink()
    (curves[blocked] / "in the way").mkdir(parents=True)

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_cell(interrupted, tmp_path, Execution(checkpoint_seconds=0), stop)
    assert (tmp_path / "checkpoints" / f"{interrupted.name}.pt").exists()
    assert list(write_finished(specs, tmp_path)) == [curves[finished]]
    assert curves[finished].read_bytes() == before
    assert not curves[interrupted].exists()
    assert list(write_finished(specs, tmp_path)) == []
