"""Checksums: nothing that was changed passes, nothing that is whole is refused."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hindsight.analysis.cells import ResultError, load_cell
from hindsight.io.checksums import about, check_tables, file_sha256, is_whole, sealed
from hindsight.io.files import DamagedError, FileError
from hindsight.training.files import load, write_curves
from tests.analysis.synthetic import write_cell

VALUES = {
    "phase": np.array(["train", "train", "evaluation"], dtype=object),
    "seed": np.array([0, 1, 1], dtype=np.int32),
    "return_mean": np.array([0.5, np.nan, -0.0], dtype=np.float32),
}


def test_what_was_written_is_whole_when_read(tmp_path):
    path = tmp_path / "cell.parquet"
    write_curves(path, pa.table(VALUES), {"seconds": 1.5})
    table = pq.read_table(path)
    assert is_whole(table) and table.schema.remove_metadata() == pa.table(VALUES).schema
    assert table["return_mean"].to_numpy().tobytes() == VALUES["return_mean"].tobytes()
    assert about(path) == {"seconds": 1.5}
    assert not is_whole(pa.table(VALUES))  # it has no checksum


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.slice(0, 2),
        lambda t: t.select(["seed", "phase", "return_mean"]),
        lambda t: t.rename_columns(["phase", "seed", "returns"]),
        lambda t: t.set_column(1, "seed", pa.array([0, 1, 2], pa.int32())),
        lambda t: t.set_column(1, "seed", pa.array([0, 1, 1], pa.int64())),
        lambda t: t.set_column(0, "phase", pa.array(["train", "trai", "nevaluation"])),
        lambda t: t.set_column(2, "return_mean", pa.array([0.5, np.nan, 0.0], pa.float32())),
        lambda t: t.replace_schema_metadata({**t.schema.metadata, b"hindsight": b"{ }"}),
        lambda t: t.replace_schema_metadata({**t.schema.metadata, b"hindsight_sha256": b"0"}),
    ],
)
def test_a_change_is_seen(change):
    whole = sealed(pa.table(VALUES), "{}")
    changed = change(whole)
    changed = changed.replace_schema_metadata(changed.schema.metadata or whole.schema.metadata)
    assert is_whole(whole) and not is_whole(changed)


def test_a_results_file_with_one_other_value_is_refused(tmp_path):
    path = write_cell(tmp_path / "cell.parquet", seeds=2, iterations=5)
    table = pq.read_table(path)
    told = table.schema.metadata[b"hindsight"].decode()
    pq.write_table(sealed(table, told), path)
    load_cell(path)
    values = table["return_mean"].to_numpy().copy()
    values[3] += 1e-3
    at = table.schema.get_field_index("return_mean")
    table = pq.read_table(path).set_column(at, "return_mean", pa.array(values))
    pq.write_table(table, path)
    with pytest.raises(ResultError, match=r"cell\.parquet: its checksum"):
        load_cell(path)


@given(st.data())
def test_every_table_is_vouched_for_by_the_record_beside_it(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("tables")
    contents = {f"{name}.csv": data.draw(st.binary(min_size=1, max_size=20)) for name in "abc"}
    for name, text in contents.items():
        (folder / name).write_bytes(text)
    sums = {name: file_sha256(folder / name) for name in contents}
    (folder / "record.json").write_text(json.dumps({"missing": [], "sha256": sums}))
    check_tables([folder])
    changed = data.draw(st.sampled_from(sorted(contents)))
    at = data.draw(st.integers(0, len(contents[changed]) - 1))
    text = bytearray(contents[changed])
    text[at] ^= 1
    (folder / changed).write_bytes(text)
    with pytest.raises(DamagedError, match=changed) as caught:
        check_tables([folder])
    assert caught.value.paths == (folder / changed,)


def test_a_pipe_is_no_file(tmp_path):
    """Whoever opens one waits for a writer for ever."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert about(path) == {}
    for read in (load_cell, file_sha256, load):
        with pytest.raises(FileError, match="pipe: is not a regular file; remove it"):
            read(path)


def test_a_small_file_that_would_fill_the_memory_is_not_read(tmp_path):
    """Columns of one value repeated, whose pages are a few bytes each."""
    path = tmp_path / "wide.parquet"
    zeros = pa.array(np.zeros(10**6, np.float32))
    pq.write_table(pa.table({f"c{i}": zeros for i in range(101)}), path, compression="zstd")
    assert path.stat().st_size < 10**6
    with pytest.raises(ResultError, match=r"1,000,000 rows of 101 columns, .* are too much"):
        load_cell(path)


def test_a_checkpoint_of_lists_that_are_one_and_the_same_is_refused(tmp_path):
    lists = [0]
    for _ in range(60):
        lists = [lists, lists]
    path = tmp_path / "walk.pt"
    torch.save({"runs": lists}, path)
    with pytest.raises(DamagedError, match="holds more than 10,000,000 values"):
        load(path)
