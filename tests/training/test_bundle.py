"""Cells on one axis: each as if alone; what befalls one of them is its own."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from hindsight.analysis.cells import load_cell
from hindsight.files import FileError
from hindsight.integrity import about
from hindsight.specs.cell import CellSpec
from hindsight.training import clock
from hindsight.training.cell import Execution, train_cell, train_cells
from hindsight.training.files import load
from hindsight.training.on_policy import OnPolicyRuns
from hindsight.training.record import joined, rows_of

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


BUNDLE = [cell("random"), cell("attract", 3, 3e-3), cell("static", 1, grid_size=5.0)]


def curves(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path).drop(columns=CLOCKS)


def paths(root: Path, specs: list[CellSpec]) -> list[Path]:
    return [root / "cells" / f"{spec.name}.parquet" for spec in specs]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> list[pd.DataFrame]:
    """The curves of an undisturbed bundle."""
    return [curves(path) for path in train_cells(BUNDLE, tmp_path_factory.mktemp("whole"))]


class Interrupted(Exception):
    pass


def interrupted(root: Path, specs: list[CellSpec], after: int) -> None:
    """Train until some iterations are over."""
    heard = 0

    def interrupt(progress):
        nonlocal heard
        heard += 1
        if heard == after:
            raise Interrupted

    with pytest.raises(Interrupted):
        train_cells(specs, root, OFTEN, interrupt)


def iterations(root: Path, specs: list[CellSpec]) -> int:
    """How many it takes to train what is left."""
    heard: list[object] = []
    train_cells(specs, root, OFTEN, heard.append)
    return len(heard)


def assert_like(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """The same runs, the same draws; the same numbers up to rounding while that has not grown."""
    exact = ["phase", "seed", "env_steps", "iteration"]
    pd.testing.assert_frame_equal(found[exact], expected[exact])
    first = expected.iteration <= 2
    pd.testing.assert_frame_equal(found[first], expected[first], atol=1e-4, rtol=1e-4)


def test_each_cell_has_the_files_that_it_has_alone(tmp_path, whole):
    made = train_cells(BUNDLE, tmp_path / "together")
    assert made == paths(tmp_path / "together", BUNDLE)
    for spec, path, expected in zip(BUNDLE, made, whole, strict=True):
        pd.testing.assert_frame_equal(curves(path), expected, check_exact=True)
        alone = train_cell(spec, tmp_path / "alone")
        assert_like(curves(path), curves(alone))
        found = load_cell(path).metadata
        assert found["spec"] == spec.model_dump(mode="json")
        assert (found["runs_per_axis"], found["cells_per_axis"]) == (6, 3)
        mine, other = (about(p) for p in (path, alone))
        assert mine.keys() == other.keys()
        assert [run["seed"] for run in mine["runs"]] == list(range(spec.seeds))
        policy = load(tmp_path / "together/policies" / f"{spec.name}.pt")
        assert policy["seeds"] == list(range(spec.seeds))
        assert CellSpec.model_validate_json(policy["spec"]) == spec
    assert not list((tmp_path / "together/checkpoints").rglob("*.pt"))


def test_a_cell_that_is_there_is_left_alone_and_a_changed_one_trains_alone(tmp_path):
    made = train_cells(BUNDLE, tmp_path)
    before = [(path.stat().st_mtime_ns, path.read_bytes()) for path in made]
    assert iterations(tmp_path, BUNDLE) == 0
    changed = [BUNDLE[0], cell("attract", 3, 1e-3), BUNDLE[2]]
    cells: list[tuple[str, ...]] = []
    train_cells(changed, tmp_path, Execution(), lambda progress: cells.append(progress.cells))
    assert set(cells) == {(changed[1].name,)}
    assert [(path.stat().st_mtime_ns, path.read_bytes()) for path in made] == before
    assert all(path.exists() for path in paths(tmp_path, changed))


@pytest.mark.parametrize("after", [1, 5])
def test_an_interrupted_bundle_is_an_uninterrupted_one(tmp_path, whole, after):
    interrupted(tmp_path, BUNDLE, after)
    assert iterations(tmp_path, BUNDLE) == 8 - after
    for path, expected in zip(paths(tmp_path, BUNDLE), whole, strict=True):
        pd.testing.assert_frame_equal(curves(path), expected, check_exact=True)


def test_in_other_company_nothing_is_lost(tmp_path, whole):
    """One cell goes on alone, two with a third that has not begun."""
    interrupted(tmp_path, BUNDLE, 6)
    assert iterations(tmp_path, BUNDLE[:1]) == 2
    new = cell("repel")
    assert iterations(tmp_path, [*BUNDLE, new]) == 2 + 8
    for path, expected in zip(paths(tmp_path, BUNDLE), whole, strict=True):
        assert_like(curves(path), expected)
    assert_like(curves(*paths(tmp_path, [new])), curves(train_cell(new, tmp_path / "alone")))


def test_cells_that_stopped_at_different_iterations_go_on_one_after_the_other(tmp_path, whole):
    interrupted(tmp_path, BUNDLE[:2], 3)
    interrupted(tmp_path, BUNDLE[2:], 5)
    assert iterations(tmp_path, BUNDLE) == 3 + 5
    for path, expected in zip(paths(tmp_path, BUNDLE), whole, strict=True):
        assert_like(curves(path), expected)


def test_axes_take_as_many_runs_as_they_may(tmp_path, whole):
    """Six runs, four at a time: a cell's may be on two axes, and stop on the second."""
    four = Execution(runs_per_axis=4, checkpoint_seconds=0)
    heard: list[int] = []

    def interrupt(progress):
        heard.append(progress.steps)
        if len(heard) == 11:
            raise Interrupted

    with pytest.raises(Interrupted):
        train_cells(BUNDLE, tmp_path, four, interrupt)
    assert [path.exists() for path in paths(tmp_path, BUNDLE)] == [True, False, False]
    steps: list[int] = []
    made = train_cells(BUNDLE, tmp_path, four, lambda progress: steps.append(progress.steps))
    assert len(steps) == 16 - 11 and steps[-1] == 4 * 8 * STEPS
    for path, expected in zip(made, whole, strict=True):
        assert_like(curves(path), expected)
    assert [about(path)["runs_per_axis"] for path in made] == [4, 4, 2]


def test_only_the_cell_with_a_damaged_checkpoint_begins_anew(tmp_path, whole, capsys):
    interrupted(tmp_path, BUNDLE, 5)
    (tmp_path / "checkpoints" / f"{BUNDLE[1].name}.pt").write_bytes(b"no checkpoint")
    assert iterations(tmp_path, BUNDLE) == 3 + 8
    told = capsys.readouterr().err
    assert f"{BUNDLE[1].name}.pt" in told and "set aside" in told
    for path, expected in zip(paths(tmp_path, BUNDLE), whole, strict=True):
        assert_like(curves(path), expected)


@pytest.mark.parametrize("kind", ["cells", "policies", "checkpoints"])
def test_only_the_cell_whose_file_cannot_be_written_fails(tmp_path, whole, kind):
    """A folder stands where its file should be."""
    bad = BUNDLE[1]
    blocked = tmp_path / kind / f"{bad.name}.{'parquet' if kind == 'cells' else 'pt'}"
    (blocked / "in the way").mkdir(parents=True)
    with pytest.raises(FileError, match=bad.name) as error:
        train_cells(BUNDLE, tmp_path, OFTEN)
    assert "\n" not in str(error.value)
    for spec, path, expected in zip(BUNDLE, paths(tmp_path, BUNDLE), whole, strict=True):
        assert path.is_file() == (spec is not bad)
        if spec is not bad:
            assert_like(curves(path), expected)


def test_only_the_run_that_diverges_ends(tmp_path, whole, monkeypatch, capsys):
    """The second cell's only run: its cell has no policy, and its neighbours do not notice."""
    bundle = [BUNDLE[0], cell("attract", 1, 3e-3), BUNDLE[2]]
    iterate = OnPolicyRuns.iterate

    def spoiled(self):
        columns = iterate(self)
        if self.iteration == 3:
            self.rows[self.specs.index(bundle[1])].fill_(torch.nan)
        return columns

    monkeypatch.setattr(OnPolicyRuns, "iterate", spoiled)
    made = train_cells(bundle, tmp_path)
    told = capsys.readouterr().err
    assert f"{bundle[1].name}: 1 runs diverged (seed 0 at step {3 * STEPS})" in told
    (run,) = load_cell(made[1]).metadata["runs"]
    assert (run["ended"], run["end_step"]) == ("diverged", 3 * STEPS)
    assert load(tmp_path / "policies" / f"{bundle[1].name}.pt")["seeds"] == []
    assert_like(curves(made[0]), whole[0])
    assert_like(curves(made[2]), whole[2])


def test_a_cell_that_ends_early_is_there_before_the_others(tmp_path, monkeypatch):
    """Its runs leave the axis, and its file does not wait."""
    why_ended = OnPolicyRuns.why_ended

    def early(self, run):
        mine = self.specs[run] is BUNDLE[0] and self.iteration >= 3
        return "early" if mine else why_ended(self, run)

    monkeypatch.setattr(OnPolicyRuns, "why_ended", early)
    seen: list[bool] = []
    first, *_ = paths(tmp_path, BUNDLE)
    made = train_cells(BUNDLE, tmp_path, OFTEN, lambda _: seen.append(first.exists()))
    assert seen == [False] * 2 + [True] * 6
    assert {run["end_step"] for run in about(first)["runs"]} == {3 * STEPS}
    assert {run["end_step"] for path in made[1:] for run in about(path)["runs"]} == {8 * STEPS}


def test_every_run_of_a_bundle_has_an_equal_share_of_its_time(tmp_path, monkeypatch):
    """Of a clock that goes one second at each look; both clocks count from each run's first."""
    passed = 0.0

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            nonlocal passed
            passed += 1.0
            return passed

        process_time = staticmethod(lambda: passed)

    monkeypatch.setattr(clock, "time", Clock)
    made = train_cells(BUNDLE, tmp_path)
    each = {}
    for spec, path in zip(BUNDLE, made, strict=True):
        table = pd.read_parquet(path)
        last = table[table.phase == "train"].groupby("seed").wall_seconds.max()
        assert len(last) == spec.seeds and last.nunique() == 1
        each[spec.name] = last.iloc[0]
        assert about(path)["seconds"] == pytest.approx(spec.seeds * last.iloc[0])
    # Two laps of a second in each of the eight iterations, shared by six runs.
    assert list(each.values()) == pytest.approx([8 * 2 / 6] * 3)


def test_cells_that_differ_in_more_than_values_follow_each_other(tmp_path, whole):
    """Those of one axis together; one that cannot be written leaves those of the next axis."""
    first, last = BUNDLE[:2], cell(n_dims=3)
    bad = BUNDLE[2].model_copy(update={"steps": 2 * BUNDLE[2].steps})
    blocked = tmp_path / "cells" / f"{bad.name}.parquet"
    (blocked / "in the way").mkdir(parents=True)
    heard = []
    with pytest.raises(FileError, match=bad.name):
        train_cells([first[0], bad, last, first[1]], tmp_path, OFTEN, heard.append)
    assert list(dict.fromkeys(told.cells for told in heard)) == [
        (first[0].name, first[1].name), (bad.name,), (last.name,),
    ]  # fmt: skip
    for path, expected in zip(paths(tmp_path, first), whole, strict=False):
        assert_like(curves(path), expected)
    alone = curves(train_cell(last, tmp_path / "alone"))
    pd.testing.assert_frame_equal(curves(paths(tmp_path, [last])[0]), alone, check_exact=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_bundle_that_is_killed_goes_on(tmp_path, number):
    bundle = [spec.model_copy(update={"steps": STEPS * 60, "early_end": None}) for spec in BUNDLE]
    (tmp_path / "specs.json").write_text(json.dumps([s.model_dump(mode="json") for s in bundle]))
    program = (
        "import json, sys; from pathlib import Path\n"
        "from hindsight.interruption import Interrupted\n"
        "from hindsight.specs.cell import CellSpec\n"
        "from hindsight.training.cell import Execution, train_cells\n"
        "specs = [CellSpec.model_validate(s) for s in json.loads(Path(sys.argv[1]).read_text())]\n"
        "often = Execution(checkpoint_seconds=float(sys.argv[3]))\n"
        "try: train_cells(specs, Path(sys.argv[2]), often)\n"
        "except Interrupted as stop: sys.exit(str(stop))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "specs.json"), str(tmp_path / "out")]
    process = subprocess.Popen([*command, "0.05"], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(list(tmp_path.rglob("checkpoints/**/[!.]*.pt"))) < 3:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(number)
    _, told = process.communicate()
    assert process.returncode, "it was killed, not finished"
    if number == signal.SIGTERM:
        first, *_ = bundle
        assert f"{first.name} and 2 cells beside it: stopped by SIGTERM after" in told
        at = {load(path)["runs"]["iteration"] for path in tmp_path.rglob("checkpoints/**/*.pt")}
        assert len(at) == 1
    assert subprocess.run([*command, "60"], check=False, capture_output=True).returncode == 0
    alone = curves(train_cell(bundle[0], tmp_path / "alone"))
    assert_like(curves(paths(tmp_path / "out", bundle)[0]), alone)
    for path in paths(tmp_path / "out", bundle):
        table = pq.read_table(path).to_pandas()
        trained = table[table.phase == "train"].groupby("seed").env_steps
        assert (trained.diff().dropna() == STEPS).all() and (trained.max() == 60 * STEPS).all()


def test_states_of_runs_are_taken_apart_and_joined_again():
    state = {"a": torch.arange(6).view(3, 2), "b": {"c": [7, 8, 9], "d": 5}}
    parts = [rows_of(state, [2]), rows_of(state, [0, 1])]
    assert parts[0]["a"].tolist() == [[4, 5]] and parts[1]["b"]["c"] == [7, 8]
    again = joined(parts)
    assert again["a"].tolist() == [[4, 5], [0, 1], [2, 3]]
    assert again["b"] == {"c": [9, 7, 8], "d": 5}
    assert np.asarray(rows_of(again, [1, 2, 0])["a"]).tolist() == state["a"].tolist()
