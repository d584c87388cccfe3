"""Policy files of every origin are loaded as models that act, are exported and learn on."""

import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from typer.testing import CliRunner

import hindsight
from hindsight import PPO, SAC, cli
from hindsight.io.checkpoints import load, save
from hindsight.io.files import FileError
from hindsight.library.callbacks import KeepBest
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import file_name
from hindsight.specs.errors import SpecError
from hindsight.training.cell import Execution, train_cell
from hindsight.training.policy_files import read_policy
from tests.library.test_policy import observations
from tests.pipeline.test_shipped_policies import KINDS, SHIPPED
from tests.training.small import EAGER, Interruption

#: Options with which `hindsight train` writes files of every kind.
TRAIN = [
    "train", "--algorithm", "sac", "--env", "PointReach-v0", "--her", "future", "--seeds", "2",
    "--steps", "120", "hidden=8", "evaluation_episodes=2", "--checkpoint-every", "60",
    "log_interval=60", "learning_starts=50",
]  # fmt: skip


def assert_same(model: hindsight.library.model.Model, exported: Path, run: int | None) -> None:
    """`predict` and ONNX Runtime agree."""
    obs = observations(model, 20)
    found = onnxruntime.InferenceSession(exported).run(["action"], obs)[0]
    np.testing.assert_allclose(found, model.predict(obs, run=run)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_policies_that_ship_are_models(kind, tmp_path):
    path, env = KINDS[kind], None
    if path.parent.name.startswith("Panda"):
        pytest.importorskip("panda_gym")
        env = "PandaReach-v3"
    model = hindsight.load(path, env)
    result = load(path)["result"]
    assert type(model).__name__.lower() == model.spec.algorithm.name and len(model.seeds) == 1
    assert model.num_timesteps in (result["steps"], model.curves().env_steps.max())
    _, row = read_policy(path, named=env)
    torch.testing.assert_close(model.parameters(), row)
    if kind == "ppo":  # ONNX takes seconds
        assert_same(model, model.export(tmp_path / "policy.onnx"), None)
    with pytest.raises(FileError, match="only the parameters for deterministic actions"):
        model.predict({}, deterministic=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("results") / "best"  # a folder may have any name
    done = CliRunner().invoke(cli.app, [*TRAIN, "--out", str(out)])
    assert done.exit_code == 0, done.output
    return out


@pytest.mark.parametrize("kind", ["policies", "best", "steps"])
def test_policies_that_the_command_writes_are_models(kind, trained):
    path = next((trained / kind).rglob("*.safetensors"))
    model = hindsight.load(path)
    saved = load(path)
    assert isinstance(model, SAC) and model.seeds == saved["seeds"] == [0, 1]
    for run in (0, 1):
        assert torch.equal(model.parameters(run), saved["rows"][run])
    assert len(model.curves()) == (0 if kind == "steps" else 2 * (2 + 2))  # 2 of each phase
    assert model.evaluate(3).index.tolist() == [0, 1]
    with pytest.warns(UserWarning, match="any replay buffer start from scratch$"):
        model.learn(120)
    assert model.num_timesteps == 120 and not torch.equal(
        model.parameters(0, "last"), saved["rows"][0]
    )


def test_the_command_exports(trained, tmp_path):
    path = next((trained / "policies").rglob("*.safetensors"))
    done = CliRunner().invoke(cli.app, ["export", str(path), str(tmp_path / "p.onnx"), "--run=1"])
    assert done.exit_code == 0, done.output
    model = hindsight.load(path)
    assert_same(model, tmp_path / "p.onnx", 1)
    with pytest.raises(FileError, match=r"exported as \.onnx or \.pt2"):
        model.export(tmp_path / "policy.h5")


@pytest.mark.parametrize("prioritized", [False, True])
def test_the_best_policy_of_an_interrupted_training_continues_from_its_checkpoint(
    tmp_path, prioritized
):
    """As the training itself would have, to the bit, though a model's buffer is larger."""
    spec = CellSpec.model_validate(
        {"environment": {"id": "PointReach-v0"}, "seeds": 2, "steps": 180, "early_end": None,
         "algorithm": {"name": "sac", "hidden": [8], "log_interval": 60, "learning_starts": 50},
         "replay": {"strategy": "future", "prioritized": prioritized},
         "evaluation": {"points": 3, "episodes": 2}}
    )  # fmt: skip
    straight = tmp_path / "straight"
    train_cell(spec, straight, Execution())

    def stop(runs, phase, columns):
        if runs.env_steps == 180:
            raise Interruption

    out = tmp_path / "best" / "stopped"
    best = out / "best" / f"{file_name(spec)}.safetensors"
    with pytest.raises(Interruption):
        train_cell(spec, out, EAGER, callbacks=[KeepBest(best, spec), stop])
    with warnings.catch_warnings(action="error"):
        whole = hindsight.load(best).save(tmp_path / "whole", training=True)
        assert hindsight.load(whole).num_timesteps == 120
        model = hindsight.load(best).learn(60)
    assert model.num_timesteps == 180
    ended = load(straight / "policies" / f"{file_name(spec)}.safetensors")["rows"]
    for run in (0, 1):
        assert torch.equal(model.parameters(run, "last"), ended[run])
    with pytest.raises(FileError, match="is a training checkpoint"):
        hindsight.load(out / "checkpoints" / f"{file_name(spec)}.safetensors")


def test_an_actor_that_ships_learns_on_with_a_new_critic():
    (path,) = [p for p in SHIPPED if "random-static" in str(p) and "ppo-her" in p.name][:1]
    with pytest.warns(UserWarning, match="so does the critic"):
        model = PPO.load(path).learn(2048)
    assert model.evaluate(30).success_rate.iloc[0] > 0.9


def test_another_environment_than_it_was_trained_in_must_fit(trained):
    path = next((trained / "policies").rglob("*.safetensors"))
    with pytest.raises(ValueError, match="PredatorPrey-v0 has observations of 9 numbers and 3 act"):
        hindsight.load(path, "PredatorPrey-v0")


def test_other_observations_of_the_same_size_do_not_fit(tmp_path):
    path = SAC("PointReach-v0", seeds=1, hidden=(8,)).save(tmp_path / "model")
    save(path, load(path) | {"keys": ["achieved_goal", "desired_goal", "wind"]})
    with pytest.raises(
        SpecError, match=r"has observations of .*, observation, and .* for .*, wind"
    ):
        hindsight.load(path)
