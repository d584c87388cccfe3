"""A small project with results of both papers, figures and a page of deviations."""

import contextlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from hindsight.claims import write_claims
from hindsight.figures.draw import draw
from hindsight.figures.specs import names_for
from hindsight.report.build import build
from tests.analysis.synthetic import second_paper, summarise, write_experiment
from tests.conftest import made_once
from tests.support.configuration import ROOT

DEVIATIONS = """# Deviations

1. **First.** See [the line](../src/hindsight/nn/adam.py#L3) and <https://example.org/paper>.
2. Second <script>alert(1)</script> ![a picture](https://example.org/x.png).
"""
TABLES, FIGURES = Path("results/tables/laptop"), Path("figures/laptop")
#: What the first screen is made of, and where it links to.
SHIPPED = ("README.md", "CITATION.cff", "docs/findings.md", "docs/speed.md",
           "docs/with_and_without.gif", "figures/published/learned_described.png")  # fmt: skip
#: Experiments of the second paper, and which of their figures are drawn.
SECOND_PAPER = {
    "s_ratio": ("meher_fig3", "question_signals", "question_signals_described"),
    "stop_her": ("meher_fig6_described", "meher_fig7"),
}


def policy(html: str) -> str:
    """The tag of the page's Content-Security-Policy, under which no test's script runs."""
    (found,) = re.findall(r"<meta http-equiv=[^>]*>", html)
    return str(found)


def drawn() -> list[Path]:
    """The figures of the project in the working directory."""
    return sorted(FIGURES.glob("*.png"))


@dataclass(frozen=True)
class Project:
    """A project's folder, with the pages that are built there."""

    root: Path
    missing: str = ""

    def draw(self, *names: str) -> None:
        for name in names:
            draw(name, self.root / TABLES, self.root / FIGURES / name)

    def build(self) -> None:
        """Judge the claims and build the pages; without a page of deviations, it is empty."""
        write_claims(self.root / TABLES / "claims.json")
        (self.root / TABLES / "papers.json").write_text("{}")
        with contextlib.chdir(self.root):
            Path("docs").mkdir(exist_ok=True)
            Path("docs/deviations.md").touch()
            build(
                TABLES, drawn(), FIGURES / "report.html", Path("REPLICATION.md"),
                Path("results/appendix"),
            )  # fmt: skip

    @property
    def html(self) -> str:
        return (self.root / FIGURES / "report.html").read_text(encoding="utf-8")

    @property
    def markdown(self) -> str:
        return (self.root / "REPLICATION.md").read_text(encoding="utf-8")

    @property
    def appendix(self) -> dict[str, str]:
        """Its pages by name."""
        pages = sorted((self.root / "results/appendix").glob("*.md"))
        return {path.stem: path.read_text(encoding="utf-8") for path in pages}

    @property
    def everything(self) -> str:
        """The scoreboard and its appendix."""
        return "\n".join([self.markdown, *self.appendix.values()])


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """Four experiments, two of each paper; one planned cell was never trained."""
    root, lost = made_once(tmp_path_factory, "reported", _report)
    return Project(root, lost)


def _report(root: Path) -> str:
    project, conditions = Project(root), [("random", "static"), ("apart", "repel")]
    lost = "results/cells/algorithms-apart-repel/ppo-her-described.parquet"
    for name in ("algorithms", "learning_rate"):
        plan = write_experiment(root, name, conditions=conditions, seeds=5, iterations=10)
        (root / lost).unlink(missing_ok=True)
        summarise(plan, root)
        project.draw(*names_for(name, ["released", "described"])[:3])
    for name, drawn in SECOND_PAPER.items():
        levels = [{"s_ratio": s} for s in (0.0, 0.5, 1.0)] if name == "s_ratio" else None
        second_paper(root, name, levels, conditions=conditions, iterations=8)
        project.draw(*drawn)
    for name in SHIPPED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "docs/deviations.md").write_text(DEVIATIONS)
    project.build()
    return lost
