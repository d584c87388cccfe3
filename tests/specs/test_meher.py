"""Specifications of MEHER and of hindsight that is switched: refused, the same, told apart."""

from typing import Any

import pytest

from hindsight.specs.cell import CellSpec
from hindsight.specs.config import parse
from hindsight.specs.errors import SpecError, validated
from hindsight.specs.hindsight import HindsightSpec
from hindsight.specs.plan import Plan


def cell(**hindsight: Any) -> CellSpec:
    return validated(CellSpec, {"hindsight": hindsight})


@pytest.mark.parametrize(
    ("hindsight", "named"),
    [
        ({"s_ratio": -0.1}, ["hindsight.s_ratio", "-0.1", "greater than or equal to 0"]),
        ({"s_ratio": 1.1}, ["hindsight.s_ratio", "1.1", "less than or equal to 1"]),
        ({"s_ratio": float("nan")}, ["hindsight.s_ratio", "nan"]),
        ({"until_success": -0.1}, ["hindsight.until_success", "-0.1"]),
        ({"until_success": 1.5}, ["hindsight.until_success", "1.5"]),
        ({"until_steps": 0}, ["hindsight.until_steps", "0"]),
        (
            {"until_success": 0.5, "until_steps": 100},
            ["until_success and until_steps exclude each other"],
        ),
        ({"then": "sac"}, ["hindsight.then", "sac", "'ppo' or 'meher'"]),
        ({"then": "meher"}, ["then 'meher' needs an s_ratio"]),
        ({"then": "meher", "until_steps": 100}, ["then 'meher' needs an s_ratio"]),
        ({"then": "meher", "s_ratio": 0.5}, ["until_success, until_steps"]),
        # A success rate of 1 is never exceeded: there is no switch.
        ({"then": "meher", "s_ratio": 0.5, "until_success": 1.0}, ["until_success, until_steps"]),
        ({"s_ratio": 0.5, "strategy": "future"}, ["s_ratio", "strategy 'final'"]),
        ({"s_ratio": 0.5, "strategy": "episode", "fidelity": "described"}, ["strategy 'final'"]),
        ({"s_ratio": 0.5, "only_if_moved": True}, ["s_ratio", "without only_if_moved"]),
        (
            {"s_ratio": 0.5, "inside": 0.9, "fidelity": "described"},
            ["s_ratio", "without inside"],
        ),
        ({"inside": 1.0}, ["hindsight.inside", "1.0", "less than 1"]),
        ({"failures": "near"}, ["hindsight.failures", "near", "'untargeted' or 'targeted'"]),
        ({"failure_distance": 1.0}, ["hindsight.failure_distance", "1.0", "greater than 1"]),
        ({"failure_distance": float("inf")}, ["hindsight.failure_distance", "inf"]),
        ({"s_ration": 0.5}, ["hindsight.s_ration"]),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(hindsight, named):
    with pytest.raises(SpecError) as caught:
        cell(**hindsight)
    message = str(caught.value)
    assert ("\n" not in message and message.startswith("hindsight")) or "unknown key" in message
    for word in named:
        assert word in message


def test_the_ends_of_the_ranges_are_allowed():
    for values in (
        {"s_ratio": 0.0},
        {"s_ratio": 1},
        {"until_success": 0.0},
        {"until_steps": 1},
        {"s_ratio": 0.5, "strategy": "final", "k": 4},
        {"s_ratio": 0.5, "until_steps": 1, "then": "meher"},
    ):
        assert cell(**values).hindsight is not None


# --- one training, one name -----------------------------------------------------------------------


def assert_one(one: CellSpec, other: CellSpec) -> None:
    assert (one, one.name, one.hash) == (other, other.name, other.hash)


def test_the_released_targeted_experiment_is_the_untargeted_one():
    for away in (1.1, 4.0):
        targeted = cell(s_ratio=0.6, failures="targeted", failure_distance=away)
        assert_one(targeted, cell(s_ratio=0.6))
    described = {"s_ratio": 0.6, "fidelity": "described"}
    names = {
        cell(**described, failures="targeted", failure_distance=away).name for away in (1.1, 4.0)
    }
    assert len(names | {cell(**described).name}) == 3
    # How far away means nothing for goals anywhere, nor failures without a share.
    assert_one(cell(**described, failure_distance=4.0), cell(**described))
    assert_one(cell(fidelity="described", failures="targeted"), cell(fidelity="described"))


def test_a_success_rate_that_is_never_exceeded_is_no_switch():
    assert_one(cell(until_success=1.0), cell())
    assert_one(cell(until_success=1.0, s_ratio=0.6), cell(s_ratio=0.6))
    assert_one(validated(CellSpec, {"hindsight": {"until_success": 1}}), cell())


def test_whatever_else_differs_has_another_name():
    variants: list[dict[str, Any]] = [
        {},
        {"s_ratio": 0.0},
        {"s_ratio": 0.6},
        {"s_ratio": 0.6, "fidelity": "described"},
        {"until_success": 0.0},
        {"until_success": 0.5},
        {"until_steps": 1000},
        {"s_ratio": 0.6, "until_success": 0.5},
        {"s_ratio": 0.6, "until_success": 0.5, "then": "meher"},
        {"s_ratio": 0.6, "until_steps": 1000, "then": "meher"},
    ]
    specs = [cell(**values) for values in variants]
    for find in (lambda s: s.hash, lambda s: s.name.rsplit("-", 1)[0]):
        assert len({find(spec) for spec in specs}) == len(specs), "also in words"
    for spec in specs:
        assert CellSpec.model_validate_json(spec.model_dump_json()) == spec


def test_new_options_at_their_defaults_change_no_name():
    default = CellSpec(hindsight=HindsightSpec())
    spelt = cell(s_ratio=None, failures="untargeted", failure_distance=1.1, then="ppo")
    assert_one(default, spelt)
    assert_one(CellSpec(), validated(CellSpec, {"environment": {"pushes_object": False}}))


# --- config.yaml ----------------------------------------------------------------------------------


def config(**experiment: Any) -> dict[str, Any]:
    size = {"hidden": [8], "n_steps": 64, "seeds": 1, "steps": 640, "select": {"mine": {}}}
    return {
        "preset": "tiny",
        "presets": {"tiny": size},
        "experiments": {"mine": {"title": "t", "figures": "f", **experiment}},
    }


PPO: dict[str, Any] = {"PPO": {}}
HER: dict[str, Any] = {"PPO-HER": {"her": "final"}}


@pytest.mark.parametrize(
    ("experiment", "named"),
    [
        ({"arms": PPO, "vary": {"s_ratio": [0.1]}}, ["mine, PPO", "'s_ratio' needs hindsight"]),
        ({"arms": HER | PPO, "vary": {"s_ratio": [0.1]}}, ["mine, PPO,", "'s_ratio' needs"]),
        ({"arms": PPO, "keys": {"until_steps": 5}}, ["'until_steps' needs hindsight"]),
        ({"arms": {"PPO": {"keys": {"then": "meher"}}}}, ["'then' needs hindsight"]),
        ({"arms": PPO, "vary": {"failure_distance": [2]}}, ["'failure_distance' needs hindsight"]),
        ({"arms": HER, "vary": {"s_ratio": [0.1, 1.2]}}, ["mine, PPO-HER", "s_ratio", "1.2"]),
        ({"arms": HER, "vary": {"until_success": [0.5, 2]}}, ["PPO-HER", "until_success", "2"]),
        (
            {"arms": {"future": {"her": "future"}}, "vary": {"s_ratio": [0.1]}},
            ["mine, future", "strategy 'final'"],
        ),
        ({"arms": {"x": {"her": "final", "keys": {"then": "meher"}}}}, ["mine, x", "s_ratio"]),
        (
            {"arms": HER, "keys": {"until_succes": 0.4}},
            ["unknown option 'until_succes'; did you mean 'until_success'?"],
        ),
    ],
)
def test_an_experiment_that_cannot_be_is_told_in_one_sentence(experiment, named):
    with pytest.raises(SpecError) as caught:
        Plan.of(parse(config(**experiment)))
    message = str(caught.value)
    assert "\n" not in message and message.startswith("experiments.mine")
    for word in named:
        assert word in message


def test_an_arms_keys_are_its_own():
    """A switch given to one arm leaves plain PPO beside it alone."""
    arms = PPO | {"off": {"her": "final", "keys": {"until_success": 0.5}}}
    specs = Plan.of(parse(config(arms=arms))).cells.values()
    assert {spec.hindsight and spec.hindsight.until_success for spec in specs} == {None, 0.5}


def test_levels_that_train_the_same_share_their_cells():
    arms = {
        "untargeted": {"her": "final"},
        "targeted": {"her": "final", "keys": {"failures": "targeted"}},
    }
    grid = config(arms=arms, vary={"s_ratio": [0.2, 0.6]}, fidelities=["released", "described"])
    plan = Plan.of(parse(grid))
    named: dict[tuple[str, str], set[str]] = {}
    for entry, name in plan.experiments["mine"]:
        named.setdefault((entry.fidelity, entry.arm), set()).add(name)
    assert all(len(names) == 2 * 12 for names in named.values())
    assert named["released", "targeted"] == named["released", "untargeted"]
    assert not named["described", "targeted"] & named["described", "untargeted"]
    never = config(arms=HER, vary={"until_success": [0.5, 1.0]})
    plain = set(Plan.of(parse(config(arms=HER))).cells)
    assert plain < set(Plan.of(parse(never)).cells)
