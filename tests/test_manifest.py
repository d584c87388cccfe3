"""Publishing: what the manifest says of a file, and that it keeps what it said before."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hindsight import publish, repository
from hindsight.files import FileError
from hindsight.integrity import is_whole
from hindsight.training.files import write_curves

SAYS = {"spec_hash": "s", "code": "c", "versions": {}, "machine": {}, "seconds": 1.0}


def write(path, returns):
    """A trained cell's file with one column that figures read and one that nothing does."""
    table = pa.table({"return_mean": returns, "gradient_norm": [0.5] * len(returns)})
    write_curves(path, table, SAYS)


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Two cells of a plan, one of which is trained."""
    monkeypatch.chdir(tmp_path)
    plan = SimpleNamespace(cells={"a/one": None, "a/two": None}, config=SimpleNamespace(source="p"))
    monkeypatch.setattr(publish.Plan, "of", lambda config: plan)
    monkeypatch.setattr(publish, "load_cell", lambda path: SimpleNamespace(metadata=SAYS))
    (tmp_path / "results/cells/a").mkdir(parents=True)
    write(tmp_path / "results/cells/a/one.parquet", [1.0, 0.1])
    (tmp_path / "requirements.lock").write_text("numpy==1\n")
    monkeypatch.setattr(repository, "commit", lambda: "first")
    return tmp_path


def published(folder):
    told = list(publish.publish_cells(None))
    return told, json.loads((folder / "results/published/manifest.json").read_text())


def test_each_file_says_of_what_commit_and_versions_it_was_published(trained):
    told, files = published(trained)
    assert told[0] == "missing: a/two" and set(files) == {"cells/a/one.parquet"}
    entry = files["cells/a/one.parquet"]
    assert entry["commit"] == "first" and entry["lock"] == repository.lock_sum() != ""
    assert entry.items() >= SAYS.items()


def test_what_was_published_before_keeps_its_entry(trained, monkeypatch):
    published(trained)
    monkeypatch.setattr(repository, "commit", lambda: "second")
    write(trained / "results/cells/a/two.parquet", [2.0, 0.1])
    _, files = published(trained)
    assert {name: entry["commit"] for name, entry in files.items()} == {
        "cells/a/one.parquet": "first", "cells/a/two.parquet": "second",
    }  # fmt: skip
    write(trained / "results/cells/a/one.parquet", [1.5, 0.1])
    _, files = published(trained)
    assert files["cells/a/one.parquet"]["commit"] == "second"


def test_what_nothing_reads_is_left_out(trained):
    published(trained)
    ships = pq.read_table(trained / "results/published/cells/a/one.parquet")
    assert is_whole(ships) and ships.to_pydict() == {"return_mean": [1.0, 0.1]}
    assert json.loads(ships.schema.metadata[b"hindsight"]) == SAYS


def test_a_damaged_manifest_ends_in_a_sentence(trained):
    published(trained)
    (trained / "results/published/manifest.json").write_text('{"cells/a/one.parquet": 3}')
    with pytest.raises(FileError, match="cannot be read as a manifest"):
        published(trained)
