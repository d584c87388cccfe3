"""The scoreboard and the page say what claims, tables and cells say, and stand alone."""

import base64
import contextlib
import io
import re
import shutil
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt
from PIL import Image

from hindsight.claims import write_claims
from hindsight.figures.draw import draw
from hindsight.figures.specs import DOCUMENT, names_for
from hindsight.io.checksums import about
from hindsight.io.records import Making
from hindsight.report import present, words
from hindsight.report.build import MARKS, as_text, build, gather, read_claims, text_of
from hindsight.specs.config import HERO
from tests.analysis.synthetic import CONDITIONS, arms_of, summarise, summarised, write_experiment
from tests.analysis.test_cells import rewrite
from tests.report.conftest import FIGURES, TABLES, Project, drawn
from tests.support.configuration import ROOT
from tests.test_docs import links, places


class Tags(HTMLParser):
    """Collects start tags with their attributes, and checks that every tag is closed in turn."""

    VOID = ("meta", "img", "br", "link", "hr", "input", "source")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_loads_nothing_and_its_links_lead_somewhere(project):
    tags = Tags(project.html)
    assert not tags.open
    page = project.root / FIGURES
    ids = {attributes["id"] for _, attributes in tags.found if "id" in attributes}
    for tag, attributes in tags.found:
        assert tag not in ("script", "iframe", "object", "embed")
        assert tag != "link" or str(attributes["href"]).startswith("data:"), attributes
        for name in ("src", "srcset", "poster", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith("data:"), (tag, value)
        link = attributes.get("href") or ""
        if link.startswith("#"):
            assert link[1:] in ids, link
        elif not link.startswith(("data:", "https:")):
            assert (page / link.partition("#")[0]).exists() or "adam.py" in link, link
    (style,) = re.findall("<style>(.*?)</style>", project.html, re.S)
    assert "@import" not in style and "url(" not in style


def test_every_image_is_embedded_whole_and_described(project):
    every = [attributes for tag, attributes in Tags(project.html).found if tag == "img"]
    own, hero, film, *images = every
    images.append(own)
    assert str(hero["alt"]).startswith(f"{HERO}: ")
    assert str(film["src"]).startswith("data:image/gif")
    drawn = {path.stem for path in (project.root / FIGURES).glob("*.png")}
    shown_ones = {str(image["alt"]).split(":")[0] for image in images}
    # Of what was drawn under both fidelities the page holds one, and leads to the other.
    twins = {name for name in drawn if f"{name}_described" in drawn}
    assert twins and shown_ones == drawn - {f"{name}_described" for name in twins}
    for name in drawn:
        assert f'href="{name}.png"' in project.html
    for image in images:
        head, data = str(image["src"]).split(",", 1)
        assert head == "data:image/avif;base64"
        name = str(image["alt"]).split(":")[0]
        with (
            Image.open(io.BytesIO(base64.b64decode(data))) as shown,
            Image.open(project.root / FIGURES / f"{name}.png") as whole,
        ):
            assert (str(shown.width), str(shown.height)) == (image["width"], image["height"])
            wanted, found = (np.asarray(x.convert("RGB"), float) for x in (whole, shown))
        # With losses, but nowhere another picture.
        apart = np.abs(wanted - found).max(-1)
        assert apart.mean() < 4 and np.quantile(apart, 0.99) < 50
        assert len(str(image["alt"])) > 40


def test_every_verdict_is_on_the_page_in_words_and_with_its_mark(project):
    claims = read_claims(project.root / "results/tables/laptop/claims.json")
    assert claims
    html = re.sub(r"src=\"data:[^\"]*\"", "", project.html)
    for claim in claims:
        assert set(claim.verdicts) == {"released", "described"}
        assert re.search(rf'<h3 id="{claim.claim.id.lower()}-[^"]*">{claim.claim.id}:', html)
        assert f'<h3 id="{claim.claim.id.lower()}">' in html  # its rule and numbers
        for row in claim.verdicts.values():
            assert f"{MARKS[row['verdict']]} <strong>{row['verdict']}</strong>" in html


def test_a_page_of_ones_own_results_opens_with_them(project, tmp_path):
    """With what was tested, beside what is published; that of published results with the answer."""
    whole = re.sub(r"src=\"data:[^\"]*\"", "", project.html)
    own, _, rest = whole.partition('<section id="answer"')
    assert "<title>PPO-HER and MEHER, replicated (laptop)" in own and "<h1>Should I" not in own
    claims = read_claims(project.root / TABLES / "claims.json")
    tested = [
        (c, f) for c in claims for f in c.verdicts if c.verdicts[f]["verdict"] != "not tested"
    ]
    assert len(re.findall("<tr><td>", own)) == len(tested) > 3
    for claim, fidelity in tested:
        row = claim.verdicts[fidelity]
        shown = f"{MARKS[row['verdict']]} {row['verdict']}, <code>{fidelity}</code>"
        assert shown in own and unescape(own).count(row["says"])
    untested = {c.claim.id for c in claims} - {c.claim.id for c, _ in tested}
    (named,) = re.findall("<p>Not tested: ([^.]*)[.]", own)
    assert set(named.split(", ")) == untested
    assert f"{len(claims) - len(untested)} claims tested" in own
    assert f"{len(untested)} need a larger preset." in own
    assert "should I use hindsight with PPO?" in own.rpartition("<h2")[2] and "<h2" in rest
    shutil.copytree(project.root / TABLES, tmp_path / "published")
    with contextlib.chdir(project.root):
        build(tmp_path / "published", drawn(), *(tmp_path / x for x in ("a.html", "b.md", "c")))
    html = (tmp_path / "a.html").read_text()
    assert 'id="own"' not in html and "<h1>Should I use hindsight with PPO?</h1>" in html


def test_beside_published_results_ones_own_are_told_apart(tmp_path):
    """A verdict with the papers' network, and a figure that the first screen has, too."""
    few: dict[str, Any] = {"fidelities": ("described",), "conditions": CONDITIONS[:2], "seeds": 5}
    for name in ("algorithms", "papers_network", "rivals"):
        arms = arms_of(name)[:2] if name == "papers_network" else ("PPO", "PPO-HER")
        summarised(tmp_path, name, arms=arms, iterations=10, levels=[{}], **few)
    own, published = FIGURES / f"{HERO}.png", Path(f"figures/published/{HERO}.png")
    draw(HERO, tmp_path / TABLES, (tmp_path / own).with_suffix(""), ("png",))
    (tmp_path / published).parent.mkdir()
    for name in ("REPLICATION.md", published):
        shutil.copy(ROOT / name, tmp_path / name)
    write_claims(tmp_path / TABLES / "claims.json")
    (tmp_path / TABLES / "papers.json").write_text("{}")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/deviations.md").touch()
    with contextlib.chdir(tmp_path):
        known = words.published(Path("REPLICATION.md"))
        build(TABLES, [own], *(FIGURES / name for name in ("report.html", "own.md", "appendix")))
    html = Project(tmp_path).html
    rows = re.findall("<tr><td>.*?</tr>", html.partition('<section id="answer"')[0])
    readings = set()
    for row in rows:
        claim, reading = (re.search(x, row)[1] for x in ('href="#[^"]*">(.*?)<', "<code>(.*?)<"))
        readings.add(reading)
        assert f'published verdict">{known.get((claim, reading), "–")}<' in row
    assert len(readings) == 2 < len(rows)
    both = re.findall(f'<figure id="([^"]*{HERO})"', html)
    assert sorted(both) == [f"figure-laptop-{HERO}", f"figure-published-{HERO}"]
    assert "is shown above" not in html


def test_what_many_captions_say_is_said_once_and_the_page_says_what_it_is(project):
    """The other figures lead to the first; who cannot see them is told all of it."""
    captions = re.findall("<figcaption>(.*?)</figcaption>", project.html, re.S)
    for text in DOCUMENT.words.values():
        assert sum(unescape(caption).count(" ".join(text.split())) for caption in captions) <= 1
    same = [c for c in captions if c.startswith('Drawn as <a href="#figure-')]
    assert len(same) > 2 and all(c.endswith(".") for c in captions)
    assert '<p id="name"><a href="../../README.md">hindsight</a>' in project.html
    assert project.html.count("https://arxiv.org/abs/2410.22524") and 'id="cite"' in project.html


def test_every_link_of_the_scoreboard_leads_somewhere(project):
    """Also from another folder."""
    other = FIGURES / "REPLICATION.md"
    with contextlib.chdir(project.root):
        build(TABLES, drawn(), other.with_name("again.html"), other, other.with_name("appendix"))
    pages = [project.root / "REPLICATION.md", project.root / other]
    pages += [*project.root.glob("results/appendix/*.md"), *pages[1].parent.glob("appendix/*.md")]
    for page in pages:
        found = links(page.read_text(encoding="utf-8"))
        assert found, page
        for link in found:
            assert not link.startswith(("/", "http"))
            path, _, place = link.partition("#")
            target = page.parent / path
            assert target.exists(), link
            assert not place or place in places(target.read_text(encoding="utf-8")), link


def test_production_and_what_is_missing_are_told_on_both_pages(project):
    """Verdicts that need the missing cell say so: without it they would compare other things."""
    name = project.missing.removeprefix("results/cells/").removesuffix(".parquet")
    for page in (project.html, project.everything):
        for fact in ("as it grew", "2 × 64", "numpy", "float32", "CPU time", project.missing):
            assert fact in page
        assert f"1 cell is missing of algorithms: {name}." in page
    assert f"- `{project.missing}`" in project.markdown and "20,480" in project.html


def test_what_is_left_of_experiments_without_results_is_not_shown(project, tmp_path):
    """A figure; and of the appendix, what an earlier build wrote is removed, and nothing else."""
    copy = Project(shutil.copytree(project.root, tmp_path / "copy"))
    name = "meher_fig6_described"
    assert f"{name}.png" in project.everything and (copy.root / FIGURES / f"{name}.png").exists()
    summary = copy.root / TABLES / "stop_her/summary.csv"
    summary.write_text(summary.read_text().splitlines()[0] + "\n")
    gone, own = (copy.root / "results/appendix" / f"{x}.md" for x in ("gone", "own"))
    page = FIGURES / "report.html"
    with contextlib.chdir(copy.root):
        gone.write_text("left of an older plan")
        Making("report", []).record(page, [gone.relative_to(copy.root)])
    own.write_text("the user's")
    copy.build()
    assert own.exists()
    own.unlink()
    assert f"{name}.png" not in copy.everything and "meher_fig3.png" in copy.everything
    assert set(copy.appendix) == {
        "0-claims", "0-produced", "environment", "algorithms", "learning_rate",
        "s_ratio", "stop_her",
    }  # fmt: skip


def test_an_experiment_that_no_figure_is_made_for_has_its_tables_and_figures_on_both_pages(
    tmp_path,
):
    summarised(
        tmp_path, "mine", arms=["PPO", "my arm"], levels=[{}], conditions=[("random", "static")],
        fidelities=("described",), seeds=5, iterations=4,
    )  # fmt: skip
    project = Project(tmp_path)
    project.draw(*names_for("mine", ["described"]))
    # Left of a fidelity that is not trained any more.
    (tmp_path / FIGURES / "aggregate_mine.png").touch()
    project.build()
    for text in (project.html, project.appendix["mine"]):
        assert "By condition, described" in text
        for name in ("curves_mine_described", "aggregate_mine_described"):
            assert name in text
        assert "aggregate_mine.png" not in text and "aggregate_mine:" not in text


def test_a_folder_without_plans_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no experiment's plan\.json"):
        build(tmp_path, [], tmp_path / "a.html", tmp_path / "b.md", tmp_path)


def test_numbers_that_no_published_table_has():
    nan = float("nan")
    assert present.setting(1.1, 1.1, nan, nan) == "1.1"
    assert present.number(None) == present.p_value(None) == "–"


MARKED = "*a* _b_ __c__ `d` [e](http://f) ![g](http://h) <b>i</b> &lt; ~~j~~ k|l m_n [95%] $o$ \\*"


def test_what_is_shown_in_markdown_is_shown_as_it_is():
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    page = parser.render(f"### {as_text(MARKED)}\n\n| {as_text(MARKED)} |\n|---|\n")
    for tag in ("h3", "th"):
        inside = re.search(rf"<{tag}>(.*)</{tag}>", page)
        assert inside is not None and unescape(inside[1]) == MARKED
    assert as_text("M_c at S > 0.5 [0.1, 0.2]\n(a < b)") == "M_c at S > 0.5 [0.1, 0.2] (a < b)"


def test_names_and_processors_are_escaped_in_the_scoreboard(project, monkeypatch):
    monkeypatch.chdir(project.root)
    report = gather(TABLES, drawn())
    chapters = [replace(c, title="[t](http://t)", published_as="*p*") for c in report.chapters]
    provenance = replace(report.provenance, facts={"processor": ["![x](http://x) <i>y</i>"]})
    changed = replace(report, chapters=chapters, provenance=provenance)
    parser = MarkdownIt("commonmark").enable("table")
    names = ["0-main", "0-produced", *(chapter.name for chapter in chapters)]
    pages = {name: Path(f"{name}.md") for name in ["0-claims", *names]}
    texts = [text_of(changed, pages, name) for name in names]
    page = "".join(map(parser.render, texts))
    assert "http://t" in page and "http://x" in page and "*p*" in page
    assert 'href="http' not in page and 'src="http' not in page
    assert "<em>p" not in page and "<i>y" not in page


def test_the_scoreboard_is_short():
    text = (ROOT / "REPLICATION.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 3500


def test_runs_that_diverged_are_named_under_figures_and_tables(tmp_path, monkeypatch):
    """The cell of one arm holds a run that ended without numbers."""
    plan = write_experiment(
        tmp_path, "algorithms", conditions=[("random", "static")], fidelities=("released",),
        seeds=5, iterations=6,
    )  # fmt: skip
    cells = tmp_path / "results/cells/algorithms-random-static"
    lost = diverge(cells / "ppo-her-released.parquet", seed=3, after=2)
    summarise(plan, tmp_path)
    project = Project(tmp_path)
    project.draw("ppo_her_fig2", "solved_share_algorithms")
    project.build()
    monkeypatch.chdir(tmp_path)
    report = gather(TABLES, drawn())
    told = (
        "1 run diverged and counts as failing from then on: PPO-HER, random static, seed 3, step "
        f"{present.count(lost)}."
    )
    for chapter in report.chapters:
        for shown in chapter.tables.values():
            assert all(table.note == told for table in shown)
        assert all(told in picture.caption for picture in chapter.pictures)
    assert sum(len(chapter.pictures) for chapter in report.chapters) == 2
    assert project.html.count(told) >= 3 and project.appendix["algorithms"].count(told) >= 3
    assert told in project.markdown


def diverge(path: Path, seed: int, after: int) -> int:
    """End one run of a cell after so many iterations, as diverged; returns its last step."""
    runs, rows = about(path)["runs"], pq.read_table(path).to_pandas()
    end = int(rows.loc[(rows["seed"] == seed) & (rows["iteration"] == after), "env_steps"].iloc[0])
    for run in runs:
        if run["seed"] == seed:
            run |= {"end_step": end, "ended": "diverged"}
    rewrite(path, rows[(rows["seed"] != seed) | (rows["env_steps"] <= end)], runs=runs)
    return end
