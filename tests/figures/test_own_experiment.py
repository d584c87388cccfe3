"""An experiment that somebody adds to config.yaml is drawn, whatever its grid."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from hindsight.figures import draw, figure_of, names_for, style
from hindsight.specs.config import parse
from hindsight.specs.plan import Plan
from hindsight.workflow import Stage
from tests.analysis import synthetic
from tests.analysis.synthetic import CONDITIONS
from tests.figures.reading import labels, texts

CONFIG = Path(__file__).parents[2] / "config.yaml"
TASKS = [("", "a task of a rather long name"), ("", "Another")]
#: What an experiment may vary: its levels.
GRIDS: dict[str, list[dict[str, Any]]] = {
    "nothing": [{}],
    "a number": [{"ent_coef": x} for x in (0.0, 0.01)],
    "a word": [{"failures": x} for x in ("random", "targeted")],
    "two": [{"ent_coef": x, "n_steps": n} for x in (0.0, 0.01) for n in (512, 2048)],
}


def written(root: Path, levels: list[dict[str, Any]], conditions: Any = CONDITIONS[:2]) -> Path:
    """results/tables/laptop, with an experiment `mine` of two arms."""
    of_tasks = {"environment.id": "Mine-v0"} if conditions == TASKS else {}
    plan = synthetic.write_experiment(
        root, "mine", arms=("PPO", "my arm"), levels=levels, conditions=conditions, seeds=5,
        iterations=4, fidelities=("described",),
        curve_of=lambda arm, *_: synthetic.constant(0.99 if arm == "PPO" else 0.3),
        more_of=lambda *_: {"spec_overrides": of_tasks},
    )  # fmt: skip
    synthetic.summarise(plan, root)
    return plan.parent.parent


def marked(ax: Axes) -> list[Line2D]:
    """The lines that are points."""
    return [line for line in ax.lines if line.get_marker() != "None"]


def test_what_no_figure_is_of_gets_those_that_any_can_have() -> None:
    own = {
        "title": "Mine", "figures": "none",
        "tasks": {"Bits": {"id": "BitFlipping-v0"}}, "arms": {"DQN": {"algorithm": "dqn"}},
    }  # fmt: skip
    config = yaml.safe_load(CONFIG.read_text()) | {"preset": "smoke", "select": {"mine": {}}}
    config["experiments"]["mine"] = own
    stage = Stage.of(Plan.of(parse(config)))
    assert stage.drawn_of("mine") == [
        f"figures/smoke/{name}_mine.{kind}"
        for name in ("solved_share", "aggregate")
        for kind in ("png", "pdf")
    ]
    assert names_for("mine", ["described"]) == [
        "solved_share_mine_described", "aggregate_mine_described",
    ]  # fmt: skip
    assert names_for("sac_grid", ["released"]) == ["sac_grid"]


@pytest.mark.parametrize("conditions", [CONDITIONS[:2], TASKS], ids=["conditions", "tasks"])
@pytest.mark.parametrize("grid", GRIDS)
def test_each_is_drawn_from_its_tables(grid: str, conditions: Any, tmp_path: Path) -> None:
    levels = GRIDS[grid]
    tables = written(tmp_path, levels, conditions)
    shares, together = (figure_of(n, tables) for n in names_for("mine", ["described"]))
    for figure in (shares, together):
        said = texts(figure)
        assert "described fidelity" in said and "trains nothing" not in said
        figure.draw_without_rendering()
        for ax in figure.axes:
            box = ax.get_tightbbox()
            assert box is not None and box.x0 >= 0 and box.x1 <= figure.bbox.width
    points = [float(y) for ax in shares.axes for line in marked(ax) for y in line.get_ydata()]
    assert sorted(points) == sorted([1.0, 0.0] * len(conditions) * len(levels))
    assert {label.split(" ent_coef")[0] for label in labels(shares)} == {"PPO", "my arm"}
    assert len(labels(shares)) == (4 if grid == "two" else 2)
    first, second, solved = ([line.get_xdata()[0] for line in marked(ax)] for ax in together.axes)
    # In returns of the papers' task 2 x success - 1, on other tasks success itself.
    expected = [0.99, 0.3] if conditions == TASKS else [0.98, -0.4]
    np.testing.assert_allclose(first, expected * len(levels), atol=1e-6)
    np.testing.assert_allclose(second, expected * len(levels), atol=1e-6)
    assert solved == [1.0, 0.0] * len(levels)


def test_tasks_are_named_and_pooled(tmp_path: Path) -> None:
    tables = written(tmp_path, GRIDS["nothing"], TASKS)
    shares, together = (figure_of(n, tables) for n in names_for("mine", ["described"]))
    names = [label.get_text() for label in shares.axes[-1].get_xticklabels()]
    assert [name.replace("\n", " ") for name in names] == [task for _, task in TASKS]
    assert shares.axes[-1].get_xlabel() == "task"
    assert "2 conditions" in texts(together)
    assert [ax.get_title() for ax in together.axes[:2]] == [
        "success at the end", "mean success over training",
    ]  # fmt: skip
    assert pd.read_csv(tables / "mine/aggregate.csv").empty


def test_files_are_made_by_name(tmp_path: Path) -> None:
    tables = written(tmp_path, GRIDS["nothing"])
    png, pdf = draw("aggregate_mine_described", tables, tmp_path / "out")
    assert png.stat().st_size and pdf.stat().st_size
    with pytest.raises(KeyError, match=r"no figure 'aggregate_other'.*aggregate_mine"):
        draw("aggregate_other", tables, tmp_path / "out")


def test_arms_that_differ_in_their_network(tmp_path: Path) -> None:
    """A key that is a list tells arms apart as a number does; no two look alike."""
    config = yaml.safe_load(CONFIG.read_text())["experiments"]["network"]
    plan = synthetic.write_experiment(
        tmp_path, "network", arms=tuple(config["arms"]), fidelities=("described",), seeds=5,
        iterations=4, conditions=CONDITIONS[:2],
        curve_of=lambda arm, *_: synthetic.constant(0.9 if "HER" in arm else 0.3),
    )  # fmt: skip
    synthetic.summarise(plan, tmp_path)
    summary = pd.read_csv(plan.parent / "summary.csv")
    own = summary.groupby("arm")["hidden"].unique()
    assert {arm: list(of) for arm, of in own.items()} == {
        arm: [str(what["keys"]["hidden"])] for arm, what in config["arms"].items()
    }
    figure = figure_of("curves_network_described", plan.parent.parent)
    assert labels(figure) == list(config["arms"])
    looks = [(line.get_color(), line.get_linewidth()) for line in figure.axes[0].lines]
    assert len(set(looks)) == len(config["arms"])
    assert not {colour for colour, _ in looks} & {"#505050", "#686868", "#808080", "#989898"}
    planned = Plan.of(parse(yaml.safe_load(CONFIG.read_text()) | {"preset": "large"}))
    preset = planned.document("network")["preset"]
    assert style.network_note(preset["hidden"]) == "unequal networks"
