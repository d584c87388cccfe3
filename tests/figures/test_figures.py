"""Every figure is drawn from tables and says what it shows; each kind shows what they hold."""

import itertools
import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray
from PIL import Image
from typer.testing import CliRunner

from hindsight.analysis import statistics
from hindsight.cli import app
from hindsight.envs.episodes import Episode, load_episodes
from hindsight.figures import curves, draw, environment, names, specs, style
from hindsight.figures.draw import figure_of
from hindsight.figures.specs import FIGURES, MEASURES
from hindsight.figures.tables import Tables
from hindsight.io.checksums import file_sha256
from hindsight.io.files import DamagedError, FileError
from hindsight.specs.config import AUTHORS, HERO, PUBLISHED
from hindsight.specs.environments.predator_prey import SPAWNS
from hindsight.specs.errors import SpecError
from hindsight.specs.manifest import MANIFEST
from tests.analysis import synthetic

PPO, HER, SAC = "#0072B2", "#D55E00", "#009E73"


@cache
def picture(name: str, tables: Path) -> tuple[Figure, NDArray[np.float64]]:
    """A figure of results/tables/<preset>, and its pixels [row, column, colour], its lowest row
    first; drawn once, at a third of its dots.
    """
    figure = figure_of(name, tables)
    figure.set_dpi(50)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return figure, np.asarray(canvas.buffer_rgba())[::-1, :, :3].astype(float)


def drawn(name: str, tables: Path) -> Figure:
    return picture(name, tables)[0]


def texts(figure: Figure) -> str:
    """All that stands in and above the panels, no-break spaces as spaces."""
    inside = [text.get_text() for ax in figure.axes for text in ax.texts]
    words = [*(text.get_text() for text in figure.texts), *inside]
    return " ".join(words).replace("\u00a0", " ").replace("\n", " ")


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def line_of(ax: Axes, colour: str) -> Line2D:
    """The line with most points of this colour."""
    found = [line for line in ax.lines if line.get_color() == colour]
    return max(found, key=lambda line: np.size(line.get_xdata()))


def test_every_figure_shows_something_and_says_where_it_is_from(tables):
    there = specs.names_there(tables)
    assert {FIGURES[name].kind for name in there if name in FIGURES} == {
        "curves", "along", "intervals", "episodes",
    }  # fmt: skip
    for name in there:
        (figure, pixels), spec = picture(name, tables), specs.specs_of(["recipe"]).get(name)
        for ax in figure.axes:
            x0, y0, x1, y1 = (int(v) for v in ax.get_window_extent().extents)
            assert pixels[y0:y1, x0:x1].std() > 1.0, name
            box = ax.get_tightbbox()
            assert box.x0 >= -1 and box.x1 <= figure.bbox.width + 1, name
        for text in [*figure.texts, *(t for g in figure.legends for t in g.get_texts())]:
            assert text.get_window_extent().x1 <= figure.bbox.width, (name, text.get_text())
        if spec is not None and spec.kind != "episodes":
            said = texts(figure)
            assert "preset laptop" in said and f"{spec.fidelity} fidelity" in said, name
            assert re.search(r"up to [\d,]+ steps", said) and "seeds" in said, name


def test_a_copy_of_tables_under_another_name_is_left_alone(tables, tmp_path):
    shutil.copytree(tables / "algorithms", tmp_path / "algorithms")
    there = specs.names_there(tmp_path)
    shutil.copytree(tables / "algorithms", tmp_path / "before")
    assert specs.names_there(tmp_path) == there != []
    shutil.rmtree(tmp_path / "algorithms")
    with pytest.raises(FileError, match="before: holds the tables of algorithms; a folder of tab"):
        specs.names_there(tmp_path)


def _seeds(tables: Path, experiment: str, **where: Any) -> list[pd.DataFrame]:
    rows = pd.read_parquet(tables / experiment / "seed_curves.parquet")
    for column, value in ({"fidelity": "released"} | where).items():
        rows = rows[rows[column] == value]
    return [run.dropna(subset=["return_mean"]) for _, run in rows.groupby("seed")]


def test_curves_are_medians_and_quartiles_until_half_of_the_runs_have_ended(tables):
    """Against an interpolation of the seeds' rows by pandas."""
    figure = drawn("ppo_her_fig2", tables)
    assert [ax.get_title() for ax in figure.axes[:2]] == [
        "static\nrandom spawn", "repel\nrandom spawn",
    ]  # fmt: skip
    for i, (spawn, prey) in enumerate(itertools.product(("random", "apart"), ("static", "repel"))):
        for arm, colour in (("PPO", PPO), ("PPO-HER", HER), ("SAC", SAC)):
            runs = _seeds(tables, "algorithms", arm=arm, spawn=spawn, prey=prey)
            line = line_of(figure.axes[i], colour)
            x = 1000 * np.asarray(line.get_xdata(), float)
            ends = [run["env_steps"].max() for run in runs]
            assert x[-1] == pytest.approx(np.median(ends)) and x[0] == 2048
            wide = pd.DataFrame({
                k: run.set_index("env_steps")["return_mean"].reindex(
                    np.union1d(run["env_steps"], x)
                ).interpolate("index").ffill().reindex(x)
                for k, run in enumerate(runs)
            })  # fmt: skip
            np.testing.assert_allclose(line.get_ydata(), wide.median(axis=1), atol=1e-6)
        bundles = [c for c in figure.axes[i].collections if isinstance(c, LineCollection)]
        assert [len(bundle.get_segments()) for bundle in bundles] == [5] * 4
        assert all(bundle.get_rasterized() for bundle in bundles)
    # Where a run ends before the axis, the reason is told.
    assert any("hundred episodes" in label for label in labels(figure))


def test_along_shows_means_with_intervals_and_every_condition(tables):
    runs = pd.read_parquet(tables / "s_ratio/runs.parquet")
    runs = runs[runs["fidelity"] == "released"]
    ax = drawn("s_ratio_summary", tables).axes[2]
    assert ax.get_title() == MEASURES["over_training"].label
    line = max(ax.lines, key=lambda one: one.get_linewidth())
    s = runs["level"].str.removeprefix("s_ratio=").astype(float)
    means = runs.groupby(s)["success_auc"].mean()
    np.testing.assert_allclose(line.get_xdata(), means.index)
    np.testing.assert_allclose(line.get_ydata(), means)
    bars = next(c for c in ax.collections if isinstance(c, LineCollection)).get_segments()
    strata = [own["success_auc"] for _, own in runs[s == 0.5].groupby("condition", sort=False)]
    expected = statistics.bootstrap(strata, statistics.mean)
    at = list(means.index).index(0.5)
    np.testing.assert_allclose(bars[at][:, 1], expected)
    assert len([one for one in ax.lines if one.get_linewidth() < 1]) == 2  # conditions


def test_m_c_by_condition_is_the_table_s_with_what_never_learns_marked(tables):
    view = Tables(tables / "s_ratio", "released")
    table, summary = view.read("m_c.csv"), view.read("summary.csv")
    for ax in drawn("meher_fig3", tables).axes:
        line = max(
            ax.lines, key=lambda one: np.size(one.get_xdata()) * (one.get_linestyle() != "None")
        )
        values = np.asarray(line.get_ydata(), float)
        own = next(
            rows for _, rows in table.groupby("condition") if np.allclose(rows["m_c"], values)
        )
        np.testing.assert_allclose(line.get_xdata(), own["s_ratio"])
        here = summary[summary["condition"] == own["condition"].iloc[0]]
        lost = here.loc[here["steps_to_0.8"].isna(), "s_ratio"]
        crosses = [one.get_xdata() for one in ax.lines if one.get_marker() == "x"]
        np.testing.assert_allclose(np.concatenate([*crosses, []]), lost)
        # The best level stands above all bars.
        above = [one for one in ax.lines if one.get_transform() != ax.transData]
        mark = ax.transData.inverted().transform(ax.transAxes.transform((0, 0.92)))[1]
        assert above and max(own["m_c_high"].max(), values.max()) < mark


def test_intervals_show_every_run_its_mean_and_its_interval(tables):
    runs = pd.read_parquet(tables / "algorithms/runs.parquet")
    runs = runs[(runs["fidelity"] == "released") & (runs["arm"] == "PPO")]
    ax = drawn("solved_share_algorithms", tables).axes[0]
    rows = [label.get_text() for label in ax.get_yticklabels()]
    assert rows == [
        "static, random spawn", "repel, random spawn", "static, spawn apart",
        "repel, spawn apart", "all conditions",
    ]  # fmt: skip
    line = next(one for one in ax.lines if one.get_color() == PPO)
    own = runs.groupby("condition", sort=False)["final_evaluation_success"]
    expected = [own.get_group(f"{spawn} {prey}").mean() for spawn in SPAWNS
                for prey in ("static", "repel")]  # fmt: skip
    pooled = runs["final_evaluation_success"].mean()
    np.testing.assert_allclose(line.get_xdata(), [*expected, pooled])
    bars = next(c for c in ax.collections if isinstance(c, LineCollection)).get_segments()
    strata = [values for _, values in own]
    np.testing.assert_allclose(bars[-1][:, 0], statistics.bootstrap(strata, statistics.mean))
    ticks = sum(len(c.get_offsets()) for c in ax.collections if not isinstance(c, LineCollection))
    assert ticks == 4 * 4 * 5  # arms, conditions, seeds


def test_gains_are_paired_by_seed_with_the_baseline(tables):
    view = Tables(tables / "rarely_moves", "released")
    found = view.runs(MEASURES["gain"])
    runs = view.read("runs.parquet", ["seed", "success_auc"]).set_index(
        ["arm", "condition", "seed"]
    )
    assert set(found["arm"]) == {"PPO-HER", "PPO-HER, moved only"}
    for row in found.to_dict("records"):
        place = (row["condition"], row["seed"])
        one, other = (runs.loc[(arm, *place), "success_auc"] for arm in (row["arm"], "PPO"))
        assert row["value"] == pytest.approx(one - other)


def test_levels_go_from_light_to_dark_and_many_have_a_bar(tables):
    figure = drawn("ppo_her_figA2", tables)
    named = labels(figure)[:4]
    assert named == ["r = 0.1", "r = 0.2", "r = 0.5", "r = 1"]
    colours = [line.get_color() for line in figure.legends[0].get_lines()[:4]]
    lightness = [float(np.dot([0.299, 0.587, 0.114], to_rgb(colour))) for colour in colours]
    assert lightness == sorted(lightness, reverse=True)
    levels = [{"s_ratio": s} for s in (0, 0.1, 0.2, 0.3, 0.5, 0.7, 1)]
    looks = style.swept_looks(levels)
    # The bar shows each line's colour at its value, however the values are spaced.
    figure = style.new_figure(1, 1, (3, 3))
    style.colour_bar(figure, levels)
    (bar,) = [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]
    ticks = dict(zip([t.get_text() for t in bar.get_yticklabels()], bar.get_yticks(), strict=True))
    for level, look in zip(levels, looks, strict=True):
        at = ticks[f"{level['s_ratio']:g}"] / (len(levels) - 1)
        assert to_hex(style.palette()(at)) == look.colour


def test_final_is_drawn_once_and_in_every_panel(tables):
    figure = drawn("ppo_her_figA1", tables)
    assert labels(figure)[:5] == ["k = 1", "k = 2", "k = 4", "k = 8", "final"]
    assert len(figure.axes) == 2 * 2 * 2  # strategies, spawns, preys
    for ax in figure.axes:
        assert len([c for c in ax.collections if isinstance(c, LineCollection)]) == 5
    levels = {(e["level"]["strategy"], e["level"]["k"])
              for e in Tables(tables / "her_strategy", "released").plan["entries"]}  # fmt: skip
    assert [k for strategy, k in levels if strategy == "final"] == [1]


def _altered(tables: Path, tmp_path: Path, experiment: str = "algorithms") -> Path:
    shutil.copytree(tables / experiment, tmp_path / experiment)
    return tmp_path / experiment


def test_what_is_missing_is_said(tables, tmp_path):
    folder = _altered(tables, tmp_path)
    rows = pd.read_parquet(folder / "seed_curves.parquet")
    lost = (rows["arm"] == "SAC") & (rows["condition"] == "apart static")
    rows[~lost].to_parquet(folder / "seed_curves.parquet")
    plan = json.loads((folder / "plan.json").read_text())
    plan["entries"] = [e for e in plan["entries"] if e["condition"] != "random repel"]
    (folder / "plan.json").write_text(json.dumps(plan))
    changes = {"rows": ("spawn", "arm"), "roles": ("reference",)}
    spec = FIGURES["ppo_her_fig2"].model_copy(update=changes)
    said = [[t.get_text() for t in ax.texts] for ax in draw.draw_spec(spec, folder).axes]
    assert said.count(["missing: SAC"]) == 0 and "not in this preset" not in said[0]
    three = draw.figure_of("ppo_her_fig2", tmp_path)  # three conditions: a column each
    assert [[t.get_text() for t in ax.texts][:1] for ax in three.axes] == [
        [], ["missing: SAC"], [three.axes[2].texts[0].get_text()],
    ]  # fmt: skip
    plan["entries"] = []
    (folder / "plan.json").write_text(json.dumps(plan))
    for spec in FIGURES.values():
        if spec.experiment == "algorithms":
            assert "trains nothing for this figure" in texts(draw.draw_spec(spec, folder))


def test_the_best_level_is_that_of_a_panels_own_arm(tables, tmp_path):
    folder = _altered(tables, tmp_path, "s_ratio")
    best = pd.read_csv(folder / "best_level.csv", keep_default_na=False)
    another = best.assign(arm="another", best_level=0.123, best_to=0.123)
    pd.concat([best, another]).to_csv(folder / "best_level.csv", index=False)
    figure = draw.figure_of("meher_fig3", tmp_path)
    assert texts(figure) == texts(draw.figure_of("meher_fig3", tables))
    assert "0.123" not in texts(figure)


def test_a_mean_over_fewer_cells_than_planned_is_said(tmp_path):
    tables = _own(tmp_path, [{}], synthetic.CONDITIONS[:2])
    assert "lacks" not in texts(draw.figure_of("aggregate_mine_described", tables))
    runs = pd.read_parquet(tables / "mine/runs.parquet")
    lost = (runs["arm"] == "PPO") & (runs["condition"] == runs["condition"].iloc[-1])
    runs[~lost].to_parquet(tables / "mine/runs.parquet")
    for name in ("aggregate", "solved_share"):
        said = texts(draw.figure_of(f"{name}_mine_described", tables))
        assert "PPO lacks 1 of 2 cells" in said and "my arm lacks" not in said


def test_a_figure_whose_own_cells_have_no_results_says_so(tmp_path):
    """The experiment has results of an arm that this figure does not show."""
    how: dict[str, Any] = {"levels": [{}], "seeds": 2, "iterations": 6}
    plan = synthetic.write_experiment(
        tmp_path, "recipe", arms=("PPO", "failed"), conditions=synthetic.CONDITIONS[:2], **how
    )
    for cell in (tmp_path / "results/cells").rglob("ppo-*.parquet"):
        cell.unlink()
    assert synthetic.summarise(plan, tmp_path)
    figure = draw.figure_of("recipe_described", plan.parent.parent)
    assert "trains nothing for this figure" in texts(figure)


def test_lines_of_numbers_with_fewer_seeds_are_named_as_in_the_legend(tmp_path):
    how: dict[str, Any] = {"fidelities": ("released",), "iterations": 6, "seeds": 5}
    few = {"more_of": lambda arm, level, *_: {
        "seeds": 3 if (arm, level["learning_rate"]) == ("PPO", 3e-4) else 5
    }}  # fmt: skip
    conditions = synthetic.CONDITIONS[:1]
    tables = synthetic.summarised(
        tmp_path, "learning_rate", conditions=conditions, **how, **few
    ).parent
    shown = texts(draw.figure_of("ppo_her_fig4", tables))
    assert "n = 3 to 5" in shown and "n = 5" in shown


@pytest.mark.parametrize("measure", ["steps_to_learn", "tests"])
def test_repeated_cells_of_an_arm_are_measured(tables, measure):
    """`final` has one copy, whatever k is."""
    found = Tables(tables / "her_strategy", "released").runs(MEASURES[measure])
    assert {"strategy=final, k=1", "strategy=final, k=2"} <= {*found["level"]}


def test_arms_of_the_same_cells_are_both_shown_where_one_is_asked_for(tmp_path):
    tables = _own(tmp_path, [{}], synthetic.CONDITIONS[:2])
    plan = json.loads((tables / "mine/plan.json").read_text())
    cells = {e["condition"]: e["cell"] for e in plan["entries"] if e["arm"] == "PPO"}
    for entry in plan["entries"]:
        entry["cell"] = cells[entry["condition"]]
    (tables / "mine/plan.json").write_text(json.dumps(plan))
    spec = specs.specs_of(["mine"])["curves_mine_described"]
    both = draw.draw_spec(spec, tables / "mine")
    assert "PPO and my arm are the same runs" in texts(both)
    one = draw.draw_spec(spec.model_copy(update={"arms": ("my arm",)}), tables / "mine")
    assert "trains nothing" not in texts(one)
    assert [len(ax.lines) > 0 for ax in one.axes] == [True, True]


def test_returns_of_other_tasks_have_axes_that_fit_them(tmp_path):
    tables = _own(tmp_path, [{}], OF_TASKS)
    rows = pd.read_parquet(tables / "mine/seed_curves.parquet")
    rows.assign(return_mean=rows["return_mean"] - 30).to_parquet(
        tables / "mine/seed_curves.parquet"
    )
    spec = specs.specs_of(["mine"])["curves_mine_described"]
    figure = draw.draw_spec(spec.model_copy(update={"measures": ("return",)}), tables / "mine")
    assert all(ax.get_ylim()[1] < -20 for ax in figure.axes)


def test_panels_whose_lines_have_other_numbers_of_seeds_say_so(tables, tmp_path):
    folder = _altered(tables, tmp_path)
    rows = pd.read_parquet(folder / "seed_curves.parquet")
    most = rows["seed"].nunique()
    one = (rows["condition"] == "apart static") & (rows["arm"] == "SAC") & (rows["seed"] > 0)
    rows[~one].to_parquet(folder / "seed_curves.parquet")
    axes = draw.figure_of("ppo_her_fig2", tmp_path).axes
    said = [[t.get_text() for t in ax.texts if "n = " in t.get_text()] for ax in axes]
    assert said.count([f"n = {most}\nSAC 1"]) == 1 and said.count([f"n = {most}"]) == len(said) - 1
    for name in ("ppo_her_fig2", "ppo_her_fig3"):  # all alike: the subtitle says it
        assert "n = " not in texts(draw.figure_of(name, tables))


@pytest.mark.parametrize(("early", "corner"), [(True, "right"), (False, "left")])
def test_the_number_of_seeds_stands_where_fewer_lines_pass(early, corner):
    ax = Figure().subplots()
    steps = np.linspace(0, 1, 50)
    ax.plot(steps, np.minimum(1, 10 * steps) if early else 0.05 + 0 * steps)
    ax.set_ylim(0, 1)
    curves._write_seeds(ax, "n = 4")
    assert ax.texts[0].get_ha() == corner


def test_no_share_of_runs_that_have_learned_begins_after_the_first_has(tables, tmp_path):
    folder = _altered(tables, tmp_path)
    runs = pd.read_parquet(folder / "runs.parquet")
    runs["learn_step"] = runs["learn_step"].where(runs["seed"] > 0, 700.0)
    runs.to_parquet(folder / "runs.parquet")
    spec = next(spec for spec in FIGURES.values() if spec.kind == "learned")
    spec = spec.model_copy(update={"arms": ("PPO", "PPO-HER"), "title": "{} {}"})
    for ax in draw.draw_spec(spec, folder).axes:
        assert ax.get_xlim()[0] <= 700 < ax.get_xlim()[1] and ax.lines
        for line in ax.lines:
            assert (np.diff(np.asarray(line.get_xdata(), float)) >= 0).all()


def test_shares_are_those_of_the_runs_that_reach_a_return_of_0_8(tmp_path):
    """Of PPO's ten runs four learn, in their third rollout; of the others nine and all."""
    arms = ("PPO", "PPO-HER", "PPO-HER-2-PPO")
    learn = dict(zip(arms, (2, 4.5, 5), strict=True))

    def curve(arm: str, _: object, spawn: str, __: str):
        many = int(learn[arm] + (0.5 if spawn == "random" else 0))
        return lambda seed, steps: np.where(seed < many, steps >= 3 * synthetic.N_STEPS, 0.0)

    tables = synthetic.summarised(
        tmp_path, "rivals", arms=arms,
        conditions=[("random", "static"), ("apart", "repel")],
        levels=[{}], fidelities=("described",), seeds=5, iterations=20, curve_of=curve,
    )  # fmt: skip
    figure = figure_of(HERO, tables.parent)
    said = " ".join(" ".join(text.get_text() for text in figure.texts).split())
    learns = "PPO learns in 4 of 10 runs; with hindsight, in 9; with hindsight only at first, in"
    assert f"{learns} all 10" in said
    (keys,) = figure.legends
    assert [text.get_text() for text in keys.texts] == list(arms)
    shares = {"random spawn": (0.4, 1.0, 1.0), "spawn apart": (0.4, 0.8, 1.0)}
    for ax, (start, ends) in zip(figure.axes, shares.items(), strict=True):
        assert ax.get_title() == start
        assert [line.get_ydata()[-1] for line in ax.lines] == pytest.approx(ends)
        for line, key in zip(ax.lines, keys.legend_handles, strict=True):
            assert to_rgb(line.get_color()) == to_rgb(key.get_color())
            x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
            assert (
                set(x[1:-1]) == {3 * synthetic.N_STEPS}
                and x[-1] == 20 * synthetic.N_STEPS
                and y[0] == 0.0
            )


@pytest.mark.parametrize(("minutes", "unit"), [(0.5, "seconds"), (60.0, "minutes")])
def test_short_trainings_are_drawn_over_seconds(tables, tmp_path, minutes, unit):
    folder = _altered(tables, tmp_path)
    rows = pd.read_parquet(folder / "seed_curves.parquet")
    rows["minutes"] *= minutes / rows["minutes"].max()
    rows.to_parquet(folder / "seed_curves.parquet")
    figure = draw.figure_of("ppo_her_fig3", tmp_path)
    assert f"training time of a run ({unit})" in texts(figure)
    high = max(ax.get_xlim()[1] for ax in figure.axes)
    assert (30.0 if unit == "seconds" else 60.0) == pytest.approx(high, rel=0.15)


def test_what_was_timed_on_another_processor_is_left_out(tables, tmp_path):
    folder = _altered(tables, tmp_path)
    summary = pd.read_csv(folder / "summary.csv", keep_default_na=False)
    summary.loc[summary["arm"] == "SAC", "timed_on"] = "another, 8 runs sharing an axis"
    summary.to_csv(folder / "summary.csv", index=False)
    figure = draw.figure_of("ppo_her_fig3", tmp_path)
    for ax in figure.axes:
        assert "timed elsewhere: 1 of 4" in [text.get_text() for text in ax.texts]
        assert SAC not in {line.get_color() for line in ax.lines}


def test_the_authors_curves_stand_beside_ours(tables, tmp_path, monkeypatch):
    theirs = {f"static|random|PPO|64x64|{seed}": [[2048, x, 1, 1], [4096, x, 1, 2]]
              for seed, x in enumerate((0.1, 0.2, 0.4))}  # fmt: skip
    (tmp_path / AUTHORS.parent).mkdir(parents=True)
    (tmp_path / AUTHORS).write_text(json.dumps(theirs | {"static|random|PPO|8|0": [[1, 1, 1, 1]]}))
    monkeypatch.chdir(tmp_path)
    entry = {"sha256": file_sha256(AUTHORS)}
    MANIFEST.write_text(json.dumps({str(AUTHORS.relative_to(PUBLISHED)): entry}))
    figure = draw.figure_of("ppo_her_fig2", tables)
    assert "the authors' code: PPO (3 runs)" in labels(figure)
    black = [[line.get_ydata() for line in ax.lines if line.get_color() == "black"]
             for ax in figure.axes]  # fmt: skip
    assert [len(lines) for lines in black] == [1, 0, 0, 0]
    np.testing.assert_allclose(black[0][0], 0.2)
    described = draw.figure_of("ppo_her_fig2_described", tables)
    assert not any("authors" in label for label in labels(described))
    AUTHORS.write_text(AUTHORS.read_text().replace("0.4", "0.9"))
    with pytest.raises(FileError, match="differs from its checksum"):
        draw.figure_of("ppo_her_fig2", tables)


#: What an experiment of one's own may vary: its levels.
GRIDS: dict[str, list[dict[str, Any]]] = {
    "nothing": [{}],
    "a word": [{"failures": x} for x in ("random", "targeted")],
    "two numbers": [{"ent_coef": x, "n_steps": n} for x in (0.0, 0.01) for n in (512, 2048)],
}
OF_TASKS = [("", "a task of a rather long name"), ("", "Another")]


def _own(root: Path, levels: list[dict[str, Any]], conditions: Any) -> Path:
    """results/tables/laptop, with an experiment `mine` of two arms."""
    more = {"spec_overrides": {"environment.id": "Mine-v0"}} if conditions == OF_TASKS else {}
    return synthetic.summarised(
        root, "mine", arms=("PPO", "my arm"), levels=levels, conditions=conditions, seeds=5,
        iterations=4, fidelities=("described",),
        curve_of=lambda arm, *_: synthetic.constant(0.99 if arm == "PPO" else 0.3),
        more_of=lambda *_: more,
    ).parent  # fmt: skip


@pytest.mark.parametrize(
    ("grid", "conditions"),
    [("nothing", OF_TASKS), ("a word", OF_TASKS), ("two numbers", synthetic.CONDITIONS[:2])],
)
def test_any_experiment_has_figures(grid, conditions, tmp_path):
    tables, levels = _own(tmp_path, GRIDS[grid], conditions), GRIDS[grid]
    assert pd.read_csv(tables / "mine/m_c.csv").empty  # only levels of one number have an M_c
    own = specs.names_for("mine", ["described"])
    assert own == [f"{name}_mine_described" for name in ("curves", "solved_share", "aggregate")]
    curves, shares, together = (drawn(name, tables) for name in own)
    assert len(curves.axes) == len(conditions)
    for figure in (shares, together):
        ax = figure.axes[-1 if figure is together else 0]
        shown = sorted(float(x) for line in ax.lines if line.get_marker() not in ("None", "")
                       for x in line.get_xdata())  # fmt: skip
        rows = len(conditions) + 1 if figure is shares else 1
        assert shown == [0.0] * len(levels) * rows + [1.0] * len(levels) * rows
    for ax in curves.axes:
        assert len({(line.get_color(), line.get_marker()) for line in ax.lines}) == 2 * len(levels)


def test_files_are_the_same_bytes_carry_no_date_and_leave_settings_alone(tmp_path):
    tables = _own(tmp_path, GRIDS["nothing"], synthetic.CONDITIONS[:2])
    stems = [tmp_path / "out" / f"{name}_mine_described" for name in ("aggregate", "curves")]
    pngs = [path.with_suffix(".png") for path in stems]
    found = []
    with matplotlib.rc_context({"font.size": 13.0}):
        before = dict(matplotlib.rcParams)
        for processes in (1, 2):
            draw.draw_all(pngs, tables, tables / "none", processes)
            draw.draw(stems[1].name, tables, stems[1], ["pdf"])
            found.append({path.name: path.read_bytes() for path in stems[0].parent.iterdir()})
        assert dict(matplotlib.rcParams) == before
    assert found[0] == found[1] and len(found[0]) == 3
    assert not re.search(rb"CreationDate|ModDate", found[0][f"{stems[1].name}.pdf"])
    shown = Image.open(stems[1].with_suffix(".png")).convert("RGB")
    assert shown.getpixel((2, 2)) == (255, 255, 255) and shown.width > 1000
    (tables / "mine/plan.json").write_text("{}")
    with pytest.raises(DamagedError):
        draw.draw_all(pngs, tables, tables / "none", 2)


def test_figures_by_name_and_for_a_paper(tmp_path):
    tables = _own(tmp_path, GRIDS["nothing"], synthetic.CONDITIONS[:2])

    def typed(*words: object) -> Any:
        return CliRunner().invoke(app, ["figures", "--from", *map(str, (tables, *words))])

    names_of = [f"{name}_mine_described" for name in ("aggregate", "curves")]
    assert typed("--paper", "--out", tmp_path / "paper", *names_of).exit_code == 0
    files = [tmp_path / "paper" / f"{name}.pdf" for name in names_of]
    assert sorted((tmp_path / "paper").iterdir()) == files
    for path, inches in zip(files, (6.9, 3.3), strict=True):
        box = re.search(rb"/MediaBox \[\s*0 0 ([\d.]+) ([\d.]+)", path.read_bytes())
        assert box is not None and float(box[1]) == pytest.approx(72 * inches, abs=0.1)
        figure = draw.figure_of(path.stem, tables, style.Drawing(paper=True))
        shown = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
        assert {round(text.get_size(), 1) for text in shown} == {8.0}
        assert not any("fidelity" in text.get_text() for text in shown)
    wrong = typed("no_such_figure")
    assert wrong.exit_code == 2 and "no_such_figure" in wrong.output


RECOLOURED = {"PPO": "#888888", "PPO-HER": "#00AA55"}


def test_figures_in_other_colours_are_right_in_every_pixel(tables, tmp_path):
    """Areas have the blend of their line's colour and white, and no pixel the lines' old ones."""
    looks = "".join(f"  {arm}: {{colour: '{colour}'}}\n" for arm, colour in RECOLOURED.items())
    (tmp_path / "talk.yaml").write_text(f"looks:\n{looks}")
    name, own = "ppo_her_fig2", draw.own_style(tmp_path / "talk.yaml", tables)
    path, csv = draw.draw(name, tables, tmp_path / "talk", ["png"], own=own, csv=True)
    shown = np.asarray(Image.open(path).convert("RGB"))
    with style.styled(style.Drawing(own=own)):
        canvas = FigureCanvasAgg(figure_of(name, tables, style.Drawing(own=own)))
        canvas.draw()
    np.testing.assert_array_equal(shown, np.asarray(canvas.buffer_rgba())[..., :3])
    colours, counts = np.unique(shown.reshape(-1, 3), axis=0, return_counts=True)
    many = {tuple(map(int, c)): int(n) for c, n in zip(colours, counts, strict=True)}
    for was, (arm, colour) in zip((PPO, HER), RECOLOURED.items(), strict=True):
        band = tuple(round(255 * (0.16 * x + 0.84)) for x in to_rgb(colour))
        near = sum(
            many.get(tuple(np.add(band, d)), 0) for d in itertools.product((-1, 0, 1), repeat=3)
        )
        assert near > 300, (arm, band)
        assert tuple(round(255 * x) for x in to_rgb(colour)) in many
        assert tuple(round(255 * x) for x in to_rgb(was)) not in many
    assert set(pd.read_csv(csv)["line"]) == {"PPO", "PPO-HER", "SAC", "SAC-HER"}


@pytest.mark.parametrize("name", ["ppo_her_fig2", "s_ratio_summary", "aggregate_her_strategy"])
def test_the_csv_has_the_numbers_of_every_line(name, tables, tmp_path):
    """Those of the figure's own artists, in the axes' units."""
    *_, path = draw.draw(name, tables, tmp_path / "a", ["svg"], csv=True)
    table, figure = pd.read_csv(path), drawn(name, tables)
    middle = "median" if "median" in table else "mean"
    lower, upper = table.columns[table.columns.get_loc(middle) + 1 :][:2]
    assert (table[lower] <= table[middle] + 1e-6).all() and len(table) > 8
    assert (table[middle] <= table[upper] + 1e-6).all()
    artists = [(line.get_xdata(), line.get_ydata()) for ax in figure.axes for line in ax.lines]
    points = np.sort(np.concatenate([np.asarray(x, float) for pair in artists for x in pair]))
    wanted = table[middle].to_numpy()
    right = np.clip(np.searchsorted(points, wanted), 1, len(points) - 1)
    apart = np.minimum(abs(points[right] - wanted), abs(points[right - 1] - wanted))
    assert apart.max() < 2e-6
    again = draw.draw(name, tables, tmp_path / "b", ["svg"])
    assert again[0].read_bytes() == (tmp_path / "a.svg").read_bytes()


def test_labels_are_the_users_and_a_wrong_style_is_refused(tables, tmp_path):
    path = tmp_path / "talk.yaml"
    path.write_text('labels: {PPO: baseline, "static\\nrandom spawn": easy, SAC-HER: theirs}')
    figure = figure_of("ppo_her_fig2", tables, style.Drawing(own=draw.own_style(path, tables)))
    assert figure.axes[0].get_title() == "easy"
    assert labels(figure)[:4] == ["baseline", "PPO-HER", "SAC", "theirs"]
    path.write_text("labels: {PPO: PPO-HER, PPO-HER: PPO, static: random, random: static}")
    swapped = figure_of("ppo_her_fig2", tables, style.Drawing(own=draw.own_style(path, tables)))
    assert labels(swapped)[:4] == ["PPO-HER", "PPO", "SAC", "SAC-HER"]
    path.write_text("labels: {PPO: baseline, PPOO: typo}")
    own = draw.own_style(path, tables)
    figure_of("ppo_her_fig2", tables, style.Drawing(own=own))
    assert own.unused == ["PPOO"]
    for text, said in {
        "looks: {PPO-her: {colour: '#000000'}}": "'PPO-her' is unknown; choose from",
        "looks: {PPO: {colour: red}}": "looks.PPO.colour",
        "looks: {PPO: {color: '#000000'}}": "color",
        "palette: rainbows": "rainbows",
        "colours: {}": "colours",
    }.items():
        path.write_text(text)
        with pytest.raises(SpecError, match=re.escape(f"{path}: ")) as wrong:
            draw.own_style(path, tables)
        assert said in str(wrong.value)


def test_who_had_less_is_said():
    def entry(arm: str, seeds: int, steps: int, condition: str) -> dict[str, Any]:
        return {"arm": arm, "seeds": seeds, "steps": steps, "condition": condition, "level": {},
                "cell": f"{arm} {condition}", "fidelity": "released", "task": None}  # fmt: skip

    entries = [entry("PPO", 16, 9000, c) for c in "ab"] + [entry("SAC", 4, 2500, "a")]
    plan = {"preset": {"hidden": [8], "seeds": 16, "steps": 9000}, "entries": entries,
            "arms": ["PPO", "SAC"], "source": "laptop", "experiment": "algorithms"}  # fmt: skip
    said = names.where_from(plan, "released", "drawn").replace("\u00a0", " ")
    assert said == (
        "preset laptop · network 1 × 8 · up to 9,000 steps · released fidelity · 16 seeds · "
        "SAC: 4 seeds, 2,500 steps, 1 of 2 conditions · drawn"
    )
    plan["entries"] = [own | {"task": own["condition"]} for own in entries]
    assert "1 of 2 tasks" in names.where_from(plan, "released", "drawn")


@pytest.mark.parametrize("n", [2, 3])
def test_panels_of_episodes_do_not_touch(n, tables):
    walk = np.linspace(0.0, 6.0, 22)[:, None] * np.ones(n)
    episodes = [Episode(walk, walk - 9, 10.0, 1.0, "random_direction") for _ in range(4)]
    with style.styled():
        figure = environment.figure_of_episodes(episodes, "Title")
        figure.draw_without_rendering()
        boxes = [ax.get_tightbbox() for ax in figure.axes]
    assert len(boxes) == 4
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    assert ("grey: shadow on the floor" in texts(figure)) == (n > 2)
    whole = drawn("ppo_her_fig1", tables)
    assert len(whole.axes) == len(load_episodes(tables / "environment/episodes.npz"))
    assert labels(whole) == ["predator (shaded: its reach)", "prey"]
