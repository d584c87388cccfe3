"""Many figures in one go, by one process and by several; for a paper; by name."""

import re
from pathlib import Path

import pytest
from matplotlib.text import Text
from typer.testing import CliRunner

from hindsight.cli import app
from hindsight.figures import drawing, figure_of
from hindsight.figures.style import save_for_paper
from tests.figures.test_own_experiment import GRIDS, written

NAMES = ("aggregate_mine_described", "solved_share_mine_described")


@pytest.fixture
def drawn(tmp_path: Path):
    """Draw two figures by so many processes; returns their bytes by the files' names."""
    tables = written(tmp_path, GRIDS["nothing"])
    stems = [tmp_path / "out" / name for name in NAMES]

    def draw_both(processes: int = 1) -> dict[str, bytes]:
        drawing.draw_all(stems, {"mine": tables / "mine"}, processes)
        return {path.name: path.read_bytes() for path in stems[0].parent.iterdir()}

    draw_both.folder = tables / "mine"  # type: ignore[attr-defined]
    return draw_both


def test_processes_draw_the_same_bytes(drawn) -> None:
    files = drawn()
    assert len(files) == 4
    assert drawn(processes=2) == files


def test_a_figure_that_cannot_be_drawn_is_told(drawn) -> None:
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
