"""Tables of other systems' tasks, and what is said of them, on results whose answer is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hindsight.analysis.summarise import read_table
from hindsight.claims import answers, other_systems
from hindsight.claims.questions import QUESTIONS, Answer
from hindsight.figures import FIGURES
from tests.analysis.synthetic import N_STEPS, constant, summarise, write_experiment
from tests.claims.said import words_of

TASK = [("", "PointReach")]
BITS = [("", "BitFlipping")]


def written(
    root: Path, name: str, success: Callable[[str, dict[str, Any], int], float], **settings: Any
) -> Path:
    """The tables of an experiment whose runs have one success rate throughout."""
    task = settings.get("conditions", TASK)[0][1]

    def more(arm: str, level: dict[str, Any], *_: str) -> dict[str, Any]:
        def extra(seed: int, steps: np.ndarray) -> dict[str, np.ndarray]:
            row = np.arange(1.0, len(steps) + 1)
            share = success(arm, level, seed)
            # Of every twenty episodes, this share succeed, the last ones first.
            lucky = (row % 20 >= 20 * (1 - share) - 1e-9).astype(float)
            return {
                "episodes": row, "return_mean": -50 + 20 * np.full(len(steps), share),
                "episode_success": lucky,
            }  # fmt: skip

        return {"extra": extra, "spec_overrides": {"environment.id": f"{task}-v0"}}

    plan = write_experiment(
        root, name, curve_of=lambda arm, level, *_: lambda seed, steps: np.full(
            len(steps), success(arm, level, seed)
        ),
        more_of=more, **({"fidelities": ("described",), "seeds": 6, "iterations": 10,
                          "conditions": TASK} | settings),
    )  # fmt: skip
    summarise(plan, root)
    return plan.parent.parent


def answered(tables: Path, name: str) -> Answer:
    (found,) = [answer for answer in answers(tables) if answer.id == name]
    return found


def test_other_tasks_have_no_number_that_supposes_returns_of_minus_one_to_one(
    tmp_path: Path,
) -> None:
    success = {"DDPG": 0.2, "DDPG + HER": 0.6}
    folder = written(
        tmp_path, "point_reach", lambda arm, _, seed: success[arm] + 0.01 * seed, arms=success
    ) / "point_reach"  # fmt: skip
    runs = read_table(folder / "runs.parquet")
    assert runs["auc"].isna().all()
    her = runs[runs["arm"] == "DDPG + HER"].sort_values("seed")
    np.testing.assert_allclose(her["success_auc"], 0.6 + 0.01 * np.arange(6), atol=1e-6)
    row = read_table(folder / "summary.csv").set_index("arm").loc["DDPG + HER"]
    assert np.isnan(row["time_to_learn_steps"]) and np.isnan(row["time_to_learn_minutes"])
    assert row["mean_success"] == row["mean_success_auc"] == pytest.approx(0.625)
    assert 0.6 <= row["success_low"] < 0.625 < row["success_high"] <= 0.65
    assert row["max_median_return"] == pytest.approx(-50 + 20 * 0.625)  # in the task's own units
    assert np.isposinf(row["solve_step_median"])
    for name in ("aggregate.csv", "sensitivity.csv", "m_c.csv", "best_level.csv"):
        assert read_table(folder / name).empty
    tests = read_table(folder / "tests.csv").set_index("metric")
    assert set(tests.index) == {"success_auc", "final_evaluation_success"}
    np.testing.assert_allclose(tests["mean_difference"], 0.4, atol=1e-6)


def test_the_papers_task_keeps_its_statistics_and_has_success_beside(tmp_path: Path) -> None:
    plan = write_experiment(
        tmp_path, "algorithms", conditions=[("random", "static")], seeds=5, iterations=8,
        fidelities=("released",), curve_of=lambda *_: constant(0.25),
    )  # fmt: skip
    summarise(plan, tmp_path)
    runs = read_table(plan.parent / "runs.parquet")
    np.testing.assert_allclose(runs["auc"], 0.25)
    np.testing.assert_allclose(runs["success_auc"], 0.25)
    assert set(read_table(plan.parent / "tests.csv")["metric"]) == {"auc", "final_return"}


def test_rows_of_one_episode_each_are_all_kept(tmp_path: Path) -> None:
    folder = written(
        tmp_path, "point_reach", lambda *_: 0.5, arms=("DDPG",), iterations=400, seeds=2
    ) / "point_reach"  # fmt: skip
    curves = read_table(folder / "seed_curves.parquet")
    assert (curves.groupby("seed").size() == 400).all()
    first = curves[curves["seed"] == 0].sort_values("env_steps")
    np.testing.assert_allclose(first["updates"], 320.0 * np.arange(1, 401))  # since the beginning


def test_without_results_every_question_is_asked_and_not_tested(tmp_path: Path) -> None:
    found = answers(tmp_path)
    assert [answer.id for answer in found] == list(QUESTIONS)
    for answer in found:
        assert words_of(answer) == "Not tested: the experiment has no results."
        assert FIGURES[answer.figure].experiment == answer.experiment
    assert [answer.section for answer in found] == 9 * ["open questions"] + 6 * ["other systems"]


def test_the_printed_window_is_episodes_126_to_150() -> None:
    episodes = np.arange(1, 201)
    inside = (episodes >= 126) & (episodes <= 150)
    rows = pd.concat(
        pd.DataFrame({"arm": "x", "seed": seed, "env_steps": 50 * episodes,
                      "episode_success": np.where(inside, 0.5 * seed, 1.0)})
        for seed in range(2)
    )  # fmt: skip
    short = rows[(rows["env_steps"] <= 140 * 50)].assign(arm="short")
    found = other_systems.early_success(pd.concat([rows, short]).sample(frac=1, random_state=0))
    assert found.to_dict() == {("x", 0): 0.0, ("x", 1): 0.5}


def test_the_notebook_s_number_stands_beside_those_found_here(tmp_path: Path) -> None:
    success = {
        "the notebook's DDPG + HER": 0.2, "the notebook's, bootstrapped": 0.3, "DDPG + HER": 0.6,
        "DDPG": 0.0,
    }  # fmt: skip
    tables = written(
        tmp_path, "point_reach", lambda arm, *_: success[arm], arms=success, iterations=160
    )
    found = answered(tables, "T1")
    assert found.status == "answered"
    # Of episodes 126 to 150, 136 to 139 succeed where a fifth do: 4 of 25.
    printed = found.numbers["early"]["the notebook's DDPG + HER"]
    assert printed["mean"] == pytest.approx(4 / 25)
    assert "printed a success of 0.12 over the last 25 of its 150 episodes" in words_of(found)
    assert "the notebook's DDPG + HER 0.16 (0.16 to 0.16), runs from 0.16 to 0.16" in words_of(
        found
    )
    assert found.numbers["end"]["DDPG + HER"]["mean"] == pytest.approx(0.6)
    assert "Bootstrapping at the time limit raises it by +0.100" in words_of(found)
    assert "Uniform actions until learning starts raises it by +0.300" in words_of(found)
    assert "Hindsight raises it by +0.600" in words_of(found)
    budget = 160 * N_STEPS // 50
    assert f"After {budget} episodes" in words_of(found)


def test_short_runs_do_not_claim_the_notebook_s_number(tmp_path: Path) -> None:
    tables = written(tmp_path, "point_reach", lambda *_: 0.5, arms=("DDPG",), iterations=60)
    found = answered(tables, "T1")
    assert "No run here has 150 episodes." in words_of(found)
    assert "Hindsight" not in words_of(found)


BIT_SUCCESS = {
    "DQN": {5: 1.0, 10: 0.02, 20: 0.0},
    "DQN + HER": {5: 1.0, 10: 0.95, 20: 0.05},
    "DQN + HER + PER": {5: 1.0, 10: 0.95, 20: 0.35},
    "DQN + HER (final)": {10: 0.75},
}


def test_where_dqn_fails_and_what_helps(tmp_path: Path) -> None:
    tables = written(
        tmp_path, "bit_flipping",
        lambda arm, level, seed: BIT_SUCCESS[arm].get(level["n_bits"], 0.0),
        arms=BIT_SUCCESS, levels=[{"n_bits": n} for n in (5, 10, 20)], conditions=BITS,
    )  # fmt: skip
    found = answered(tables, "T2")
    assert words_of(found).startswith("Mean success after 20\u00a0480 steps by number of bits")
    assert (
        "DQN: solved up to n = 5, failed from n = 10 on (5: 1.00, 10: 0.02, 20: 0.00)"
        in words_of(found)
    )
    assert "DQN + HER: solved up to n = 10, failed from n = 20 on" in words_of(found)
    assert found.numbers["pairs"][0]["mean"] == pytest.approx((0.93 + 0.05) / 3)
    assert found.numbers["pairs"][-1]["mean"] == pytest.approx(0.1)
    assert "DQN + HER + PER against DQN + HER raises success by +0.100" in words_of(found)
    assert "DQN + PER" not in found.numbers  # was not trained
    final = found.numbers["strategies"]["final"]["mean"]
    assert final == pytest.approx((-1.0 - 0.2 - 0.05) / 3)


@pytest.mark.parametrize(
    ("means", "solved", "failed"),
    [
        ({5: 0.95, 10: 0.5}, 5.0, None),
        ({5: 0.5, 10: 0.95, 15: 0.05, 20: 0.2}, None, None),
        ({5: 0.01, 10: 0.02}, None, 5.0),
    ],
)
def test_solved_and_failed_are_said_of_unbroken_runs_of_n(
    means: dict[int, float], solved: float | None, failed: float | None
) -> None:
    found = other_systems.reach(pd.Series(means))
    assert found == {"solved_up_to": solved, "failed_from": failed}


def test_the_best_strategy_and_those_not_told_apart(tmp_path: Path) -> None:
    base = {"future": 0.8, "final": 0.5}

    def success(arm: str, level: dict[str, Any], seed: int) -> float:
        # k = 4 is ahead of k = 1 in half of the seeds and behind in the others.
        sign = (-1) ** seed * (1.2 if level["k"] == 4 else -1.0)
        return base[level["strategy"]] + 0.02 * sign

    levels = [{"strategy": s, "k": k} for s in base for k in (1, 4)]
    for name, question in (("bit_strategies", "T3"), ("reach_strategies", "T4")):
        tables = written(tmp_path, name, success, arms=("X + HER",), levels=levels)
        found = answered(tables, question)
        assert found.numbers["best"].startswith("future")
        assert found.numbers["by"]["strategy"] == pytest.approx(base)
        other = {"future, k = 1", "future, k = 4"} - {found.numbers["best"]}
        assert f"not told apart from it: {other.pop()}." in words_of(found)
        assert "Of 4 settings, " in words_of(found) and "6 seeds" in words_of(found)


def test_a_best_strategy_of_few_seeds_is_told_apart_from_none(tmp_path: Path) -> None:
    levels = [{"strategy": s, "k": 4} for s in ("future", "final")]
    tables = written(
        tmp_path, "bit_strategies",
        lambda arm, level, seed: 0.8 if level["strategy"] == "future" else 0.5,
        arms=("DQN + HER",), levels=levels, seeds=4,
    )  # fmt: skip
    assert "too few seeds to tell it from the others" in words_of(answered(tables, "T3"))


def test_the_best_s_on_each_task(tmp_path: Path) -> None:
    success = {
        "PPO": 0.1, "PPO-HER": 0.3, "PPO-HER (cut)": 0.2, "MEHER, S = 0.3": 0.4,
        "MEHER, S = 0.5": 0.6, "MEHER, S = 0.7": 0.6,
    }  # fmt: skip
    tables = written(
        tmp_path, "generalise",
        lambda arm, _, seed: success[arm] + 0.01 * (-1) ** seed * (arm == "MEHER, S = 0.7"),
        arms=success, conditions=[*TASK, *BITS],
    )  # fmt: skip
    (found,) = [answer for answer in answers(tables) if answer.id == "Q5"]
    assert found.status == "answered" and found.figure == "question_generalise_described"
    for task in ("PointReach", "BitFlipping"):
        assert f"On {task}, mean success over training is: PPO 0.10, PPO-HER 0.30" in words_of(
            found
        )
        numbers = found.numbers["tasks"][task]["means"]
        assert numbers["MEHER, S = 0.3"] == pytest.approx(0.4)
    assert "not told apart from S = 0." in words_of(found) and "S = 0.3, S" not in words_of(found)
    assert "against PPO-HER this S raises it by +0.300" in words_of(found)
    assert "; PPO-HER (cut) lowers it by -0.100" in words_of(found)
