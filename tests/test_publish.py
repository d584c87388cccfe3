"""What is staged is published as it is planned, and nothing is removed before all is there."""

import json
import shutil
from pathlib import Path

import pytest

from hindsight import publish
from hindsight.files import FileError
from hindsight.publish import MANIFEST, STAGED, publish_cells
from hindsight.specs.config import EPISODES, PUBLISHED, TRAINED, Config, parse
from hindsight.specs.plan import Plan
from hindsight.specs.reading import read_keys

ROOT = Path(__file__).parents[1]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Two of the published cells, in a folder of its own."""
    values = read_keys(ROOT / "config.yaml") | {"preset": "large"}
    narrowed = {"spawns": ["random"], "preys": ["static"], "fidelities": ["released"]}
    nothing = {"SAC": {"preys": ["repel"]}, "SAC-HER": {"preys": ["repel"]}}
    values["select"] = {"algorithms": narrowed | {"arms": nothing}}
    monkeypatch.chdir(tmp_path)
    return parse(values)


def put(name: str, folder: Path) -> Path:
    path = folder / "cells" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / PUBLISHED / "cells" / f"{name}.parquet", path)
    return path


def test_staged_cells_are_moved_and_replaced_ones_removed(config: Config) -> None:
    first, second = Plan.of(config).cells
    stranger = next((ROOT / PUBLISHED / "cells").rglob("dqn-*.parquet"))
    old = put(str(stranger.relative_to(ROOT / PUBLISHED / "cells").with_suffix("")), PUBLISHED)
    staged = put(first, STAGED)
    told = list(publish_cells(config))
    assert told[0] == f"missing: {second}"
    assert old.exists() and not staged.exists()  # what is missing may be what replaces it
    assert (PUBLISHED / "cells" / f"{first}.parquet").exists()

    put(second, STAGED)
    told = list(publish_cells(config))
    assert told[0].startswith("removed: ") and len(told) == 2
    assert not old.exists()
    files = json.loads(MANIFEST.read_text())
    assert set(files) == {f"cells/{name}.parquet" for name in (first, second)}


def test_a_damaged_staged_cell_is_refused_and_stays(config: Config) -> None:
    first = next(iter(Plan.of(config).cells))
    staged = put(first, STAGED)
    staged.write_bytes(staged.read_bytes()[:-9])
    with pytest.raises(Exception, match=r"not a readable results file"):
        list(publish_cells(config))
    assert staged.exists() and not (PUBLISHED / "cells" / f"{first}.parquet").exists()


@pytest.mark.parametrize("kind", ["cell", "policy", "episodes", "stranger"])
def test_what_is_not_written_anew_is_verified_first(config: Config, kind: str) -> None:
    """A manifest never vouches for damage, nor for a file that it has not seen."""
    first, second = Plan.of(config).cells
    for name in (first, second):
        put(name, STAGED)
    policy = STAGED / "policies" / f"{first}.pt"
    policy.parent.mkdir(parents=True)
    policy.write_bytes(b"a policy")
    drawn = TRAINED / "tables" / Plan.of(config).config.source / EPISODES
    drawn.parent.mkdir(parents=True)
    drawn.write_bytes(b"episodes")
    list(publish_cells(config))
    drawn.unlink()
    list(publish_cells(config))
    manifest = MANIFEST.read_text()
    path = {
        "cell": PUBLISHED / "cells" / f"{second}.parquet",
        "policy": PUBLISHED / "policies" / f"{first}.pt",
        "episodes": PUBLISHED / EPISODES,
        "stranger": PUBLISHED / "cells" / f"{second}.parquet",
    }[kind]
    if kind == "stranger":
        files = json.loads(manifest)
        del files[f"cells/{second}.parquet"]
        manifest = json.dumps(files)
        MANIFEST.write_text(manifest)
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FileError, match=path.name):
        list(publish_cells(config))
    assert MANIFEST.read_text() == manifest
    put(second, TRAINED)
    if path.suffix == ".parquet":  # what is published anew needs no word of before
        list(publish_cells(config))


def test_a_publication_that_is_killed_begins_anew(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is staged is not removed before the manifest is written."""
    cells = list(Plan.of(config).cells)
    staged = [put(name, STAGED) for name in cells]

    def killed(files: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(publish, "_write_manifest", killed)
        list(publish_cells(config))
    assert all(path.exists() for path in staged)
    assert list(publish_cells(config)) == [f"{MANIFEST}: 2 files"]
    assert not any(path.exists() for path in staged)
