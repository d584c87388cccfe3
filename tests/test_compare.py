"""docs/compare.md: comparing trainings from Python, and published arms in config.yaml."""

import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from hindsight.io.files import as_json
from hindsight.pipeline.project import Project
from hindsight.specs.config import PUBLISHED, Config, overrides_of
from hindsight.specs.errors import validated
from hindsight.specs.plan import Plan
from tests.analysis.synthetic import constant, summarise, write_cell
from tests.support import configuration
from tests.support.configuration import ROOT

PAGE = ROOT / "docs" / "compare.md"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder like the project's, whose published results are the project's."""
    shutil.copy(ROOT / "config.yaml", tmp_path)
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "results").mkdir()
    (tmp_path / PUBLISHED).symlink_to(ROOT / PUBLISHED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(language: str) -> str:
    """The page's only block in this language."""
    text = PAGE.read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    return found


def test_the_program_tells_two_trainings_apart(tmp_path, monkeypatch, capsys):
    """Eight runs each, whose tests succeed in 20 to 27% and in 60 to 67%."""
    monkeypatch.chdir(tmp_path)
    for folder, success in (("plain", 0.20), ("with-her", 0.60)):
        write_cell(
            Path(folder) / "cells" / "static" / "runs.parquet", {}, 8,
            lambda seed, steps, least=success: constant(least + 0.01 * seed)(seed, steps),
            iterations=6,
        )  # fmt: skip
    exec(block("python"), {})
    numbers = re.findall(r"[-+]?\d\.\d+", capsys.readouterr().out)
    plain, her, low, high, p = map(float, numbers)
    assert (plain, her) == pytest.approx((0.235, 0.635), abs=0.0051)
    assert low < 0.4 < high and high - low < 0.05
    # Every run with hindsight is better than every run without: 2 of the C(16, 8) = 12,870 orders.
    assert p == pytest.approx(2 / 12870, abs=5e-5)
    assert Path("both.png").stat().st_size > 0


def planned(**overrides):
    """The plan of the page's own experiment."""
    values = configuration.values()
    values["experiments"] |= yaml.safe_load(block("yaml"))["experiments"]
    return Plan.of(validated(Config, {**values, "select": {"mine": {}}, **overrides}))


def test_the_command_of_the_page_selects_the_experiment():
    (typed,) = re.findall(r'make replicate ARGS="(.+?)"`', PAGE.read_text(encoding="utf-8"))
    option, *pairs = shlex.split(typed)
    assert option == "--config" and overrides_of(pairs) == {"select": {"mine": {}}}


def test_a_published_arm_is_read_and_not_trained(project):
    plan = planned(seeds=2, steps=8192)
    assert {(spec.seeds, spec.steps) for spec in plan.cells.values()} == {(2, 8192)}
    assert len(plan.cells) == len(plan.cells_of("mine", published=True)) == 12
    assert not plan.cells.keys() & set(plan.cells_of("mine", published=True))
    document = plan.document("mine")
    ships = [e for e in document["entries"] if e["arm"] == "PPO-HER"]
    assert {e["seeds"] for e in ships} == {16} and {e["steps"] for e in ships} == {1_000_000}
    assert all(Path(e["cell"]).exists() and PUBLISHED in Path(e["cell"]).parents for e in ships)
    inputs = Project(plan.config).cells_of("mine")
    assert len(inputs) == 24 and {e["cell"] for e in ships} <= set(inputs)
    cached = Project(planned(seeds=2, steps=8192, results="cached").config)
    assert cached.cells_of("mine") == [e["cell"] for e in ships]
    folder = Path("results/tables/laptop/mine")
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(as_json(document))
    missing = summarise(folder / "plan.json", project)
    assert {entry["arm"] for entry in missing} == {"mine"}
    assert pd.read_csv(folder / "summary.csv").arm.tolist() == ["PPO-HER"] * 12
