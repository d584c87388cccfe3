"""Answers to the open questions, on results whose answer is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from hindsight.analysis.summarise import read_table
from hindsight.claims import answers
from hindsight.claims.questions import QUESTIONS, Answer
from hindsight.figures import FIGURES
from tests.analysis.synthetic import (
    CONDITIONS,
    N_STEPS,
    CurveFunction,
    ExtraFunction,
    constant,
    summarise,
    write_experiment,
)
from tests.claims.said import words_of

ITERATIONS = 10
STOPS = {"hindsight": {"strategy": "final", "until_success": 0.5}}


def rise(iteration: float, top: float = 0.96) -> CurveFunction:
    """Success 0 until an iteration, then `top`, a little less from seed to seed."""
    return lambda seed, env_steps: np.where(
        env_steps < iteration * N_STEPS, 0.0, top - 0.001 * seed
    )


def written(root: Path, experiment: str, curve_of: Callable[..., Any], **kwargs: Any) -> Path:
    settings = {
        "fidelities": ("described",), "seeds": 6, "iterations": ITERATIONS,
        "conditions": CONDITIONS[:2],
    }  # fmt: skip
    plan = write_experiment(root, experiment, curve_of=curve_of, **(settings | kwargs))
    summarise(plan, root)
    return plan.parent.parent


def answered(tables: Path, name: str) -> Answer:
    (found,) = [answer for answer in answers(tables) if answer.id == name]
    return found


def test_without_results_every_question_is_asked_and_not_tested(tmp_path: Path) -> None:
    found = answers(tmp_path)
    assert [answer.id for answer in found] == list(QUESTIONS)
    for answer in found:
        assert answer.status == "not tested"
        assert words_of(answer) == "Not tested: the experiment has no results."
        assert answer.figure in FIGURES
        assert FIGURES[answer.figure].experiment == answer.experiment
    assert len({question.question for question in QUESTIONS.values()}) == len(QUESTIONS)


def test_each_fidelity_has_its_own_answer_and_figure(tmp_path: Path) -> None:
    tables = written(
        tmp_path, "rarely_moves", lambda *_: constant(0.5), arms=("PPO", "PPO-HER"), seeds=2,
        fidelities=("released", "described"), conditions=CONDITIONS[:1],
    )  # fmt: skip
    found = [answer for answer in answers(tables) if answer.id == "Q1"]
    assert [answer.fidelity for answer in found] == ["released", "described"]
    assert [FIGURES[answer.figure].fidelity for answer in found] == ["released", "described"]


def test_what_hindsight_adds_where_the_goal_rarely_moves(tmp_path: Path) -> None:
    iteration = {"PPO": 8, "PPO-HER": 8, "PPO-HER, moved only": 6}
    # In the third condition, which the other experiment lacks, hindsight adds nothing.
    written(
        tmp_path, "algorithms", conditions=CONDITIONS[:3],
        curve_of=lambda arm, level, spawn, prey: rise(
            4 if arm == "PPO-HER" and prey != "attract" else 9
        ),
    )  # fmt: skip
    tables = written(
        tmp_path, "rarely_moves", lambda arm, *_: rise(iteration[arm]), arms=tuple(iteration)
    )
    found = answered(tables, "Q1")
    assert found.status == "answered"
    mean = 0.96 - 0.0025
    assert found.numbers["hindsight"].items() >= {"mean": 0.0, "low": 0.0, "high": 0.0}.items()
    assert found.numbers["filtered"]["mean"] == pytest.approx(0.2 * mean, rel=1e-5)
    assert found.numbers["ordinary"]["mean"] == pytest.approx(0.5 * mean, rel=1e-5)
    assert "hindsight does not measurably change the area" in words_of(found)
    assert "(6 seeds, 2 conditions)" in words_of(found)
    assert (
        "Copying only the segments in which it moved raises that of PPO-HER by +0.19"
        in words_of(found)
    )
    assert "solve the task: 100% with PPO, 100% with PPO-HER, 100% with" in words_of(found)


def test_an_answer_without_an_interval_claims_no_direction(tmp_path: Path) -> None:
    tables = written(
        tmp_path, "rarely_moves", lambda arm, *_: rise(4 if arm == "PPO-HER" else 8), seeds=4,
        arms=("PPO", "PPO-HER"),
    )  # fmt: skip
    words = words_of(answered(tables, "Q1"))
    assert "changes the area under the curve of scaled returns by +0.3" in words
    assert "too few seeds for an interval" in words
    assert "raises" not in words


def falling_back(by: float) -> CurveFunction:
    """Success rises as entropy falls, and then wobbles."""

    def curve(seed: int, env_steps: np.ndarray) -> np.ndarray:
        t = env_steps / env_steps[-1]
        wobble = by * (t > 0.5) * (np.arange(t.size) % 2 == 1)
        return np.minimum(0.95, 1.5 * t) - wobble - 0.001 * seed

    return curve


def test_stability_and_what_helps_it(tmp_path: Path) -> None:
    loss = {"PPO-HER": 0.3, "entropy bonus 0.01": 0.1, "learning-rate decay": 0.3}
    tables = written(
        tmp_path, "stability", lambda arm, *_: falling_back(loss[arm]), arms=tuple(loss),
        more_of=lambda *_: {
            "extra": lambda seed, env_steps: {"policy_entropy": 5 - env_steps / 1e4}
        },
    )  # fmt: skip
    found = answered(tables, "Q2")
    assert "downward steps of the return are larger where the policy's entropy is low" in words_of(
        found
    )
    assert found.numbers["contrast"]["low"] > 0
    # The last of ten iterations is a downward one: 0.2 less of success lost, 0.4 of return.
    bonus = found.numbers["arms"]["entropy bonus 0.01"]
    assert bonus["forgetting"]["mean"] == pytest.approx(-0.4, abs=1e-5)
    assert "entropy bonus 0.01 lowers the return lost after the best by -0.4" in words_of(found)
    assert found.numbers["arms"]["learning-rate decay"]["auc"]["mean"] == 0.0
    assert "learning-rate decay does not measurably change" in words_of(found)


def test_runs_that_never_learn_say_nothing_about_stability(tmp_path: Path) -> None:
    tables = written(tmp_path, "stability", lambda *_: constant(0.2), arms=("PPO-HER",), seeds=2)
    assert "no PPO-HER run reaches" in words_of(answered(tables, "Q2"))


def test_what_exploration_changes(tmp_path: Path) -> None:
    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        late = {"gaussian": 0, "squashed": 1, "annealed": 4}[level["exploration"]]
        return rise(4 + late) if arm == "PPO-HER" else rise(8)

    def more_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> dict[str, Any]:
        top = {"gaussian": 2.0, "squashed": 3.0, "annealed": 50.0}[level["exploration"]]

        def extra(seed: int, env_steps: np.ndarray) -> dict[str, np.ndarray]:
            return {"hindsight_log_ratio_max": np.linspace(0.0, top + seed, env_steps.size)}

        return {"extra": extra}

    names = ("gaussian", "squashed", "annealed")
    tables = written(
        tmp_path, "stochasticity", curve_of, arms=("PPO", "PPO-HER"), more_of=more_of,
        levels=[{"exploration": name} for name in names],
    )  # fmt: skip
    found = answered(tables, "Q3")
    mean = 0.96 - 0.0025
    against = {n: found.numbers["explorations"][n]["against gaussian"]["mean"] for n in names[1:]}
    assert against == pytest.approx({"squashed": -0.1 * mean, "annealed": -0.4 * mean}, rel=1e-5)
    leads = [found.numbers["explorations"][name]["hindsight"]["mean"] for name in names]
    assert leads == pytest.approx([0.4 * mean, 0.3 * mean, 0.0], rel=1e-5, abs=1e-12)
    assert [found.numbers["explorations"][name]["largest log ratio"] for name in names] == [
        4.5,
        5.5,
        52.5,
    ]
    assert "annealed exploration lowers the area" in words_of(found)
    assert "gaussian 4.5, squashed 5.5, annealed 52.5" in words_of(found)


def thresholds(root: Path, iteration: dict[float, float]) -> Path:
    """Runs that rise at an iteration that depends on the threshold, with 5, 6, 7 ... updates."""
    order = list(iteration)

    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        place = iteration[level["until_success"]]
        return lambda seed, env_steps: rise(place + 0.4 * (seed % 3))(seed, env_steps)

    def more_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> dict[str, Any]:
        extra: ExtraFunction = lambda seed, env_steps: {  # noqa: E731
            "updates": np.full(env_steps.size, 5.0 + order.index(level["until_success"]))
        }
        return {"extra": extra, "spec_overrides": STOPS}

    levels = [{"until_success": x} for x in order]
    return written(
        root, "switch_off", curve_of, arms=("PPO-HER-2-PPO",), levels=levels, more_of=more_of
    )


def test_a_threshold_that_is_best_and_what_each_saves(tmp_path: Path) -> None:
    found = answered(thresholds(tmp_path, {0.3: 9, 0.5: 3, 0.7: 8, 1.0: 7}), "Q4")
    assert found.numbers["best"] == {
        "best_level": 0.5, "best_to": 0.5, "low": 0.5, "high": 0.5,
    }  # fmt: skip
    assert "success rate of 0.3, 0.5, 0.7, 1 (never), 0.5 has the highest" in words_of(found)
    assert "and its 95 % interval excludes the others (6 seeds, 2 conditions)" in words_of(found)
    saved = [found.numbers["against"][x]["saved"]["mean"] for x in ("0.3", "0.5", "0.7")]
    assert saved == pytest.approx([3 / 8, 2 / 8, 1 / 8])
    assert found.numbers["against"]["0.3"]["equivalent"] is True
    assert "0.3: 38 % fewer updates per step, final return +0.000" in words_of(found)
    assert "1 (never):" not in words_of(found)


def test_never_to_switch_off_may_be_best(tmp_path: Path) -> None:
    found = answered(thresholds(tmp_path, {0.3: 9, 0.5: 8, 1.0: 3}), "Q4")
    assert "1 (never) has the highest mean M_c" in words_of(found)


def test_thresholds_that_cannot_be_told_apart(tmp_path: Path) -> None:
    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        def curve(seed: int, env_steps: np.ndarray) -> np.ndarray:
            rng = np.random.default_rng([seed, round(100 * level["until_success"])])
            return rise(float(rng.integers(2, 10)))(seed, env_steps)

        return curve

    tables = written(
        tmp_path, "switch_off", curve_of, arms=("PPO-HER-2-PPO",),
        levels=[{"until_success": x} for x in (0.3, 0.5, 0.7)],
    )  # fmt: skip
    found = answered(tables, "Q4")
    assert (found.numbers["best"]["low"], found.numbers["best"]["high"]) == (0.3, 0.7)
    assert "its 95 % interval excludes none of them" in words_of(found)
    assert "Against never switching" not in words_of(found)


def of_signals(root: Path, with_entropies: bool = True, **kwargs: Any) -> Path:
    """The reward's entropy is that of a Bernoulli variable; the further from it, the later."""

    def entropy(s: float) -> float:
        return float(scipy.stats.entropy([s, 1.0 - s], base=2))

    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        return rise(8 - 5 * entropy(level["s_ratio"]) - 0.5 * level["s_ratio"])

    def more_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> dict[str, Any]:
        def extra(seed: int, env_steps: np.ndarray) -> dict[str, np.ndarray]:
            one = np.ones(env_steps.size)
            return {
                "reward_entropy": (entropy(level["s_ratio"]) + 0.01 * seed) * one,
                "action_entropy": 4 * one, "observation_entropy": level["s_ratio"] * one,
            }  # fmt: skip

        return {"extra": extra} if with_entropies else {}

    levels = [{"s_ratio": s} for s in kwargs.pop("s", (0.0, 0.3, 0.5, 1.0))]
    return written(root, "s_ratio", curve_of, arms=("MEHER",), levels=levels, more_of=more_of,
                   **kwargs)  # fmt: skip


def test_entropies_by_s_ratio(tmp_path: Path) -> None:
    found = answered(of_signals(tmp_path), "Q6")
    assert "is highest at S = 0.5 (1.02 bits)" in words_of(found)
    assert "of rewards 0.03 and 0.03, of actions 4.00 and 4.00" in words_of(found)
    assert "of observations 0.00 and 1.00" in words_of(found)
    assert found.numbers["means"]["reward"]["0.3"] == pytest.approx(0.8813 + 0.025, abs=1e-4)
    # Rewards at S = 0 and 1 are tied; of the areas, the one at 1 is a little larger or equal.
    assert found.numbers["correlation"]["mean"] > 0.9
    assert "(6 seeds, 2 conditions)" in words_of(found)


def test_a_condition_that_lacks_an_s_does_not_tilt_the_means(tmp_path: Path) -> None:
    tables = of_signals(tmp_path)
    path = tables / "s_ratio" / "evaluations.parquet"
    rows = read_table(path)
    is_second = rows["prey"] == "random"
    rows.loc[is_second, "action_entropy"] = 9.0
    rows[~(is_second & (rows["s_ratio"] == 0.3))].to_parquet(path, index=False)
    found = answered(tables, "Q6")
    assert found.numbers["means"]["action"] == {"0": 4.0, "0.3": 4.0, "0.5": 4.0, "1": 4.0}
    assert "(6 seeds, 1 condition)" in words_of(found)


def test_entropies_that_were_not_recorded(tmp_path: Path) -> None:
    found = answered(of_signals(tmp_path, with_entropies=False, seeds=2), "Q6")
    assert found.status == "not tested"
    assert "before entropies were recorded" in words_of(found)


def test_two_s_ratios_are_too_few(tmp_path: Path) -> None:
    assert "fewer than three S" in words_of(answered(of_signals(tmp_path, s=(0.3, 0.5)), "Q6"))


def of_distances(root: Path, slope: float, distances: tuple[float, ...] = (1.1, 2.0, 8.0)) -> Path:
    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        return constant(0.7 + slope * level["failure_distance"] / 8)

    return written(root, "near_far", curve_of, arms=("targeted MEHER",),
                   levels=[{"failure_distance": x} for x in distances])  # fmt: skip


@pytest.mark.parametrize(("slope", "verb", "trend"), [(-0.2, "raises", -1), (0.2, "lowers", 1)])
def test_near_misses_against_far_ones(
    tmp_path: Path, slope: float, verb: str, trend: float
) -> None:
    found = answered(of_distances(tmp_path, slope), "Q7")
    gain = -slope * 6.9 / 8
    assert found.numbers["difference"]["mean"] == pytest.approx(gain, abs=1e-6)
    assert found.numbers["correlation"]["mean"] == pytest.approx(trend)
    assert f"failures 1.1 r from the final position, rather than 8 r, {verb} the" in words_of(found)


def test_one_distance_compares_nothing(tmp_path: Path) -> None:
    found = answered(of_distances(tmp_path, 0.0, (1.1,)), "Q7")
    assert "only one distance" in words_of(found)
    two = answered(of_distances(tmp_path / "two", 0.0, (1.1, 8.0)), "Q7")
    assert "rank correlation" not in words_of(two)


def test_where_nothing_is_learned_nothing_is_compared(tmp_path: Path) -> None:
    tables = written(
        tmp_path, "near_far", lambda *_: constant(0.1), arms=("targeted MEHER",), seeds=2,
        levels=[{"failure_distance": x} for x in (1.1, 8.0)],
    )  # fmt: skip
    assert "no arm reaches" in words_of(answered(tables, "Q7"))


def of_networks(root: Path, arms: tuple[str, ...], seeds: int = 4) -> Path:
    """PPO-HER fails with the large network where the prey keeps away, PPO everywhere."""

    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        fails = not arm.startswith("PPO-HER") or ("512" in arm and prey == "repel")
        return constant(0.1 if fails else 0.9)

    return written(root, "network", curve_of, arms=arms, seeds=seeds,
                   conditions=[("random", "static"), ("random", "repel")])  # fmt: skip


def test_a_small_network_beside_a_large_one(tmp_path: Path) -> None:
    arms = ("PPO", "PPO-HER", "SAC-HER", "PPO, 3 × 512", "PPO-HER, 3 × 512")
    found = answered(of_networks(tmp_path, arms), "Q9")
    assert (found.numbers["small"], found.numbers["large"]) == ([64, 64], [512, 512, 512])
    # SAC-HER has no large twin.
    shares = {
        (condition, arm): (round(x["small"], 3), round(x["large"], 3))
        for condition, arms in found.numbers["conditions"].items()
        for arm, x in arms.items()
    }
    assert shares == {
        ("random static", "PPO"): (0.1, 0.1), ("random static", "PPO-HER"): (0.9, 0.9),
        ("random repel", "PPO"): (0.1, 0.1), ("random repel", "PPO-HER"): (0.9, 0.1),
    }  # fmt: skip
    said = words_of(found)
    assert "with 2 × 64 and with 3 × 512" in said
    assert "random repel: PPO 10% and 10%, PPO-HER 90% and 10%" in said
    assert "4 seeds" in said and "2 of 12 conditions" in said


@pytest.mark.parametrize("arms", [("PPO", "PPO-HER"), ("SAC-HER", "PPO, 3 × 512")])
def test_one_network_alone_is_no_answer(tmp_path: Path, arms: tuple[str, ...]) -> None:
    assert "no condition has both sides" in words_of(answered(of_networks(tmp_path, arms), "Q9"))
