"""A file that is loaded imports, opens and runs nothing."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from hindsight import load
from hindsight.io.checkpoints import save
from hindsight.io.files import FileError
from hindsight.pipeline.project import Project
from hindsight.specs.cell import CellSpec
from hindsight.specs.config import Config
from hindsight.specs.errors import SpecError, validated
from hindsight.specs.from_file import read_spec
from hindsight.training.policies import initial_row
from tests.support.commands import hindsight

SRC = Path(__file__).parents[1] / "src"
#: A module that leaves a file when it is imported, and registers an environment.
MODULE = """
from pathlib import Path
import gymnasium
from hindsight.envs.wrapper import GoalEnv
Path("was imported").touch()
task = {{"environment": "PointReach-v0"}}
gymnasium.register("{name}-v0", GoalEnv, max_episode_steps=3, kwargs=task)
"""


def specification(name: str, kwargs: dict | None = None) -> dict:
    """A cell in this environment, as plain values: nothing is imported."""
    values = CellSpec.model_validate({"algorithm": {"name": "td3", "hidden": [4]}})
    values = json.loads(values.model_dump_json())
    return values | {"environment": {"id": name, "kwargs": kwargs or {}}}


def written(folder: Path, name: str, kwargs: dict | None = None) -> Path:
    """A file with that specification."""
    path = folder / "spec.json"
    path.write_text(json.dumps(specification(name, kwargs)))
    return path


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Name of a module in the working folder, and of the environment in it."""
    name = f"evil{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(name=name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


@pytest.fixture
def policy(module, tmp_path):
    """A policy that was trained in it, for which another of the same sizes lends its parameters."""
    like = specification("hindsight.envs:PointReach-v0") | {"steps": 20_000}
    like["environment"]["max_episode_steps"] = 3
    rows = initial_row(CellSpec.model_validate(like))[None]
    path = tmp_path / "policy.safetensors"
    spec = json.dumps(specification(f"{module}:{module}-v0"))
    save(path, {"spec": spec, "seeds": [0], "rows": rows})
    return path


def imported() -> bool:
    return Path("was imported").exists()


@pytest.mark.parametrize("command", [("watch", "a.gif"), ("evaluate", "--episodes=2")])
def test_a_policy_imports_only_what_the_user_names(policy, module, command):
    name, *rest = command

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return hindsight(name, "policy.safetensors", *rest, *more, cwd=Path.cwd())

    refused = run()
    assert refused.returncode == 1 and not imported()
    (line,) = refused.stderr.splitlines()
    assert line.startswith("error: ") and "policy.safetensors: its environment is " in line
    assert f"if you trust it, add --env {module}:{module}-v0, or pass it" in line
    other = run("--env", "PointReach-v0")
    assert other.returncode == 1 and not imported()
    (line,) = other.stderr.splitlines()
    assert "to play it in PointReach-v0, use Python: load(path, env='PointReach-v0')" in line
    named = run("--env", f"{module}:{module}-v0")
    assert named.returncode == 0 and imported(), named.stderr


@pytest.mark.parametrize("as_text", [False, True])
def test_a_model_imports_only_from_packages_that_the_user_has_imported(policy, module, as_text):
    with pytest.raises(SpecError, match=f"import {module} first if you trust it"):
        load(policy)
    assert not imported()
    sys.path.insert(0, ".")
    importlib.import_module(module)
    if as_text:
        gymnasium.registry[f"{module}-v0"].entry_point = f"{module}:GoalEnv"
    assert load(policy).evaluate(2).shape[0] == 1


def test_a_specification_imports_only_what_the_user_names(module, tmp_path):
    name = f"{module}:{module}-v0"
    path = written(tmp_path, name)
    for named in (None, "other:Name-v0", f"{module}.inner:Name-v0", f"{module}-v0"):
        with pytest.raises(FileError, match="which a file may not import by itself"):
            read_spec(path, named)
    assert not imported()
    assert read_spec(path, name).environment.id == name
    assert imported()


def test_a_job_gets_the_environment_of_the_configuration(module, tmp_path):
    """The specification that it reads may have been exchanged since."""
    name = f"{module}:{module}-v0"
    tasks = {"A": {"id": name}, "B": {"id": "PointReach-v0"}}
    arms = {"TD3": {"algorithm": "td3"}}
    mine = {"title": "Mine", "figures": "none", "arms": arms, "tasks": tasks}
    tiny = {"hidden": [4], "seeds": 1, "steps": 20_000, "select": {"mine": {}}}
    config = {"preset": "tiny", "presets": {"tiny": tiny}, "experiments": {"mine": mine}}
    project = Project(validated(Config, config))
    project.begin()
    options = {file.split("/")[0]: project.options(file) for file in project.files.values()}
    usual = "--device cpu --checkpoint-seconds 60"
    assert options == {module: f"{usual} --env={name}", "PointReach": usual}
    paths = {file: Path("results/specs", f"{file}.json") for file in project.files.values()}
    assert [{"id": read_spec(x, name).environment.id} for x in paths.values()] == [*tasks.values()]
    (path,) = (path for file, path in paths.items() if file.startswith("PointReach/"))
    (tmp_path / "worse.py").write_text("raise SystemExit('worse was imported')")
    path.write_text(json.dumps(specification("worse:X-v0")))
    with pytest.raises(FileError, match="its environment is worse:X-v0"):
        read_spec(path, name)
    project.end()


@pytest.mark.parametrize(
    "name",
    [
        "GymV26Environment-v0",  # makes what its keyword env_id names, which may be module:Name-v0
        "CartPole-v1",
        "os:Name-v0",
        "gymnasium_robotics.core:Name-v0",
        "hindsight.envs.evil:Name-v0",
        ":Name-v0:",
    ],
)
def test_a_file_names_environments_of_ours_and_of_gymnasium_robotics_only(name, tmp_path):
    path = written(tmp_path, name, {"env_id": "evil:X-v0"})
    with pytest.raises(FileError, match=r"from another package|is unknown"):
        read_spec(path)


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"model_path": "/tmp/evil.xml"}, "kwargs.model_path: '/tmp/evil.xml' is not allowed"),
        ({"model_path": "evil.xml"}, "numbers, words and lists of them"),
        ({"a": [["r", ["../evil"]]]}, "kwargs.a: "),
        ({"a": {"b": 1}}, "kwargs.a: "),
        ({"render_mode": "human"}, "kwargs.render_mode is not allowed"),
        ({"max_episode_steps": 5}, "kwargs.max_episode_steps is not allowed"),
        ({"unheard": "of"}, "unexpected keyword argument 'unheard'"),
    ],
)
def test_keyword_arguments_of_a_robot_open_no_files(kwargs, words, tmp_path):
    with pytest.raises(FileError, match=words) as caught:
        read_spec(written(tmp_path, "FetchReach-v4", kwargs))
    assert "\n" not in str(caught.value)
    with pytest.raises(SpecError, match=words):
        validated(CellSpec, specification("FetchReach-v4", kwargs))


def test_keyword_arguments_may_be_words_and_numbers(tmp_path):
    maze = {"maze_map": [[1, 1, 1, 1], [1, "r", "g", 1], [1, 1, 1, 1]]}
    for name, kwargs in (("FetchReach-v4", {"reward_type": "dense"}), ("PointMaze_UMaze-v3", maze)):
        assert read_spec(written(tmp_path, name, kwargs)).environment.kwargs == kwargs


def test_specifications_out_of_files_have_one_way_in():
    """`from_file` alone turns text into a cell."""
    for path in SRC.rglob("*.py"):
        words = path.read_text(encoding="utf-8")
        assert "model_validate_json" not in words, path
        for loader in ("allow_pickle=True", "torch.load", "yaml.unsafe", "dill"):
            assert loader not in words, path
