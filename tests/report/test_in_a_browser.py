"""The page as Chromium shows it: accessible, of any width, in dark and light."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from hindsight.claims.data import CLAIMS
from tests.report.conftest import policy
from tests.support.browser import probed
from tests.support.configuration import ROOT
from tests.support.wants import wants

AXE_VERSION = "4.14.1"
OPEN = 'for (const d of document.querySelectorAll("details")) d.open = true;'


def axe() -> Path:
    """The accessibility checker's one file."""
    path = Path(os.environ.get("AXE", ROOT / "node_modules/axe-core/axe.min.js"))
    wants(path.exists(), "axe-core", f"with npm install --no-save axe-core@{AXE_VERSION}")
    return path


@pytest.mark.parametrize("dark", [False, True])
def test_the_accessibility_checker_finds_nothing(project, tmp_path, dark):
    page = project.html.replace(policy(project.html), "").replace(
        "</head>", f"<script>{axe().read_text()}</script></head>", 1
    )
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


def framed(html: str, tmp_path: Path, size: tuple[int, int], question: str) -> Any:
    """What `page`, the document in a frame of this size, gives: a window of Chromium's cannot be as
    narrow as a telephone.
    """
    (tmp_path / "inner.html").write_text(html, encoding="utf-8")
    outer = f"""<!DOCTYPE html><body><iframe id="in" src="inner.html" style="width: {size[0]}px;
        height: {size[1]}px; border: 0"></iframe></body>"""
    found = f'const page = document.getElementById("in").contentDocument; {question}'
    return probed(outer, tmp_path, found)


@pytest.mark.parametrize("size", [(1400, 900), (390, 844)])
def test_the_first_screen_holds_the_answer_and_nothing_is_wider(project, tmp_path, size):
    question = """
      await page.querySelector("#answer img").decode();
      const shown = [...page.querySelectorAll("#answer li, #answer img")];
      const box = (x) => x.getBoundingClientRect().toJSON();
      const boxes = shown.map((x) => [x.tagName, x.textContent, box(x)]);
      for (const d of page.querySelectorAll("details")) d.open = true;
      const widths = () => [page.documentElement.clientWidth, page.documentElement.scrollWidth];
      const wide = widths();
      document.getElementById("in").style.width = "360px";
      return [boxes, wide, widths()];"""
    of_published = re.sub('<section id="own".*?(?=<section)', "", project.html, flags=re.S)
    found, *widths = framed(of_published, tmp_path, size, question)
    assert [name for name, *_ in found] == ["LI"] * 5 + ["IMG"]
    assert found[0][1].startswith("Yes")
    for name, _, box in found:
        assert box["top"] >= 0 and box["bottom"] <= size[1] and box["right"] <= size[0], (name, box)
        assert box["width"] > 300 and box["height"] > 30, (name, box)
    for (shown, needed), wide in zip(widths, (size[0], 360), strict=True):
        assert needed <= shown <= wide


@pytest.mark.parametrize("size", [(1400, 900), (390, 844)])
def test_the_first_screen_of_ones_own_page_holds_one_s_own_verdicts(project, tmp_path, size):
    question = """
      const shown = [...page.querySelectorAll("#own p strong, #own tbody td")].slice(0, 5);
      return shown.map((x) => [x.textContent, x.getBoundingClientRect().toJSON()]);"""
    said, *row = framed(project.html, tmp_path, size, question)
    assert "claims tested" in said[0] and row[0][0].split()[0] in CLAIMS
    for text, box in (said, *row):
        assert box["top"] >= 0 and box["bottom"] <= size[1], (text, box)
        assert box["right"] <= size[0] and box["width"] > 40, (text, box)


def test_on_a_telephone_claims_are_lines_and_wide_figures_scroll(project, tmp_path):
    question = """
      for (const d of page.querySelectorAll("details")) d.open = true;
      const box = (x) => x.getBoundingClientRect().toJSON();
      const cells = [...page.querySelectorAll("table.claims td")].map(box);
      const wide = [...page.querySelectorAll("figure.wide")].map((x) =>
        [box(x.querySelector("img")).width, box(x).width, x.querySelector("img").complete]);
      const advice = page.querySelector("#which ~ .scroll");
      return [cells, wide, page.querySelector("#name a").textContent,
              [advice.scrollWidth, advice.clientWidth]];"""
    cells, wide, name, advice = framed(project.html, tmp_path, (390, 844), question)
    assert len(cells) > 60 and all(c["left"] >= 0 and c["right"] <= 390 for c in cells)
    assert min(c["width"] for c in cells) > 300 and name == "hindsight"
    assert wide and all(image > 900 and figure < 390 for image, figure, _ in wide)
    assert advice[0] <= advice[1] < 390


def test_the_page_s_policy_lets_no_script_run(project, tmp_path):
    """But its own style and pictures are shown."""
    html = project.html.replace("</head>", '<script>document.title = "ran"</script></head>', 1)
    question = """
      const img = page.querySelector("#film img");
      await img.decode();
      const style = getComputedStyle(page.querySelector("#answer"));
      return [page.title, img.naturalWidth, style.display];"""
    title, width, display = framed(html, tmp_path, (1400, 900), question)
    assert title.startswith("PPO-HER and MEHER") and width > 100 and display == "grid"
    without = html.replace(policy(html), "")
    assert framed(without, tmp_path, (1400, 900), "return page.title;") == "ran"
