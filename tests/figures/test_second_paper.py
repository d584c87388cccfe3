"""The second paper's figures and those of the open questions show what the tables say."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from hindsight.analysis.reduce import ALL
from hindsight.figures import ALSO_READ, FIGURES, figure_of, names_for, points, s_ratio, style
from hindsight.figures.tables import Tables
from tests.figures import second_paper
from tests.figures.conftest import TWO_CONDITIONS
from tests.figures.reading import drawn, labels, texts

NEW = [name for name, spec in FIGURES.items() if spec.experiment in second_paper.EXPERIMENTS]


def notes(ax: Axes) -> list[str]:
    """A panel's own texts, without the names of spawns beside it."""
    return [t.get_text() for t in ax.texts if t.get_text() not in ("", *style.SPAWNS.values())]


def lightness(colour: str) -> float:
    return float(np.dot([0.299, 0.587, 0.114], to_rgb(colour)))


def points_of(ax: Axes, marker: str) -> np.ndarray:
    """`[point, xy]` of every line that is drawn with this marker."""
    lines = [line for line in ax.lines if line.get_marker() == marker]
    return np.concatenate([np.column_stack(line.get_data()) for line in lines])


def copied(tables: Path, tmp_path: Path, *experiments: str) -> Path:
    for name in experiments:
        shutil.copytree(tables / name, tmp_path / name)
    return tmp_path


def rewrite(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    if path.suffix == ".csv":
        change(pd.read_csv(path)).to_csv(path, index=False)
    else:
        change(pd.read_parquet(path)).to_parquet(path)


# Looks


def test_the_arms_of_an_experiment_differ_in_grey_line_and_marker() -> None:
    for arms, _ in second_paper.EXPERIMENTS.values():
        looks = [style.ARMS[arm] for arm in arms]
        for one, other in itertools.combinations(looks, 2):
            assert abs(lightness(one.colour) - lightness(other.colour)) > 0.1
            assert one.line != other.line and one.marker != other.marker


def test_eleven_s_ratios_can_be_told_apart_and_one_half_stands_out() -> None:
    looks = style.swept_looks(second_paper.S_RATIOS)
    colours = [np.array(to_rgb(look.colour)) for look in looks]
    # Blue below one half, red above; the darker the nearer.
    assert all(colour[2] > colour[0] for colour in colours[:5])
    assert all(colour[0] > colour[2] for colour in colours[6:])
    shades = [lightness(look.colour) for look in looks]
    assert shades[:5] == sorted(shades[:5], reverse=True) and shades[6:10] == sorted(shades[6:10])
    apart = [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(colours, 2)]
    assert min(apart) > 0.14
    assert all(
        a.line != b.line for a, b in itertools.pairwise(looks) if "D" not in (a.marker, b.marker)
    )
    widths = [look.width for look in looks]
    assert widths.index(max(widths)) == 5 and widths.count(max(widths)) == 1
    assert [i for i, look in enumerate(looks) if look.marker != "none"] == [0, 5, 10]


def test_an_s_ratio_keeps_its_look_whichever_others_are_trained() -> None:
    few = [{"s_ratio": s} for s in (0.3, 0.5, 1.0)]
    every = style.swept_looks(second_paper.S_RATIOS)
    assert style.swept_looks(few) == [every[3], every[5], every[10]]


@pytest.mark.parametrize(
    ("level", "label"),
    [
        ({"s_ratio": 0.5}, "S = 0.5"),
        ({"failure_distance": 1.1}, "distance 1.1"),
        ({"until_success": 0.3}, "off at 0.3"),
        ({"exploration": "squashed"}, "squashed"),
    ],
)
def test_levels_have_the_papers_symbols(level: dict[str, object], label: str) -> None:
    assert style.level_label(level) == label


# S-ratio


def test_curves_by_s_ratio_name_every_level(tables: Path) -> None:
    expected = [f"S = {s:g}" for s in (0, 0.3, 0.5, 0.6, 0.7, 1)]
    assert labels(drawn("meher_fig2", tables)) == expected
    assert labels(drawn("meher_fig4_described", tables)) == expected


def test_bars_have_the_table_s_heights_intervals_and_best_s(tables: Path) -> None:
    table = Tables(tables / "s_ratio", "described").read("m_c.csv")
    best = Tables(tables / "s_ratio", "described").read("best_level.csv")
    figure = drawn("meher_fig3_described", tables)
    assert len(figure.axes) == 4  # random static, -; -, apart repel
    for ax, (spawn, prey) in zip(figure.axes[::3], TWO_CONDITIONS, strict=True):
        rows = table[(table["spawn"] == spawn) & (table["prey"] == prey)].sort_values("s_ratio")
        bars = [bar for container in ax.containers for bar in container]
        assert [bar.get_height() for bar in bars] == pytest.approx(rows["m_c"].tolist())
        centres = [bar.get_x() + bar.get_width() / 2 for bar in bars]
        assert centres == pytest.approx(rows["s_ratio"].tolist())
        spans = np.array([segment[:, 1] for segment in ax.collections[0].get_segments()])
        np.testing.assert_allclose(spans, rows[["m_c_low", "m_c_high"]].to_numpy())
        own = best[(best["spawn"] == spawn) & (best["prey"] == prey)].iloc[0]
        outlined = [c for c, bar in zip(centres, bars, strict=True) if bar.get_edgecolor()[3] > 0]
        ends = sorted({own["best_level"], own["best_to"]})  # of equals both
        x = ends[-1] - ends[0] + 1e-9
        assert outlined == pytest.approx([c for c in centres if -1e-9 < c - ends[0] < x])
        assert sorted(points_of(ax, "v")[:, 0]) == pytest.approx(ends)
        across = ax.collections[1].get_segments()[0][:, 0]
        assert across == pytest.approx([own["low"], own["high"]])
    assert "only the shape is read, not the height" in texts(figure)
    assert [notes(ax) for ax in figure.axes[1:3]] == [["not in this preset"]] * 2


def test_bars_where_no_s_learns_say_so(tables: Path, tmp_path: Path) -> None:
    root = copied(tables, tmp_path, "s_ratio")
    zero = {"m_c": 0.0, "m_c_low": 0.0, "m_c_high": 0.0}
    rewrite(root / "s_ratio/m_c.csv", lambda table: table.assign(**zero))
    nothing = {"best_level": np.nan, "low": np.nan, "high": np.nan}
    rewrite(root / "s_ratio/best_level.csv", lambda table: table.assign(**nothing))
    assert "no S learns" in texts(figure_of("meher_fig3", root))
    assert "MEHER: no S learns" in labels(figure_of("s_ratio_summary", root))


def test_an_s_ratio_that_is_missing_is_named_in_its_panel(tables: Path, tmp_path: Path) -> None:
    root = copied(tables, tmp_path, "s_ratio")

    def without(table: pd.DataFrame) -> pd.DataFrame:
        return table[(table["s_ratio"] != 0.3) | (table["prey"] != "static")]

    rewrite(root / "s_ratio/m_c.csv", without)
    figure = figure_of("meher_fig3", root)
    assert "missing: S = 0.3" in notes(figure.axes[0])
    assert len(figure.axes[0].containers) == 5 and len(figure.axes[3].containers) == 6


def test_the_mean_of_m_c_is_over_conditions_with_every_level() -> None:
    curve = {0.0: (0.2, 0.1, 0.4), 1.0: (0.6, 0.5, 0.7)}
    other = {0.0: (0.4, 0.0, 0.5), 1.0: (0.2, 0.1, 0.5)}
    partial = {1.0: (0.9, 0.9, 0.9)}
    means = s_ratio.mean_m_c({("a", "b"): curve, ("c", "d"): other, ("e", "f"): partial})
    assert means[0.0] == pytest.approx(
        (0.3, 0.3 - (0.1**2 + 0.4**2) ** 0.5 / 2, 0.3 + (0.2**2 + 0.1**2) ** 0.5 / 2)
    )
    assert means[1.0] == pytest.approx(
        (0.4, 0.4 - (0.1**2 + 0.1**2) ** 0.5 / 2, 0.4 + (0.1**2 + 0.3**2) ** 0.5 / 2)
    )
    assert s_ratio.mean_m_c({}) == {}


def test_summary_shows_mean_and_best_s_of_both_kinds_of_failures(tables: Path) -> None:
    figure = drawn("s_ratio_summary_described", tables)
    left, right = figure.axes
    for name, marker in (("s_ratio", "v"), ("targeted", "P")):
        view = Tables(tables / name, "described")
        means = view.read("m_c.csv").groupby("s_ratio")["m_c"].mean()
        np.testing.assert_allclose(points_of(left, marker), means.reset_index().to_numpy())
        best = view.read("best_level.csv")
        assert sorted(points_of(right, marker)[:, 0]) == sorted(best["best_level"])
        whole = best[best["condition"] == ALL].iloc[0]
        arm = view.plan["entries"][0]["arm"]
        (label,) = [text for text in labels(figure) if text.startswith(f"{arm}:")]
        assert f"best S {whole['best_level']:g} [{whole['low']:g}, {whole['high']:g}]" in label
        assert ("not single-peaked" in label) == (not whole["single_peaked"])
        assert f"lean {whole['lean']:+.2f}".replace("-", "−") in label
    assert "2 conditions" in texts(figure)


def test_the_released_targeted_runs_are_said_to_be_the_untargeted_ones(tables: Path) -> None:
    same = "the same runs as untargeted MEHER, as in the authors' code"
    for name in ("meher_fig4", "meher_fig5", "solved_share_targeted", "aggregate_targeted"):
        assert same in texts(drawn(name, tables))
        assert same not in texts(drawn(f"{name}_described", tables))
    summary = drawn("s_ratio_summary", tables)
    assert "targeted MEHER: the same runs" in texts(summary)
    assert not any(text.startswith("targeted") for text in labels(summary))
    pair = "MEHER and targeted MEHER are the same runs"
    for name in ("meher_fig6", "meher_fig7", "time_saved"):
        assert pair in texts(drawn(name, tables))
        assert pair not in texts(drawn(f"{name}_described", tables))
    for name in ("meher_fig6", "meher_fig7"):
        arms = ["PPO-HER", "MEHER = targeted MEHER", "PPO-HER-2-PPO"]
        assert labels(drawn(name, tables)) == arms
        assert "targeted MEHER" in labels(drawn(f"{name}_described", tables))


def test_what_switching_off_saves_stands_in_the_panels_of_minutes(tables: Path) -> None:
    saved = Tables(tables / "stop_her", "released").read("time_saved.csv")
    saved = saved[(saved["condition"] != ALL) & saved["low"].notna()]["saved_share"]
    said = [note for ax in drawn("meher_fig7", tables).axes for note in notes(ax)]
    found = [note.replace("\u00a0", " ") for note in said if "saves" in note]
    expected = [
        f"PPO-HER-2-PPO\nsaves {100 * share:.0f} %".replace("-0 ", "−0 ") for share in saved
    ]
    assert expected and sorted(note.rpartition("\n")[0] for note in found) == sorted(expected)


def test_a_median_ends_where_half_of_its_runs_have_ended(tables: Path, tmp_path: Path) -> None:
    root = copied(tables, tmp_path, "stop_her")
    path = root / "stop_her/seed_curves.parquet"
    whole = pd.read_parquet(path)
    steps, seeds = sorted(whole["env_steps"].unique()), sorted(whole["seed"].unique())
    early = (whole["arm"] == "PPO-HER") & whole["seed"].isin(seeds[: len(seeds) // 2 + 1])
    whole[~(early & (whole["env_steps"] > steps[4]))].to_parquet(path)
    ax = drawn("meher_fig6_described", root).axes[0]
    ends = {line.get_marker(): 1e3 * max(line.get_xdata()) for line in ax.lines}
    assert ends[style.ARMS["PPO-HER"].marker] == pytest.approx(steps[4])
    assert ends[style.ARMS["MEHER"].marker] == pytest.approx(steps[-1])


def test_signals_average_each_run_s_training_beside_the_bernoulli_entropy(tables: Path) -> None:
    ax = drawn("question_signals", tables).axes[0]
    rows = Tables(tables / "s_ratio", "released").read("evaluations.parquet")
    per_run: dict[float, dict[tuple[str, str, int], list[float]]] = {}
    for row in rows.to_dict("records"):
        run = (row["condition"], row["seed"])
        per_run.setdefault(row["s_ratio"], {}).setdefault(run, []).append(row["reward_entropy"])
    expected = [
        [s, np.mean([np.mean(values) for values in runs.values()])]
        for s, runs in sorted(per_run.items())
    ]
    np.testing.assert_allclose(points_of(ax, "v"), expected, rtol=1e-5)
    reference = ax.lines[-1]
    p, entropy = (np.asarray(values) for values in reference.get_data())
    inner = [scipy.stats.bernoulli(x).entropy() / np.log(2) for x in p[1:-1]]
    np.testing.assert_allclose(entropy, [0.0, *inner, 0.0], atol=1e-12)
    assert entropy[50] == pytest.approx(1.0) and p[50] == pytest.approx(0.5)


# Switching hindsight off


def test_time_saved_shows_the_table_beside_the_paper_s_band(tables: Path) -> None:
    figure = drawn("time_saved", tables)
    table = Tables(tables / "stop_her", "released").read("time_saved.csv")
    table = table.set_index(table["prey"].fillna("all")).loc[["static", "repel", "all"]]
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["static, random spawn", "repel, spawn apart", "all conditions"]
    saved, cost, switch = figure.axes
    for ax, marker, column in (
        (saved, "X", "saved_share"), (saved, "o", "updates_saved_share"),
        (cost, "X", "return_difference"),
    ):  # fmt: skip
        np.testing.assert_allclose(points_of(ax, marker)[:, 0], table[column])
    np.testing.assert_allclose(points_of(switch, "X")[:, 0], table["switch_step_median"] / 1e3)
    bars = [segment[:, 0] for segment in saved.collections[0].get_segments()]
    np.testing.assert_allclose(bars, table[["low", "high"]])
    bands = [(ax.patches[0].get_x(), ax.patches[0].get_width()) for ax in (saved, cost)]
    np.testing.assert_allclose(bands, [(0.45, 0.11), (-0.1, 0.2)])


def _runs(tables: Path, experiment: str, fidelity: str = "released") -> pd.DataFrame:
    rows = pd.read_parquet(tables / experiment / "runs.parquet")
    return rows[rows["fidelity"] == fidelity]


def test_thresholds_are_beside_ppo_her_of_the_same_conditions(tables: Path) -> None:
    figure = drawn("question_switch_off", tables)
    runs, her = _runs(tables, "switch_off"), _runs(tables, "stop_her")
    her = her[her["arm"] == "PPO-HER"]
    ticks = [text.get_text().replace("\u00a0", " ") for text in figure.axes[0].get_xticklabels()]
    assert ticks == ["30 %", "50 %", "60 %", "70 %", "never"]
    for ax, column in zip(
        figure.axes, ("final_evaluation_return", "solved", "minutes"), strict=False
    ):
        means = runs.groupby("until_success")[column].mean().tolist()
        np.testing.assert_allclose(points_of(ax, "X")[:, 1], means)
        np.testing.assert_allclose(points_of(ax, "o"), [[4.0, her[column].mean()]])
    solved = runs[runs["until_success"] == 0.3]["solved"]
    wilson = scipy.stats.binomtest(int(solved.sum()), len(solved)).proportion_ci(method="wilson")
    bar = figure.axes[1].collections[0].get_segments()[0][:, 1]
    assert bar == pytest.approx([wilson.low, wilson.high])
    m_c = Tables(tables / "switch_off", "released").read("m_c.csv")
    means = m_c.groupby("until_success")["m_c"].mean().tolist()
    np.testing.assert_allclose(points_of(figure.axes[3], "X")[:, 1], means)
    key = ["condition", "seed"]
    both = runs[runs["until_success"] == 0.7].merge(her, on=key, suffixes=("", "_her"))
    rate, usual = (both[f"updates{ending}"] / both[f"end_step{ending}"] for ending in ("", "_her"))
    assert points_of(figure.axes[4], "o")[3, 1] == pytest.approx((1 - rate / usual).mean())


def test_thresholds_without_ppo_her_are_shown_alone(tables: Path, tmp_path: Path) -> None:
    figure = figure_of("question_switch_off", copied(tables, tmp_path, "switch_off"))
    assert len(figure.axes) == 4
    assert labels(figure) == ["PPO-HER-2-PPO"]


# Open questions


def test_gains_are_paired_by_seed() -> None:
    rows = [
        {"arm": arm, "condition": f"random {prey}", "seed": seed, "auc": value}
        for prey, arm, values in (
            ("static", "PPO", [0.1, 0.2, 0.3]), ("static", "PPO-HER", [0.5, 0.4, 0.9]),
            ("repel", "PPO", [0.0, 0.0]), ("repel", "PPO-HER", [0.1, 0.3, 0.8]),
        )
        for seed, value in enumerate(values)
    ]  # fmt: skip
    found = points.gains(pd.DataFrame(rows), "PPO", "PPO-HER", "auc")
    assert found["random static"][0] == pytest.approx((0.4 + 0.2 + 0.6) / 3)
    assert found["random repel"][0] == pytest.approx((0.1 + 0.3) / 2)
    assert found[ALL][0] == pytest.approx((0.4 + 0.2) / 2)  # each condition counts alike
    assert np.isnan(found[ALL][1])  # fewer than five seeds


def test_stability_drops_from_the_best_return_so_far(tables: Path) -> None:
    figure = drawn("question_stability", tables)
    assert [ax.get_ylabel() for ax in figure.axes[:8:2]] == [
        "success rate", "entropy (nats)", "log σ", "drop of return",
    ]  # fmt: skip
    curves = Tables(tables / "stability", "released").read("seed_curves.parquet")
    where = (curves["arm"] == "PPO-HER") & (curves["prey"] == "static")
    own = curves[where].sort_values(["seed", "env_steps"])
    last = []
    for _, run in own.groupby("seed"):
        best = -np.inf
        for value in run["return_mean"]:
            best = max(best, value)
        last.append(best - value)
    drop = figure.axes[6]
    assert drop.get_title() == "" and figure.axes[0].get_title() == "static\nrandom spawn"
    assert float(np.asarray(drop.lines[0].get_ydata())[-1]) == pytest.approx(np.mean(last))
    lost = _runs(tables, "stability")
    lost = lost[(lost["arm"] == "PPO-HER") & (lost["prey"] == "static")]["forgetting"]
    assert points_of(figure.axes[-1], "o")[0, 0] == pytest.approx(lost.mean())


def test_stochasticity_shows_weights_of_runs_with_hindsight_alone(tables: Path) -> None:
    figure = drawn("question_stochasticity", tables)
    assert labels(figure) == [
        f"{how}, {arm}"
        for how in ("gaussian", "squashed", "annealed")
        for arm in ("PPO", "PPO-HER")
    ]
    returns, weights = figure.axes[0], figure.axes[2]
    assert weights.get_yscale() == "log"
    assert len(returns.lines) == 6 and len(weights.lines) == 3
    runs = _runs(tables, "stochasticity")
    own = runs[(runs["exploration"] == "squashed") & (runs["prey"] == "repel")]
    by_arm = own.set_index(["arm", "seed"])["auc"]
    gain = points_of(figure.axes[-1], "^")
    assert gain[1, 0] == pytest.approx((by_arm["PPO-HER"] - by_arm["PPO"]).mean())


def test_results_from_before_the_weights_say_that_these_were_not_recorded(
    tables: Path, tmp_path: Path
) -> None:
    root = copied(tables, tmp_path, "stochasticity", "s_ratio")
    rewrite(
        root / "stochasticity/seed_curves.parquet",
        lambda table: table.drop(columns="hindsight_log_ratio_max"),
    )
    figure = figure_of("question_stochasticity", root)
    assert [notes(ax) for ax in figure.axes[2:4]] == [["not recorded"]] * 2
    assert len(figure.axes[0].lines) == 6
    rewrite(
        root / "s_ratio/evaluations.parquet",
        lambda table: table.drop(columns=["reward_entropy", "action_entropy"]).assign(
            observation_entropy=np.nan
        ),
    )
    assert "trains nothing for this figure" in texts(figure_of("question_signals", root))


def test_near_and_far_failures_show_means_and_intervals(tables: Path) -> None:
    figure = drawn("question_near_far_described", tables)
    runs = _runs(tables, "near_far", "described")
    m_c = Tables(tables / "near_far", "described").read("m_c.csv")
    expected = (
        m_c.groupby("failure_distance")["m_c"].mean(),
        runs.groupby("failure_distance")["auc"].mean(),
        runs.groupby("failure_distance")["solved"].mean(),
    )
    for ax, means in zip(figure.axes, expected, strict=True):
        assert ax.get_xscale() == "log"
        np.testing.assert_allclose(points_of(ax, "P"), means.reset_index().to_numpy(float))
        assert len(ax.collections[0].get_segments()) == 5
        assert sum(line.get_marker() == "None" for line in ax.lines) == 2  # conditions


def test_rarely_moving_goals_are_compared_with_the_ordinary_task(
    tables: Path, tmp_path: Path
) -> None:
    figure = drawn("question_rarely_moves", tables)
    alone = figure_of("question_rarely_moves", copied(tables, tmp_path, "rarely_moves"))
    runs = _runs(tables, "algorithms")
    here = [(s, p) in TWO_CONDITIONS for s, p in zip(runs["spawn"], runs["prey"], strict=True)]
    means = runs[here].groupby(["arm", "spawn", "prey"])["auc"].mean()
    expected = [means["PPO-HER"][place] - means["PPO"][place] for place in TWO_CONDITIONS]
    hollow = [line for line in figure.axes[-1].lines if line.get_markerfacecolor() == "white"]
    assert len(hollow) == 1 and len(alone.axes[-1].lines) == len(figure.axes[-1].lines) - 1
    np.testing.assert_allclose(hollow[0].get_xdata(), [*expected, np.mean(expected)])
    assert "PPO-HER in the ordinary environment" in labels(figure)
    assert "PPO-HER in the ordinary environment" not in labels(alone)


def test_many_conditions_are_the_papers_grid(tmp_path: Path) -> None:
    places = [(s, p) for s in style.SPAWNS for p in style.PREYS][:8]
    folder = second_paper.write(
        tmp_path, "rarely_moves", places, fidelities=("released",), seeds=2, iterations=4
    )
    figure = figure_of("question_rarely_moves", folder.parent)
    assert len(figure.axes) == 2 * 6 + 1
    assert "random spawn" in texts(figure) and "spawn apart" in texts(figure)
    assert [notes(ax) for ax in figure.axes[8:12]] == [["not in this preset"]] * 4


# What is not there


@pytest.mark.parametrize("name", NEW)
def test_without_tables_a_figure_says_that_nothing_was_trained(
    name: str, tables: Path, tmp_path: Path
) -> None:
    experiment = FIGURES[name].experiment
    (tmp_path / experiment).mkdir()
    shutil.copy(tables / experiment / "plan.json", tmp_path / experiment)
    assert "trains nothing for this figure" in texts(figure_of(name, tmp_path))


def test_a_cell_that_is_missing_is_named_in_its_panels(tables: Path, tmp_path: Path) -> None:
    root = copied(tables, tmp_path, "stability")

    def without(table: pd.DataFrame) -> pd.DataFrame:
        return table[(table["arm"] != "learning-rate decay") | (table["prey"] != "repel")]

    rewrite(root / "stability/seed_curves.parquet", without)
    rewrite(root / "stability/runs.parquet", without)
    figure = figure_of("question_stability", root)
    static, repel = figure.axes[0], figure.axes[1]
    assert notes(static) == [] and notes(repel) == ["missing: learning-rate decay"]
    assert len(static.lines) == 4 and len(repel.lines) == 3
    assert len(points_of(figure.axes[-1], "d")) == 1  # one condition, hence none of all together


def test_too_few_seeds_for_intervals_are_said_to_be_so(tmp_path: Path) -> None:
    folder = second_paper.write(
        tmp_path, "stability", TWO_CONDITIONS, fidelities=("released",), seeds=4, iterations=6
    )
    figure = figure_of("question_stability", folder.parent)
    assert "fewer than five seeds carry no interval" in texts(figure)


@pytest.mark.parametrize("experiment", second_paper.EXPERIMENTS)
def test_every_figure_of_one_seed_and_one_condition_is_drawn(
    experiment: str, tmp_path: Path
) -> None:
    levels = second_paper.EXPERIMENTS[experiment][1][:2]
    for name in ("s_ratio", "targeted") if experiment == "targeted" else (experiment,):
        folder = second_paper.write(
            tmp_path, name, [("random", "static")], fidelities=("released",), levels=levels,
            seeds=1, iterations=6,
        )  # fmt: skip
    for name in names_for(experiment, ["released"]):
        said = texts(figure_of(name, folder.parent))
        assert "1 seed" in said and "released fidelity" in said, name


@pytest.mark.parametrize("name", [name for name in NEW if not name.endswith("_described")])
def test_no_text_of_the_head_leaves_the_figure(name: str, tables: Path) -> None:
    figure = drawn(name, tables)
    figure.draw_without_rendering()
    for text in [*figure.texts, *(t for g in figure.legends for t in g.get_texts())]:
        assert text.get_window_extent().x1 <= figure.bbox.width, text.get_text()
    for ax in figure.axes:
        box = ax.get_tightbbox()
        assert box is None or (box.x0 >= 0 and box.x1 <= figure.bbox.width)


def test_what_figures_read_of_other_experiments_is_declared(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: dict[str, set[str]] = {}
    find = Tables.beside

    def watched(self: Tables, experiment: str) -> Tables | None:
        read.setdefault(self.plan["experiment"], set()).add(experiment)
        return find(self, experiment)

    monkeypatch.setattr(Tables, "beside", watched)
    for name in NEW:
        if name.startswith(("meher", "question", "s_ratio", "time", "curves")):
            figure_of(name, tables)
    declared = {name: set(others) for name, others in ALSO_READ.items()}
    assert declared.pop("fetch_off_policy") == {"fetch"}  # of the first paper (test_fetch.py)
    assert read == declared


def test_plans_hold_what_the_tests_above_rely_on(tables: Path) -> None:
    plan = json.loads((tables / "targeted/plan.json").read_text())
    cells = {f: {e["cell"] for e in plan["entries"] if e["fidelity"] == f}
             for f in ("released", "described")}  # fmt: skip
    untargeted = json.loads((tables / "s_ratio/plan.json").read_text())
    others = {e["cell"] for e in untargeted["entries"]}
    assert cells["released"] <= others and not cells["described"] & others
