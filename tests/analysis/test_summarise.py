"""An experiment's tables, against curves whose statistics are known."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest

from hindsight.analysis.arms import select
from hindsight.analysis.best_level import scaled_curves
from hindsight.analysis.cells import ResultError, load_cell
from hindsight.analysis.reduce import COLUMNS, reduce_cell
from hindsight.analysis.summarise import _summary_row, level_text, read_table
from hindsight.figures.specs import names_there
from hindsight.figures.tables import early_success, over_training
from hindsight.specs.cell import CellSpec
from hindsight.training.cell import train_cell
from tests.analysis import synthetic

TWO = synthetic.CONDITIONS[:2]


def steps_at(*when: int, low: float = 0.0, high: float = 1.0) -> synthetic.CurveFunction:
    """Seed i succeeds with share `low` until iteration when[i], then with share `high`."""

    def curve(seed: int, env_steps: np.ndarray) -> np.ndarray:
        return np.where(env_steps < when[seed] * synthetic.N_STEPS, low, high)

    return curve


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Of 20 iterations, PPO solves from 10, 10, 14, 18, 18 or never, PPO-HER from 3, 4, 5, 6, 7.
    SAC-HER has four seeds and 20 rows of 512 steps, and succeeds in 0.9 from step 4096 on.
    """

    def curve_of(arm: str, level: object, spawn: str, prey: str) -> synthetic.CurveFunction:
        if arm == "SAC-HER":
            return lambda seed, env_steps: np.where(env_steps < 4096, 0.0, 0.9)
        if arm == "PPO" and prey == "random":
            return synthetic.constant(0.0)
        return steps_at(10, 10, 14, 18, 18) if arm == "PPO" else steps_at(3, 4, 5, 6, 7)

    sac = {"spec_overrides": {"algorithm.name": "sac"}, "seeds": 4, "every": 512}
    return synthetic.tables_of(
        tmp_path_factory.mktemp("known"), "algorithms", arms=("PPO", "PPO-HER", "SAC-HER"), seeds=5,
        iterations=20, conditions=TWO, curve_of=curve_of,
        more_of=lambda arm, *_: sac if arm == "SAC-HER" else {},
    )  # fmt: skip


def one(table: pd.DataFrame, **where: object) -> pd.Series:
    rows = table.loc[np.logical_and.reduce([table[k] == v for k, v in where.items()])]
    assert len(rows) == 1
    return rows.iloc[0]


def test_the_columns_that_figures_and_claims_may_name_are_those_of_the_tables(tmp_path):
    tables = synthetic.tables_of(tmp_path, "grid_size", iterations=3, levels=[{"grid_size": 10.0}])
    for name, columns in COLUMNS.items():
        table = tables["m_c.csv" if name == "m_c" else f"{name}.parquet"]
        assert not table.empty and tuple(table)[-len(columns) :] == columns
        assert "prey" in tuple(table)[-len(columns) - 1]  # the last of a cell's keys


def test_runs_of_known_curves(known):
    row = one(known["runs.parquet"], arm="PPO-HER", prey="static", seed=4)
    assert row["solve_step"] == 7 * synthetic.N_STEPS
    # 1.3 x 7 = 9.1: the run ends with its tenth rollout, and its value is carried forward.
    assert row["end_step"] == 10 * synthetic.N_STEPS


def test_seed_curves_end_where_the_run_ends(known):
    curves = known["seed_curves.parquet"].query("arm == 'PPO-HER' and prey == 'static'")
    ends = curves.groupby("seed")["env_steps"].max() / synthetic.N_STEPS
    np.testing.assert_array_equal(ends, [4, 6, 7, 8, 10])
    assert curves["policy_entropy"].notna().all()


def test_tests_of_known_curves(known):
    table = known["tests.csv"].query("baseline == 'PPO' and arm == 'PPO-HER'")
    row = one(table, prey="random", metric="auc")
    # The two have as many steps, and are compared over all of them.
    assert (row["steps"], row["n_seeds"]) == (20 * synthetic.N_STEPS, 5)
    differences = np.array([18, 17, 16, 15, 14]) / 20
    assert row["mean_difference"] == pytest.approx(differences.mean())
    assert row["low"] < row["mean_difference"] < row["high"]
    assert row["p_permutation"] == 2 / 32
    assert row["p_holm"] == 4 / 32
    assert row["p_fisher"] == pytest.approx(2 / 252)
    assert row["p_fisher_holm"] == pytest.approx(4 / 252)
    assert (row["solved_baseline"], row["solved_arm"]) == (0.0, 1.0)
    assert row["probability_of_improvement"] == 1.0
    assert row["p_logrank"] < 0.01
    final = one(table, prey="static", metric="final_return")
    assert final["mean_difference"] == 0.0
    assert final["p_permutation"] == 1.0
    assert final["probability_of_improvement"] == 0.5


def test_pairs_are_compared_within_the_steps_that_both_had(known):
    """Five rollouts of PPO-HER's and four of its seeds, of which three solve by then."""
    table = known["tests.csv"].query("baseline == 'PPO-HER' and arm == 'SAC-HER'")
    row = one(table, prey="static", metric="auc")
    assert (row["steps"], row["n_seeds"]) == (20 * 512, 4)
    # Of the five rollouts' ends in common, SAC-HER is at 0.9 in four, PPO-HER at 1 in 3, 2, 1, 0.
    assert row["mean_difference"] == pytest.approx(0.9 * 4 / 5 - 6 / 4 / 5)
    final = one(table, prey="static", metric="final_return")
    assert final["mean_difference"] == pytest.approx(0.8 - 0.5)
    # Of PPO-HER's five runs; none of SAC-HER's.
    assert (row["solved_baseline"], row["solved_arm"]) == (0.6, 0.0)


def test_long_curves_are_thinned_but_numbers_are_read_from_all(tmp_path):
    def spiked(seed: int, env_steps: np.ndarray) -> np.ndarray:
        return np.where(env_steps == 301 * synthetic.N_STEPS, 0.9, 0.3)

    tables = synthetic.tables_of(
        tmp_path, "algorithms", iterations=600, arms=("PPO",), curve_of=lambda *_: spiked
    )
    row = tables["summary.csv"].iloc[0]
    assert row["time_to_learn_steps"] == 301 * synthetic.N_STEPS
    assert row[["mean_low", "mean_high"]].isna().all()  # two seeds carry no interval
    curves = tables["seed_curves.parquet"]
    assert (curves.groupby("seed").size() == 500).all()
    assert {synthetic.N_STEPS, 600 * synthetic.N_STEPS} <= set(curves["env_steps"])


def test_all_seeds_of_a_shared_cell_count_in_each_experiment(tmp_path):
    own = {"seeds": 4, "iterations": 20, "arms": ("PPO",), "conditions": TWO[:1],
           "fidelities": ("released",), "curve_of": lambda *_: steps_at(2, 10, 18, 99)}  # fmt: skip
    plan = synthetic.write_experiment(tmp_path, "algorithms", **own)
    document = json.loads(plan.read_text())
    document["entries"][0]["seeds"] = 2
    plan.write_text(json.dumps(document))
    assert synthetic.summarise(plan, tmp_path) == []
    for name in ("runs.parquet", "seed_curves.parquet", "evaluations.parquet"):
        assert set(read_table(plan.parent / name)["seed"]) == {0, 1, 2, 3}
    row = read_table(plan.parent / "summary.csv").iloc[0]
    assert (row["n_seeds"], row["solved_share"]) == (4, 0.75)


@pytest.fixture(scope="module")
def point_reach(tmp_path_factory):
    """Of runs with a row per episode that have one success rate throughout, by arm and seed."""
    success = {"DDPG": 0.2, "DDPG + HER": 0.6}

    def curve_of(arm: str, *_: object) -> synthetic.CurveFunction:
        return lambda seed, steps: np.full(len(steps), success[arm] + 0.01 * seed)

    def more_of(arm: str, *_: object) -> dict[str, object]:
        def extra(seed: int, steps: np.ndarray) -> dict[str, np.ndarray]:
            row = np.arange(1.0, len(steps) + 1)
            moved = np.where(row == 1, 0.5 + 0.01 * seed, 0.1)
            returns = -50 + 20 * curve_of(arm)(seed, steps)
            # Without copies there is no largest ratio: the file says -inf in the first row.
            ratio = np.where(row > 1, 1000.0 * seed + row, -np.inf)
            return {
                "episodes": row, "return_mean": returns, "goal_moved": moved,
                "hindsight_log_ratio_max": ratio, "critic_loss": row / 10,
                "reward_entropy": row / 100,
            }  # fmt: skip

        return {"extra": extra, "spec_overrides": {"environment.id": "PointReach-v0"}}

    return synthetic.tables_of(
        tmp_path_factory.mktemp("tasks"), "point_reach", arms=success, seeds=6, iterations=600,
        conditions=[("", "PointReach")], curve_of=curve_of, more_of=more_of,
    )  # fmt: skip


def test_other_tasks_have_no_number_that_supposes_returns_of_minus_one_to_one(point_reach):
    runs = point_reach["runs.parquet"]
    her = runs[runs["arm"] == "DDPG + HER"].sort_values("seed")
    np.testing.assert_allclose(her["success_auc"], 0.6 + 0.01 * np.arange(6), atol=1e-6)
    np.testing.assert_allclose(her["goal_moved_first"], 0.5 + 0.01 * np.arange(6), atol=1e-6)
    row = point_reach["summary.csv"].set_index("arm").loc["DDPG + HER"]
    assert np.isnan(row["time_to_learn_steps"]) and np.isnan(row["time_to_learn_minutes"])
    assert row["mean_success"] == row["mean_success_auc"] == pytest.approx(0.625)
    assert 0.6 <= row["success_low"] < 0.625 < row["success_high"] <= 0.65
    assert row["max_median_return"] == pytest.approx(-50 + 20 * 0.625)  # in the task's own units
    assert np.isposinf(row["solve_step_median"])
    for name in ("aggregate.csv", "sensitivity.csv", "m_c.csv", "best_level.csv"):
        assert point_reach[name].empty
    tests = point_reach["tests.csv"].set_index("metric")
    assert set(tests.index) == {"success_auc", "final_evaluation_success"}
    np.testing.assert_allclose(tests["mean_difference"], 0.4, atol=1e-6)


def test_rows_of_one_episode_each_are_all_kept_with_what_newer_files_record(point_reach):
    """Longer curves with many episodes a row are thinned to 500 rows."""
    curves = point_reach["seed_curves.parquet"]
    assert (curves.groupby(["arm", "seed"]).size() == 600).all()
    row, of_one = np.arange(1.0, 601), "arm == 'DDPG' and seed == 1"
    first = curves.query(of_one).sort_values("env_steps")
    np.testing.assert_allclose(first["updates"], 320 * row)  # since the beginning
    np.testing.assert_allclose(first["critic_loss"], row / 10, rtol=1e-6)
    ratios = first["hindsight_log_ratio_max"]
    np.testing.assert_array_equal(ratios, [np.nan, *(1000 + row[1:])])
    run = point_reach["runs.parquet"].query(of_one).iloc[0]
    assert run["updates"] == 320 * 600
    tests = point_reach["evaluations.parquet"].query(of_one)
    np.testing.assert_allclose(tests["reward_entropy"], row[29::30] / 100, rtol=1e-6)


def test_the_printed_window_is_episodes_126_to_150():
    episodes = np.arange(1, 201)
    inside = (episodes >= 126) & (episodes <= 150)
    rows = pd.concat(
        pd.DataFrame({"arm": "x", "level": "", "condition": task, "seed": seed,
                      "env_steps": 50 * episodes,
                      "episode_success": np.where(inside, 0.5 * seed + 0.25 * (task == "b"), 1.0)})
        for seed in range(2) for task in "ab"
    )  # fmt: skip
    short = rows[(rows["env_steps"] <= 140 * 50)].assign(arm="short")
    found = early_success(pd.concat([rows, short]).sample(frac=1, random_state=0))
    expected = {("x", "", task, seed): 0.5 * seed + 0.25 * (task == "b")
                for seed in range(2) for task in "ab"}  # fmt: skip
    assert found.to_dict() == expected


def test_a_run_keeps_its_last_evaluation_in_the_mean_over_training():
    """One of 400 steps, evaluated at every hundredth, that ended at step 220."""
    cell = {"arm": "x", "level": "", "condition": "a"}
    steps = {0: [100, 200, 300, 400], 1: [100, 200, 220]}
    rows = pd.DataFrame(
        [{**cell, "role": "subject", "seed": seed, "env_steps": at, "reward_entropy": at / 100}
         for seed, own in steps.items() for at in own]
    )  # fmt: skip
    run = ["arm", "level", "condition", "role", "seed"]
    found = over_training(rows, run, "reward_entropy", {("x", "", "a"): 400})
    assert found.tolist() == [2.5, (1 + 2 + 2.2 + 2.2) / 4]


def test_levels_that_differ_little_have_texts_of_their_own():
    texts = {level_text({"learning_rate": 0.01 + i * 1e-8}) for i in range(3)}
    assert len(texts) == 3
    assert level_text({"learning_rate": 0.003, "k": 4}) == "learning_rate=0.003, k=4"


def test_an_arm_may_have_any_name(tmp_path):
    path = tmp_path / "table.csv"
    names = ["None", "NA", "1", "nan"]
    pd.DataFrame({"arm": names, "level": "", "value": [1.0, np.nan, 2.0, np.inf]}).to_csv(
        path, index=False
    )
    table = read_table(path)
    assert table["arm"].tolist() == names and table["level"].tolist() == [""] * 4
    np.testing.assert_array_equal(table["value"], [1.0, np.nan, 2.0, np.inf])


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_arms_that_give_a_key_as_number_and_as_word_are_told_apart(tmp_path):
    arms = ("PPO", "PPO-HER")
    plan = synthetic.write_experiment(
        tmp_path, "algorithms", arms=arms, fidelities=("released",), conditions=TWO, seeds=2
    )
    own = json.loads(plan.read_text())
    for entry in own["entries"]:
        entry["keys"] = {"ent_coef": 0.2 if entry["arm"] == "PPO" else "auto"}
    plan.write_text(json.dumps(own))
    assert synthetic.summarise(plan, tmp_path) == []
    for name in ("runs.parquet", "summary.csv"):
        table = read_table(plan.parent / name)
        for role, value in (("baseline", 0.2), ("subject", "auto")):
            assert {*select(table, role, ent_coef=value)["role"]} == {role}
            assert select(table, role, ent_coef=0.1).empty


def test_a_cell_in_which_no_episode_has_ended_is_in_the_tables(tmp_path):
    """As of one's own environment, whose episodes are longer than a small preset's budget."""
    spec = CellSpec.model_validate(
        {"algorithm": {"n_steps": 8, "batch_size": 8, "hidden": [4]}, "steps": 8, "seeds": 2}
    )
    cell = reduce_cell(load_cell(train_cell(spec, tmp_path)))
    assert np.isnan(cell.returns).all()
    row = _summary_row(cell, 1.0)
    assert row["n_seeds"] == 2 and math.isnan(row["max_median_return"]) and math.isnan(row["iqr"])
    assert np.isnan(scaled_curves(cell)[1]).all()


def test_without_any_cell_the_tables_are_empty_but_there(tmp_path):
    plan = synthetic.write_experiment(tmp_path, "algorithms", seeds=2, iterations=6, conditions=TWO)
    shutil.rmtree(tmp_path / "results/cells")
    missing = synthetic.summarise(plan, tmp_path)
    record = json.loads(plan.with_name("record.json").read_text())
    assert (len(missing), record["missing"]) == (8, missing)
    assert "arm" in read_table(plan.parent / "summary.csv")
    assert read_table(plan.parent / "seed_curves.parquet").empty


NAMED = json.dumps(dict.fromkeys(("experiment", "source", "preset", "vary")))[:-1]


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "7", "[" * 100_000, '{"experiment": "algorithms"}',
        *(f'{NAMED}, "entries": {entries}}}' for entries in (
            "7", "null", "[7]", "[{}]", '[{"cell": 7, "fidelity": "released"}]', '[{"cell": "a"}]',
            '[{"cell": "results/../../elsewhere.parquet", "fidelity": "released"}]',
        )),
    ],
)  # fmt: skip
def test_a_file_that_is_no_plan_is_named(tmp_path, text):
    (plan := tmp_path / "mine" / "plan.json").parent.mkdir()
    plan.write_text(text)
    for read in (lambda: synthetic.summarise(plan, tmp_path), lambda: names_there(tmp_path)):
        with pytest.raises(ResultError, match=r"plan\.json: not a ") as caught:
            read()
        assert "\n" not in str(caught.value)
