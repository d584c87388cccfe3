"""Published policies: the median run's actor, which acts as recorded."""

import re
import shlex

import numpy as np
import pytest
import torch

from hindsight.io.checkpoints import load
from hindsight.pipeline.publish import write_policy
from hindsight.specs.cell import CellSpec
from hindsight.specs.config import PUBLISHED
from hindsight.training.evaluate import evaluate_policy
from hindsight.training.policies import acting_places, n_parameters, policy_of
from hindsight.training.policy_files import read_policy
from tests.support.commands import hindsight
from tests.support.configuration import ROOT

SHIPPED = sorted((ROOT / PUBLISHED / "policies").rglob("*.safetensors"))
#: Third-party environments that are in no experiment, and the package of each.
OTHERS = {"PandaReach-v3": "panda_gym"}
#: One published policy of each kind.
KINDS = {re.split("-(?:lr|n_envs|hidden)", path.stem)[0]: path for path in SHIPPED}


@pytest.mark.parametrize("name", ["ppo", "sac", "td3", "ddpg", "dqn"])
def test_the_actor_alone_acts_the_same(name, tmp_path):
    where = {"id": "BitFlipping-v0"} if name == "dqn" else {"n_dims": 2}
    spec = CellSpec.model_validate(
        {"algorithm": {"name": name, "hidden": [8]}, "environment": where}
    )
    row = torch.randn(n_parameters(spec))
    write_policy(tmp_path / "a.safetensors", spec, 5, row, {})
    read, found = read_policy(tmp_path / "a.safetensors")
    assert read == spec and len(acting_places(spec)) < len(row)
    obs = torch.randn(1, 50, spec.environment.observation_size)
    assert torch.equal(policy_of(spec, row[None])(obs), policy_of(spec, found[None])(obs))


@pytest.mark.parametrize("path", KINDS.values(), ids=list(KINDS))
def test_a_published_policy_succeeds_as_recorded(path):
    result = load(path)["result"]
    named = path.parent.name if path.parent.name in OTHERS else None
    if named is not None:
        pytest.importorskip(OTHERS[named], reason="its environment is no requirement")
    spec, _ = read_policy(path, named=named)
    assert path == ROOT / PUBLISHED / "policies" / f"{spec.name}.safetensors"
    found = evaluate_policy(path, named, n_episodes=60, seed=1)
    error = np.sqrt(0.25 / 60 + 0.25 / result["episodes"])
    assert found.success_rate == pytest.approx(result["success_rate"], abs=4 * error)


def test_the_commands_of_the_pages_run(tmp_path, monkeypatch):
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/library.md")]
    shown = re.compile(r"^(?:\.venv/bin/)?(hindsight \w+ results/published[^#\n]*)", re.M)
    commands = [command for page in pages for command in shown.findall(page)]
    assert len(commands) == 2
    (tmp_path / "results").mkdir()
    (tmp_path / PUBLISHED).symlink_to(ROOT / PUBLISHED)
    for command in commands:
        _, name, pattern, *words = shlex.split(command)
        (policy,) = tmp_path.glob(pattern)
        done = hindsight(name, str(policy), *words, "--episodes", "2", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "chase.gif").stat().st_size > 1000
