"""Build the pages by templates, from one `Report`, which is read from files only.

REPLICATION.md has the short answers, its appendix one file per experiment, and report.html contains
everything and works offline.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from hindsight import __version__
from hindsight.analysis import authors
from hindsight.analysis.summarise import level_text, plans_in, read_table
from hindsight.claims.data import CLAIMS, PAPERS, Claim
from hindsight.figures.names import level_label, network_note
from hindsight.figures.specs import DOCUMENT, ENDINGS, FIGURES, specs_of
from hindsight.io.files import write_if_changed
from hindsight.io.records import RECORD, read_record, record_of
from hindsight.report import present, words
from hindsight.report.coverage import Provenance, collect, coverage
from hindsight.report.html import Page, animation, link
from hindsight.report.words import MARKS
from hindsight.specs.config import AUTHORS, HERO, MAIN_EXPERIMENT, PICTURE

FIDELITIES = {
    "released": "what the authors' code does",
    "described": "what the papers say",
}
#: report.html links to the files of longer tables instead of showing them.
SHOWN_ROWS = 16
DEVIATIONS, FINDINGS = Path("docs/deviations.md"), Path("docs/findings.md")
#: The first screen of report.html shows the published findings, whichever results are judged below.
README, FILM = Path("README.md"), Path("docs/with_and_without.gif")
CITATION = Path("CITATION.cff")
#: The published verdicts, with which one's own are compared.
SCOREBOARD = Path("REPLICATION.md")
#: REPLICATION.md, and pages of its appendix without an experiment, whose names start with a letter.
MAIN_PAGE, CLAIMS_PAGE, PRODUCED_PAGE = "0-main", "0-claims", "0-produced"
#: A note on diverged runs by experiment and fidelity; "" if none diverged.
Notes = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class Picture:
    name: str
    experiment: str
    path: Path
    caption: str
    fidelity: str


@dataclass(frozen=True)
class Judged:
    """A claim, its verdicts by `words.reading`, and its figures by fidelity, if they were drawn.

    A verdict is the row of claims.json, with the sentence `says`.
    """

    claim: Claim
    verdicts: dict[str, dict[str, Any]]
    pictures: dict[str, Picture]

    @property
    def summary(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for reading, row in self.verdicts.items():
            found.setdefault((row["verdict"], row["says"]), []).append(reading)
        return found


@dataclass(frozen=True)
class Chapter:
    """An experiment: its figures, and its tables (one per fidelity) by their file."""

    name: str
    title: str
    published_as: str
    pictures: list[Picture]
    tables: dict[Path, list[present.Table]] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """Everything that the pages show; `authors`: rows of `analysis.authors.compare`."""

    source: str
    preset: dict[str, str]
    fidelities: list[str]
    coverage: list[present.Table]
    claims: list[Judged]
    #: Columns of verdicts: the papers' network first, if there are results with it.
    readings: list[str]
    chapters: list[Chapter]
    provenance: Provenance
    deviations: str
    diverged: str
    authors: list[dict[str, Any]]


def build(
    tables: Path,
    figures: Collection[Path],
    page: Path,
    markdown: Path,
    appendix: Path,
    experiments: Collection[str] | None = None,
) -> list[Path]:
    """Write all pages from a source's folder of tables and its figures; return the pages' paths.

    Pages of the appendix that an earlier build wrote and this one does not are deleted. Paths in
    the plans and the path of docs/ are relative to the working directory.

    experiments: other tables do not count; None: all.
    """
    report = gather(tables, figures, experiments)
    names = [CLAIMS_PAGE, PRODUCED_PAGE, *(chapter.name for chapter in report.chapters)]
    pages = {MAIN_PAGE: markdown} | {name: appendix / f"{name}.md" for name in names}
    write_if_changed(page, render_html(report, pages, page))
    for name, path in pages.items():
        write_if_changed(path, text_of(report, pages, name))
    written = [page, *pages.values()]
    for left in read_record(record_of(page)).get("outputs", {}).keys() - set(map(str, written)):
        (appendix / Path(left).name).unlink(missing_ok=True)
    return written


def gather(
    tables: Path, figures: Collection[Path], experiments: Collection[str] | None = None
) -> Report:
    """Read everything that the pages show; leave out missing figures and tables."""
    plans = plans_in(tables, experiments)
    if not plans:
        raise FileNotFoundError(f"{tables}: no experiment's plan.json found in this folder")
    order = list(dict.fromkeys(spec.experiment for spec in FIGURES.values()))
    plans.sort(key=lambda plan: [*order, plan["experiment"]].index(plan["experiment"]))
    notes = _diverged(tables, plans)
    drawn = _drawn(tables, plans, figures, notes)
    found = {e["fidelity"] for plan in plans for e in plan["entries"]}
    pictured = [picture for picture in drawn.values() if picture.experiment == PICTURE]
    environment = Chapter(PICTURE, "The environment", "Fig. 1 of both papers", pictured)
    claims = read_claims(tables / "claims.json", drawn)
    readings = dict.fromkeys(reading for claim in claims for reading in claim.verdicts)
    return Report(
        source=tables.name,
        preset=_preset(plans),
        fidelities=[f for f in FIDELITIES if f in found],
        coverage=coverage(plans, tables / "papers.json"),
        claims=claims,
        readings=sorted(readings, key=lambda reading: reading in FIDELITIES),
        chapters=[environment, *(_chapter(plan, tables, drawn, notes) for plan in plans)],
        provenance=collect(plans),
        deviations=DEVIATIONS.read_text(encoding="utf-8"),
        diverged=" ".join(
            f"{name} ({fidelity}): {note}" for (name, fidelity), note in notes.items() if note
        )
        or "None.",
        authors=_authors(tables, plans),
    )


def read_claims(path: Path, drawn: Mapping[str, Picture] | None = None) -> list[Judged]:
    """Read claims.json, with a row per claim, fidelity and network; `drawn`: figures by name."""
    verdicts: dict[str, dict[str, dict[str, Any]]] = {}
    for row in json.loads(path.read_text(encoding="utf-8")):
        own = verdicts.setdefault(row["claim"], {})
        own[words.reading(row)] = row | {"says": words.says(row)}
    found = []
    for name, rows in verdicts.items():
        fidelities = dict.fromkeys(row["fidelity"] for row in rows.values())
        figures = {fidelity: CLAIMS[name].figure + ENDINGS[fidelity] for fidelity in fidelities}
        pictures = {f: drawn[figure] for f, figure in figures.items() if drawn and figure in drawn}
        found.append(Judged(CLAIMS[name], rows, pictures))
    return found


def _authors(tables: Path, plans: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare the authors' curves with ours; return a row per setting, none without both."""
    ours = tables / MAIN_EXPERIMENT / "seed_curves.parquet"
    there = any(plan["experiment"] == MAIN_EXPERIMENT for plan in plans)
    if not (there and AUTHORS.exists() and ours.exists()):
        return []
    network = "x".join(map(str, plans[0]["preset"]["hidden"]))
    rows = authors.compare(AUTHORS, read_table(ours), network)
    rows = rows.assign(apart=rows["p_holm"] < 0.05)
    return [{str(name): x for name, x in row.items()} for row in rows.to_dict("records")]


def _drawn(
    tables: Path, plans: Sequence[dict[str, Any]], figures: Collection[Path], notes: Notes
) -> dict[str, Picture]:
    """Return the figures that were drawn, by name, except those of experiments without results.

    A note on diverged runs ends the caption.
    """
    summaries = {plan["experiment"]: tables / plan["experiment"] / "summary.csv" for plan in plans}
    found = {name: read_table(path) for name, path in summaries.items() if path.exists()}
    paths = {path.stem: path for path in figures}
    known = {(PICTURE, "")}
    known |= {(name, fidelity) for name, table in found.items() for fidelity in table["fidelity"]}
    drawn = {}
    for name, spec in specs_of(found).items():
        place = spec.experiment, spec.fidelity
        if place in known and name in paths:
            caption = f"{spec.caption} {notes.get(place, '')}".strip()
            drawn[name] = Picture(name, spec.experiment, paths[name], caption, spec.fidelity)
    return drawn


def _diverged(tables: Path, plans: Sequence[dict[str, Any]]) -> Notes:
    found = {}
    for plan in plans:
        record = read_record(tables / plan["experiment"] / RECORD)
        for fidelity in FIDELITIES:
            runs = [r for r in record.get("diverged", ()) if r["fidelity"] == fidelity]
            found[plan["experiment"], fidelity] = words.diverged(runs)
    return found


def _preset(plans: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the size of the runs in words; the number of seeds may differ by experiment."""
    presets = [plan["preset"] for plan in plans]
    seeds = sorted({e["seeds"] for plan in plans for e in plan["entries"]})
    networks = Counter(network_note(preset["hidden"]) for preset in presets)
    ends = dict.fromkeys(
        f"{preset['early_end']} × the first perfect hundred episodes"
        if preset.get("early_end")
        else "never"
        for preset in presets
    )
    return {
        # That of most experiments: those with others name them.
        "network": networks.most_common(1)[0][0].removeprefix("network "),
        "seeds": ", ".join(map(str, seeds)),
        "environment steps of a run, at most": present.count(max(x["steps"] for x in presets)),
        "a run ends early at": ", or ".join(ends),
    }


def _chapter(
    plan: dict[str, Any], tables: Path, drawn: dict[str, Picture], notes: Notes
) -> Chapter:
    """Return an experiment's tables, with notes on diverged runs, and its figures."""
    name = plan["experiment"]
    of_tasks = all(entry["spawn"] is None for entry in plan["entries"])
    settings: dict[str, str] = {}
    cells: dict[str, str] = {}
    for entry in plan["entries"]:
        text = level_text(entry["level"])
        if cells.setdefault(entry["cell"], text) == text:  # skip levels that reuse another's cell
            # Only on the papers' task does `final` imply one copy.
            each = [{key: x} for key, x in entry["level"].items()] if of_tasks else [entry["level"]]
            settings[text] = ", ".join(map(level_label, each))
    own = [picture for picture in drawn.values() if picture.experiment == name]
    chapter = Chapter(name, plan["title"], plan["figures"], own)
    for file, (title, columns) in present.TABLES.items():
        path = tables / name / file
        frame = read_table(path)
        if "level" in frame:
            frame = frame.assign(level=frame["level"].map(settings)).dropna(subset=["level"])
        if of_tasks:
            columns = present.OF_TASKS[file]
        if len(settings) < 2:
            columns = [column for column in columns if column != present.LEVEL]
        for fidelity, rows in frame.groupby("fidelity", sort=False):
            note = notes.get((name, str(fidelity)), "")
            table = present.table(f"{title}, {fidelity}", rows, columns, plan["arms"], note)
            chapter.tables.setdefault(path, []).append(table)
    return chapter


def text_of(report: Report, pages: Mapping[str, Path], name: str, *, short: int = 0) -> str:
    """Render a Markdown page; with `short`, link to tables of more rows than that.

    `pages` are the files of all, by name. Links are relative to the page's own folder.
    """
    own = {MAIN_PAGE: "replication", CLAIMS_PAGE: "claims", PRODUCED_PAGE: "produced"}
    chapter = next((one for one in report.chapters if one.name == name), None)
    return _render(f"{own.get(name, 'chapter')}.md.j2", report, page_path=pages[name],
                   pages=pages, chapter=chapter, short=short)  # fmt: skip


def section(page: Path, title: str) -> str:
    """Return the text below a page's level-two heading; "" if the page does not exist."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return found[1] if found else ""


def opening(page: Path) -> str:
    """Return a page's text between its title and its first section; "" if it does not exist."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return text.partition("\n## ")[0].partition("\n")[2]


def render_html(report: Report, pages: Mapping[str, Path], path: Path) -> str:
    """Render everything as one page that loads nothing; `path` is the file that it will be."""
    every = {one.name: one for chapter in report.chapters for one in chapter.pictures}
    # If a figure exists under both fidelities, the page embeds one and links to the other, which
    # halves its size.
    captions = {
        one.path: one.caption
        for name, one in every.items()
        if one.fidelity != "described" or name.removesuffix("_described") not in every
    }
    places = {pages[name]: f"experiment-{name}" for name in pages}
    places |= {pages[CLAIMS_PAGE]: "rules", pages[PRODUCED_PAGE]: "produced",
               pages[MAIN_PAGE]: "main", DEVIATIONS: "deviations"}  # fmt: skip
    hero = Path(f"figures/published/{HERO}.png")
    if hero.exists():
        captions.setdefault(hero, FIGURES[HERO].caption)
    common = [" ".join(text.split()) for text in DOCUMENT.words.values()]
    page = Page(path, captions, places, common)
    page.ids |= {"main", "answer", "which", "rules", "experiments", "deviations", "produced"}
    bullets = "".join(re.findall(r"^- .*\n(?:  .*\n)*", section(README, "What was found"), re.M))
    # Figures are embedded where they first occur, so the parts are rendered in the page's order.
    own = None if report.source == "published" else _own(report, page, pages[MAIN_PAGE])
    answer = {
        "opening": page.add(opening(README), README),
        "bullets": page.add(bullets, README),
        "hero": page.add(f"![]({hero})", README) if hero.exists() else "",
        "film": animation(FILM) if FILM.exists() else "",
        "which": page.add(section(FINDINGS, "Which should I use?"), FINDINGS),
    }

    def part(name: str, short: int = 0, deeper: int = 1) -> str:
        return page.add(text_of(report, pages, name, short=short), pages[name], deeper=deeper)

    text, rules = part(MAIN_PAGE, deeper=0), part(CLAIMS_PAGE, 1)
    chapters = [
        (
            chapter.name,
            f"{chapter.title} ({chapter.published_as})",
            part(chapter.name, SHOWN_ROWS),
        )
        for chapter in report.chapters
        if chapter.pictures or chapter.tables
    ]
    deviations = page.add(report.deviations, DEVIATIONS, deeper=1, images=False)
    produced = part(PRODUCED_PAGE, 1)
    return _render(
        "page.html.j2", report, home=link(README, path), cite=link(CITATION, path),
        version=__version__, dated=max(claim.dated for claim in CLAIMS.values()), own=own,
        answer=answer, text=text, rules=rules, chapters=chapters, deviation_text=deviations,
        produced=produced,
    )  # fmt: skip


def _own(report: Report, page: Page, markdown: Path) -> dict[str, Any]:
    """Return what one's own results say, with which the page opens."""
    known = words.published(SCOREBOARD)
    verdicts = [row for judged in report.claims for row in judged.verdicts.values()]
    rows, sentence, rest = words.tested(verdicts, known)
    pictures = (judged.pictures.get(row["fidelity"]) for row in rows for judged in report.claims
                if judged.claim.id == row["claim"])  # fmt: skip
    shown = next(filter(None, pictures), None)
    figure = page.add(f"![]({link(shown.path, markdown)})", markdown) if shown else ""
    return {"rows": rows, "sentence": sentence, "rest": rest, "known": known, "figure": figure}


def as_text(value: Any) -> str:
    """Escape the characters that Markdown would interpret.

    Underscores within a word and brackets without an address need no escape.
    """
    marks = r"[\\`*~|$]|<(?=[\w/!?])|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|&(?=#?\w+;)"
    return re.sub(marks, r"\\\g<0>", " ".join(str(value).split()))


@jinja2.pass_context
def _link(context: jinja2.runtime.Context, target: Path) -> str:
    return link(target, context["page_path"])


@cache
def _jinja() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hindsight.report"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "cell": as_text, "link": _link, "number": present.number, "count": present.count,
        "p_value": present.p_value,
    }  # fmt: skip
    return environment


def _render(template: str, report: Report, **more: Any) -> str:
    """Render a template; Markdown without needless empty lines."""

    def tally(reading: str) -> str:
        found = [c.verdicts.get(reading, {}).get("verdict") for c in report.claims]
        return ", ".join(f"{found.count(mark)} {mark}" for mark in MARKS if mark in found)

    papers: dict[str, list[Judged]] = {}
    for judged in report.claims:
        papers.setdefault(judged.claim.paper, []).append(judged)
    text = _jinja().get_template(template).render(
        report=report, papers=papers, titles=PAPERS, marks=MARKS, meaning=FIDELITIES, tally=tally,
        deviations=DEVIATIONS, findings=FINDINGS, words=words, **more,
    )  # fmt: skip
    is_html = template.endswith(".html.j2")
    return text if is_html else re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
