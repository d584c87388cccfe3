"""The figures of other systems' tasks show what their tables hold, and say what is not there."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from hindsight.figures import FIGURES, names_for, notebook, style
from hindsight.figures.tables import Tables
from tests.figures import synthetic_tasks
from tests.figures.reading import drawn, labels, texts
from tests.figures.synthetic_tasks import EXPERIMENTS, top

NAMES = [name for name in EXPERIMENTS for name in names_for(name, ["described"])]
MEAN_OF_SEEDS = -0.002  # of five seeds, each a thousandth less than the one before


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """results/tables/laptop of all experiments."""
    root = tmp_path_factory.mktemp("tasks")
    for name in EXPERIMENTS:
        folder = synthetic_tasks.write(root, name)
    return folder.parent


def marked(ax: Axes, marker: str) -> np.ndarray:
    """Points [point, (x, y)] of the lines with this marker."""
    lines = [line for line in ax.lines if line.get_marker() == marker]
    return np.concatenate([np.asarray(line.get_xydata()) for line in lines])


def test_every_experiment_on_a_task_has_figures_and_they_are_all_drawn_here() -> None:
    assert set(NAMES) == {
        "notebook_described", "point_reach_described", "bit_flipping_described",
        "bit_flipping_curves_described", "bit_strategies_described", "reach_strategies_described",
        "question_generalise_described", "ppo_her_fig5_described", "fetch_rollout_described",
        "fetch_off_policy_described", "fetch_strategies_described",
        "question_moving_goals_described",
    }  # fmt: skip
    assert names_for("bit_flipping", ["released"]) == ["bit_flipping", "bit_flipping_curves"]
    assert names_for("point_reach", ["released"]) == ["notebook", "point_reach"]


@pytest.mark.parametrize("name", NAMES)
def test_figures_say_where_they_are_from_and_stay_within_their_page(name: str, tasks: Path) -> None:
    figure = drawn(name, tasks)
    said = texts(figure)
    fidelity = FIGURES[name].fidelity
    entries = json.loads((tasks / FIGURES[name].experiment / "plan.json").read_text())["entries"]
    steps = f"up to {max(entry['steps'] for entry in entries):,} steps".replace(",", " ")
    for expected in ("preset laptop", "network 2 × 64", steps, f"{fidelity} fidelity", "5 seeds"):
        assert expected in said
    figure.draw_without_rendering()
    for text in [*figure.texts, *(t for g in figure.legends for t in g.get_texts())]:
        assert text.get_window_extent().x1 <= figure.bbox.width, text.get_text()
    for ax in figure.axes:
        box = ax.get_tightbbox()
        assert box is not None and box.x0 >= 0 and box.x1 <= figure.bbox.width
        assert box.y0 >= 0 and box.y1 <= figure.bbox.height


@pytest.mark.parametrize("name", NAMES)
def test_without_tables_a_figure_says_that_nothing_was_trained(
    name: str, tasks: Path, tmp_path: Path
) -> None:
    experiment = FIGURES[name].experiment
    shutil.copytree(tasks / experiment, tmp_path / experiment)
    for path in (tmp_path / experiment).iterdir():
        if path.suffix in (".parquet", ".csv"):
            path.unlink()
    assert "trains nothing for this figure" in texts(drawn(name, tmp_path))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_figure_of_one_seed_and_one_level_is_drawn(experiment: str, tmp_path: Path) -> None:
    levels = EXPERIMENTS[experiment][1][:1]
    folder = synthetic_tasks.write(tmp_path, experiment, seeds=1, levels=levels, iterations=12)
    for name in names_for(experiment, ["described"]):
        assert "1 seed" in texts(drawn(name, folder.parent))


def test_the_notebook_s_curves_are_moving_averages_from_full_windows_on(tasks: Path) -> None:
    figure = drawn("notebook_described", tasks)
    assert len(figure.axes) == 5 * 4
    assert [ax.get_title() for ax in figure.axes[:4]] == [
        "the notebook's DDPG + HER", "the notebook's, bootstrapped", "DDPG + HER", "DDPG",
    ]  # fmt: skip
    rows = pd.read_parquet(tasks / "point_reach/seed_curves.parquet")
    rows = rows[rows["arm"] == "DDPG + HER"].sort_values(["seed", "env_steps"])
    success = np.stack([run["episode_success"] for _, run in rows.groupby("seed")])
    windows = np.lib.stride_tricks.sliding_window_view(success, 10, axis=1).mean(axis=2)
    x, y = np.asarray(figure.axes[6].lines[0].get_xydata()).T
    assert x[0] == 10 and x[-1] == synthetic_tasks.EPISODES
    np.testing.assert_allclose(y, np.median(windows, axis=0), atol=1e-12)
    # The first update is in row 41: a window of four rows is full at row 44, after 200 updates.
    x, y = np.asarray(figure.axes[10].lines[0].get_xydata()).T
    assert x[0] == pytest.approx(0.2)
    assert y[0] == pytest.approx(0.5 + 0.001 * 42.5)
    assert [ax.get_yscale() for ax in (figure.axes[6], figure.axes[10])] == ["linear", "log"]


def test_the_notebook_s_own_result_is_drawn_over_the_episodes_it_is_of(tasks: Path) -> None:
    success = drawn("notebook_described", tasks).axes[4:8]
    printed = [
        [line for line in ax.lines if line.get_color() == notebook.PRINTED.colour] for ax in success
    ]
    assert [len(lines) for lines in printed] == [1, 0, 0, 0]
    np.testing.assert_allclose(printed[0][0].get_xydata(), [[126, 0.12], [150, 0.12]])


def test_how_far_it_goes_shows_means_over_seeds(tasks: Path) -> None:
    course, early, end = drawn("point_reach_described", tasks).axes
    assert marked(end, "o")[0, 0] == pytest.approx(0.8 + MEAN_OF_SEEDS, abs=1e-6)
    assert marked(end, "s")[0, 0] == pytest.approx(0.3 + MEAN_OF_SEEDS, abs=1e-6)
    rows = pd.read_parquet(tasks / "point_reach/seed_curves.parquet")
    rows = rows[rows["arm"] == "DDPG + HER"].sort_values(["seed", "env_steps"])
    printed = [run["episode_success"].iloc[125:150].mean() for _, run in rows.groupby("seed")]
    assert marked(early, "o")[0, 0] == pytest.approx(np.mean(printed))
    assert marked(course, "o")[-1, 1] == pytest.approx(0.8 + MEAN_OF_SEEDS, abs=1e-6)


def test_too_few_episodes_for_the_notebook_s_number_are_said_to_be_so(tmp_path: Path) -> None:
    folder = synthetic_tasks.write(tmp_path, "point_reach", iterations=60)
    assert "too few episodes" in texts(drawn("point_reach_described", folder.parent))


def test_before_the_first_update_there_is_nothing_to_draw_of_losses(tmp_path: Path) -> None:
    folder = synthetic_tasks.write(tmp_path, "point_reach", iterations=30)
    assert texts(drawn("notebook_described", folder.parent)).count("no updates yet") == 12


def test_success_by_number_of_bits(tasks: Path) -> None:
    figure = drawn("bit_flipping_described", tasks)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "hindsight and priorities", "which goals",
    ]  # fmt: skip
    for arm in ("DQN", "DQN + HER"):
        points = marked(figure.axes[0], style.arm_look(arm).marker)
        expected = [
            np.mean([max(top(arm, {"n_bits": n}, "") - 0.001 * seed, 0.0) for seed in range(5)])
            for n in (5, 10, 20, 40)
        ]
        np.testing.assert_allclose(points[:, 1], expected, atol=1e-6)
        assert np.abs(points[:, 0] - [5, 10, 20, 40]).max() < 0.5
    runs = Tables(tasks / "bit_flipping", "described").read("runs.parquet")
    dots = marked(figure.axes[1], ".")
    assert len(dots) == (runs["arm"].isin(["DQN + HER", "DQN + HER (final)"])).sum()


def test_each_number_of_bits_has_its_column(tasks: Path, tmp_path: Path) -> None:
    figure = drawn("bit_flipping_curves_described", tasks)
    titles = ["n = 5", "n = 10", "n = 20", "n = 40"]
    assert [ax.get_title() for ax in figure.axes[:4]] == titles
    assert {len(ax.lines) for ax in figure.axes[:4]} == {4}
    assert {len(ax.lines) for ax in figure.axes[4:]} == {2}
    assert all(len(c.get_segments()) == 5 for ax in figure.axes for c in ax.collections
               if isinstance(c, LineCollection))  # fmt: skip
    shutil.copytree(tasks / "bit_flipping", tmp_path / "bit_flipping")
    path = tmp_path / "bit_flipping/evaluations.parquet"
    table = pd.read_parquet(path)
    table[(table["arm"] != "DQN") | (table["n_bits"] != 20)].to_parquet(path)
    panels = drawn("bit_flipping_curves_described", tmp_path).axes
    said = ["missing: DQN" in [text.get_text() for text in ax.texts] for ax in panels]
    assert said == [False, False, True, *[False] * 5]


@pytest.mark.parametrize("experiment", ["bit_strategies", "reach_strategies"])
def test_strategies_are_columns_and_final_keeps_its_k(experiment: str, tasks: Path) -> None:
    figure = drawn(f"{experiment}_described", tasks)
    courses, (end, area) = figure.axes[:4], figure.axes[4:]
    assert [ax.get_title() for ax in courses] == ["final", "future", "episode", "random"]
    assert {len(ax.lines) for ax in courses} == {2}
    assert labels(figure)[:2] == ["k = 1", "k = 4"]
    arm = "DQN + HER" if experiment == "bit_strategies" else "DDPG + HER"
    for name, look in style.STRATEGIES.items():
        levels = [{"strategy": name, "k": k} for k in (1, 4)]
        expected = [
            np.mean([max(top(arm, level, "") - 0.001 * seed, 0.0) for seed in range(5)])
            for level in levels
        ]
        np.testing.assert_allclose(marked(end, look.marker)[:, 1], expected, atol=1e-6)
        np.testing.assert_allclose(
            marked(area, look.marker)[:, 1], np.array(expected) / 2, atol=1e-6
        )


def test_success_by_s_on_each_task(tasks: Path) -> None:
    figure = drawn("question_generalise_described", tasks)
    assert [ax.get_title() for ax in figure.axes[:2]] == ["PointReach", "BitFlipping"]
    for ax in figure.axes[2:]:
        points = {
            round(float(line.get_xdata()[0]), 1): float(line.get_ydata()[0])
            for line in ax.lines
            if line.get_marker() in "<>d" and line.get_markerfacecolor() != "white"
        }
        assert points == pytest.approx(
            {s: 0.92 - 0.2 * (s != 0.5) + MEAN_OF_SEEDS for s in (0.3, 0.5, 0.7)}, abs=1e-6
        )
    plan = json.loads((tasks / "generalise/plan.json").read_text())
    assert {entry["arm"] for entry in plan["entries"]} == set(labels(figure))


def test_looks_of_arms_on_tasks_differ_in_colour_line_and_marker() -> None:
    looks = list(style.TASK_ARMS.values())
    assert len({look.colour for look in looks}) == len(looks)
    assert len({look.marker for look in looks}) == len(looks)
    assert len({str(look.line) for look in looks}) == len(looks)
    assert not style.TASK_ARMS.keys() & style.ARMS.keys()
