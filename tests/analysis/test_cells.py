"""Results files: what is whole, and of the cell that is asked for, is read, and what is not is
refused with the file's name.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hindsight.analysis.cells import ResultError, load_cell
from hindsight.analysis.reduce import reduce_cell
from hindsight.io.checksums import ABOUT, about, sealed
from hindsight.report.coverage import collect
from hindsight.specs.cell import hash_of
from tests.analysis.synthetic import N_STEPS, specification, write_cell


def rewrite(path: Path, rows: pd.DataFrame | None = None, **metadata: Any) -> Path:
    """The same file with other rows or metadata; a value of None removes a key."""
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"hindsight"]) | metadata
    header = {key: value for key, value in header.items() if value is not None}
    if rows is not None:
        table = pa.Table.from_pandas(rows, preserve_index=False)
    pq.write_table(sealed(table.replace_schema_metadata(), json.dumps(header)), path)
    return path


@pytest.fixture
def path(tmp_path):
    def rising(seed: int, env_steps: np.ndarray) -> np.ndarray:
        return env_steps / env_steps[-1] if seed == 0 else np.full(env_steps.shape, float(seed > 1))

    return write_cell(tmp_path / "cell.parquet", seeds=3, iterations=20, curve_fn=rising)


def test_rows_may_come_in_any_order(path):
    whole = load_cell(path)
    training = pd.DataFrame(whole.training)
    # Seed 0 is first perfect at its last step; seed 2 at its first, and ends 1.3 times later.
    assert training.groupby("seed").size().to_dict() == {0: 20, 1: 20, 2: 2}
    order = training[["seed", "env_steps"]]
    assert order.equals(order.sort_values(["seed", "env_steps"]))
    shuffled = pq.read_table(path).to_pandas().sample(frac=1.0, random_state=1)
    again = load_cell(rewrite(path, shuffled))
    pd.testing.assert_frame_equal(pd.DataFrame(again.training), training)
    pd.testing.assert_frame_equal(pd.DataFrame(again.tests), pd.DataFrame(whole.tests))


def test_wall_time_is_the_clock_of_a_gpu(path):
    assert load_cell(rewrite(path, clock="wall")).clock_column == "wall_seconds"


def refused(path: Path) -> str:
    """The message of the refusal, checked to be one line that names the file."""
    with pytest.raises(ResultError) as caught:
        load_cell(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def _with_a_flipped_bit(path: Path) -> bytes:
    """In a phase: its reader raises neither an Arrow error nor an OSError."""
    pq.write_table(pq.read_table(path), path, compression="none")
    data = path.read_bytes()
    at = data.index(b"evaluation")
    return data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damaged", [lambda path: b"", lambda path: path.read_bytes()[:-9], _with_a_flipped_bit]
)
def test_a_damaged_file(path, damaged):
    path.write_bytes(damaged(path))
    assert "not a readable results file" in refused(path)


def test_a_missing_and_a_foreign_file(tmp_path):
    assert "no such" in refused(tmp_path / "absent.parquet")
    foreign = tmp_path / "foreign.parquet"
    pd.DataFrame({"seed": [0], "loss": [1.0]}).to_parquet(foreign)
    assert "lacks the columns phase" in refused(foreign)


@pytest.mark.parametrize("told", ["[" * 100_000, '{"spec": 1', "1"])
def test_what_a_file_says_of_itself_is_no_json(path, told):
    pq.write_table(sealed(pq.read_table(path), told), path)
    assert about(path) == {}
    assert "not a readable results file" in refused(path)


def test_a_file_without_metadata_or_checksum(path):
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({}), path)
    assert "its checksum is missing" in refused(path)
    pq.write_table(table.replace_schema_metadata({ABOUT: table.schema.metadata[ABOUT]}), path)
    assert "its checksum is missing or does not match its content" in refused(path)


def test_metadata_that_lacks_something(path):
    assert "lacks spec_hash, clock" in refused(rewrite(path, clock=None, spec_hash=None))


def put(column, value, phase="evaluation"):
    """Another value in the first row of a phase."""

    def change(rows):
        rows.loc[rows.index[rows["phase"] == phase][0], column] = value
        return rows

    return change


@pytest.mark.parametrize(
    ("lie", "named", "says"),
    [
        (put("return_mean", np.nan), "return_mean of evaluation is nan at step 10240 of seed 0", 0),
        (put("return_mean", 1.2, "train"),
         "of training is 1.2 at step 2048 of seed 0, which lies between -1 and 1", 0),
        (put("episode_length", 22.5), "is 22.5 at step 10240 of seed 0, which lies between 1", 0),
        (put("env_steps", 10**6), "of evaluation is at step 1000000, its budget is 40960", 0),
        (lambda rows: pd.concat([rows, rows[:1]]), "two rows of evaluation at step 10240", 0),
        # Seed 1 ends at step 40960: what the file says of its runs stays, or follows its rows.
        (lambda rows: rows[(rows.seed != 1) | (rows.phase != "train")], "3 seeds are specified", 0),
        (lambda rows: rows[(rows.seed != 1) | (rows.iteration < 15)],
         f"seed 1 ended at step {20 * N_STEPS}", 0),
        (lambda rows: rows[(rows.seed != 1) | (rows.iteration != 7)], "iterations", 0),
        (lambda rows: rows[(rows.seed != 2) | (rows.phase == "train")],
         "seed 2 has no evaluation", 0),
        (lambda rows: rows.assign(cpu_seconds=np.float32(60.0) - rows.cpu_seconds),
         "cpu_seconds decreases", 0),
        (lambda rows: rows.assign(phase=["rehearsal", *rows.phase[1:]]), "'rehearsal'", 0),
        (lambda rows: rows[(rows.seed != 1) | (rows.phase == "train") | (rows.env_steps < 40960)],
         "seed 1 has no evaluation at step 40960, where it ended", 1),
        (lambda rows: rows[(rows.seed != 1) | (rows.env_steps <= 10 * N_STEPS)],
         "seed 1 ended at step 20480 of 40960 (budget), which its specification does not", 1),
        (lambda rows: pd.concat([rows[rows.seed != 1], rows[rows.seed == 0].assign(seed=1)]),
         "two seeds have the same numbers in every row", 1),
        (lambda rows: rows.assign(return_mean=1.0), "return 1 at success 0 is", 1),
        (lambda rows: rows.assign(wall_seconds=rows.wall_seconds / 1000), "its runs took only", 1),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused_whatever_its_seal(path, lie, named, says):
    rows = lie(pq.read_table(path).to_pandas())
    runs = about(path)["runs"]
    for run in runs if says else ():
        if run["seed"] == 1:
            run["end_step"] = int(rows.env_steps[rows.seed == 1].max())
    assert named in refused(rewrite(path, rows, runs=runs))


def test_a_cell_that_was_paused_is_whole(path):
    """A stopped process uses no CPU time, and the wall's goes on."""
    rows = pq.read_table(path).to_pandas()
    rows = rows.assign(wall_seconds=rows.wall_seconds + np.float32(1e5))
    cell = load_cell(rewrite(path, rows, seconds=3e5))
    assert cell.training["cpu_seconds"].max() < 1e3


@pytest.mark.parametrize("which", [[1], [0, 1]])
def test_a_diverged_run_fails_at_the_end_wherever_others_were_tested(tmp_path, which):
    """Seed 0 ends early before seed 1 diverges; or both diverge before their first test.  The last
    row of a run that diverged holds no return.
    """
    path = tmp_path / "cell.parquet"
    write_cell(path, None, 2, lambda seed, steps: np.full(len(steps), 1.0 - 0.1 * seed), 20)
    rows, runs = pq.read_table(path).to_pandas(), about(path)["runs"]
    for run in (runs[seed] for seed in which):
        run |= {"end_step": min(run["end_step"], 7 * N_STEPS), "ended": "diverged"}
        last = rows.seed.eq(run["seed"]) & rows.env_steps.eq(run["end_step"])
        rows.loc[last & rows.phase.eq("train"), "return_mean"] = np.nan
    rows = rows[(rows.env_steps <= 7 * N_STEPS) & ((rows.phase == "train") | (which == [1]))]
    found = reduce_cell(load_cell(rewrite(path, rows, runs=runs))).runs
    ends = [0.0 if seed in which else 1.0 for seed in (0, 1)]
    assert found["final_evaluation_success"].tolist() == ends
    assert (found["final_return"][which] == -1).all()  # as of a prey that is never caught


def test_a_run_that_ended_early_without_a_reason(path):
    runs = [run | {"perfect_step": None} for run in about(path)["runs"]]
    assert "seed 2 ended at step 4096 of 40960 (early)" in refused(rewrite(path, runs=runs))


@pytest.mark.parametrize(
    ("environment", "low"),
    [({"id": "PointReach-v0", "max_steps": 50}, -50), ({"id": "BitFlipping-v0", "n_bits": 9}, -9)],
)
def test_the_returns_of_other_tasks_have_bounds_of_their_own(tmp_path, environment, low):
    path = write_cell(tmp_path / "cell.parquet", {"environment": environment}, 2, iterations=5)
    rows = pq.read_table(path).to_pandas()
    length = (-low - 1e-3 * rows.seed).astype(np.float32)
    rows = rows.assign(return_mean=np.float32(low), episode_length=length)
    load_cell(rewrite(path, rows))
    for beyond in (low - 1.0, 0.5):
        changed = rewrite(path, put("return_mean", beyond)(rows.copy()))
        assert f"which lies between {low} and 0" in refused(changed)


def test_a_file_of_another_cell_than_its_name_says_is_refused(tmp_path):
    spec = specification({}, 2, 5 * N_STEPS)
    path = write_cell(tmp_path / f"ppo-{hash_of(spec)}.parquet", None, 2, iterations=5)
    rewrite(path, spec_hash=hash_of(spec))
    assert load_cell(path).metadata["spec"] == spec
    spec["environment"]["prey"] = "repel"
    # Changed under a valid seal, and then exchanged with the file of the other cell.
    for changes in ({"spec": spec}, {"spec_hash": hash_of(spec)}):
        rewrite(path, **changes)
        assert f"it holds another cell, {hash_of(spec)} of the code" in refused(path)
        with pytest.raises(ResultError, match="it holds another cell"):
            collect([{"entries": [{"cell": str(path)}]}])
