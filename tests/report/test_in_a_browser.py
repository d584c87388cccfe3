"""The page as Chromium shows it: accessible, of any width, in dark and light, charts drawn."""

import os
from pathlib import Path

import pytest

from tests.browser import probed
from tests.report.conftest import Project
from tests.wants import wants

ROOT = Path(__file__).parents[2]
AXE_VERSION = "4.14.1"
OPEN = 'for (const d of document.querySelectorAll("details")) d.open = true;'


def axe() -> Path:
    """The accessibility checker's one file."""
    path = Path(os.environ.get("AXE", ROOT / "node_modules/axe-core/axe.min.js"))
    wants(path.exists(), "axe-core", f"with npm install --no-save axe-core@{AXE_VERSION}")
    return path


@pytest.mark.parametrize("dark", [False, True])
def test_the_accessibility_checker_finds_nothing(
    project: Project, tmp_path: Path, dark: bool
) -> None:
    page = project.html.replace("</head>", f"<script>{axe().read_text()}</script></head>", 1)
    question = (
        OPEN
        + """
      const found = await axe.run();
      return {dark: matchMedia("(prefers-color-scheme: dark)").matches, passes: found.passes.length,
              violations: found.violations.map((v) => [v.id, v.nodes[0].html.slice(0, 200)])};"""
    )
    found = probed(page, tmp_path, question, dark=dark)
    assert found["dark"] == dark
    assert found["passes"] > 20
    assert found["violations"] == []


def test_charts_are_drawn_and_obey_their_fields(project: Project, tmp_path: Path) -> None:
    question = """
      const chart = document.querySelector("[data-spec=chart-learning-curves]");
      chart.scrollIntoView();
      const lines = () => [...chart.querySelectorAll("svg .mark-line path")].length;
      // A chart is drawn once it is seen: wait for it as long as it takes.
      const until = async (holds) => {
        for (let i = 0; i < 1200 && !holds(); i++) await new Promise((d) => setTimeout(d, 100));
      };
      await until(lines);
      const before = lines();
      const box = document.querySelector(".fields input[type=checkbox]");
      box.click();
      await until(() => lines() === before - 1);
      const fields = document.querySelectorAll(".fields select").length;
      return {before, after: lines(), fields};"""
    found = probed(project.html, tmp_path, question)
    assert isinstance(found, dict), found
    assert found["before"] - found["after"] == 1 and found["after"] >= 1
    assert found["fields"] >= 3


def test_a_link_to_something_closed_opens_it_and_a_figure_is_enlarged(
    project: Project, tmp_path: Path
) -> None:
    question = """
      location.hash = "#figure-ppo_her_fig2";
      await new Promise((done) => setTimeout(done, 500));
      const figure = document.getElementById("figure-ppo_her_fig2");
      const side = (name) => getComputedStyle(figure.querySelector("." + name)).display;
      const before = [side("released"), side("described")];
      figure.querySelector("input[value=both]").click();
      figure.querySelector(".enlarge").click();
      const large = document.getElementById("large");
      return {open: figure.closest("details").open, before,
              after: [side("released"), side("described")], enlarged: large.open,
              same: large.querySelector("img").src === figure.querySelector("img").src};"""
    found = probed(project.html, tmp_path, question)
    assert found == {
        "open": True, "before": ["block", "none"], "after": ["block", "block"], "enlarged": True,
        "same": True,
    }  # fmt: skip


@pytest.mark.parametrize("wide", [360, 1600])
def test_nothing_is_wider_than_the_window(project: Project, tmp_path: Path, wide: int) -> None:
    """In a frame, for a window of Chromium's cannot be as narrow as a telephone."""
    inner = tmp_path / "inner.html"
    inner.write_text(project.html, encoding="utf-8")
    outer = f"""<!DOCTYPE html><body><iframe id="in" src="inner.html" style="width: {wide}px;
        height: 800px; border: 0"></iframe></body>"""
    question = """
      const page = document.getElementById("in").contentDocument;
      for (const d of page.querySelectorAll("details")) d.open = true;
      for (const c of page.querySelectorAll(".chart")) c.scrollIntoView();
      await new Promise((done) => setTimeout(done, 2000));
      return [page.documentElement.clientWidth, page.documentElement.scrollWidth];"""
    found = probed(outer, tmp_path, question)
    assert found[0] <= wide and found[1] <= found[0], found
