"""The page as Chromium shows it: accessible, of any width, in dark and light."""

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
      return [page.documentElement.clientWidth, page.documentElement.scrollWidth];"""
    found = probed(outer, tmp_path, question)
    assert found[0] <= wide and found[1] <= found[0], found
