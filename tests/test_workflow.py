"""What the workflow finds in its folders, and what it leaves there."""

from pathlib import Path

from hindsight.specs.config import load
from hindsight.specs.plan import Plan
from hindsight.workflow import Stage, files_below

CONFIG = Path(__file__).parents[1] / "config.yaml"


def stage_of(*experiments):
    select = {name: {"spawns": ["random"], "preys": ["static"]} for name in experiments}
    return Stage.of(Plan.of(load(CONFIG, {"preset": "smoke", "select": select})))


def test_tables_of_what_is_no_longer_selected_go(tmp_path, monkeypatch):
    """Else verdicts and page would tell of it; others' tables, and the picture's episodes, stay."""
    monkeypatch.chdir(tmp_path)
    stage = stage_of("algorithms", "stability")
    stage.write_plans()
    tables = Path(stage.tables)
    for name in ("algorithms", "stability", "environment"):
        (tables / name).mkdir(exist_ok=True)
        (tables / name / "summary.csv").touch()
    stage.forget_unselected()
    assert {path.parent.name for path in tables.glob("*/summary.csv")} == {
        "algorithms", "stability", "environment",
    }  # fmt: skip
    stage_of("algorithms").forget_unselected()
    left = {path.name for path in tables.iterdir() if path.is_dir()}
    assert left == {"algorithms", "environment"}
    assert (tables / "algorithms" / "summary.csv").exists()


def test_episodes_are_not_played_again_without_policies(tmp_path, monkeypatch):
    """Episodes an earlier run played stay, where the main experiment is not selected any more."""
    monkeypatch.chdir(tmp_path)
    stage = stage_of("stability")
    Path(stage.episodes).parent.mkdir(parents=True)
    Path(stage.episodes).touch()
    assert "environment" not in stage.drawn_experiments
    assert "environment" in stage_of("algorithms").drawn_experiments


def test_only_files_of_the_kind_that_is_asked_for_are_there(tmp_path):
    place = tmp_path / "random-static-n3-G10-r0.5"
    place.mkdir()
    for name in ("ppo-lr0.0003.parquet", "sac.parquet.damaged", "td3.hidden", "dqn.lock"):
        (place / name).touch()
    (tmp_path / "a file.parquet").touch()
    assert files_below(tmp_path) == {"random-static-n3-G10-r0.5/ppo-lr0.0003"}
    assert files_below(tmp_path, ".lock") == {"random-static-n3-G10-r0.5/dqn"}
    assert files_below(tmp_path / "none") == set()


def test_every_picture_of_the_report_has_its_caption(tmp_path, monkeypatch):
    """Those that `snakemake --report` shows."""
    monkeypatch.chdir(tmp_path)
    stage = stage_of("algorithms", "stability")
    stage.write_plans()
    names = {Path(path).stem for path in stage.drawn}
    captions = {name: Path(stage.caption_of(name)).read_text(encoding="utf-8") for name in names}
    assert {"ppo_her_fig2", "question_stability"} <= names
    assert "environment steps it needed" in captions["ppo_her_fig2"]
    assert all(len(text) > 40 for text in captions.values())
