"""Numbers come from the cell that is asked for, from all cells that were planned, and can be."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hindsight.analysis.cells import ResultError, load_cell
from hindsight.claims import write_claims
from hindsight.io.checksums import about
from hindsight.report.provenance import collect
from hindsight.specs.cell import CellSpec, hash_of
from tests.analysis.synthetic import specification, summarise, write_cell, write_experiment
from tests.analysis.test_cells import rewrite

PUBLISHED = Path(__file__).parents[2] / "results/published/cells"


def write_named(folder, **overrides):
    """A results file under the name of its cell, as the workflow writes it."""
    spec = specification(overrides, 2, 5 * 2048)
    path = write_cell(folder / f"ppo-{hash_of(spec)}.parquet", overrides, 2, iterations=5)
    return rewrite(path, spec_hash=hash_of(spec))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"environment": {"prey": "repel"}, "hindsight": {}},
        {"environment": {"id": "PointReach-v0"}, "algorithm": {"name": "sac"}},
        {"environment": {"id": "PointReach-v0"}, "algorithm": {"name": "td3"}, "replay": {"k": 8}},
    ],
)
def test_the_hash_of_plain_values_is_that_of_the_cell(values):
    """An option that a file lacks stands at its default; the hash says so, too."""
    spec = CellSpec.model_validate(values)
    plain = json.loads(spec.model_dump_json())
    assert hash_of(plain) == spec.hash
    del plain["evaluation"], plain["algorithm"]["gamma"]
    assert hash_of(plain) == spec.hash
    assert hash_of({**plain, "seeds": 7}) != spec.hash


def test_exchanged_files_are_refused_by_name(tmp_path):
    one, other = write_named(tmp_path), write_named(tmp_path, **{"environment.prey": "repel"})
    assert load_cell(one).metadata["spec"]["environment"]["prey"] == "static"
    left, right = one.read_bytes(), other.read_bytes()
    one.write_bytes(right)
    other.write_bytes(left)
    hashes = one.stem[-10:], other.stem[-10:]
    for path, held in ((one, hashes[1]), (other, hashes[0])):
        words = rf"{path.name}: it holds another cell, {held} of the code"
        with pytest.raises(ResultError, match=words):
            load_cell(path)
        with pytest.raises(ResultError, match=words):
            collect([{"entries": [{"cell": str(path)}]}])


def test_a_specification_that_was_changed_under_a_valid_seal_is_refused(tmp_path):
    path = write_named(tmp_path)
    spec = about(path)["spec"]
    spec["environment"]["prey"] = "repel"
    with pytest.raises(ResultError, match="it holds another cell"):
        load_cell(rewrite(path, spec=spec))


# -- all that were planned -------------------------------------------------------------------------


def test_a_verdict_on_fewer_cells_than_were_planned_is_none(tmp_path):
    conditions = [("random", "static"), ("apart", "repel")]
    plan = write_experiment(tmp_path, "learning_rate", conditions=conditions, iterations=6)
    summarise(plan, tmp_path)
    whole = {(v.claim, v.fidelity): v for v in write_claims(plan.parents[1])}
    assert whole["P5a", "described"].verdict != "not tested"
    entries = json.loads(plan.read_text())["entries"]
    others = {e["cell"] for e in entries if e["fidelity"] == "released"}  # some serve both
    lost = [e for e in entries if e["cell"] not in others and e["prey"] == "repel"][:2]
    for entry in lost:
        (tmp_path / entry["cell"]).unlink()
    summarise(plan, tmp_path)
    found = {(v.claim, v.fidelity): v for v in write_claims(plan.parents[1])}
    verdict = found["P5a", "described"]
    names = [Path(e["cell"]).parent.name + "/" + Path(e["cell"]).stem for e in lost]
    assert verdict.verdict == "not tested" and np.isnan(verdict.measured.value)
    assert verdict.why == f"2 cells are missing of learning_rate: {names[0]}, {names[1]}"
    assert found["P5a", "released"] == whole["P5a", "released"]
    # Without any of its cells, a fidelity is still judged: by what is missing.
    for entry in entries:
        if entry["fidelity"] == "described" and entry["cell"] not in others:
            (tmp_path / entry["cell"]).unlink(missing_ok=True)
    summarise(plan, tmp_path)
    none = {(v.claim, v.fidelity): v for v in write_claims(plan.parents[1])}
    assert "cells are missing of learning_rate" in none["P5a", "described"].why


def test_a_plan_opens_no_files_elsewhere(tmp_path):
    plan = write_experiment(tmp_path, "algorithms", conditions=[("random", "static")], iterations=4)
    text = json.loads(plan.read_text())
    text["entries"][0]["cell"] = "results/cells/../../elsewhere.parquet"
    plan.write_text(json.dumps(text))
    with pytest.raises(ResultError, match="the path of one of its cells contains"):
        summarise(plan, tmp_path)


# -- values that cannot be -------------------------------------------------------------------------


def put(column, value, phase="evaluation", place=0):
    """Another value in one row of a phase."""

    def change(rows):
        rows = rows.astype({"env_steps": float} if column == "env_steps" else {})
        index = rows.index[rows["phase"] == phase][place]
        rows.loc[index, column] = value
        return rows.astype({"env_steps": np.int64})

    return change


def twice(phase):
    def change(rows):
        return rows.iloc[[*range(len(rows)), int(np.flatnonzero(rows["phase"] == phase)[0])]]

    return change


@pytest.fixture
def cell(tmp_path):
    return write_cell(tmp_path / "cell.parquet", seeds=2, iterations=10)


def changed(path, change):
    """The same file with other rows, under a valid seal."""
    return rewrite(path, change(pq.read_table(path).to_pandas()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("return_mean", np.nan), "return_mean of evaluation is nan at step 10240 of seed 0"),
        (put("return_mean", -np.inf, "train"), "return_mean of training is -inf"),
        (put("return_mean", 1.2, "train"), "is 1.2 .* which lies between -1 and 1"),
        (put("success_rate", 1.5), "success_rate of evaluation is 1.5 .* between 0 and 1"),
        (put("success_rate", -0.1, "train"), "success_rate of training is -0.1"),
        (put("episode_length", 22.5), "episode_length of evaluation is 22.5 .* between 1 and 21"),
        (put("env_steps", 10**6), "a row of evaluation is at step 1000000, its budget is 20480"),
        (twice("evaluation"), "seed 0 has two rows of evaluation at step 10240"),
        (twice("train"), "seed 0 has two rows of training|iterations"),
    ],
)
def test_values_that_cannot_be_are_refused_under_a_valid_seal(cell, change, words):
    load_cell(cell)
    with pytest.raises(ResultError, match=words) as caught:
        load_cell(changed(cell, change))
    assert "\n" not in str(caught.value) and str(caught.value).startswith(f"{cell}: ")


def test_nothing_is_told_before_an_episode_has_finished(cell):
    def early(rows):
        first = (rows["phase"] == "train") & (rows["iteration"] <= 2)
        rows.loc[first, "episodes"] = 0
        rows.loc[first, ["return_mean", "success_rate", "episode_length"]] = np.nan
        return rows

    assert np.isnan(load_cell(changed(cell, early)).training["return_mean"]).sum() == 4


def test_the_last_row_of_a_run_that_diverged_may_hold_no_number(cell):
    runs = about(cell)["runs"]
    runs[0]["ended"] = "diverged"
    last = put("return_mean", np.nan, "train", 9)(pq.read_table(cell).to_pandas())
    assert np.isnan(load_cell(rewrite(cell, last, runs=runs)).training["return_mean"]).sum() == 1


@pytest.mark.parametrize(
    ("environment", "low"),
    [({"id": "PointReach-v0", "max_steps": 50}, -50), ({"id": "BitFlipping-v0", "n_bits": 9}, -9)],
)
def test_the_returns_of_other_tasks_have_bounds_of_their_own(tmp_path, environment, low):
    path = write_cell(tmp_path / "cell.parquet", {"environment": environment}, 2, iterations=5)

    def slow(rows):
        length = (-low - 1e-3 * rows.seed).astype(np.float32)
        return rows.assign(return_mean=np.float32(low), episode_length=length)

    load_cell(changed(path, slow))
    with pytest.raises(ResultError, match=f"which lies between {low} and 0"):
        load_cell(changed(path, put("return_mean", low - 1.0)))
    with pytest.raises(ResultError, match=f"which lies between {low} and 0"):
        load_cell(changed(path, put("return_mean", 0.5)))
