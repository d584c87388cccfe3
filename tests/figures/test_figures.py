"""Every figure is drawn from tables, says what it shows, and shows it."""

import hashlib
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from hindsight import figures
from hindsight.envs.episodes import Episode, load_episodes
from hindsight.figures import FIGURES, beside, environment, grids, style
from hindsight.figures.tables import Tables, levels_of
from hindsight.specs.environments.predator_prey import PREYS, SPAWNS
from tests.figures.synthetic_tasks import EXPERIMENTS as TASKS

# One function draws a figure under both fidelities: where they do not differ, one is enough.
DRAWN = [
    name
    for name, spec in FIGURES.items()
    if (spec.fidelity != "described" or spec.experiment == "algorithms")
    and spec.experiment not in TASKS  # test_other_tasks.py draws those
]
GRIDS = [
    name
    for name, spec in FIGURES.items()
    if name.startswith("ppo_her") and spec.experiment not in ("environment", *TASKS)
]


@cache
def drawn(name: str, tables: Path) -> Figure:
    """The figure, drawn once for all tests."""
    return figures.figure_of(name, tables)


def texts(figure: Figure) -> str:
    """Everything written outside the panels, and the panels' own texts."""
    inside = [text.get_text() for ax in figure.axes for text in ax.texts]
    return " ".join([*(text.get_text() for text in figure.texts), *inside])


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def pixels(figure: Figure) -> np.ndarray:
    """The figure as a picture, its lowest row first."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[::-1, :, :3].astype(float)


@pytest.mark.parametrize("name", DRAWN)
def test_every_panel_of_every_figure_shows_something(name: str, tables: Path) -> None:
    figure = drawn(name, tables)
    picture = pixels(figure)
    assert figure.axes
    for ax in figure.axes:
        x0, y0, x1, y1 = (int(v) for v in ax.get_window_extent().extents)
        assert picture[y0:y1, x0:x1].std() > 1.0


@pytest.mark.parametrize("name", [name for name in DRAWN if name != "ppo_her_fig1"])
def test_source_network_fidelity_and_seeds_are_on_the_figure(name: str, tables: Path) -> None:
    said = texts(drawn(name, tables)).replace("\u00a0", " ").replace("\n", " ")
    seeds = 4 if FIGURES[name].experiment == "learning_rate" else 5
    plan = json.loads((tables / FIGURES[name].experiment / "plan.json").read_text())
    steps = f"up to {max(entry['steps'] for entry in plan['entries']):,} steps".replace(",", " ")
    fidelity = "described" if name.endswith("_described") else "released"
    for expected in (
        "preset laptop", "network 2 × 64", steps, f"{fidelity} fidelity", f"{seeds} seeds"
    ):  # fmt: skip
        assert expected in said
    # A share of four seeds has its Wilson interval; a bootstrap over them would promise too much.
    # Curves have bands of quartiles, which are no intervals.
    warned = seeds < 5 and name.startswith("aggregate")
    assert said.count("fewer than five seeds carry no interval") == warned


@pytest.mark.parametrize("name", ["ppo_her_fig2", "ppo_her_fig3", "entropy"])
def test_legend_names_all_arms(name: str, tables: Path) -> None:
    assert labels(drawn(name, tables)) == ["PPO", "PPO-HER", "SAC", "SAC-HER"]


def test_legend_names_all_levels_from_light_to_dark(tables: Path) -> None:
    figure = drawn("ppo_her_figA2", tables)
    assert labels(figure) == ["r = 0.1", "r = 0.2", "r = 0.5", "r = 1"]
    lightness = [
        float(np.dot([0.299, 0.587, 0.114], to_rgb(line.get_color())))
        for line in figure.legends[0].get_lines()
    ]
    assert lightness == sorted(lightness, reverse=True)


def test_strategy_figure_draws_final_once_per_panel_and_all_copies(tables: Path) -> None:
    figure = drawn("ppo_her_figA1", tables)
    assert labels(figure) == ["k = 1", "k = 2", "k = 4", "k = 8", "final (one copy)"]
    assert len(figure.axes) == 2 * 2 * 2  # strategies, spawns, preys
    assert {len(ax.lines) for ax in figure.axes} == {5}


def test_dimensions_figures_show_one_arm_each(tables: Path) -> None:
    assert "PPO-HER\nrandom spawn" in texts(drawn("ppo_her_figA4", tables))
    without = texts(drawn("ppo_her_figA5", tables))
    assert "PPO\nrandom spawn" in without and "PPO-HER\n" not in without


@pytest.mark.parametrize("name", GRIDS)
def test_every_seed_is_drawn_as_one_picture_per_panel(name: str, tables: Path) -> None:
    seeds = 4 if FIGURES[name].experiment == "learning_rate" else 5
    for ax in drawn(name, tables).axes:
        bundles = [c for c in ax.collections if isinstance(c, LineCollection)]
        assert len(bundles) == len(ax.lines)
        assert all(len(bundle.get_segments()) == seeds for bundle in bundles)
        assert all(bundle.get_rasterized() for bundle in bundles)


def test_median_line_is_the_table_s(tables: Path) -> None:
    view = Tables(tables / "algorithms", "released")
    curves = view.read("curves.parquet")
    where = (curves["arm"] == "SAC") & (curves["spawn"] == "apart") & (curves["prey"] == "repel")
    curve = curves[where & (curves["clock"] == "env_steps")]
    figure = drawn("ppo_her_fig2", tables)
    line = figure.axes[3].lines[2]  # second row, second column; PPO, PPO-HER, SAC
    np.testing.assert_allclose(line.get_ydata(), curve["median"])
    np.testing.assert_allclose(np.asarray(line.get_xdata()) * 1000, curve["x"])


def test_solved_share_shows_the_table_s_shares_and_intervals(tables: Path) -> None:
    row = (
        Tables(tables / "algorithms", "released")
        .read("summary.csv")
        .set_index(["arm", "spawn", "prey"])
        .loc[("PPO", "random", "repel")]
    )
    ax = drawn("solved_share_algorithms", tables).axes[0]
    assert ax.lines[0].get_ydata()[1] == pytest.approx(row["solved_share"])
    bar = ax.collections[0].get_segments()[1]
    assert bar[:, 1] == pytest.approx([row["solved_low"], row["solved_high"]])


def test_only_the_asked_fidelity_is_read(tables: Path) -> None:
    for fidelity in ("released", "described"):
        view = Tables(tables / "algorithms", fidelity)
        assert {entry["fidelity"] for entry in view.plan["entries"]} == {fidelity}
        for table in ("curves.parquet", "seed_curves.parquet", "summary.csv", "aggregate.csv"):
            assert set(view.read(table)["fidelity"]) == {fidelity}
            assert set(view.read(table)["level"]) == {""}


def test_grid_shrinks_to_the_conditions_present(tables: Path) -> None:
    assert len(drawn("ppo_her_fig2", tables).axes) == 4
    assert [ax.get_title() for ax in drawn("ppo_her_fig2", tables).axes[:2]] == ["static", "repel"]


def _altered(tables: Path, tmp_path: Path, change: Callable[[Path], object]) -> Tables:
    """The algorithms' tables with another plan or fewer rows."""
    folder = tmp_path / "altered"
    folder.mkdir()
    for path in (tables / "algorithms").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    change(folder)
    return Tables(folder, "released")


def test_what_was_planned_and_is_missing_is_said_what_was_not_is_noted(
    tables: Path, tmp_path: Path
) -> None:
    def change(folder: Path) -> None:
        curves = pd.read_parquet(folder / "curves.parquet")
        lost = (
            (curves["arm"] == "SAC") & (curves["spawn"] == "apart") & (curves["prey"] == "static")
        )
        unplanned = (curves["spawn"] == "random") & (curves["prey"] == "repel")
        curves[~lost & ~unplanned].to_parquet(folder / "curves.parquet")
        plan = json.loads((folder / "plan.json").read_text())
        plan["entries"] = [
            e for e in plan["entries"] if (e["spawn"], e["prey"]) != ("random", "repel")
        ]
        (folder / "plan.json").write_text(json.dumps(plan))

    with style.styled():
        figure = grids.algorithms_by_steps(_altered(tables, tmp_path, change))
    said = [[text.get_text() for text in ax.texts] for ax in figure.axes]
    assert "not in this preset" in said[1]
    assert said[2] == ["missing: SAC"]
    assert not said[0]


@pytest.mark.parametrize(
    ("lost", "said"),
    [(2, "missing: PPO-HER variant 0,\nPPO-HER variant 1"), (6, "missing: 6 of 7")],
)
def test_a_list_of_what_is_missing_does_not_cover_the_curves(lost: int, said: str) -> None:
    ax = Figure().subplots()
    grids.say_absent(ax, [(f"PPO-HER variant {i}", True) for i in range(lost)], 7)
    assert [text.get_text() for text in ax.texts] == [said]


def test_a_preset_without_the_figure_s_arm_gets_a_note_instead_of_an_error(
    tables: Path, tmp_path: Path
) -> None:
    def change(folder: Path) -> None:
        plan = json.loads((folder / "plan.json").read_text())
        plan["entries"] = []
        (folder / "plan.json").write_text(json.dumps(plan))

    with style.styled():
        figure = grids.algorithms_by_steps(_altered(tables, tmp_path, change))
    assert "trains nothing for this figure" in texts(figure)


def test_names_follow_experiment_and_fidelity() -> None:
    assert figures.names_for("environment", ()) == ["ppo_her_fig1"]
    names = figures.names_for("dimensions", ["described"])
    assert names == [
        "ppo_her_figA4_described",
        "ppo_her_figA5_described",
        "solved_share_dimensions_described",
        "aggregate_dimensions_described",
    ]
    assert set(figures.names_for("algorithms", ["released", "described"])) >= {
        "ppo_her_fig2", "ppo_her_fig2_described", "entropy",
    }  # fmt: skip


def test_unknown_figure_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match=r"no figure 'fig99'.*ppo_her_fig2"):
        figures.draw("fig99", tmp_path, tmp_path / "x")


def test_files_are_deterministic_and_carry_no_date(tables: Path, tmp_path: Path) -> None:
    sums = []
    for run in ("a", "b"):
        files = figures.draw("ppo_her_fig2", tables, tmp_path / run / "fig")
        assert [path.name for path in files] == ["fig.png", "fig.pdf"]
        sums.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])
        assert not re.search(rb"CreationDate|ModDate", files[1].read_bytes())
        assert [path.name for path in sorted((tmp_path / run).iterdir())] == ["fig.pdf", "fig.png"]
    assert sums[0] == sums[1]


def test_the_page_is_white_and_the_picture_wide_enough(tables: Path, tmp_path: Path) -> None:
    for name in ("ppo_her_fig1", "ppo_her_fig2"):
        png, _ = figures.draw(name, tables, tmp_path / "fig")
        picture = Image.open(png).convert("RGB")
        assert picture.getpixel((2, 2)) == (255, 255, 255)
        assert picture.width > 1000


def test_drawing_leaves_matplotlib_s_settings_alone(tables: Path, tmp_path: Path) -> None:
    with matplotlib.rc_context({"font.size": 13.0}):
        before = dict(matplotlib.rcParams)
        figures.draw("aggregate_algorithms", tables, tmp_path / "fig")
        assert dict(matplotlib.rcParams) == before


def test_no_text_of_the_head_leaves_the_figure(tables: Path) -> None:
    for name in ("ppo_her_fig4", "aggregate_learning_rate", "solved_share_algorithms"):
        figure = drawn(name, tables)
        pixels(figure)
        width = figure.bbox.width
        for text in [*figure.texts, *(t for g in figure.legends for t in g.get_texts())]:
            assert text.get_window_extent().x1 <= width, text.get_text()


def test_looks_differ_in_colour_line_and_marker() -> None:
    looks = list(style.ARMS.values())
    assert len({look.colour for look in looks}) == len(looks)
    assert len({look.marker for look in looks}) == len(looks)
    assert len({str(look.line) for look in looks}) >= len(looks) - 1
    assert style.arm_look("TD3") == style.arm_look("TD3") != style.arm_look("DDPG")


def test_condition_names_cover_the_specification() -> None:
    assert tuple(style.PREYS) == PREYS
    assert tuple(style.SPAWNS) == SPAWNS


@pytest.mark.parametrize(
    ("counts", "note"),
    [
        ([16], "16 seeds"),
        ([4, 16], "4 to 16 seeds"),
        ([1], "1 seed"),
    ],
)
def test_seeds_are_counted_in_words(counts: list[int], note: str) -> None:
    assert style.seeds_note(counts) == note


def test_final_is_one_level_whatever_k_says() -> None:
    entries = [{"level": {"strategy": s, "k": k}} for s in ("future", "final") for k in (4, 1)]
    assert list(levels_of({"entries": entries})) == [
        "strategy=final, k=1", "strategy=future, k=1", "strategy=future, k=4",
    ]  # fmt: skip


def test_series_by_level_places_values_in_order(tables: Path) -> None:
    plan = Tables(tables / "grid_size", "released").plan
    series, positions, label = beside.series_by_level(plan)
    assert positions == ["10", "20", "30", "40", "50"]
    assert [one.label for one in series] == ["PPO", "PPO-HER"]
    assert series[0].levels[4] == (4, "grid_size=50")
    assert label == "half-width of the box G"


def test_analysis_figures_and_report_do_not_import_torch() -> None:
    code = (
        "import sys, hindsight.figures, hindsight.claims, hindsight.report.build; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_environment_figure_has_a_panel_per_episode(tables: Path) -> None:
    figure = drawn("ppo_her_fig1", tables)
    assert len(figure.axes) == len(load_episodes(tables / "environment/episodes.npz"))
    assert labels(figure) == ["predator (shaded: its reach)", "prey"]


@pytest.mark.parametrize("n", [2, 3, 5])
def test_panels_of_episodes_do_not_touch(n: int) -> None:
    walk = np.linspace(0.0, 6.0, 22)[:, None] * np.ones(n)
    episodes = [Episode(walk, walk - 9, 10.0, 1.0, "random_direction") for _ in range(4)]
    with style.styled():
        figure = environment.figure_of_episodes(episodes, "Title")
        pixels(figure)
        boxes = [ax.get_tightbbox() for ax in figure.axes]
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert ("grey: shadow on the floor" in texts(figure)) == (n > 2)
