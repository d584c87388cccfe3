"""What is staged is published as it is planned, and nothing is removed before all is there."""

import json
import shutil
from pathlib import Path

import pytest

from hindsight.publish import MANIFEST, STAGED, publish_cells
from hindsight.specs.config import PUBLISHED, Config, parse
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
