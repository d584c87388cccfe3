"""Policies that ship: the run in the middle, what acts of it, and nothing that runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from hindsight import publish_policies as shipping
from hindsight.files import FileError
from hindsight.integrity import file_sha256
from hindsight.publish import STAGED, publish_cells
from hindsight.publish_policies import (
    middle_run,
    publish_policies,
    publish_trained,
    result_of,
    stage_policy,
    write_policy,
)
from hindsight.specs.cell import CellSpec
from hindsight.specs.config import PUBLISHED, parse
from hindsight.specs.errors import SpecError
from hindsight.specs.plan import Plan, Shipped
from hindsight.training.cell import train_cell
from hindsight.training.evaluate import evaluate_policy
from hindsight.training.files import load, save
from hindsight.training.policies import acting_places, initial_row, n_parameters, policy_of
from hindsight.training.policy_files import read_policy
from hindsight.training.watch import film_policy

ROOT = Path(__file__).parents[1]
SHIPPED = sorted((ROOT / PUBLISHED / "policies").rglob("*.pt"))
MOST_BYTES = 5_000_000
#: Environments of others, which are in no experiment, and the package that each is in.
OTHERS = {"PandaReach-v3": "panda_gym"}
#: Hashes of cells that `hindsight train` has trained: the recommended recipe's.
OF_NO_EXPERIMENT = {"43be09338e"}
#: One of each algorithm.
SPECS = {
    "ppo": {"algorithm": {"hidden": [8]}, "environment": {"n_dims": 2}},
    **{
        name: {
            "algorithm": {"name": name, "hidden": [8]},
            "environment": {"n_dims": 2},
            "replay": {"strategy": "future"},
        }
        for name in ("sac", "td3", "ddpg")
    },
    "dqn": {"algorithm": {"name": "dqn", "hidden": [8]}, "environment": {"id": "BitFlipping-v0"}},
}


@pytest.mark.parametrize("name", SPECS)
def test_what_is_kept_is_what_acts(name, tmp_path):
    spec = CellSpec.model_validate(SPECS[name])
    row = torch.randn(n_parameters(spec))
    write_policy(tmp_path / "a.pt", spec, 5, row, {})
    read, found = read_policy(tmp_path / "a.pt")
    assert read == spec and len(acting_places(spec)) < len(row)
    obs = torch.randn(1, 50, spec.environment.observation_size)
    assert torch.equal(policy_of(spec, row[None])(obs), policy_of(spec, found[None])(obs))
    with pytest.raises(FileError, match="only what acts without randomness"):
        read_policy(tmp_path / "a.pt", random=True)
    with pytest.raises(FileError, match=r"has no run 4; there are .5."):
        read_policy(tmp_path / "a.pt", 4)
    saved = load(tmp_path / "a.pt")
    save(tmp_path / "b.pt", {**saved, "rows": saved["rows"][:, :-1]})
    with pytest.raises(FileError, match="parameters are not those of its specification"):
        read_policy(tmp_path / "b.pt")


def test_the_run_in_the_middle():
    def runs(*returns):
        seeds = range(len(returns))
        return pd.DataFrame({
            "final_evaluation_return": returns, "final_evaluation_success": 0.0, "seed": seeds,
        })  # fmt: skip

    assert middle_run(runs(0.1, 0.9, 0.5))["seed"] == 2
    assert middle_run(runs(0.1, 0.9, 0.5, 0.6))["seed"] == 2
    assert middle_run(runs(0.3, 0.3, 0.3, 0.3))["seed"] == 1


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A project whose published results are one small cell; its plan's configuration and cell."""
    monkeypatch.chdir(tmp_path)
    values = yaml.safe_load((ROOT / "config.yaml").read_text())
    values["presets"]["large"] |= {
        "hidden": [8], "n_steps": 64, "steps": 320, "seeds": 3,
        "evaluation": {"points": 2, "episodes": 10},
        "select": {"algorithms": {"spawns": ["random"], "preys": ["attract"],
                                  "fidelities": ["described"]}},
    }  # fmt: skip
    config = Shipped(parse(values)).config
    entries = Plan.of(config).experiments["algorithms"]
    (spec,) = (entry.spec for entry, _ in entries if entry.arm == "PPO-HER")
    curves = train_cell(spec, tmp_path / "trained")
    target = PUBLISHED / "cells" / f"{spec.name}.parquet"
    target.parent.mkdir(parents=True)
    shutil.copy(curves, target)
    name = str(target.relative_to(PUBLISHED))
    (PUBLISHED / "manifest.json").write_text(json.dumps({name: {"sha256": file_sha256(target)}}))
    return config, spec


def test_a_policy_ships_with_its_specification_and_result(small, tmp_path):
    config, spec = small
    told = list(publish_policies(config, ["PPO-HER"], tmp_path / "trained"))
    path = PUBLISHED / "policies" / f"{spec.name}.pt"
    rows = pd.read_parquet(PUBLISHED / "cells" / f"{spec.name}.parquet")
    last = rows[rows.phase == "evaluation"].groupby("seed").return_mean.last()
    result = result_of(path)
    assert result["return_mean"] == result["return_mean_of_curves"] == np.sort(last)[1]
    assert told == [
        f"{path}: run {last.sort_values(kind='stable').index[1]}, "
        f"return {result['return_mean']:.3f}, success {result['success_rate']:.2f}"
    ]
    found = evaluate_policy(path, n_episodes=3)
    assert found.returns.shape == (3,) and len(film_policy(path, None, 2, 0)) == 2
    assert list(publish_policies(config, ["PPO-HER"])) == [f"{path}: is there"]


def test_the_manifest_vouches_for_a_policy(small, tmp_path):
    """Publishing cells keeps its entry; a policy that is another file is not used."""
    config, spec = small
    list(publish_policies(config, ["PPO-HER"], tmp_path / "trained"))
    path = PUBLISHED / "policies" / f"{spec.name}.pt"
    list(publish_cells(config))
    entries = json.loads((PUBLISHED / "manifest.json").read_text())
    assert entries[f"policies/{spec.name}.pt"]["sha256"] == file_sha256(path)
    assert len(read_policy(path)) == 2
    write_policy(path, spec, 0, initial_row(spec), {})
    with pytest.raises(FileError, match="differs from its checksum"):
        read_policy(path)
    path.unlink()
    list(publish_cells(config))
    assert set(json.loads((PUBLISHED / "manifest.json").read_text())) == entries.keys() - {
        f"policies/{spec.name}.pt"
    }


def test_without_trained_cells_the_run_alone_is_trained_again(small, tmp_path, monkeypatch):
    config, spec = small
    (told,) = publish_policies(config, ["PPO-HER"], tmp_path / "nowhere")
    path = PUBLISHED / "policies" / f"{spec.name}.pt"
    alone = read_policy(path)[1]
    assert "trained again" in told
    list(publish_policies(config, ["PPO-HER"], tmp_path / "trained", again=True))
    assert result_of(path)["return_mean"] == pytest.approx(result_of(path)["return_mean_of_curves"])
    torch.testing.assert_close(alone, read_policy(path)[1], rtol=0, atol=1e-5)
    monkeypatch.setattr(shipping, "train_again", None)  # nor is anything trained twice
    assert next(publish_policies(config, ["PPO-HER"], tmp_path / "nowhere")).endswith("is there")


def test_a_policy_may_be_staged_until_its_cell_is_published(small, tmp_path):
    config, spec = small
    stage_policy(spec, tmp_path / "nowhere")
    assert not STAGED.exists()
    stage_policy(spec, tmp_path / "trained")
    staged = STAGED / "policies" / f"{spec.name}.pt"
    path = PUBLISHED / "policies" / f"{spec.name}.pt"
    assert staged.exists() and not path.exists()
    list(publish_cells(config))
    assert path.exists() and not staged.exists()
    middle = read_policy(path)[1]
    list(publish_policies(config, ["PPO-HER"], tmp_path / "trained", again=True))
    assert torch.equal(middle, read_policy(path)[1])


def test_of_a_cell_of_no_experiment(small, tmp_path):
    """As `hindsight train` leaves it: nothing else of it is published."""
    _, spec = small
    curves = tmp_path / "trained" / "cells" / f"{spec.name}.parquet"
    path = PUBLISHED / "policies" / f"{spec.name}.pt"
    told = publish_trained(curves)
    rows = pd.read_parquet(curves)
    last = rows[rows.phase == "evaluation"].groupby("seed").return_mean.last()
    assert told.startswith(f"{path}: run ") and result_of(path)["return_mean"] == np.sort(last)[1]
    assert read_policy(path)[0] == spec  # so the manifest vouches for it
    with pytest.raises(FileError, match=r"\.pt: is no cell|cannot be read|not a parquet"):
        publish_trained(path)
    (tmp_path / "trained" / "policies" / f"{spec.name}.pt").unlink()
    with pytest.raises(FileError, match="no policies of today's code are beside it"):
        publish_trained(curves)


def test_what_is_unknown_or_missing_is_told(small):
    config, spec = small
    with pytest.raises(SpecError, match=r"--arm 'HER' is unknown; there are PPO, PPO-HER, SAC"):
        list(publish_policies(config, ["HER"]))
    with pytest.raises(SpecError, match="--task 'FetchReach' is unknown; there are predator-prey"):
        list(publish_policies(config, tasks=["FetchReach"]))
    with pytest.raises(SpecError, match="--experiment 'fetch' is unknown; there are algorithms"):
        list(publish_policies(config, experiment="fetch"))
    assert next(publish_policies(config, ["SAC"])).startswith("missing: results/published/cells/")
    (PUBLISHED / "cells" / f"{spec.name}.parquet").write_bytes(b"else")
    with pytest.raises(FileError, match="differs from its checksum"):
        list(publish_policies(config, ["PPO-HER"]))


# --- what ships -----------------------------------------------------------------------------------


def test_what_ships_is_small():
    assert SHIPPED and sum(path.stat().st_size for path in SHIPPED) < MOST_BYTES


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_ships_does_what_it_says(path):
    result = result_of(path)
    if path.parent.name in OTHERS:
        pytest.importorskip(OTHERS[path.parent.name], reason="its environment is no requirement")
    spec, _ = read_policy(path)
    assert path == ROOT / PUBLISHED / "policies" / f"{spec.name}.pt"
    curves = ROOT / PUBLISHED / "cells" / f"{spec.name}.parquet"
    alone = path.parent.name in OTHERS or spec.hash in OF_NO_EXPERIMENT
    assert curves.exists() == (not alone)
    found = evaluate_policy(path, n_episodes=60, seed=1)
    error = np.sqrt(0.25 / 60 + 0.25 / result["episodes"])
    assert found.success_rate == pytest.approx(result["success_rate"], abs=4 * error)


def test_the_commands_of_the_pages_run(tmp_path, monkeypatch):
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/library.md")]
    shown = re.compile(r"^(?:\.venv/bin/)?(hindsight \w+ results/published[^#\n]*)", re.M)
    commands = [command for page in pages for command in shown.findall(page)]
    assert len(commands) == 3
    (tmp_path / "results").mkdir()
    (tmp_path / PUBLISHED).symlink_to(ROOT / PUBLISHED)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for command in commands:
        done = subprocess.run(
            f"{command} --episodes 2", shell=True, cwd=tmp_path, env={**os.environ, "PATH": path},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "chase.gif").stat().st_size > 1000
