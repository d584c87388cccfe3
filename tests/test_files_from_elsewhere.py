"""Damaged, absurd and hostile files end in one sentence, before they fill the memory."""

import json
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from hindsight.analysis.cells import ResultError, load_cell
from hindsight.envs.episodes import load_episodes
from hindsight.io.checkpoints import CHECKSUM, STATE, TENSOR, _checksum, load, save
from hindsight.io.checksums import about, file_sha256, is_whole, read_table, sealed
from hindsight.io.files import DamagedError, FileError
from hindsight.io.records import RECORD, Digests, Making
from hindsight.specs.cell import CellSpec
from hindsight.specs.from_file import read_spec
from hindsight.training.finished import write_curves
from hindsight.training.policies import initial_row, n_parameters
from hindsight.training.policy_files import PolicyFile, read_policy
from tests.analysis.synthetic import write_cell
from tests.analysis.test_cells import rewrite
from tests.support.commands import program
from tests.support.examples import quick


@pytest.fixture(autouse=True)
def at_once():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 30.0


# --- specifications and policies ------------------------------------------------------------------


def values(**changes: Any) -> dict[str, Any]:
    """A specification as plain values; `algorithm__hidden` changes a part's key."""
    found = json.loads(CellSpec().model_dump_json())
    for key, value in changes.items():
        section, _, name = key.rpartition("__")
        (found[section] if section else found)[name] = value
    return found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithm__hidden": [10**18]}, "hidden.0: 1000000000000000000 is not allowed"),
        ({"algorithm__hidden": [10_000] * 20}, "a network of 1,9.* weights is larger"),
        ({"algorithm__hidden": [4] * 10_000}, "at most 100 items"),
        ({"steps": 10**400}, "steps: 1000.* is not allowed"),
        ({"environment__n_dims": 10**6}, "environment.n_dims: 1000000 is not allowed"),
        ({"algorithm__learning_rate": float("nan")}, "learning_rate: nan is not allowed"),
        ({"environment__title": "a" * 200_000}, "longer than 100,000 characters"),
    ],
)
def test_an_absurd_specification(changes, words, tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(values(**changes)))
    policy = tmp_path / "policy.safetensors"
    save(policy, {"spec": path.read_text(), "seeds": [0], "rows": torch.zeros(1, 3)})
    for read in (read_spec, read_policy):
        with pytest.raises(FileError, match=words) as caught:
            read(path if read is read_spec else policy)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize("text", ["[" * 50_000, '{"a":' * 20_000, "[]", "null", "{", ""])
def test_text_that_is_no_specification(text, tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        read_spec(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": torch.zeros(1, 5, dtype=torch.complex64)}, "not real numbers"),
        ({"rows": [[0.0]]}, "not real numbers"),
        ({"rows": torch.zeros(5)}, "one row of parameters per seed"),
        ({"rows": torch.zeros(2, 5)}, "one row of parameters per seed"),
        ({"rows": torch.zeros(1, 5)}, "do not match its specification"),
        ({"seeds": "0"}, "seeds are not whole numbers"),
        ({"seeds": [0.0]}, "seeds are not whole numbers"),
        ({"spec": 7}, "policy.safetensors: "),
    ],
)
def test_a_file_that_is_no_policy(changes, words, tmp_path):
    spec, path = CellSpec(), tmp_path / "policy.safetensors"
    whole = {"spec": spec.model_dump_json(), "seeds": [0], "rows": initial_row(spec)[None]}
    save(path, whole | changes)
    with pytest.raises(FileError, match=words) as caught:
        read_policy(path, 0)
    assert "\n" not in str(caught.value)


def test_the_policy_of_a_diverged_run(tmp_path):
    spec, path = CellSpec(), tmp_path / "policy.safetensors"
    rows = torch.stack([initial_row(spec), initial_row(spec)])
    rows[1, 3] = torch.nan
    save(path, {"spec": spec.model_dump_json(), "seeds": [0, 1], "rows": rows})
    assert PolicyFile.read(path).seeds == [0, 1]
    assert len(read_policy(path, 0)[1]) == n_parameters(spec)
    with pytest.raises(FileError, match="run 1 diverged in training"):
        read_policy(path, 1)


# --- archives -------------------------------------------------------------------------------------


def test_an_archive_that_holds_a_thousand_times_its_size(tmp_path):
    path = tmp_path / "episodes.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("predator_0.npy", "w", force_zip64=True) as file,
    ):
        for _ in range(16):
            file.write(bytes(1 << 24))
    began = time.process_time()
    with pytest.raises(DamagedError, match="its archive is compressed, and could expand"):
        load_episodes(path)
    assert time.process_time() - began < 0.5


def test_an_array_of_more_numbers_than_the_file_holds(tmp_path):
    path = tmp_path / "episodes.npz"
    np.savez(path, predator_0=np.zeros((2, 3)))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"(2, 3), }" + b" " * 16, b"(200000000000, 300000), }"))
    assert path.read_bytes() != data
    with pytest.raises(FileError, match="holds no episodes"):
        load_episodes(path)


def raw(path: Path, state: Any, offered: dict[str, np.ndarray] | None = None) -> Path:
    """A file as a stranger could write it, with the right checksum."""
    tensors = offered or {}
    text = json.dumps({CHECKSUM: "", **state})
    text = text.replace('""', f'"{_checksum(text, tensors)}"', 1)
    save_file(tensors, path, {STATE: text})
    return path


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"runs": [{TENSOR: "a"}] * 1000}, "or was not written by hindsight 1.1 or newer: 'a'"),
        ({"runs": {TENSOR: ["a"]}}, "unhashable"),
        ({"runs": [[]] * 5_000_000}, "more than 10,000,000 characters"),
    ],
)
def test_a_small_file_that_would_fill_the_memory_or_has_another_form(tmp_path, state, words):
    """A tensor that stands in a thousand places would be copied a thousand times."""
    path = raw(tmp_path / "walk.safetensors", state, {"a": np.zeros(3)})
    with pytest.raises(DamagedError, match=words):
        load(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "recursion"), ("[1]", "or was not"), ("7", "or was not"),
        ("{}", "'sha256'"),
        ('{"sha256": 7}', "checksum is wrong"), ('{"sha256": ""}', "checksum is wrong"),
    ],
)  # fmt: skip
def test_text_that_no_checkpoint_has(tmp_path, text, words):
    save_file({}, path := tmp_path / "deep.safetensors", {STATE: text})
    with pytest.raises(DamagedError, match=words):
        load(path)


def test_equal_states_are_equal_bytes_in_any_process(tmp_path, monkeypatch):
    """So a policy that is published again is the same file."""
    text = """
import torch
from pathlib import Path
from hindsight.io.checkpoints import save
save(Path("a"), {"spec": "{}", "rows": torch.ones(2, 3), "more": {"x": torch.zeros(1)}, "n": [1]})
"""
    monkeypatch.chdir(tmp_path)
    exec(text, {})
    here = Path("a").read_bytes()
    assert program(sys.executable, "-c", text).returncode == 0
    assert Path("a").read_bytes() == here


def test_a_tensor_larger_than_its_file(tmp_path):
    save(path := tmp_path / "policy.safetensors", {"rows": torch.zeros(1, 5)})
    data = path.read_bytes()
    for old, new in ((b"[1,5]", b"[9,5]"), (b'"F32"', b'"F64"'), (b"[0,20]", b"[0,90]")):
        assert old in data
        path.write_bytes(data.replace(old, new))
        with pytest.raises(DamagedError, match="Error while deserializing header"):
            load(path)


@pytest.mark.parametrize("name", ["policy.pt", "policy.safetensors"])
def test_the_archives_of_version_1_0_are_not_loaded(tmp_path, name):
    """They are pickles, which can name code; whole ones are not said to be damaged."""
    path = tmp_path / name
    torch.save({"spec": "{}", "seeds": [0], "rows": torch.zeros(1, 5)}, path)
    with pytest.raises(FileError, match="written by hindsight 1") as caught:
        load(path)
    assert isinstance(caught.value, DamagedError) == (name != "policy.pt")


@quick(100)
@given(st.data())
def test_a_flipped_bit_anywhere_in_a_checkpoint_is_seen(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("flip") / "checkpoint.safetensors"
    save(path, {"runs": {"rows": torch.arange(6.0).view(2, 3)}, "ended": [{"seed": 1}], "x": None})
    whole = bytearray(path.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(whole)
    with pytest.raises(DamagedError):
        load(path)


def test_opening_a_pipe_would_wait_forever(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for read in (about, load_cell, file_sha256, load):
        with pytest.raises(FileError, match="pipe: is not a regular file"):
            read(path)


# --- results files --------------------------------------------------------------------------------

VALUES = {
    "phase": np.array(["train", "train", "evaluation"], dtype=object),
    "seed": np.array([0, 1, 1], dtype=np.int32),
    "return_mean": np.array([0.5, np.nan, -0.0], dtype=np.float32),
}


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


@quick(100)
@given(st.data())
def test_a_flipped_bit_anywhere_in_a_results_file_is_seen_or_changes_nothing(
    tmp_path_factory, data
):
    """Half of the file is its footer, which Parquet's checksums of pages do not cover."""
    path = tmp_path_factory.mktemp("flip") / "cell.parquet"
    table = pa.table({**VALUES, "loss": np.arange(3, dtype=np.float32)})
    write_curves(path, table, {"spec": "of a cell"})
    whole, before = bytearray(path.read_bytes()), read_table(path)
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(whole)
    try:
        after = read_table(path)
        seen = not is_whole(after)
    except Exception:
        return
    same = after.schema.equals(before.schema, check_metadata=True)
    assert seen or (same and as_bytes(after) == as_bytes(before))


def as_bytes(table: pa.Table) -> list[bytes]:
    """NaN equals NaN, and 0 is not -0."""
    return [repr(table["phase"].to_pylist()).encode()] + [
        table[name].to_numpy().tobytes() for name in table.column_names if name != "phase"
    ]


@pytest.fixture
def cell(tmp_path):
    return write_cell(tmp_path / "cell.parquet", seeds=2, iterations=5)


def test_a_results_file_of_columns_that_would_fill_the_memory(tmp_path):
    """They repeat one value, so their pages take a few bytes each."""
    path = tmp_path / "wide.parquet"
    zeros = pa.array(np.zeros(10**6, np.float32))
    pq.write_table(pa.table({f"c{i}": zeros for i in range(101)}), path, compression="zstd")
    assert path.stat().st_size < 10**6
    with pytest.raises(ResultError, match=r"1,000,000 rows of 101 columns, .* are too many"):
        load_cell(path)


@pytest.mark.parametrize(
    ("name", "column", "words"),
    [
        ("phase", pa.array(["x" * 1000] * 100), "a phase is longer than 20 characters"),
        ("phase", pa.array([["train"] * 1000] * 100), "'phase' of type list<.*> does not hold num"),
        ("loss", pa.array([[0.0] * 1000] * 100), "'loss' of type list<.*> does not hold numbers"),
        ("loss", pa.array(["x"] * 100), "'loss' of type string does not hold numbers"),
    ],
)
def test_a_results_file_of_a_few_values_that_repeat(tmp_path, name, column, words):
    """They are stored once, and a megabyte of them would be terabytes in memory."""
    path = tmp_path / "dense.parquet"
    pq.write_table(pa.table({name: column}), path, store_schema=False)
    with pytest.raises(ValueError, match=words):
        read_table(path)


@pytest.mark.parametrize(("key", "value"), [("steps", 10**400), ("seeds", "16"), ("steps", "a")])
def test_a_results_file_of_an_absurd_cell(cell, key, value):
    with pytest.raises(ResultError) as caught:
        load_cell(rewrite(cell, spec=about(cell)["spec"] | {key: value}))
    assert "\n" not in str(caught.value)


# --- tables ---------------------------------------------------------------------------------------


@settings(deadline=None)  # the first example imports the stages' code
@given(st.data())
def test_every_byte_of_tables_and_of_their_record_counts(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("tables")
    contents = {f"{name}.csv": data.draw(st.binary(min_size=1, max_size=20)) for name in "abc"}
    for name, text in contents.items():
        (folder / name).write_bytes(text)
    record = folder / RECORD
    Making("tables", []).record(record, [folder / name for name in contents], missing=[])
    Making("claims", [str(record)])
    changed = folder / data.draw(st.sampled_from([*sorted(contents), RECORD]))
    text = bytearray(changed.read_bytes())
    text[data.draw(st.integers(0, len(text) - 1))] ^= 1
    changed.write_bytes(text)
    with pytest.raises(DamagedError, match=changed.name) as caught:
        Making("claims", [str(record)])
    assert caught.value.paths == (changed,)


@pytest.mark.parametrize("name", ["/dev/zero", "..", "a/b.csv"])
def test_what_a_record_lists_is_read_only_if_it_is_a_file_beside_it(tmp_path, name):
    record = tmp_path / RECORD
    Making("tables", []).record(record, [Path(name)])
    assert Digests()[name] == ""
    with pytest.raises(DamagedError, match=RECORD):
        Making("claims", [str(record)])
