"""The published results are drawn without training or torch, as the repository shows them."""

import re
from html import unescape
from pathlib import Path

import pytest

from hindsight.pipeline.project import Project
from hindsight.specs.config import PUBLISHED, load

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(published_project):
    return published_project


def test_every_published_figure_is_drawn(project, monkeypatch):
    monkeypatch.chdir(project)
    asked = Project.of(load(Path("config.yaml"), {"results": "published"}))
    assert {"environment", "algorithms"} <= set(asked.figures.values())
    for path in asked.drawn:
        assert (project / path).stat().st_size > 5000, path


def test_the_scoreboard_in_the_repository_is_that_of_the_published_results(project):
    """After a change of a rule, a statistic or a result, run `make figures`."""
    made = (project / "REPLICATION.md").read_text(encoding="utf-8")
    assert made == (ROOT / "REPLICATION.md").read_text(encoding="utf-8")
    appendix = PUBLISHED / "appendix"
    pages = {path.name: path.read_text("utf-8") for path in (project / appendix).glob("*.md")}
    assert len(pages) > 30
    assert pages == {path.name: path.read_text("utf-8") for path in (ROOT / appendix).glob("*.md")}


def test_the_page_is_of_moderate_size_and_its_links_lead_somewhere(project):
    path = project / "figures/published/report.html"
    assert path.stat().st_size < 6_000_000
    links = {
        unescape(target).partition("#")[0]
        for target in re.findall(r'<a href="([^"#][^"]*)"', path.read_text(encoding="utf-8"))
        if not target.startswith(("data:", "https:"))
    }
    assert len(links) > 100
    # Beside the page, or a file of the repository.
    assert not [link for link in links if not (path.parent / link).exists()]
