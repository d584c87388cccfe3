"""The programs on the pages run."""

import re
import time
from pathlib import Path

import gymnasium as gym
import pytest

from hindsight import SAC

ROOT = Path(__file__).parents[2]


def run(page: str, count: int) -> str:
    """Run all programs of a page, one after the other; returns its text."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) == count
    names: dict = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"docs/{page}.md, block {number}", "exec"), names)
    return text


def test_the_program_of_the_readme_succeeds_within_half_a_minute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    names: dict = {}
    began = time.process_time()
    exec(compile(block, "README.md", "exec"), names)
    assert time.process_time() - began < 30
    assert names["model"].evaluate(episodes=100).success_rate.min() >= 0.95
    assert (tmp_path / "chase.gif").stat().st_size > 1000


def test_the_search_of_the_page_finds_settings():
    pytest.importorskip("optuna", reason="pip install optuna")
    text = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    for page, small in (("n_trials=30", "n_trials=2"), ("learn(5000", "learn(1000")):
        assert page in block
        block = block.replace(page, small)
    names: dict = {}
    exec(compile(block, "docs/search.md", "exec"), names)
    found = names["study"].best_params
    assert set(found) == {"learning_rate", "ent_coef", "k"}
    assert all(0 <= trial.value <= 1 for trial in names["study"].trials)


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = run("library", 4)
    model = SAC.load("reach.pt")
    assert model.film("reach.gif", episodes=1).stat().st_size > 1000
    # Every column that the page does not call the algorithm's own is there.
    shown = re.findall(r"^\| (`.*?`) \|", text, re.M)
    columns = {name for line in shown for name in re.findall(r"`(\w+)`", line)} - {"reward_rest"}
    assert columns <= set(model.curves())


def test_the_code_of_the_page_about_your_own_environment_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        run("your-environment", 3)
    finally:
        gym.registry.pop("Drone-v0", None)
    assert list(tmp_path.rglob("results/cells/Drone/*.parquet"))
