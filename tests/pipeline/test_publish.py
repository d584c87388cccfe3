"""Publishing: the manifest vouches for no file that it has not seen, and cells that are no longer
planned are removed once all planned ones exist.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from hindsight.analysis.cells import load_cell
from hindsight.io.checkpoints import load, save
from hindsight.io.checksums import about, file_sha256
from hindsight.io.files import FileError
from hindsight.io.records import Making
from hindsight.pipeline.publish import policies_of, publish, publish_policy, write_policy
from hindsight.specs.code import file_name
from hindsight.specs.config import PUBLISHED, TRAINED, Config
from hindsight.specs.errors import validated
from hindsight.specs.manifest import MANIFEST
from hindsight.specs.plan import Plan
from hindsight.training.cell import train_cell
from hindsight.training.evaluate import evaluate_policy
from hindsight.training.finished import write_curves
from hindsight.training.policies import initial_row
from hindsight.training.policy_files import read_policy
from tests.support import configuration
from tests.support.commands import program
from tests.support.configuration import ROOT


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A configuration of two of the published cells, in an empty folder."""
    values = configuration.values() | {"preset": "large"}
    narrowed = {"spawns": ["random"], "preys": ["static"], "fidelities": ["released"]}
    values["select"] = {"algorithms": narrowed | {"arms": ["PPO", "PPO-HER"]}}
    monkeypatch.chdir(tmp_path)
    return validated(Config, values)


def put(name: str, folder: Path = TRAINED) -> Path:
    """Copy a published cell of the repository, as published or as trained."""
    source = ROOT / PUBLISHED / "cells" / f"{name}.parquet"
    file = name if folder == PUBLISHED else f"{name}-{about(source)['code']}"
    path = folder / "cells" / f"{file}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, path)
    return path


def entries() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(MANIFEST.read_text())
    return found


def test_cells_no_longer_planned_go_once_all_planned_ones_exist(config):
    first, second = Plan.of(config).cells
    stranger = next((ROOT / PUBLISHED / "cells").rglob("dqn-*.parquet"))
    name = str(stranger.relative_to(ROOT / PUBLISHED / "cells").with_suffix(""))
    old = put(name, PUBLISHED)
    put(first)
    told = list(publish(config))
    assert told[0] == f"missing: {second}"
    assert old.exists()  # what is missing may be what replaces it
    assert (PUBLISHED / "cells" / f"{first}.parquet").exists()
    later = put(second)
    older = later.with_name(f"{later.stem[:-12]}0123456789ab.parquet")
    older.write_text("damaged, but the newest training counts")
    os.utime(older, (1000, 1000))
    told = list(publish(config))
    gone = f"removed: cells/{name}.parquet, which is no longer in the plan"
    assert told == [gone, f"{MANIFEST}: 2 files"]
    assert not old.exists()
    assert set(entries()) == {f"cells/{name}.parquet" for name in (first, second)}


def test_each_file_has_its_commit_and_versions(config):
    """What was published before keeps its entry."""
    first, second = Plan.of(config).cells
    Path("requirements.lock").write_text("numpy==1\n")
    who = ["-c", "user.name=n", "-c", "user.email=e"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "m"]):
        assert program("git", *command).returncode == 0
    commit = program("git", "rev-parse", "HEAD").stdout.strip()
    put(first)
    list(publish(config))
    entry = entries()[f"cells/{first}.parquet"]
    assert entry["commit"] == commit != ""
    assert entry["lock"] == hashlib.sha256(b"numpy==1\n").hexdigest()
    assert {"spec_hash", "code", "versions", "machine", "seconds"} <= entry.keys()
    Path("src").mkdir()
    Path("src/x.py").touch()
    put(second)
    list(publish(config))
    commits = [entry["commit"] for entry in entries().values()]
    assert commits == [commit, f"{commit} and changes on top"]


def test_a_damaged_cell_and_a_damaged_manifest_are_refused(config):
    with pytest.raises(FileError, match=r"^none: there is no such folder$"):
        list(publish(config, Path("none")))
    first, *_ = Plan.of(config).cells
    trained = put(first)
    whole = trained.read_bytes()
    trained.write_bytes(whole[:-9])
    with pytest.raises(FileError, match=r"not a readable results file"):
        list(publish(config))
    assert not MANIFEST.exists()
    trained.write_bytes(whole)
    MANIFEST.parent.mkdir(parents=True)
    MANIFEST.write_text('{"cells/a/one.parquet": 3}')
    with pytest.raises(FileError, match="cannot be read as a manifest"):
        list(publish(config))


@pytest.mark.parametrize("kind", ["cell", "policy", "stranger"])
def test_files_that_stay_are_verified_first(config, kind):
    """A manifest never vouches for damage, nor for a file that it has not seen."""
    first, second = Plan.of(config).cells
    cell, policy = put(second, PUBLISHED), PUBLISHED / "policies" / f"{first}.safetensors"
    policy.parent.mkdir(parents=True)
    policy.write_bytes(b"not looked into")
    kept = [put(first, PUBLISHED), cell, policy]
    files = {str(x.relative_to(PUBLISHED)): {"sha256": file_sha256(x)} for x in kept}
    MANIFEST.write_text(json.dumps(files))
    list(publish(config))
    path = policy if kind == "policy" else cell
    if kind == "stranger":
        del files[f"cells/{second}.parquet"]
        MANIFEST.write_text(json.dumps(files))
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    before = MANIFEST.read_text()
    with pytest.raises(FileError, match=path.name):
        list(publish(config))
    assert MANIFEST.read_text() == before
    put(second)
    if path == cell:  # a republished cell needs no previous entry
        list(publish(config))


# --- policies -------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A project whose results are one small cell, which is trained; its configuration and cell."""
    monkeypatch.chdir(tmp_path)
    values = configuration.values()
    values["presets"]["large"] |= {
        "hidden": [8], "n_steps": 64, "steps": 320, "seeds": 4,
        "evaluation": {"points": 2, "episodes": 10},
        "select": {"algorithms": {"spawns": ["random"], "preys": ["attract"],
                                  "fidelities": ["described"]}},
    }  # fmt: skip
    config = validated(Config, values | {"results": "published"})
    found = Plan.of(config).experiments["algorithms"]
    (spec,) = (entry.spec for entry, _ in found if entry.arm == "PPO-HER")
    train_cell(spec, TRAINED)
    return config, spec


def test_the_middle_runs_policy_ships_with_its_cell(small):
    config, spec = small
    list(publish(config))
    path = PUBLISHED / "policies" / f"{spec.name}.safetensors"
    rows = pd.read_parquet(PUBLISHED / "cells" / f"{spec.name}.parquet")
    # Without columns that nothing reads.
    assert set(rows) < set(pd.read_parquet(TRAINED / "cells" / f"{file_name(spec)}.parquet"))
    last = rows[rows.phase == "evaluation"].groupby("seed").return_mean.last()
    result = load(path)["result"]
    # Of the two in the middle, the worse one.
    assert result["return_mean"] == np.sort(last)[1]
    assert result["which"].startswith(f"run {last.sort_values(kind='stable').index[1]}, in the mid")
    assert entries()[f"policies/{spec.name}.safetensors"]["sha256"] == file_sha256(path)
    assert evaluate_policy(path, n_episodes=3).returns.shape == (3,)


def test_a_median_run_that_diverged_has_no_policy(small):
    config, spec = small
    curves = TRAINED / "cells" / f"{file_name(spec)}.parquet"
    policies = policies_of(curves)
    save(policies, {**load(policies), "seeds": [], "rows": torch.empty(0, 0)})
    cell = load_cell(curves)
    runs = [run | {"ended": "diverged"} for run in cell.metadata["runs"]]
    metadata = cell.metadata | {"runs": runs, "policies": file_sha256(policies)}
    write_curves(curves, pq.read_table(curves), metadata)
    with pytest.raises(FileError, match="its median run diverged, so there is no policy to publ"):
        list(publish(config))


class Killed(BaseException):
    """As by SIGKILL: nothing catches it."""


@pytest.mark.parametrize("acts", [True, False])
def test_a_publication_that_is_killed_is_completed_by_the_same_call(small, monkeypatch, acts):
    """After each of its writes, over the files of another training."""
    config, spec = small
    list(publish(config))
    curves = TRAINED / "cells" / f"{file_name(spec)}.parquet"
    policies = policies_of(curves)
    save(policies, {**(saved := load(policies)), "rows": saved["rows"] + 1})
    of_another = {"evaluation_seconds": 0.5, "policies": file_sha256(policies)}
    write_curves(curves, pq.read_table(curves), {**about(curves), **of_another})
    if not acts:  # so the published one is of other curves
        policies.unlink()
    shutil.copytree(PUBLISHED, "before")

    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in PUBLISHED.rglob("*") if path.is_file()}

    before = contents()
    list(publish(config))
    whole, replace = contents(), Path.replace
    assert len([path for path in whole if whole[path] != before.get(path)]) == 2 + acts
    assert (str(PUBLISHED / "policies" / f"{spec.name}.safetensors") in whole) == acts
    for last in range(1, 3 + acts):
        shutil.rmtree(PUBLISHED)
        shutil.copytree("before", PUBLISHED)
        writes = iter(range(1, 100))

        def replaced(path, target, writes=writes, last=last):
            replace(path, target)
            if next(writes) == last:
                raise Killed

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(Path, "replace", replaced)
            list(publish(config))
        (PUBLISHED / ".manifest.abcd1234").mkdir()  # as if killed by SIGKILL, within a write
        list(publish(config))
        assert contents() == whole and not list(PUBLISHED.rglob(".*"))


def test_the_manifest_vouches_for_a_policy(small):
    """Another file in its place is not used."""
    config, spec = small
    list(publish(config))
    path = PUBLISHED / "policies" / f"{spec.name}.safetensors"
    kept = path.read_bytes()
    write_policy(path, spec, 0, initial_row(spec), {})
    with pytest.raises(FileError, match="differs from its checksum"):
        read_policy(path)
    path.write_bytes(kept)
    shutil.rmtree(TRAINED / "policies")
    list(publish(config))
    assert path.exists()  # the same curves


def test_publishing_the_policy_of_a_cell_of_no_experiment(small):
    """One that `hindsight train` trained; only the policy is published."""
    config, spec = small
    list(publish(config))
    path = PUBLISHED / "policies" / f"{spec.name}.safetensors"
    path.unlink()
    curves = TRAINED / "cells" / f"{file_name(spec)}.parquet"
    assert publish_policy(curves).startswith(f"{path}: run ")
    assert read_policy(path)[0] == spec  # so the manifest vouches for it
    with pytest.raises(FileError, match="not a readable results file"):
        publish_policy(path)
    policies_of(curves).unlink()
    with pytest.raises(FileError, match=r"No such file|cannot be read"):
        publish_policy(curves)


def test_episodes_that_no_job_made_are_not_published(small):
    """Nor anything else."""
    config, spec = small
    episodes = TRAINED / "tables" / config.size_name / "environment/episodes.npz"
    episodes.parent.mkdir(parents=True)
    episodes.write_text("not an archive")
    with pytest.raises(FileError, match=r"episodes.npz: no job of this project made it as it is"):
        list(publish(config))
    assert not PUBLISHED.exists()
    policies = policies_of(TRAINED / "cells" / f"{file_name(spec)}.parquet")
    kept = policies.read_bytes()
    policies.write_bytes(kept[::-1])
    Making("episodes", [str(policies)]).record(episodes)
    policies.write_bytes(kept)
    with pytest.raises(FileError, match=r"npz: other policies than results/policies/\S+ acted in"):
        list(publish(config))
    assert not PUBLISHED.exists()
    Making("episodes", [str(policies)]).record(episodes)
    list(publish(config))
    assert (PUBLISHED / "environment/episodes.npz").read_text() == "not an archive"
