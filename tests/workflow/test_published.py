"""The published results are drawn without training or torch, as the repository shows them."""

import re
from html import unescape

from hindsight.figures.draw import figure_of
from hindsight.specs.config import PUBLISHED
from tests.support.commands import program
from tests.support.configuration import ROOT


def test_the_scoreboard_in_the_repository_is_that_of_the_published_results(published_project):
    """After a change of a rule, a statistic or a result, run `make figures`."""
    board, appendix = "REPLICATION.md", PUBLISHED / "appendix"
    made, shown = (
        {path.name: path.read_text("utf-8") for path in (at / board, *(at / appendix).glob("*.md"))}
        for at in (published_project, ROOT)
    )
    assert len(made) > 30 and made == shown


def test_the_figures_in_the_repository_are_those_of_the_published_results(published_project):
    """Byte for byte; it has those that its pages show."""
    shown = program("git", "ls-files", "figures/published", cwd=ROOT).stdout.split()
    assert len(shown) > 40
    for name in shown:
        same = (published_project / name).read_bytes() == (ROOT / name).read_bytes()
        assert same, f"{name}: run `make figures`"


def test_the_page_is_of_moderate_size_and_its_links_lead_somewhere(published_project):
    path = published_project / "figures/published/report.html"
    assert path.stat().st_size < 5_000_000
    links = {
        unescape(target).partition("#")[0]
        for target in re.findall(r'<a href="([^"#][^"]*)"', path.read_text(encoding="utf-8"))
        if not target.startswith(("data:", "https:"))
    }
    assert len(links) > 100
    # Beside the page, or a file of the repository.
    here = path.parent, ROOT / "figures/published"
    assert not [link for link in links if not any((folder / link).exists() for folder in here)]


def test_a_subtitle_counts_only_what_its_figure_shows(published_project):
    """One task of four, and one number of seeds."""
    maze = figure_of("recipe_maze_described", published_project / "results/tables/published")
    said = " ".join(" ".join(text.get_text() for text in maze.texts).split())
    assert "described fidelity · 4 seeds · SAC-HER: 30,000 steps · line" in said


def test_no_panel_of_another_task_is_empty(published_project):
    """Their returns have other scales than predator-prey's."""
    for experiment in ("dense_reach", "s_ratio_elsewhere", "bit_flipping_long"):
        figure = figure_of(
            f"curves_{experiment}_described", published_project / "results/tables/published"
        )
        for ax in figure.axes:
            low, high = ax.get_ylim()
            shown = [y for line in ax.lines for y in line.get_ydata() if low <= y <= high]
            assert len(shown) > 10
