"""Runs that end by a test (released SAC)."""

import torch

from hindsight.envs.predator_prey import PredatorPrey
from hindsight.io.checksums import about
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import file_name
from hindsight.training.cell import Execution, train_cell
from hindsight.training.files import load as load_policies
from hindsight.training.policies import policy_of

EASY = {"grid_size": 2.5, "interception_distance": 1.2, "prey": "random", "max_steps": 60}
SAC = {"name": "sac", "hidden": (16,), "log_interval": 50, "batch_size": 32}


def episodes_caught(spec: CellSpec, row: torch.Tensor, seed: int, number: int) -> list[bool]:
    """Whether episode `number` of each of two evaluation environments succeeds."""
    where, act = spec.environment, policy_of(spec, row[None])
    env = PredatorPrey(where, [seed], 2, evaluation=True)
    env.rewind(number)
    env.prepare_rollout(number, 1 + where.max_steps)
    caught: list[bool | None] = [None] * 2
    for _ in range(1 + where.max_steps):
        step = env.step(act(env.state))
        for i in range(2):
            if caught[i] is None and bool(step.terminated[0, i]):
                caught[i] = bool(step.success[0, i])
    return [bool(x) for x in caught]


def test_a_run_ends_at_a_test_that_its_last_policy_passes(tmp_path):
    spec = CellSpec(
        environment=EASY, algorithm=SAC, seeds=3, steps=800, early_end=None,
        end_test={"every": 100, "episodes": 2},
    )  # fmt: skip
    runs = about(train_cell(spec, tmp_path, Execution(workers=0)))["runs"]
    by_test = [run for run in runs if run["ended"] == "test"]
    assert by_test and {run["ended"] for run in runs} <= {"test", "budget"}
    saved = load_policies(tmp_path / "policies" / f"{file_name(spec)}.pt")
    for run, row in zip(runs, saved["rows"], strict=True):
        number = run["end_step"] // 100
        passed = all(episodes_caught(spec, row, run["seed"], number))
        if run["ended"] == "test":
            assert run["end_step"] % 100 == 0 and passed
        else:
            assert run["end_step"] == 800
