"""Publishing: what the manifest says of a file, and that it keeps what it said before."""

import json
from types import SimpleNamespace

import pytest

from hindsight import publish, repository
from hindsight.files import FileError

SAYS = {"spec_hash": "s", "code": "c", "versions": {}, "machine": {}, "seconds": 1.0}


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Two cells of a plan, one of which is trained; their files are words."""
    monkeypatch.chdir(tmp_path)
    plan = SimpleNamespace(cells={"a/one": None, "a/two": None}, config=SimpleNamespace(source="p"))
    monkeypatch.setattr(publish.Plan, "of", lambda config: plan)
    monkeypatch.setattr(publish, "load_cell", lambda path: SimpleNamespace(metadata=SAYS))
    (tmp_path / "results/cells/a").mkdir(parents=True)
    (tmp_path / "results/cells/a/one.parquet").write_text("one")
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
    (trained / "results/cells/a/two.parquet").write_text("two")
    _, files = published(trained)
    assert {name: entry["commit"] for name, entry in files.items()} == {
        "cells/a/one.parquet": "first", "cells/a/two.parquet": "second",
    }  # fmt: skip
    (trained / "results/cells/a/one.parquet").write_text("one, trained anew")
    _, files = published(trained)
    assert files["cells/a/one.parquet"]["commit"] == "second"


def test_a_damaged_manifest_ends_in_a_sentence(trained):
    published(trained)
    (trained / "results/published/manifest.json").write_text('{"cells/a/one.parquet": 3}')
    with pytest.raises(FileError, match="cannot be read as a manifest"):
        published(trained)
