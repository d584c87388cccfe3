"""A cell's training: early end, end by a test, interruption at any moment, damaged files."""

from fractions import Fraction

import pandas as pd
import pytest
import torch

from hindsight.analysis.cells import load_cell
from hindsight.envs.predator_prey import PredatorPrey
from hindsight.io.checkpoints import load
from hindsight.io.checksums import about
from hindsight.io.files import FileError
from hindsight.report.coverage import _facts
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import file_name
from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.training import record
from hindsight.training.cell import Execution, train_cell
from hindsight.training.policies import policy_of
from tests.support.curves import curves
from tests.support.native import play
from tests.training.small import SPEC, cell_in, interrupted, runs


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The curves of an undisturbed training."""
    return curves(train_cell(SPEC, tmp_path_factory.mktemp("whole")))


def test_one_run_at_a_time_gives_the_same_curves(tmp_path, whole):
    """Training runs side by side is an optimisation: same seeds, same draws, same numbers."""
    for seed in range(SPEC.seeds):
        one = SPEC.model_copy(update={"seeds": 1, "first_seed": seed})
        assert (f"1seeds-from{seed}" if seed else "1seeds-768steps") in one.name
        alone = curves(train_cell(one, tmp_path))
        among = whole[whole.seed == seed].reset_index(drop=True)
        exact = ["phase", "seed", "env_steps", "episodes"]
        pd.testing.assert_frame_equal(alone[exact], among[exact])
        first = among.iteration <= 2
        pd.testing.assert_frame_equal(alone[first], among[first], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("after", [1, 5, 11])
def test_a_resumed_cell_is_an_uninterrupted_one(tmp_path, whole, after):
    interrupted(SPEC, tmp_path, after)
    resumed = train_cell(SPEC, tmp_path, Execution(checkpoint_seconds=0))
    pd.testing.assert_frame_equal(curves(resumed), whole, check_exact=True)


def test_a_cell_that_is_continued_elsewhere_names_both_machines(tmp_path, monkeypatch):
    for processor in ("first", "first", "second"):
        found = {"system": "Linux", "processor": processor, "cores": 2}
        monkeypatch.setattr(record, "machine", lambda device, found=found: found)
        interrupted(SPEC, tmp_path)
    told = load_cell(train_cell(SPEC, tmp_path)).metadata
    assert [place["machine"]["processor"] for place in told["made_on"]] == ["first", "second"]
    assert told["machine"] == found and told["versions"] == told["made_on"][-1]["versions"]
    facts = [value for name, value in _facts(told) if name == "hardware"]
    assert len(facts) == 2 and "first" in facts[0] and "second" in facts[1]


@pytest.mark.parametrize("size", [0.0, 0.9])
def test_a_truncated_checkpoint_is_named_set_aside_and_made_again(tmp_path, whole, capsys, size):
    path = interrupted(SPEC, tmp_path, 5)
    data = path.read_bytes()
    path.write_bytes(data[: int(size * len(data))])
    with pytest.raises(FileError, match="damaged"):
        load(path)
    pd.testing.assert_frame_equal(curves(train_cell(SPEC, tmp_path)), whole, check_exact=True)
    stderr = capsys.readouterr().err
    assert path.name in stderr and "set aside" in stderr
    assert path.with_name(f"{path.name}.damaged").exists()


@pytest.mark.parametrize(
    ("steps", "n_steps", "points"),
    [(576, 16, 20), (45_056, 2048, 20), (1000, 100, 20), (96, 32, 2)],
)
def test_evaluations_are_due_once_a_point_of_their_grid_is_reached(steps, n_steps, points):
    made = runs(cell_in({}, {"n_steps": n_steps, "batch_size": 16}, steps=steps,
                        evaluation={"points": points, "episodes": 1}), 0)  # fmt: skip
    due = []
    for made.iteration in range(1, steps // n_steps + 1):
        assert made.env_steps == made.iteration * n_steps
        due += [made.env_steps] * made.evaluation_due
    grid = [Fraction(steps * i, points) for i in range(1, points + 1)]
    assert due == sorted({-(-at // n_steps) * n_steps for at in grid})


def test_a_run_that_is_perfect_ends_early_and_leaves_the_axis(tmp_path):
    """In a tiny box every episode is caught at once by whoever moves towards the prey."""
    spec = CellSpec.model_validate(
        {
            "algorithm": {"hidden": [8], "n_steps": 512, "learning_rate": 3e-3},
            "hindsight": {"strategy": "final"},
            "environment": {"n_dims": 2, "grid_size": 2.1, "spawn": "apart"},
            "seeds": 4,
            "steps": 512 * 60,
        }
    )
    path = train_cell(spec, tmp_path)
    table, runs = pd.read_parquet(path), about(path)["runs"]
    assert any(run["ended"] == "early" for run in runs)
    for run in runs:
        steps = table[(table.phase == "train") & (table.seed == run["seed"])]
        assert steps.env_steps.max() == run["end_step"]
        perfect = steps[steps.return_mean == 1].env_steps
        assert perfect.empty or perfect.min() == run["perfect_step"]
        if run["ended"] == "early":
            assert run["end_step"] > 1.3 * run["perfect_step"] >= run["end_step"] - 512
        # Tests are on the grid and at the run's own end: not where another run ends.
        tests = table[(table.phase == "evaluation") & (table.seed == run["seed"])].env_steps
        every = spec.steps / spec.evaluation.points
        off_grid = tests[tests // every == (tests - 512) // every].tolist()
        assert tests.max() == run["end_step"] and set(off_grid) <= {run["end_step"]}
    assert len({run["end_step"] for run in runs}) > 1


def test_a_missing_device_is_reported_before_training(tmp_path):
    for device, said in (
        ("cuda:", "device 'cuda:' is unknown; choose from auto, cpu, cuda, cuda:1, ..."),
        ("cuda:99", "device cuda:99: torch .* finds [0-9]+ GPUs on "),
    ):
        with pytest.raises(SpecError, match=said):
            train_cell(SPEC, tmp_path, Execution(device=device))
    assert not list(tmp_path.iterdir())


def test_the_device_auto_is_one_that_is_there(tmp_path):
    path = train_cell(SPEC, tmp_path, Execution(device="auto"))
    assert about(path)["device"] == ("cuda" if torch.cuda.is_available() else "cpu")


def test_the_way_on_is_told_before_the_traceback(tmp_path):
    def fail(*_):
        raise EnvironmentFailure("X-v0: a step failed\n\nTraceback\n\nits end\n")

    with pytest.raises(EnvironmentFailure) as caught:
        train_cell(SPEC, tmp_path, callbacks=[fail])
    advice = "the same command starts again: there was no checkpoint yet"
    assert str(caught.value) == f"X-v0: a step failed; {advice}\n\nTraceback\n\nits end\n"


def episodes_caught(spec: CellSpec, row: torch.Tensor, seed: int, number: int) -> list[bool]:
    """Whether episode `number` of each of two evaluation environments succeeds."""
    where, act = spec.environment, policy_of(spec, row[None])
    env = PredatorPrey(where, [seed], 2, evaluation=True)
    env.rewind(number)
    steps = play(env, lambda env, t: act(env.state), 1 + where.max_steps, number).steps
    first = steps.terminated[:, 0].int().argmax(0)
    return steps.success[first, 0, torch.arange(2)].tolist()


def test_a_run_ends_at_a_test_that_its_last_policy_passes(tmp_path):
    easy = {"grid_size": 2.5, "interception_distance": 1.2, "prey": "random", "max_steps": 60}
    sac = {"name": "sac", "hidden": (16,), "log_interval": 50, "batch_size": 32}
    test = {"every": 100, "episodes": 2}
    spec = cell_in(easy, sac, seeds=3, steps=800, end_test=test)
    runs = about(train_cell(spec, tmp_path, Execution(workers=0)))["runs"]
    by_test = [run for run in runs if run["ended"] == "test"]
    assert by_test and {run["ended"] for run in runs} <= {"test", "budget"}
    saved = load(tmp_path / "policies" / f"{file_name(spec)}.safetensors")
    for run, row in zip(runs, saved["rows"], strict=True):
        number = run["end_step"] // 100
        passed = all(episodes_caught(spec, row, run["seed"], number))
        if run["ended"] == "test":
            assert run["end_step"] % 100 == 0 and passed
        else:
            assert run["end_step"] == 800


@pytest.mark.parametrize(("successes", "ends"), [([1.0, 1.0], "test"), ([1.0, 0.0], None)])
def test_dense_rewards_without_a_success_pass_no_test(successes, ends, monkeypatch):
    sums = torch.tensor([[[2.0, 2.0]], [successes], [[9.0, 9.0]]])
    monkeypatch.setattr("hindsight.training.runs.play", lambda *_, **__: sums)
    made = runs(cell_in({}, {"n_steps": 64}, end_test={"every": 64, "episodes": 2}), 1)
    made.iteration = 1
    assert made.ended(torch.zeros(1), torch.zeros(1)) == [ends]
