"""The pages: REPLICATION.md, the answer in short; its appendix, a file an experiment; and
report.html, which holds all of it and opens offline by itself.

All are one text, made once by the templates from one `Report`, which is gathered from files alone:
claims.json and the tables of each experiment, the figures, the metadata of the cells, and the page
of deviations.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jinja2

from hindsight.analysis import authors
from hindsight.analysis.summarise import level_text, read_plan, read_table
from hindsight.claims.data import CLAIMS, PAPERS, Claim
from hindsight.figures import FIGURES, name_under, specs_of
from hindsight.figures.names import level_label, network_note
from hindsight.io.checksums import RECORD
from hindsight.io.files import write_if_changed
from hindsight.report import coverage, present, words
from hindsight.report.html import Page, animation, link
from hindsight.report.provenance import Provenance, collect
from hindsight.specs.config import AUTHORS
from hindsight.specs.manifest import verify

MARKS = {"yes": "✔", "no": "✘", "not tested": "○"}
FIDELITIES = {
    "released": "what the authors' code does",
    "described": "what the papers say",
}
#: Tables of more rows are downloaded from the page rather than read.
SHOWN_ROWS = 16
DEVIATIONS, FINDINGS = Path("docs/deviations.md"), Path("docs/findings.md")
#: What the page's first screen shows of the published results, whatever is judged below it.
README, FILM = Path("README.md"), Path("docs/with_and_without.gif")
HERO = "learned_described"
ENVIRONMENT = "environment"
TABLES = {
    "aggregate.csv": "All conditions together",
    "summary.csv": "By condition",
    "sensitivity.csv": "Sensitivity",
    "best_level.csv": "Best setting",
    "m_c.csv": "M_c by setting",
    "time_saved.csv": "Computation saved",
    "tests.csv": "Pairwise tests",
}


@dataclass(frozen=True)
class Judged:
    """One claim of a paper, and its verdict under each fidelity that was run: rows of claims.json,
    with their words; pictures: by fidelity the figure that shows it, of those that were drawn;
    missing: what of the paper's evidence is missing, in words.
    """

    claim: Claim
    verdicts: dict[str, dict[str, Any]]
    pictures: dict[str, "Picture"] = field(default_factory=dict)
    missing: str = ""

    @property
    def summary(self) -> dict[tuple[str, str], list[str]]:
        """Verdicts with their words, each with the fidelities of which that is to be said."""
        found: dict[tuple[str, str], list[str]] = {}
        for fidelity, row in self.verdicts.items():
            found.setdefault((row["verdict"], row["says"]), []).append(fidelity)
        return found


@dataclass(frozen=True)
class Picture:
    """A figure that was drawn: its file and what it shows."""

    name: str
    experiment: str
    path: Path
    caption: str
    fidelity: str


@dataclass(frozen=True)
class Chapter:
    """An experiment: its tables by file, each once per fidelity, where these files are, and its
    figures.
    """

    name: str
    title: str
    published_as: str
    tables: dict[str, list[present.Table]]
    files: dict[str, Path]
    pictures: list[Picture]


@dataclass(frozen=True)
class Report:
    """Everything the pages show.

    coverage: what there is of the papers' figures, then of the experiments beside them; diverged:
    in which experiments runs did, in words; authors: rows of `analysis.authors`.
    """

    source: str
    preset: dict[str, str]
    fidelities: list[str]
    coverage: list[present.Table]
    claims: list[Judged]
    chapters: list[Chapter]
    provenance: Provenance
    deviations: str
    diverged: str
    authors: list[dict[str, Any]]


#: Pages of the appendix that are no experiment's, whose names begin with a letter.
CLAIMS_PAGE, PRODUCED_PAGE = "0-claims", "0-produced"


def build(tables: Path, figures: Path, page: Path, markdown: Path, appendix: Path) -> None:
    """Write all pages for the source whose tables and figures these folders hold; `appendix` is a
    folder, which keeps no other pages.

    Cells, for their metadata, are found where the plans say, and the page of deviations where it
    is kept, relative to the working folder.
    """
    report = gather(tables, figures)
    names = [CLAIMS_PAGE, PRODUCED_PAGE, *(chapter.name for chapter in report.chapters)]
    pages = {name: appendix / f"{name}.md" for name in names}
    texts = Texts(report, markdown, pages)
    write_if_changed(page, render_html(texts, page))
    write_if_changed(markdown, texts.main())
    for name, path in pages.items():
        write_if_changed(path, texts.of(name))
    for left in set(appendix.glob("*.md")) - set(pages.values()):
        left.unlink()


def gather(tables: Path, figures: Path) -> Report:
    """Read everything; a figure that was not drawn or a table that is not there is left out."""
    plans = [read_plan(path) for path in sorted(tables.glob("*/plan.json"))]
    if not plans:
        raise FileNotFoundError(f"{tables}: there is no experiment's plan.json in it")
    order = list(dict.fromkeys(spec.experiment for spec in FIGURES.values()))
    plans.sort(key=lambda plan: [*order, plan["experiment"]].index(plan["experiment"]))
    notes = diverged_in(tables, plans)
    drawn = _drawn(tables, figures, notes)
    found = {e["fidelity"] for plan in plans for e in plan["entries"]}
    return Report(
        source=tables.name,
        preset=_preset(plans),
        fidelities=[f for f in FIDELITIES if f in found],
        coverage=coverage.coverage(plans, tables / "papers.json"),
        claims=read_claims(tables / "claims.json", drawn),
        chapters=[
            Chapter(
                ENVIRONMENT,
                "The environment",
                "Fig. 1 of both papers",
                {},
                {},
                _pictures(ENVIRONMENT, drawn),
            ),
            *(_chapter(plan, tables, drawn, notes) for plan in plans),
        ],
        provenance=collect(plans),
        deviations=DEVIATIONS.read_text(encoding="utf-8"),
        diverged=" ".join(
            f"{name} ({fidelity}): {note}" for (name, fidelity), note in notes.items() if note
        )
        or "None: every run's parameters stayed numbers.",
        authors=_authors(tables, plans),
    )


def read_claims(path: Path, drawn: Mapping[str, "Picture"] | None = None) -> list[Judged]:
    """claims.json, one row per claim and fidelity, as claims with their verdicts, and their figures
    if they are among those that were drawn.
    """
    claims: dict[str, Judged] = {}
    for row in json.loads(path.read_text(encoding="utf-8")):
        judged = claims.setdefault(row["claim"], Judged(CLAIMS[row["claim"]], {}))
        judged.verdicts[row["fidelity"]] = row | {"says": words.says(row)}
    return [
        replace(
            judged,
            missing=words.missing(judged.verdicts),
            pictures={f: picture for f in judged.verdicts
                      if (picture := (drawn or {}).get(name_under(judged.claim.figure, f)))},
        )
        for judged in claims.values()
    ]  # fmt: skip


def _authors(tables: Path, plans: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The authors' own curves beside ours, a row a setting; none if either is not there."""
    ours = tables / "algorithms" / "seed_curves.parquet"
    if not (AUTHORS.exists() and ours.exists()):
        return []
    verify([AUTHORS])
    network = "x".join(map(str, plans[0]["preset"]["hidden"]))
    rows = authors.compare(AUTHORS, read_table(ours), network).to_dict("records")
    return [{str(name): x for name, x in row.items()} | {"apart": row["p_holm"] < 0.05}
            for row in rows]  # fmt: skip


def _drawn(tables: Path, figures: Path, notes: Mapping[tuple[str, str], str]) -> dict[str, Picture]:
    """The figures there are, by name, but for those left of experiments without any result.

    notes: what a caption ends with, by experiment and fidelity: the runs in it that diverged.
    """
    found = {path.parent.name: read_table(path) for path in tables.glob("*/summary.csv")}
    known = {("environment", "")}
    known |= {(name, fidelity) for name, table in found.items() for fidelity in table["fidelity"]}
    drawn = {}
    for name, spec in specs_of(found).items():
        place, path = (spec.experiment, spec.fidelity), figures / f"{name}.png"
        if place in known and path.exists():
            caption = f"{spec.caption} {notes.get(place, '')}".strip()
            drawn[name] = Picture(name, spec.experiment, path, caption, spec.fidelity)
    return drawn


def diverged_in(tables: Path, plans: Sequence[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """By experiment and fidelity which runs diverged, in words; "" where none has."""
    found = {}
    for plan in plans:
        path = tables / plan["experiment"] / RECORD
        record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for fidelity in FIDELITIES:
            runs = [r for r in record.get("diverged", ()) if r["fidelity"] == fidelity]
            found[plan["experiment"], fidelity] = words.diverged(runs)
    return found


def _preset(plans: Sequence[dict[str, Any]]) -> dict[str, str]:
    """How large the runs were, in words; experiments may differ in their seeds."""
    preset = plans[0]["preset"]
    seeds = sorted({e.get("seeds", preset["seeds"]) for plan in plans for e in plan["entries"]})
    return {
        "network": network_note(preset["hidden"]).removeprefix("network "),
        "seeds": " or ".join(map(str, seeds)),
        "environment steps of a run, at most": present.count(preset["steps"]),
        "a run ends early at": f"{preset['early_end']} × the first perfect hundred episodes"
        if preset.get("early_end")
        else "never",
    }


def _chapter(
    plan: dict[str, Any],
    tables: Path,
    drawn: dict[str, Picture],
    notes: Mapping[tuple[str, str], str],
) -> Chapter:
    """An experiment's tables, of one fidelity each, and its figures.

    notes: what stands below its tables, by experiment and fidelity.
    """
    name = plan["experiment"]
    of_tasks = all(entry["spawn"] is None for entry in plan["entries"])
    settings: dict[str, str] = {}
    cells: dict[str, str] = {}
    for entry in plan["entries"]:
        text = level_text(entry["level"])
        if cells.setdefault(entry["cell"], text) == text:  # a level that is another's cell is none
            settings[text] = _setting(entry["level"], of_tasks)
    shown: dict[str, list[present.Table]] = {}
    files: dict[str, Path] = {}
    for file, title in TABLES.items():
        path = tables / name / file
        if not path.exists():
            continue
        frame = read_table(path)
        if not frame.empty:
            files[file] = path
        if "level" in frame:
            frame = frame[frame["level"].isin(settings)]
        for fidelity, rows in frame.groupby("fidelity", sort=False):
            columns = present.columns_of(file, settings, of_tasks=of_tasks)
            table = present.table(f"{title}, {fidelity}", rows, columns, plan["arms"])
            note = notes.get((name, str(fidelity)), "")
            shown.setdefault(file, []).append(replace(table, note=note))
    return Chapter(name, plan["title"], plan["figures"], shown, files, _pictures(name, drawn))


def _setting(level: Mapping[str, Any], of_tasks: bool) -> str:
    """What a level is called; off the papers' task `final` has a k as other strategies do."""
    if not of_tasks:
        return level_label(level)
    return ", ".join(level_label({key: value}) for key, value in level.items())


def _pictures(experiment: str, drawn: dict[str, Picture]) -> list[Picture]:
    return [picture for picture in drawn.values() if picture.experiment == experiment]


@dataclass(frozen=True)
class Texts:
    """The text of every page in Markdown; main: where REPLICATION.md will lie, pages: those of the
    appendix, by name. Links are relative to a page's own folder.
    """

    report: Report
    markdown: Path
    pages: Mapping[str, Path]

    def main(self) -> str:
        """The answer in short."""
        return self._render("replication.md.j2", self.markdown, pages=self.pages,
                            shown=_first_shown(self.report.claims))  # fmt: skip

    def of(self, name: str, *, short: int = 0) -> str:
        """A page of the appendix; short: without tables that have more rows than that."""
        own = {CLAIMS_PAGE: "claims.md.j2", PRODUCED_PAGE: "produced.md.j2"}
        chapter = next((one for one in self.report.chapters if one.name == name), None)
        template = own.get(name, "chapter.md.j2")
        return self._render(template, self.pages[name], main=self.markdown, chapter=chapter,
                            short=short)  # fmt: skip

    def _render(self, template: str, path: Path, **more: Any) -> str:
        environment = _jinja()
        environment.filters["link"] = lambda target: link(target, path)
        found = environment.get_template(template).render(**_names(self.report), **more)
        return re.sub(r"\n{3,}", "\n\n", found).strip() + "\n"


def _first_shown(claims: Sequence[Judged]) -> dict[str, str]:
    """By figure the claim beside which it stands: the first of those that it shows."""
    first: dict[str, str] = {}
    for judged in claims:
        for picture in list(judged.pictures.values())[:1]:
            first.setdefault(picture.name, judged.claim.id)
    return first


def section(page: Path, title: str) -> str:
    """What stands in a page below a heading, up to the next of its level; "" without the page."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return found[1] if found else ""


def render_html(texts: Texts, path: Path) -> str:
    """All of it as one page that loads nothing from anywhere; path: where it will lie."""
    report, pages = texts.report, texts.pages
    every = {one.name: one for chapter in report.chapters for one in chapter.pictures}
    # The same under the other fidelity is a click away: the page would be twice as large.
    pictures = [
        one
        for name, one in every.items()
        if one.fidelity != "described" or name.removesuffix("_described") not in every
    ]
    places = {pages[name]: f"experiment-{name}" for name in pages}
    places |= {pages[CLAIMS_PAGE]: "rules", pages[PRODUCED_PAGE]: "produced",
               texts.markdown: "main", DEVIATIONS: "deviations"}  # fmt: skip
    hero = Path(f"figures/published/{HERO}.png")
    captions = {hero: FIGURES[HERO].caption} if hero.exists() else {}
    page = Page(path, captions | {one.path: one.caption for one in pictures}, places)
    page.ids |= {"main", "answer", "which", "rules", "experiments", "deviations", "produced"}
    bullets = "".join(re.findall(r"^- .*\n(?:  .*\n)*", section(README, "What was found"), re.M))
    answer = {
        "bullets": page.add(bullets, README),
        "hero": page.add(f"![]({hero})", README) if captions else "",
        "film": animation(FILM) if FILM.exists() else "",
        "which": page.add(section(FINDINGS, "Which should I use?"), FINDINGS),
    }
    text = page.add(texts.main(), texts.markdown)
    rules = page.add(texts.of(CLAIMS_PAGE, short=1), pages[CLAIMS_PAGE], deeper=1)
    chapters = [
        (
            chapter.name,
            f"{chapter.title} ({chapter.published_as})",
            page.add(texts.of(chapter.name, short=SHOWN_ROWS), pages[chapter.name], deeper=1),
        )
        for chapter in report.chapters
        if chapter.pictures or chapter.tables
    ]
    deviations = page.add(report.deviations, DEVIATIONS, deeper=1, images=False)
    produced = page.add(texts.of(PRODUCED_PAGE, short=1), pages[PRODUCED_PAGE], deeper=1)
    template = _jinja(autoescape=True).get_template("page.html.j2")
    return template.render(
        **_names(report), answer=answer, text=text, rules=rules, chapters=chapters,
        deviation_text=deviations, produced=produced,
    )  # fmt: skip


def as_text(value: Any) -> str:
    """What is shown as it is: where Markdown would read a mark in it, a backslash stands before.

    An underscore within a word, and a bracket that no address follows, are no marks.
    """
    marks = r"[\\`*~|$]|<(?=[\w/!?])|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|&(?=#?\w+;)"
    return re.sub(marks, r"\\\g<0>", " ".join(str(value).split()))


def _jinja(*, autoescape: bool = False) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hindsight.report"),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = as_text
    environment.filters["number"] = present.number
    environment.filters["count"] = present.count
    environment.filters["p_value"] = present.p_value
    return environment


def _names(report: Report) -> Mapping[str, Any]:
    """What all templates may say."""

    def tally(fidelity: str) -> str:
        found = [c.verdicts.get(fidelity, {}).get("verdict") for c in report.claims]
        return ", ".join(f"{found.count(mark)} {mark}" for mark in MARKS if mark in found)

    papers = dict.fromkeys([*PAPERS, *(c.claim.paper for c in report.claims)])
    by_paper = {p: [c for c in report.claims if c.claim.paper == p] for p in papers}
    return {
        "report": report,
        "papers": {paper: claims for paper, claims in by_paper.items() if claims},
        "titles": PAPERS,
        "marks": MARKS,
        "meaning": FIDELITIES,
        "tally": tally,
        "deviations": DEVIATIONS,
        "findings": FINDINGS,
        "words": words,
    }
