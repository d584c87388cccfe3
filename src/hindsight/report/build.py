"""The pages: REPLICATION.md, the answer in short, with an appendix of a file an experiment, and
report.html, which opens offline by itself.

All are rendered from one `Report`, gathered from files alone: claims.json and the tables of each
experiment, the figures, the metadata of the cells, and the page of deviations.
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
from hindsight.figures import ALSO_READ, FIGURES, name_under, specs_of
from hindsight.figures.names import level_label, network_note
from hindsight.files import write_whole
from hindsight.integrity import RECORD
from hindsight.publish import verify
from hindsight.report import coverage, html, present, words
from hindsight.report.charts import Chart, charts
from hindsight.report.hyperparameters import LISTED, table_of
from hindsight.report.provenance import Provenance, collect, made_by

MARKS = {"yes": "✔", "no": "✘", "not tested": "○"}
FIDELITIES = {
    "released": "what the authors' code does",
    "described": "what the papers say",
}
#: The same where there is little room.
CALLED = {"released": "authors' code", "described": "papers' words"}
#: Figures that replicate published ones, or answer what the papers leave open; the others stand
#: beside them.
PUBLISHED = ("ppo_her_fig", "meher_fig", "notebook", "question_")
DEVIATIONS, FINDINGS = Path("docs/deviations.md"), Path("docs/findings.md")
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
    def summary(self) -> list[dict[str, Any]]:
        """What to say of it in short: fidelities of which the same is to be said share an item."""
        found: list[dict[str, Any]] = []
        for fidelity, row in self.verdicts.items():
            item = {"verdict": row["verdict"], "words": row["says"]}
            alike = next((other for other in found if other.items() >= item.items()), None)
            if alike is None:
                found.append({"fidelities": [fidelity], **item})
            else:
                alike["fidelities"].append(fidelity)
        return found


@dataclass(frozen=True)
class Picture:
    """A figure that was drawn: its file and what it shows."""

    name: str
    experiment: str
    path: Path
    caption: str
    fidelity: str

    @property
    def main(self) -> bool:
        """Whether it replicates a published figure, rather than standing beside them."""
        return self.name.startswith(PUBLISHED)


@dataclass(frozen=True)
class Chapter:
    """An experiment: its tables by kind, each once per fidelity, the files of these by title, and
    its figures.
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
    charts: list[Chart]
    provenance: Provenance
    made_by: dict[str, str]
    deviations: str
    diverged: str
    authors: list[dict[str, Any]]


#: Pages of the appendix that are no experiment's, whose names begin with a letter.
CLAIMS_PAGE, PRODUCED_PAGE = "0-claims", "0-produced"


def appendix_pages(experiments: Sequence[str]) -> list[str]:
    """Names of the appendix's pages, of a plan with these experiments."""
    return [CLAIMS_PAGE, PRODUCED_PAGE, ENVIRONMENT, *experiments]


def build(tables: Path, figures: Path, page: Path, markdown: Path, appendix: Path) -> None:
    """Write all pages for the source whose tables and figures these folders hold; `appendix` is a
    folder, which keeps no other pages.

    Cells, for their metadata, are found where the plans say, and the page of deviations where it
    is kept, relative to the working folder.
    """
    report = gather(tables, figures)
    write_text(page, render_html(report, page))
    pages = {name: appendix / f"{name}.md" for name in appendix_pages(_experiments(report))}
    for name, path in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, render_appendix(report, name, path, markdown))
    write_text(markdown, render_markdown(report, markdown, pages))
    for left in set(appendix.glob("*.md")) - set(pages.values()):
        left.unlink()


def _experiments(report: "Report") -> list[str]:
    return [chapter.name for chapter in report.chapters if chapter.name != ENVIRONMENT]


def gather(tables: Path, figures: Path) -> Report:
    """Read everything; a figure that was not drawn or a table that is not there is left out."""
    plans = [read_plan(path) for path in sorted(tables.glob("*/plan.json"))]
    if not plans:
        raise FileNotFoundError(f"{tables}: there is no experiment's plan.json in it")
    order = list(dict.fromkeys(spec.experiment for spec in FIGURES.values()))
    plans.sort(key=lambda plan: [*order, plan["experiment"]].index(plan["experiment"]))
    notes = diverged_in(tables, plans)
    drawn = {name: _with_diverged(own, notes) for name, own in _drawn(tables, figures).items()}
    found = {e["fidelity"] for plan in plans for e in plan["entries"]}
    return Report(
        source=tables.name,
        preset=_preset(plans),
        fidelities=[f for f in FIDELITIES if f in found],
        coverage=coverage.tables(coverage.coverage(plans, tables / "papers.json")),
        claims=read_claims(tables / "claims.json", drawn),
        chapters=[
            _environment(drawn),
            *(_chapter(plan, tables, drawn, notes) for plan in plans),
        ],
        charts=charts(tables),
        provenance=collect(plans),
        made_by=made_by(),
        deviations=DEVIATIONS.read_text(encoding="utf-8"),
        diverged=_diverged(notes),
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
    if not (authors.CURVES.exists() and ours.exists()):
        return []
    verify([authors.CURVES])
    network = "x".join(map(str, plans[0]["preset"]["hidden"]))
    rows = authors.compare(authors.CURVES, read_table(ours), network).to_dict("records")
    return [{str(name): x for name, x in row.items()} | {"apart": row["p_holm"] < 0.05}
            for row in rows]  # fmt: skip


def _drawn(tables: Path, figures: Path) -> dict[str, Picture]:
    """The figures there are, by name, but for those left of experiments without any result."""
    found = {path.parent.name: read_table(path) for path in tables.glob("*/summary.csv")}
    known = {("environment", "")}
    known |= {(name, fidelity) for name, table in found.items() for fidelity in table["fidelity"]}
    return {
        name: Picture(name, spec.experiment, path, spec.caption, spec.fidelity)
        for name, spec in specs_of(found).items()
        if (spec.experiment, spec.fidelity) in known and (path := figures / f"{name}.png").exists()
    }


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


def _diverged(notes: Mapping[tuple[str, str], str]) -> str:
    lines = [f"{name} ({fidelity}): {note}" for (name, fidelity), note in notes.items() if note]
    return " ".join(lines) or "None: every run's parameters stayed numbers."


def _with_diverged(picture: Picture, notes: Mapping[tuple[str, str], str]) -> Picture:
    """With a caption that names the runs in it that diverged."""
    experiments = (picture.experiment, *ALSO_READ.get(picture.experiment, ()))
    lines = [notes.get((name, picture.fidelity), "") for name in experiments]
    return replace(picture, caption=" ".join(filter(None, [picture.caption, *lines])))


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


def _environment(drawn: dict[str, Picture]) -> Chapter:
    return Chapter(
        ENVIRONMENT, "The environment", "Fig. 1 of both papers", {}, {},
        _pictures(ENVIRONMENT, drawn),
    )  # fmt: skip


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
    settings = (
        _settings_of_tasks(plan)
        if of_tasks
        else {text: level_label(level) for text, level in levels_of(plan).items()}
    )
    shown: dict[str, list[present.Table]] = {}
    files: dict[str, Path] = {}
    if name in LISTED and (parameters := table_of(plan)) is not None:
        shown["hyperparameters"] = [parameters]
    for file, title in TABLES.items():
        path = tables / name / file
        if not path.exists():
            continue
        frame = read_table(path)
        if not frame.empty:
            files[title] = path
        if "level" in frame:
            frame = frame[frame["level"].isin(settings)]
        for fidelity, rows in frame.groupby("fidelity", sort=False):
            columns = present.columns_of(file, settings, of_tasks=of_tasks)
            table = present.table(f"{title}, {fidelity}", rows, columns, plan["arms"])
            note = notes.get((name, str(fidelity)), "")
            shown.setdefault(file, []).append(replace(table, note=note))
    return Chapter(name, plan["title"], plan["figures"], shown, files, _pictures(name, drawn))


def _settings_of_tasks(plan: dict[str, Any]) -> dict[str, str]:
    """What each level is called; off the papers' task `final` has a k as other strategies do."""
    levels = {level_text(entry["level"]): entry["level"] for entry in plan["entries"]}
    return {
        text: ", ".join(level_label({key: value}) for key, value in level.items())
        for text, level in levels.items()
    }


def _pictures(experiment: str, drawn: dict[str, Picture]) -> list[Picture]:
    return [picture for picture in drawn.values() if picture.experiment == experiment]


def render_html(report: Report, page: Path) -> str:
    """One page that loads nothing from anywhere; page: where it will lie."""
    return html.render(_jinja(autoescape=True), _names(report), report, page, DEVIATIONS)


def render_markdown(report: Report, page: Path, pages: Mapping[str, Path]) -> str:
    """The answer in short; links are relative to the page's own folder.

    pages: those of the appendix by name.
    """
    return _markdown(
        "replication.md.j2",
        page,
        report,
        pages=pages,
        shown=_first_shown(report.claims),
    )


def _first_shown(claims: Sequence[Judged]) -> dict[str, str]:
    """By figure the claim beside which it stands: the first of those that it shows."""
    first: dict[str, str] = {}
    for judged in claims:
        for picture in list(judged.pictures.values())[:1]:
            first.setdefault(picture.name, judged.claim.id)
    return first


def render_appendix(report: Report, name: str, page: Path, main: Path) -> str:
    """One page of the appendix; main: where the answer in short is."""
    templates = {
        CLAIMS_PAGE: "claims.md.j2",
        PRODUCED_PAGE: "produced.md.j2",
    }
    chapter = next((chapter for chapter in report.chapters if chapter.name == name), None)
    template = templates.get(name, "chapter.md.j2")
    return _markdown(template, page, report, main=main, chapter=chapter)


def _markdown(template: str, page: Path, report: Report, **more: Any) -> str:
    environment = _jinja(autoescape=False)
    environment.filters["link"] = lambda path: html.link(path, page)
    environment.filters["cell"] = as_text
    names = {**_names(report), "deviations": DEVIATIONS, "findings": FINDINGS, **more}
    text = environment.get_template(template).render(**names)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def as_text(value: Any) -> str:
    """What is shown as it is: where Markdown would read a mark in it, a backslash stands before.

    An underscore within a word, and a bracket that no address follows, are no marks.
    """
    marks = r"[\\`*~|$]|<(?=[\w/!?])|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|&(?=#?\w+;)"
    return re.sub(marks, r"\\\g<0>", " ".join(str(value).split()))


def _jinja(*, autoescape: bool) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hindsight.report"),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = present.number
    environment.filters["count"] = present.count
    environment.filters["p_value"] = present.p_value
    return environment


def _names(report: Report) -> Mapping[str, Any]:
    """What both templates may say."""
    counts = {
        fidelity: {
            mark: sum(c.verdicts.get(fidelity, {}).get("verdict") == mark for c in report.claims)
            for mark in MARKS
        }
        for fidelity in report.fidelities
    }
    papers = dict.fromkeys([*PAPERS, *(c.claim.paper for c in report.claims)])
    by_paper = {p: [c for c in report.claims if c.claim.paper == p] for p in papers}
    return {
        "report": report,
        "papers": {paper: claims for paper, claims in by_paper.items() if claims},
        "titles": PAPERS,
        "marks": MARKS,
        "meaning": FIDELITIES,
        "called": CALLED,
        "counts": counts,
        "words": words,
    }


def write_text(path: Path, text: str) -> None:
    """UTF-8, whole or not at all."""
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))
