"""A finished cell whose files were deleted writes them again, and trains nothing."""

from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.cell import CellSpec, EvaluationSpec
from hindsight.specs.code import file_name
from hindsight.training.cell import Execution, train_cell
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
    policies = tmp_path / "policies" / f"{file_name(spec)}.pt"
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
