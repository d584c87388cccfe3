"""Every local link of what people read leads to something: files, headings."""

import itertools
import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from tests.commands import program

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*.ipynb")]
)
PARSER = MarkdownIt("commonmark").enable("table")
TRACKED = program("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")


def markdown(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def links(text: str) -> list[str]:
    """The targets of its links and images, those of raw HTML too."""
    found = re.findall(r'(?:src|href)="([^"]+)"', text)
    for token in PARSER.parse(text):
        for inside in token.children or ():
            target = inside.attrGet("href") or inside.attrGet("src")
            found += [str(target)] if target else []
    return found


def places(text: str) -> set[str]:
    """A page's headings, as a forge names them."""
    tokens = PARSER.parse(text)
    named = [b.content for a, b in itertools.pairwise(tokens) if a.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in named}


def mistake(page: Path, target: str) -> str:
    """What is wrong with a page's link; nothing if it leads somewhere."""
    if re.match(r"(https?|mailto):", target):
        return ""
    path, _, place = target.partition("#")
    file = (page.parent / unquote(path)).resolve() if path else page
    if not file.is_relative_to(ROOT) or not file.exists():
        return f"{target}: there is no such file"
    if TRACKED != [""] and file.is_file() and str(file.relative_to(ROOT)) not in TRACKED:
        return f"{target}: is not tracked"
    if place and file.suffix == ".md" and place not in places(markdown(file)):
        return f"{target}: has no such heading"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    found = [mistake(page, target) for target in links(markdown(page))]
    assert not [words for words in found if words]


def test_of_the_derived_pictures_those_are_tracked_that_the_pages_show():
    """All others are drawn by `make figures`, and shown by the page and the site."""
    if TRACKED == [""]:
        pytest.skip("this is no checkout of git")
    shown = set()
    for page in PAGES:
        for target in links(markdown(page)):
            path = (page.parent / target.partition("#")[0]).resolve()
            if path.is_relative_to(ROOT / "figures"):
                shown.add(str(path.relative_to(ROOT)))
    assert {name for name in TRACKED if name.startswith("figures/")} == shown
