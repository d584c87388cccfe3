"""A small project with results of both papers, figures and a page of deviations."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from hindsight.claims import write_claims
from hindsight.figures.draw import draw
from hindsight.figures.specs import names_for
from hindsight.report.build import build
from tests.analysis.synthetic import summarise, write_experiment
from tests.figures import second_paper

DEVIATIONS = """# Deviations

1. **First.** See [the line](../src/hindsight/nn/adam.py#L3) and <https://example.org/paper>.
2. Second <script>alert(1)</script> ![a picture](https://example.org/x.png).
"""
REPOSITORY = Path(__file__).parents[2]
#: What the first screen is made of, and where it links to.
SHIPPED = ("README.md", "docs/findings.md", "docs/speed.md", "docs/with_and_without.gif",
           "figures/published/learned_described.png")  # fmt: skip
#: Experiments of the second paper, and which of their figures are drawn.
SECOND_PAPER = {
    "s_ratio": ("meher_fig3", "question_signals", "question_signals_described"),
    "stop_her": ("meher_fig6_described", "meher_fig7"),
}


def policy(html: str) -> str:
    """The tag of the page's Content-Security-Policy, under which no test's script runs."""
    (found,) = re.findall(r"<meta http-equiv=[^>]*>", html)
    return str(found)


@dataclass(frozen=True)
class Project:
    """Where the built pages lie, below the project's folder."""

    root: Path
    missing: str

    @property
    def html(self) -> str:
        return (self.root / "figures/laptop/report.html").read_text(encoding="utf-8")

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
    root = tmp_path_factory.mktemp("project")
    conditions = [("random", "static"), ("apart", "repel")]
    tables, figures = Path("results/tables/laptop"), Path("figures/laptop")
    for name in ("algorithms", "learning_rate"):
        plan = write_experiment(root, name, conditions=conditions, seeds=5, iterations=10)
        lost = root / "results/cells/algorithms-apart-repel/ppo-her-described.parquet"
        lost.unlink(missing_ok=True)
        summarise(plan, root)
        for figure in names_for(name, ["released", "described"])[:3]:
            draw(figure, root / tables, root / figures / figure)
    for name, drawn in SECOND_PAPER.items():
        levels = [{"s_ratio": s} for s in (0.0, 0.5, 1.0)] if name == "s_ratio" else None
        second_paper.write(root, name, conditions, levels=levels, iterations=8)
        for figure in drawn:
            draw(figure, root / tables, root / figures / figure)
    write_claims(root / tables)
    for name in SHIPPED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, root / name)
    (root / "docs/deviations.md").write_text(DEVIATIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        places = (figures / "report.html", Path("REPLICATION.md"), Path("results/appendix"))
        build(tables, figures, *places)
    return Project(root, str(lost.relative_to(root)))
