"""Figures of arms that had less than others say so, and SAC's own figures."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from hindsight.figures import figure_of, grids, style
from hindsight.figures.tables import Tables, levels_of
from hindsight.specs.config import condition_name
from tests.analysis import synthetic, unequal
from tests.figures.test_figures import labels, pixels, texts

SAID = "SAC, SAC-HER: 4 seeds, 10\u00a0240 steps, static or random"
SETTINGS = [
    {"strategy": strategy, "k": k, "learning_rate": rate}
    for strategy in ("final", "future")
    for k in (1, 4)
    for rate in (3e-3, 3e-4)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unequal.write(tmp_path_factory.mktemp("unequal"))


def drawn(name: str, folder: Path) -> Figure:
    return figure_of(name, folder.parent)


@pytest.mark.parametrize("name", ["ppo_her_fig2", "ppo_her_fig3", "entropy"])
def test_an_arm_that_had_less_says_so(name: str, folder: Path) -> None:
    figure = drawn(name, folder)
    said = texts(figure)
    assert f" · 5 seeds · {SAID} · " in said.replace("\n", " ")
    assert labels(figure) == ["PPO", "PPO-HER", "SAC", "SAC-HER"]
    assert "missing" not in said and "not in this preset" not in said
    assert ("SAC's entropy: of its squashed policy" in said) == (name == "entropy")
    pixels(figure)
    assert all(text.get_window_extent().x1 <= figure.bbox.width for text in figure.texts)


def test_where_all_arms_had_less_in_a_place_none_is_named() -> None:
    """... as on tasks of unequal budgets: then nobody had less than another."""
    plan: dict[str, Any] = {"preset": {"seeds": 8, "steps": 100}, "arms": ["PPO", "PPO-HER"]}
    plan["entries"] = [
        {"arm": arm, **synthetic.where_it_is("", task), "seeds": seeds, "steps": steps}
        for arm in ("PPO", "PPO-HER")
        for task, seeds, steps in (("A", 8, 100), ("B", 2, 50))
    ]
    assert grids.narrowed_arms(plan) == {}
    plan["entries"][0]["steps"] = 70
    assert {arm: less.steps for arm, less in grids.narrowed_arms(plan).items()} == {
        "PPO": (50, 70), "PPO-HER": (50, 100),
    }  # fmt: skip


def test_curves_stop_at_their_budget(folder: Path) -> None:
    for ax in drawn("ppo_her_fig2", folder).axes[:2]:
        ends = [float(np.max(line.get_xdata())) for line in ax.lines]
        assert ends == [40.96, 40.96, 10.24, 10.24]
    assert len(drawn("ppo_her_fig2", folder).axes[2].lines) == 2
    # Every condition is a column, success above and entropy below.
    for ax in drawn("entropy", folder).axes[:2]:
        assert [float(np.max(line.get_xdata())) for line in ax.lines] == pytest.approx(
            [40.96, 40.96, 10.24, 10.24]
        )


def test_an_arm_that_takes_far_longer_leaves_the_others_room(folder: Path, tmp_path: Path) -> None:
    """By an axis that is logarithmic then, and only then."""
    (linear,) = {ax.get_xscale() for ax in drawn("ppo_her_fig3", folder).axes}
    assert linear == "linear"
    slow = tmp_path / folder.name
    shutil.copytree(folder, slow)
    for name, clock in (("curves.parquet", "x"), ("seed_curves.parquet", "minutes")):
        table = pd.read_parquet(slow / name)
        rows = table["arm"].isin(["SAC", "SAC-HER"])
        table.loc[rows & (table.get("clock", "minutes") == "minutes"), clock] *= 1000
        table.to_parquet(slow / name)
    figure = drawn("ppo_her_fig3", slow)
    assert "(minutes, logarithmic; " in texts(figure)
    for ax in figure.axes[:2]:
        assert ax.get_xscale() == "log"
        for line in ax.lines:
            ends = np.array([line.get_xdata().min(), line.get_xdata().max()])
            first, last = ax.transAxes.inverted().transform(
                ax.transData.transform(np.column_stack([ends, [0, 0]]))
            )[:, 0]
            assert last - first > 0.1 and last <= 1.001


def test_what_all_had_is_drawn_by_itself(folder: Path) -> None:
    figure = drawn("algorithms_in_common", folder)
    assert figure.axes[0].get_xlim() == (0, 10.24)
    assert len(figure.axes[0].lines) == 4
    for line in figure.axes[0].lines:
        assert np.max(line.get_xdata()) == pytest.approx(10.24)


def test_pooled_arms_name_their_conditions(folder: Path) -> None:
    figure = drawn("aggregate_algorithms", folder)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [
        "PPO", "PPO-HER", "SAC\n(2 conditions only)", "SAC-HER\n(2 conditions only)",
    ]  # fmt: skip
    assert "3 conditions, where no other number is given" in texts(figure)


def test_an_arm_without_results_is_not_in_the_legend(folder: Path, tmp_path: Path) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    plan["entries"] = [entry for entry in plan["entries"] if entry["arm"] in ("PPO", "SAC")]
    for name in ("curves.parquet", "seed_curves.parquet", "summary.csv", "aggregate.csv"):
        Path(tmp_path / name).write_bytes((folder / name).read_bytes())
    for name in ("curves.parquet", "seed_curves.parquet"):
        table = pd.read_parquet(tmp_path / name)
        table[table["arm"] != "SAC"].to_parquet(tmp_path / name)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with style.styled():
        figure = grids.algorithms_by_steps(Tables(tmp_path, "released"))
    assert labels(figure) == ["PPO"]
    assert [[text.get_text() for text in ax.texts] for ax in figure.axes] == [
        ["missing: SAC"], ["missing: SAC"], ["random spawn"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (synthetic.CONDITIONS, ""),
        (synthetic.CONDITIONS[:6], "random spawn"),
        ([("random", "static"), ("apart", "static")], "static"),
        ([("random", "static"), ("random", "attract")], "random spawn, static or attract"),
        ([("random", "static"), ("apart", "attract")], "2 of 12 conditions"),
    ],
)
def test_conditions_in_words(own: list[tuple[str, str]], words: str) -> None:
    places = [{condition_name(*place) for place in some} for some in (own, synthetic.CONDITIONS)]
    assert grids.places_in_words(*places) == words


def test_tasks_in_words() -> None:
    tasks = {"FetchReach", "FetchPush", "FetchSlide"}
    assert grids.places_in_words({"FetchPush"}, tasks) == "FetchPush"
    assert grids.places_in_words(tasks - {"FetchPush"}, tasks) == "FetchReach, FetchSlide"
    assert grids.places_in_words(tasks, tasks) == ""


def test_final_of_sac_has_as_many_goals_as_k_says() -> None:
    levels = [{"strategy": "final", "k": k} for k in (4, 1)]
    sac = [{"level": level, "cell": f"cell-{level['k']}"} for level in levels]
    assert list(levels_of({"entries": sac})) == ["strategy=final, k=1", "strategy=final, k=4"]
    ppo = [{"level": level, "cell": "one"} for level in levels]
    assert list(levels_of({"entries": ppo})) == ["strategy=final, k=1"]
    assert [style.level_label(level) for level in levels] == ["final k = 4", "final"]


def sac_cells(arm: str, *_: object, switches: bool = False) -> dict[str, object]:
    overrides: dict[str, object] = {"algorithm.name": "sac"}
    more: dict[str, object] = {"every": 256}
    if switches:
        stops = arm == "SAC-HER-2-SAC"
        overrides["replay"] = {"until_success": 0.5 if stops else None}
        more["switch_step"] = lambda seed: 2048 if stops else None
        more["seconds_per_step"] = 0.5e-3 if stops else 1e-3
    return more | {"spec_overrides": overrides}


def test_the_grid_of_settings_shows_the_tables_numbers(tmp_path: Path) -> None:
    def curve_of(arm: str, level: dict, spawn: str, prey: str) -> synthetic.CurveFunction:
        top = 0.5 + 0.1 * level["k"] if level["strategy"] == "final" else 0.2
        return unequal.rise(1024 if level["learning_rate"] > 1e-3 else 2048, top)

    plan = synthetic.write_experiment(
        tmp_path, "sac_grid", arms=("SAC-HER",), levels=SETTINGS, seeds=2, iterations=20,
        conditions=synthetic.CONDITIONS[:1], fidelities=("released",), curve_of=curve_of,
        more_of=sac_cells,
    )  # fmt: skip
    unequal.summarise(plan, tmp_path)
    figure = drawn("sac_grid", plan.parent)
    assert len(figure.axes) == 6  # best, final and time to learn by two rates
    assert [ax.get_title() for ax in figure.axes[:2]] == [
        "learning rate 0.0003", "learning rate 0.003",
    ]  # fmt: skip
    assert labels(figure) == ["final", "future"]
    best = figure.axes[0].lines
    np.testing.assert_allclose(best[0].get_ydata(), [0.2, 0.8], atol=1e-6)  # final, k = 1 and 4
    np.testing.assert_allclose(best[1].get_ydata(), [0.2, 0.2, 0.8, 0.8], atol=1e-6)  # its seeds
    np.testing.assert_allclose(best[2].get_ydata(), [-0.6, -0.6], atol=1e-6)  # future
    slow, fast = figure.axes[4:]
    assert slow.lines[0].get_ydata().tolist() == [2048, 2048]
    assert fast.lines[0].get_ydata().tolist() == [1024, 1024]
    assert not slow.lines[1].get_ydata().size  # future never learns
    pixels(figure)


def test_what_stopping_saves_sac_is_measured_against_sac_her(tmp_path: Path) -> None:
    plan = synthetic.write_experiment(
        tmp_path, "sac_stop_her", arms=("SAC-HER", "SAC-HER-2-SAC"), seeds=2, iterations=20,
        conditions=synthetic.CONDITIONS[:1], fidelities=("released",),
        curve_of=lambda *_: unequal.rise(2048, 0.9), more_of=partial(sac_cells, switches=True),
    )  # fmt: skip
    unequal.summarise(plan, tmp_path)
    saved = Tables(plan.parent, "released").read("time_saved.csv")
    assert saved["arm"].unique().tolist() == ["SAC-HER-2-SAC"]
    np.testing.assert_allclose(saved["saved_share"], 0.5, rtol=1e-5)
    for name in ("curves_sac_stop_her", "curves_sac_stop_her_minutes"):
        assert labels(drawn(name, plan.parent)) == ["SAC-HER", "SAC-HER-2-SAC"]
