"""Many figures in one go: what is drawn of the same stays, processes share the rest."""

import os
import re
import shutil
from pathlib import Path

import pytest
from matplotlib.text import Text
from typer.testing import CliRunner

import hindsight
from hindsight import fingerprint
from hindsight.cli import app
from hindsight.figures import _PUBLISHED as PUBLISHED_FIGURES
from hindsight.figures import FigureSpec, draw, drawing, figure_of
from hindsight.figures.style import save_for_paper
from tests.figures.test_own_experiment import GRIDS, written

NAMES = ("aggregate_mine_described", "solved_share_mine_described")


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Draw two figures; returns those that were, and their bytes."""
    tables = written(tmp_path, GRIDS["nothing"])
    done: list[str] = []
    monkeypatch.setattr(drawing, "draw", lambda name, *rest: done.append(name) or draw(name, *rest))
    stems = [tmp_path / "out" / name for name in NAMES]

    def again(processes: int = 1) -> tuple[list[str], dict[str, bytes]]:
        done.clear()
        drawing.draw_all(stems, {"mine": tables / "mine"}, processes)
        return list(done), {path.name: path.read_bytes() for path in stems[0].parent.iterdir()}

    again.stems, again.folder = stems, tables / "mine"  # type: ignore[attr-defined]
    return again


def test_only_what_is_missing_or_of_other_tables_is_drawn(drawn) -> None:
    first, files = drawn()
    assert first == list(NAMES) and len(files) == 4
    for path in drawn.stems[0].parent.iterdir():
        os.utime(path, (0, 0))
    assert drawn() == ([], files)
    # Snakemake compares times: what was left alone counts as made.
    assert all(path.stat().st_mtime > 1e9 for path in drawn.stems[0].parent.iterdir())
    drawn.stems[1].with_suffix(".png").unlink()
    assert drawn() == ([NAMES[1]], files)
    record = drawn.folder / "record.json"
    record.write_text(record.read_text() + "\n")
    assert drawn()[0] == list(NAMES)


def test_other_code_draws_everything(drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn()
    monkeypatch.setattr(drawing, "fingerprint", lambda *roots: "other")
    assert drawn()[0] == list(NAMES)


def test_a_figure_is_stale_when_its_own_function_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the published figures, after an edit of what draws Fig. A1 (and nothing else)."""
    package = Path(hindsight.__file__).parent
    copy = tmp_path / "hindsight"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    specs = {
        name: FigureSpec(experiment, function, caption, "")
        for name, (experiment, function, caption) in PUBLISHED_FIGURES.items()
    }

    def codes() -> dict[str, str]:
        fingerprint.forget()
        return {name: drawing.code_of(spec) for name, spec in specs.items()}

    try:
        before = codes()
        path = copy / "figures" / "grids.py"
        text = path.read_text(encoding="utf-8")
        assert "\ndef her_strategy(" in text
        path.write_text(text.replace("\ndef her_strategy(", "\n@staticmethod\ndef her_strategy("))
        after = codes()
    finally:
        fingerprint.forget()
    assert {name for name in before if before[name] != after[name]} == {"ppo_her_figA1"}


def test_processes_draw_the_same_bytes(drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    _, files = drawn()
    monkeypatch.setattr(drawing, "draw", draw)  # a process is handed what has a name
    for path in drawn.stems[0].parent.iterdir():
        path.unlink()
    assert drawn(processes=2)[1] == files


def test_a_figure_that_cannot_be_drawn_is_told(drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "draw", draw)
    (drawn.folder / "plan.json").write_text("{}")
    for processes in (1, 2):
        with pytest.raises(KeyError):
            drawn(processes)


@pytest.mark.parametrize(("name", "inches"), [(NAMES[0], 6.9), (NAMES[1], 3.3)])
def test_for_a_paper_widths_are_its_columns_and_every_word_has_eight_points(
    tmp_path: Path, name: str, inches: float
) -> None:
    tables = written(tmp_path, GRIDS["nothing"])
    titles = {text.get_text() for text in figure_of(name, tables).texts if text.get_size() == 11}
    assert titles
    figure = figure_of(name, tables, paper=True)
    pdf = save_for_paper(figure, tmp_path / "paper" / name)
    drawn = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert {text.get_size() for text in drawn} == {8.0}
    assert titles.isdisjoint(text.get_text() for text in drawn)
    assert not any("fidelity" in text.get_text() for text in drawn)
    # The page of the PDF, in points of 1/72 inch.
    box = re.search(rb"/MediaBox \[\s*0 0 ([\d.]+) ([\d.]+)", pdf.read_bytes())
    assert box is not None and float(box[1]) == pytest.approx(72 * inches, abs=0.1)


def test_the_command_draws_what_is_named_and_says_what_there_is(tmp_path: Path) -> None:
    tables = written(tmp_path, GRIDS["nothing"])

    def typed(*words: object):
        return CliRunner().invoke(app, ["figures", *map(str, words)])

    done = typed("--paper", "--from", tables, "--out", tmp_path / "paper", NAMES[1])
    assert done.exit_code == 0 and str(tmp_path / "paper" / f"{NAMES[1]}.pdf") in done.stdout
    assert [path.name for path in (tmp_path / "paper").iterdir()] == [f"{NAMES[1]}.pdf"]
    wrong = typed("--from", tables, "no_such_figure")
    assert wrong.exit_code == 2 and "no_such_figure" in wrong.output and NAMES[1] in wrong.output
    empty = typed("--from", tmp_path / "nowhere")
    assert empty.exit_code == 2 and "no tables" in empty.output
