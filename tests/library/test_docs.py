"""The programs on the pages run."""

import re
import time

import gymnasium as gym
import pytest

from hindsight import SAC
from hindsight.nn.numba_cache import seconds_compiling
from tests.support.configuration import ROOT

PAGE = "docs/your-environment.md"


def blocks(page: str) -> list[str]:
    """The programs of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


def run(page: str, *programs: str) -> dict:
    """Run programs of a page, one after the other; returns their names."""
    names: dict = {}
    for number, block in enumerate(programs, 1):
        exec(compile(block, f"{page}, block {number}", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_program_of_the_readme_succeeds_within_a_minute(tmp_path):
    """On an old core: it takes 36 s of one of 2 GHz, beside other programs."""
    (block,) = blocks("README.md")
    began = time.process_time() - seconds_compiling()[1]
    names = run("README.md", block)
    assert time.process_time() - seconds_compiling()[1] - began < 60
    assert names["model"].evaluate(episodes=100).success_rate.min() >= 0.95
    assert (tmp_path / "chase.gif").stat().st_size > 1000


def test_the_search_of_the_page_finds_settings():
    pytest.importorskip("optuna", reason="pip install optuna")
    (block,) = blocks("docs/search.md")
    for page, small in (("n_trials=30", "n_trials=2"), ("learn(5000", "learn(1000")):
        assert page in block
        block = block.replace(page, small)
    study = run("docs/search.md", block)["study"]
    assert set(study.best_params) == {"learning_rate", "ent_coef", "k"}
    assert all(0 <= trial.value <= 1 for trial in study.trials)


def test_the_code_of_the_page_runs():
    programs = blocks("docs/library.md")
    assert len(programs) == 4
    run("docs/library.md", *programs)
    model = SAC.load("reach.safetensors")
    assert model.film("reach.gif", episodes=1).stat().st_size > 1000
    # Every column that the page does not call the algorithm's own is there.
    text = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| (`.*?`) \|", text, re.M)
    columns = {name for line in shown for name in re.findall(r"`(\w+)`", line)} - {"reward_rest"}
    assert columns <= set(model.curves())


def test_the_code_of_the_page_for_those_who_come_from_stable_baselines3_runs():
    (block,) = blocks("docs/from-stable-baselines3.md")
    model = run("docs/from-stable-baselines3.md", block)["model"]
    assert (model.seeds, model.num_timesteps, model.spec.replay.k) == ([0], 1000, 4)


def test_the_code_of_the_page_about_your_own_environment_runs(tmp_path):
    programs = [block for block in blocks(PAGE) if "GoalEnvironment(" not in block]
    assert len(programs) == 3
    try:
        run(PAGE, *programs)
    finally:
        gym.registry.pop("Drone-v0", None)
    assert list(tmp_path.rglob("results/cells/Drone/*.parquet"))


@pytest.mark.parametrize("block", [x for x in blocks(PAGE) if "GoalEnvironment(" in x])
def test_the_programs_for_environments_without_goals_are_short_and_run(block):
    (name,) = re.findall(r"register\(\"(\S+)\"", block)
    for package in re.findall(r"import (ogbench|metaworld|gym_pusht) ", block):
        assert len(block.splitlines()) <= 20
        pytest.importorskip(package, reason=f"pip install {package.replace('_', '-')}")
    try:
        run(PAGE, block)
        assert SAC(name, seeds=1, workers=0, max_episode_steps=20).notes == ()
    finally:
        gym.registry.pop(name, None)


@pytest.mark.filterwarnings("ignore:the open episodes in the replay buffer")
@pytest.mark.parametrize("block", blocks("docs/replay.md"))
def test_the_code_of_the_page_about_replay_runs(block):
    run("docs/replay.md", block)
