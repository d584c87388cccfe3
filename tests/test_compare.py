"""`hindsight compare`, and published arms in config.yaml."""

import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from hindsight.analysis.statistics import probability_of_improvement
from hindsight.io.files import FileError, as_json
from hindsight.pipeline.project import Project
from hindsight.report.compare import compare
from hindsight.specs.config import PUBLISHED, parse
from hindsight.specs.errors import SpecError
from hindsight.specs.plan import Plan
from tests import configuration
from tests.analysis.synthetic import constant, summarise, write_cell
from tests.commands import hindsight

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "compare.md"
STATIC = "random-static-n3-G10-r1"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder like the project's, whose published results are the project's."""
    shutil.copy(ROOT / "config.yaml", tmp_path)
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "results").mkdir()
    (tmp_path / PUBLISHED).symlink_to(ROOT / PUBLISHED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cell(name: str, success: float, prey: str = "static", **more) -> Path:
    """A results file whose runs succeed so often, a little less from run to run."""
    overrides = {"environment.prey": prey, **more}
    levels = [success - 0.01 * seed for seed in range(6)]
    return write_cell(
        Path(f"{name}/{prey}.parquet"), overrides, 6,
        lambda seed, steps: constant(levels[seed])(seed, steps), iterations=6,
    )  # fmt: skip


def told(shown) -> str:
    return "\n".join(str(line) for line in shown if isinstance(line, str))


def test_folders_are_compared_where_both_have_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for prey in ("static", "repel"):
        cell("good", 0.8, prey)
        cell("bad", 0.3, prey)
    cell("good", 0.8, "random")
    said = told(compare(["good=good", "bad=bad"], Path("out")))
    assert "left out: 1 conditions of good" in said
    summary = pd.read_csv("out/summary.csv")
    assert set(summary.condition) == {"random static", "random repel"}
    assert set(summary.arm) == {"good", "bad"}
    best = summary[summary.arm == "good"].max_median_return
    assert best.tolist() == pytest.approx([2 * 0.775 - 1] * 2)
    tests = pd.read_csv("out/tests.csv")
    row = tests[tests.metric == "final_return"].iloc[0]
    assert (row.baseline, row.arm) == ("good", "bad")
    assert row.probability_of_improvement == probability_of_improvement([0.3] * 6, [0.8] * 6) == 0
    assert row.p_holm == pytest.approx(2 * row.p_permutation)
    for name in ("curves", "solved_share", "aggregate"):
        assert Path(f"out/{name}.png").stat().st_size > 5000


def test_without_names_an_arm_is_what_learns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    her = {"strategy": "final", "fidelity": "described"}
    cell("all/a", 0.2)
    cell("all/b", 0.4, hindsight=her)
    cell("all/c", 0.6, hindsight=her, **{"algorithm.learning_rate": 1e-3})
    cell("all/d", 0.8, hindsight={**her, "fidelity": "released"})
    compare(["all"], Path("out"))
    summary = pd.read_csv("out/summary.csv").set_index("arm").max_median_return
    assert summary.to_dict() == pytest.approx({
        "PPO": 2 * 0.175 - 1, "PPO-HER described": 2 * 0.375 - 1,
        "PPO-HER described, learning_rate=0.001": 2 * 0.575 - 1,
        "PPO-HER released": 2 * 0.775 - 1,
    })  # fmt: skip
    assert set(pd.read_csv("out/summary.csv").fidelity) == {"released and described"}


def test_other_tasks_are_measured_by_success(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, success in (("good", 0.8), ("bad", 0.3)):
        cell(name, success, **{"environment.id": "FetchReach-v4"})
    compare(["good=good", "bad=bad"], Path("out"))
    summary = pd.read_csv("out/summary.csv").set_index("arm")
    assert summary.mean_success["good"] == pytest.approx(0.775)
    assert set(pd.read_csv("out/tests.csv").metric) == {"success_auc", "final_evaluation_success"}
    assert Path("out/curves.png").stat().st_size > 5000


def test_what_cannot_be_compared_is_told(project):
    cell("a", 0.5)
    cell("b", 0.5, "repel")
    other = cell("a/again", 0.4)
    for given, said in (
        (["a/static.parquet"], "at least two arms, but was given PPO"),
        (
            ["x=a/static.parquet", "y=b"],
            "arms have no condition in common .x: random static; y: ran",
        ),
        (["x=a", "y=b"], f"two results of x in random static: .*{other}"),
        (["a/static.parquet", "nothing"], "nothing: no such file, folder or published arm"),
        (["a/static.parquet", "config.yaml"], "config.yaml: not a results file"),
        (["a/static.parquet", "learning_rate/PPO"], "this experiment varies learning_rate"),
    ):
        with pytest.raises(SpecError, match=said):
            compare(given, Path("out"))
    Path("b/repel.parquet").write_bytes(other.read_bytes()[:-20])
    with pytest.raises(FileError, match=r"repel.parquet: not a readable results file"):
        compare(["x=a/static.parquet", "y=b"], Path("out"))
    assert not Path("out/summary.csv").exists()


def test_own_results_stand_beside_an_arm_that_ships(project):
    cell("mine", 0.5)
    compare(["PPO-HER", "mine"], Path("out"))
    summary = pd.read_csv("out/summary.csv").set_index("arm")
    published = pd.read_parquet("out/runs.parquet")
    assert summary.n_seeds.to_dict() == {"PPO-HER": 16, "PPO": 6}
    ships = "ppo-her-final-described-lr0.0003-64x64-16seeds-1000000steps*"
    source = next((ROOT / PUBLISHED / "cells" / STATIC).glob(ships))
    rows = pd.read_parquet(source)
    last = rows[rows.phase == "evaluation"].groupby("seed").return_mean.last()
    own = published[published.arm == "PPO-HER"].set_index("seed").final_evaluation_return
    assert own.to_dict() == pytest.approx(last.to_dict())


# --- config.yaml ----------------------------------------------------------------------------------


def planned(mine=None, **overrides):
    """The plan of the page's own experiment."""
    block = re.search(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    values = configuration.values()
    values["experiments"] |= yaml.safe_load(block[1])["experiments"]
    values["experiments"]["mine"]["arms"] |= mine or {}
    return Plan.of(parse({**values, "select": {"mine": {}}, **overrides}))


def test_a_published_arm_is_read_and_not_trained(project):
    plan = planned(seeds=2, steps=8192)
    assert {(spec.seeds, spec.steps) for spec in plan.cells.values()} == {(2, 8192)}
    assert len(plan.cells) == len(plan.cells_of("mine", published=True)) == 12
    assert not plan.cells.keys() & set(plan.cells_of("mine", published=True))
    document = plan.document("mine")
    ships = [e for e in document["entries"] if e["arm"] == "PPO-HER"]
    assert {e["seeds"] for e in ships} == {16} and {e["steps"] for e in ships} == {1_000_000}
    assert all(Path(e["cell"]).exists() and PUBLISHED in Path(e["cell"]).parents for e in ships)
    inputs = Project(plan).cells_of("mine")
    assert len(inputs) == 24 and {e["cell"] for e in ships} <= set(inputs)
    cached = Project(planned(seeds=2, steps=8192, results="cached"))
    assert cached.cells_of("mine") == [e["cell"] for e in ships]
    folder = Path("results/tables/laptop/mine")
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(as_json(document))
    missing = summarise(folder / "plan.json", project)
    assert {entry["arm"] for entry in missing} == {"mine"}
    assert pd.read_csv(folder / "summary.csv").arm.tolist() == ["PPO-HER"] * 12


def test_an_arm_that_does_not_ship_is_told_before_training():
    arm = {"her": "final", "published": True, "keys": {"learning_rate": 0.0123}}
    with pytest.raises(SpecError, match=r"mine, new, random static: no published cell"):
        planned({"new": arm})


# --- the page -------------------------------------------------------------------------------------


def test_the_commands_of_the_page_run(project):
    for prey in ("static", "repel"):
        cell("results/cells/x", 0.5, prey, **{"algorithm.learning_rate": 1e-3})
    for name, success in (("a", 0.2), ("b", 0.6)):
        rate = {"algorithm.learning_rate": success, "environment.id": "FetchReach-v4"}
        cell(f"elsewhere/{name}", success, **rate)
    commands = re.findall(r"^hindsight (compare .*)$", PAGE.read_text(encoding="utf-8"), re.M)
    assert len(commands) == 3
    for command in commands:
        if "FetchReach-v4" in command:
            shutil.move("elsewhere", "results/cells/FetchReach-v4")
        words = shlex.split(command, comments=True)
        done = hindsight(*words, cwd=project)
        assert done.returncode == 0, done.stderr
        assert "results/comparison/curves.png" in done.stdout.replace("\n", "")
        shutil.rmtree("results/comparison")
