"""Runs whose parameters become NaN or infinite end there, are reported, and affect no other run."""

import numpy as np
import pandas as pd
import pytest
import torch

from hindsight.analysis.cells import load_cell
from hindsight.analysis.reduce import reduce_cell
from hindsight.envs.environment import make
from hindsight.io.checkpoints import load
from hindsight.specs.cell import EvaluationSpec
from hindsight.specs.code import file_name
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.hindsight import HindsightSpec
from hindsight.training.cell import Execution, train_cell
from hindsight.training.off_policy import OffPolicyRuns
from hindsight.training.on_policy import OnPolicyRuns
from tests.envs import corridor  # noqa: F401  registers it
from tests.support.commands import hindsight
from tests.support.curves import CLOCKS
from tests.training import test_off_policy
from tests.training.small import SPEC, cell_in

EVALUATION = {"evaluation": EvaluationSpec(points=6, episodes=5)}
PPO = SPEC.model_copy(update={"steps": 64 * 6, **EVALUATION})
SAC = test_off_policy.cell("sac", log_interval=50).model_copy(
    update={"steps": 300, "seeds": 3, **EVALUATION}
)


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 1's parameters are NaN or infinite after its third iteration."""

    def after_third(kind, spoil):
        iterate = kind.iterate

        def spoiled(self):
            columns = iterate(self)
            if self.iteration == 3 and 1 in self.seeds:
                spoil(self, self.seeds.index(1))
            return columns

        monkeypatch.setattr(kind, "iterate", spoiled)

    after_third(OnPolicyRuns, lambda runs, i: runs.rows[i].fill_(torch.nan))
    after_third(OffPolicyRuns, lambda runs, i: runs.state.actor.rows[i].fill_(torch.inf))


def test_a_run_that_was_the_last_with_hindsight_on_may_diverge(tmp_path):
    """Nothing is left to evaluate of what it learned from, as the others have switched off."""
    hers = HindsightSpec(fidelity="released", until_success=0.3)
    spec = cell_in(
        {"id": "BitFlipping-v0", "n_bits": 3}, {"hidden": [8], "n_steps": 16}, hindsight=hers,
        seeds=3, steps=16 * 40, evaluation={"points": 40, "episodes": 5},
    )  # fmt: skip
    gone: list[int] = []

    def spoil(runs, phase, columns):
        alone = [seeds for seeds, *_ in runs.learned if len(seeds) == 1]
        if phase == "train" and alone and not gone:
            gone.extend(alone[0])
            runs.rows[runs.seeds.index(gone[0])] = torch.nan

    found = load_cell(train_cell(spec, tmp_path, Execution(), callbacks=[spoil]))
    ended = {run["seed"]: run["ended"] for run in found.metadata["runs"]}
    assert gone and ended.pop(gone[0]) == "diverged"
    assert {*ended.values()} == {"budget"}


@pytest.mark.parametrize("spec", [PPO, SAC], ids=["ppo", "sac"])
def test_the_run_ends_there_and_its_neighbours_do_not_notice(
    tmp_path, spec, poisoned, monkeypatch, capsys
):
    execution = Execution(workers=0)
    path = train_cell(spec, tmp_path / "poisoned", execution)
    stderr = capsys.readouterr().err
    monkeypatch.undo()
    whole = pd.read_parquet(train_cell(spec, tmp_path / "whole", execution))
    step = 3 * spec.algorithm.iteration_steps
    assert f"1 runs diverged (seed 1 at step {step:,})" in stderr

    cell = load_cell(path)
    by_seed = {run["seed"]: run for run in cell.metadata["runs"]}
    assert (by_seed[1]["ended"], by_seed[1]["end_step"]) == ("diverged", step)
    assert {by_seed[0]["ended"], by_seed[2]["ended"]} == {"budget"}
    assert sorted(
        load(tmp_path / "poisoned/policies" / f"{file_name(spec)}.safetensors")["seeds"]
    ) == [0, 2]

    # It counts as failing every episode from then on.
    rows, tests = pd.DataFrame(cell.training), pd.DataFrame(cell.tests)
    mine = rows[rows.seed == 1]
    grid = [spec.algorithm.iteration_steps * i for i in range(1, 7)]
    assert mine.env_steps.tolist() == grid == rows[rows.seed == 0].env_steps.tolist()
    assert (mine.success_rate[3:] == 0).all()
    lowest = rows[rows.env_steps <= step].return_mean.min()
    assert (mine.return_mean[3:] == lowest).all()
    tests = tests[tests.seed == 1]
    assert tests.env_steps.tolist() == grid and (tests.success_rate[2:] == 0).all()

    # It never learns, however soon it ends.
    assert reduce_cell(cell).runs["end_step"].tolist() == [grid[-1]] * 3
    found = pd.read_parquet(path)
    assert found[found.seed == 1].env_steps.max() == step
    others, expected = found[found.seed != 1], whole[whole.seed != 1]
    exact = ["phase", "seed", "env_steps", "episodes"]
    frames = [frame.reset_index(drop=True) for frame in (others, expected)]
    pd.testing.assert_frame_equal(frames[0][exact], frames[1][exact])
    numbers = [frame.drop(columns=CLOCKS) for frame in frames]
    pd.testing.assert_frame_equal(*numbers, rtol=1e-4, atol=1e-5)


def test_a_diverged_run_does_not_stop_prioritised_replay(tmp_path):
    replay = {"strategy": "future", "prioritized": True}
    spec = test_off_policy.cell("sac", replay, log_interval=50, learning_rate=1e6)
    spec = spec.model_copy(update={"steps": 300, "seeds": 2})
    path = train_cell(spec, tmp_path, Execution(workers=0))
    assert {run["ended"] for run in load_cell(path).metadata["runs"]} == {"diverged"}


def test_a_cell_of_which_every_run_diverges_says_so(tmp_path):
    command = ["train", "learning_rate=1e6", "--seeds", "2", "--steps", "512", "hidden=8"]
    ran = hindsight(*command, "n_steps=128", "--out", str(tmp_path), cwd=tmp_path)
    assert ran.returncode == 1
    assert "error: every run diverged" in ran.stderr and "2 runs diverged (seed 0" in ran.stderr
    assert "Traceback" not in ran.stderr
    (path,) = (tmp_path / "cells").rglob("*.parquet")
    assert {run["ended"] for run in load_cell(path).metadata["runs"]} == {"diverged"}


def test_an_environment_gets_no_actions_that_are_no_numbers():
    """It would be blamed for what it makes of them, and end the other runs."""
    env = make(GymnasiumSpec(id="Corridor-v0"), [0, 1], 1, "cpu", workers=0)
    actions = torch.full((2, 1, env.action_size), 0.5)
    actions[1] = torch.nan
    assert env.step(actions).next_obs.isfinite().all()
    taken = env.pool.rows["actions"][:, 0]
    np.testing.assert_array_equal(taken, [[0.5] * env.action_size, [0.0] * env.action_size])
    env.close()
