"""Other systems' tasks in the report: tables of success, and the hyperparameters."""

import re
from html import unescape
from pathlib import Path

import pytest

from hindsight.claims import write_claims
from hindsight.figures import FIGURES, draw
from hindsight.report import hyperparameters
from hindsight.report.build import build
from hindsight.report.hyperparameters import MEANINGS, table_of
from hindsight.specs.algorithms.ddpg import DDPGSpec
from hindsight.specs.base import Spec
from hindsight.specs.cell import CellSpec, EvaluationSpec
from hindsight.specs.environments.point_reach import PointReachSpec
from hindsight.specs.replay import ReplaySpec
from tests.figures import synthetic_tasks
from tests.report.conftest import Project

PARTS: dict[str, type[Spec]] = {
    "environment": PointReachSpec,
    "algorithm": DDPGSpec,
    "replay": ReplaySpec,
    "evaluation": EvaluationSpec,
}
DRAWN = ("notebook_described", "point_reach_described", "bit_strategies_described")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The project's folder, its page and its appendix; of one experiment both fidelities."""
    root = tmp_path_factory.mktemp("tasks")
    tables, figures = Path("results/tables/laptop"), Path("figures/laptop")
    for name in ("point_reach", "bit_strategies", "generalise"):
        synthetic_tasks.write(root, name)
    synthetic_tasks.write(root, "fetch", fidelities=("released", "described"), iterations=4)
    for name in DRAWN:
        draw(name, root / tables, root / figures / name)
    write_claims(root / tables)
    (root / "docs").mkdir()
    (root / "docs/deviations.md").write_text("# Deviations\n\nNone.\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        build(tables, figures, figures / "report.html", Path("REPLICATION.md"), Path("more"))
    html = (root / figures / "report.html").read_text(encoding="utf-8")
    more = [path.read_text(encoding="utf-8") for path in sorted((root / "more").glob("*.md"))]
    return root, unescape(html), "\n".join(more)


def test_tables_of_other_tasks_tell_success_and_no_scaled_return(
    pages: tuple[Path, str, str],
) -> None:
    _, html, markdown = pages
    for page in (
        " ".join(re.findall("<thead>.*?</thead>", html)),
        markdown[markdown.index("# How this was produced") :],
    ):
        assert "mean success over training [95 %]" in page
        assert "steps until solved, median" in page
        for word in ("time to learn", "mean final return", "interquartile mean", "scaled return"):
            assert word not in page
    lines = [x for x in markdown.splitlines() if x.startswith("| BitFlipping | final, k = 4 |")]
    assert len(lines) == 1 and "| DQN + HER | 5 | 0.62 [" in lines[0]


def test_the_notebook_s_figure_is_shown_and_the_other_stands_beside_it(
    pages: tuple[Path, str, str],
) -> None:
    markdown = pages[2]
    assert markdown.count("![notebook_described]") == 1
    assert "![point_reach_described]" not in markdown and "point_reach_described" in markdown


def test_a_figure_of_one_fidelity_alone_has_its_caption_and_one_of_two_has_it_once(
    pages: tuple[Path, str, str], project: Project
) -> None:
    caption = f"{FIGURES['notebook_described'].caption} Fidelity: described."
    for page in pages[1:]:
        assert page.count(caption) == 1
    # Of the other project all arms' curves were drawn under both fidelities, the released first.
    page = project.appendix["algorithms"]
    first, again = (page.index(f"![{name}]") for name in ("ppo_her_fig2", "ppo_her_fig2_described"))
    caption = FIGURES["ppo_her_fig2"].caption
    assert first < page.index(caption) < again
    told = page[again:].split("\n\n")[1]
    assert told == "The same under the fidelity described."
    assert page.count(caption) == 1
    assert unescape(project.html).count(f"<figcaption>{caption}") == 1


def test_every_hyperparameter_has_a_meaning_and_every_meaning_a_hyperparameter() -> None:
    assert {name: set(meanings) for name, meanings in MEANINGS.items() if name} == {
        name: set(model.model_fields) for name, model in PARTS.items()
    }
    # hindsight is of on-policy algorithms
    assert set(MEANINGS[""]) == set(CellSpec.model_fields) - PARTS.keys() - {"hindsight"}


def test_hyperparameters_are_those_of_the_cells_arm_by_arm(tmp_path: Path) -> None:
    notebook = CellSpec(
        environment=PointReachSpec(), algorithm=DDPGSpec(),
        replay=ReplaySpec(strategy="future", time_limit_terminates=True),
    )  # fmt: skip
    plain = CellSpec(environment=PointReachSpec(), algorithm=DDPGSpec(hidden=(32,)))
    arms = {"the notebook's DDPG + HER": notebook, "DDPG": plain}
    entries = [{"arm": arm, "cell": f"{i}.parquet"} for i, arm in enumerate(arms)]
    specs = {Path(e["cell"]): arms[e["arm"]].model_dump(mode="json") for e in entries}
    entries.append({"arm": "DDPG + HER", "cell": "not trained.parquet"})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for path in specs:
            path.touch()
        patch.setattr(hyperparameters, "metadata_of", lambda path: {"spec": specs[path]})
        table = table_of({"arms": [*arms, "DDPG + HER"], "entries": entries})
    assert table is not None
    assert table.header == ["hyperparameter", *arms, "meaning"]
    rows = {row[0]: row[1:3] for row in table.rows}
    assert all(len(row) == len(table.header) for row in table.rows)
    assert rows["algorithm.hidden"] == ["256 × 256", "32"]
    assert rows["algorithm.learning_rate"] == ["0.001", "0.001"]
    assert rows["algorithm.buffer_size"] == ["100\u00a0000", "100\u00a0000"]
    assert rows["replay.strategy"] == ["future", "none"]
    assert rows["replay.k"] == ["4", "–"]
    assert rows["replay.time_limit_terminates"] == ["yes", "no"]
    assert rows["replay.alpha"] == ["–", "–"]  # nothing is prioritised
    assert rows["early_end"] == ["1.3", "1.3"]


def test_without_cells_there_is_no_table_of_hyperparameters(tmp_path: Path) -> None:
    assert table_of({"arms": ["DDPG"], "entries": [{"arm": "DDPG", "cell": "no.parquet"}]}) is None
