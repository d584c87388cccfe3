"""Specifications of cells: what is refused, what shares a name, and what differs."""

import json
from pathlib import Path
from typing import Any

import pytest

from hindsight.io.checksums import about
from hindsight.specs.cell import CellSpec
from hindsight.specs.config import load
from hindsight.specs.errors import SpecError, validated
from hindsight.specs.plan import Plan

BITS = {"id": "BitFlipping-v0"}
PUBLISHED = Path(__file__).parents[2] / "results" / "published"


def cell(**hindsight: Any) -> CellSpec:
    return validated(CellSpec, {"hindsight": hindsight})


def test_a_budget_that_nobody_gave_is_no_shorter_than_a_rollout():
    """As of a model, which `learn` gives one."""
    wide = {"n_envs": 512, "n_steps": 2048}
    assert validated(CellSpec, {"algorithm": wide}).steps == 512 * 2048
    assert CellSpec().steps == 1_000_000


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (
            {"environment": {"n_dim": 3}},
            ["environment: unknown key 'n_dim'; did you mean 'n_dims'"],
        ),
        ({"environment": {"interception_distance": 6.0}}, ["interception_distance", "grid_size"]),
        ({"steps": 2047}, ["2047", "one rollout", "2048"]),
        ({"early_end": 0.5}, ["early_end", "0.5"]),
        # Too large: a file that says so could not be loaded (see test_files_from_elsewhere).
        ({"environment": {"grid_size": 2_000_000.0}}, ["grid_size: 2000000.0 is not allowed"]),
        # Parts that do not fit together.
        ({"environment": BITS, "algorithm": {"name": "sac"}}, ["needs continuous actions"]),
        ({"algorithm": {"name": "dqn"}}, ["needs discrete actions"]),
        (
            {"environment": BITS, "algorithm": {"sigma_init": 0.5}},
            ["exploration and sigma_init need continuous actions"],
        ),
        ({"algorithm": {"name": "sac"}, "hindsight": {}}, ["sac uses replay"]),
        ({"replay": {}}, ["ppo uses hindsight"]),
        (
            {"environment": BITS, "hindsight": {"fidelity": "described", "inside": 0.9}},
            ["inside needs goals that lie in a box", "those of BitFlipping-v0 do not"],
        ),
        (
            {
                "environment": BITS,
                "hindsight": {"s_ratio": 0.5, "failures": "targeted", "fidelity": "described"},
            },
            ["BitFlipping-v0 has none: set failures untargeted"],
        ),
        (
            {
                "environment": {"id": "PointReach-v0"},
                "algorithm": {"n_steps": 49},
                "hindsight": {"fidelity": "described"},
            },
            ["n_steps 49 is shorter than an episode", "set n_steps to 50 or more"],
        ),
        (
            {"algorithm": {"name": "sac", "log_interval": 50}, "end_test": {"every": 120}},
            ["a test every 120 steps"],
        ),
        # Options of hindsight.
        ({"hindsight": {"s_ratio": float("nan")}}, ["hindsight.s_ratio", "nan"]),
        ({"hindsight": {"inside": 1.0}}, ["hindsight.inside", "1.0", "less than 1"]),
        (
            {"hindsight": {"clone": True, "until_success": 0.5}},
            ["clone cannot be combined with until_succ"],
        ),
        ({"hindsight": {"clone": True, "copies": "failed"}}, ["cannot be combined with copies"]),
        ({"hindsight": {"copies": "failed", "s_ratio": 0.5}}, ["without copies 'failed'"]),
        ({"hindsight": {"s_ratio": 0.5, "strategy": "future"}}, ["s_ratio", "strategy 'final'"]),
        ({"hindsight": {"s_ratio": 0.5, "only_if_moved": True}}, ["without only_if_moved"]),
        ({"hindsight": {"until_success": 0.5, "until_steps": 100}}, ["exclude each other"]),
        ({"hindsight": {"then": "meher", "until_steps": 100}}, ["'meher' needs an s_ratio"]),
        ({"hindsight": {"then": "meher", "s_ratio": 0.5}}, ["until_success, until_steps"]),
        # A success rate never exceeds 1, so this never switches.
        (
            {"hindsight": {"then": "meher", "s_ratio": 0.5, "until_success": 1.0}},
            ["no success rate exceeds an until_success of 1"],
        ),
    ],
)
def test_impossible_values_are_refused_in_one_sentence(values, named):
    with pytest.raises(SpecError) as caught:
        validated(CellSpec, values)
    for word in named:
        assert word in str(caught.value)


NOT_RELEASED: tuple[dict[str, Any], ...] = (
    {"after_contact": True}, {"moved_goals": True}, {"cut_at_success": True}, {"inside": 0.9},
)  # fmt: skip


def prey(name: str, fidelity: str) -> CellSpec:
    return CellSpec(environment={"prey": name, "fidelity": fidelity})


RATES = {"actor_lr": 1e-3, "critic_lr": 1e-3}
PRIORITIES = {"prioritized": True}


def of(name: str, replay: Any = None, **keys: Any) -> CellSpec:
    return CellSpec(algorithm={"name": name, **keys}, replay=replay)


def bits(**keys: int) -> CellSpec:
    return CellSpec(environment={**BITS, **keys})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CellSpec(algorithm={"gamma": 0.99}), CellSpec()),
        (prey("static", "described"), prey("static", "released")),
        (cell(strategy="final", k=8), cell(strategy="final", k=1)),
        # The authors' targeted experiment runs their untargeted code.
        (cell(s_ratio=0.6, failures="targeted", failure_distance=4.0), cell(s_ratio=0.6)),
        # A distance means nothing for goals anywhere, and failures nothing without a share.
        (cell(s_ratio=0.6, failure_distance=4.0), cell(s_ratio=0.6)),
        (cell(fidelity="described", failures="targeted"), cell(fidelity="described")),
        (cell(until_success=1.0, s_ratio=0.6), cell(s_ratio=0.6)),
        (bits(n_bits=7, max_steps=7), bits(n_bits=7)),
        # The clip of no noise, the target of a fixed temperature, a rate that no part has, the
        # bonus for an entropy that follows a schedule, and weights of equal priorities.
        (of("td3", target_policy_noise=0, target_noise_clip=1), of("td3", target_policy_noise=0)),
        (of("sac", ent_coef=0.1, target_entropy=-1), of("sac", ent_coef=0.1)),
        (of("sac", learning_rate=0.01, **RATES), of("sac", **RATES)),
        (of("ppo", exploration="annealed", ent_coef=0.1), of("ppo", exploration="annealed")),
        (of("sac", {"alpha": 0, "beta": 1, **PRIORITIES}), of("sac", {"alpha": 0, **PRIORITIES})),
        # What imitates neither rewards nor values has none; nor is it truncated in this task.
        (
            CellSpec(algorithm={"gae_lambda": 0, "vf_coef": 1}, hindsight={"clone": True}),
            CellSpec(algorithm={"clip_range": 1, "gamma": 0.5}, hindsight={"clone": True}),
        ),
        (of("sac", {"time_limit_terminates": True}), of("sac")),
        # The authors' code lacks these options.
        *((cell(**option), cell()) for option in NOT_RELEASED),
    ],
)
def test_equal_trainings_share_a_name(one, other):
    assert (one, one.name, one.hash) == (other, other.name, other.hash)


def test_published_cells_keep_their_names_and_hashes():
    """Where they lie, and what they say of themselves, is what their specifications say today; and
    they are those that the preset `large` plans.  Every option and every rule of a selection is
    among them, so other trainings have other names.
    """
    published = json.loads((PUBLISHED / "manifest.json").read_text(encoding="utf-8"))
    cells = {name: known["spec_hash"] for name, known in published.items() if "spec_hash" in known}
    assert len(cells) > 500
    for name, known in cells.items():
        spec = CellSpec.model_validate(about(PUBLISHED / name)["spec"])
        assert (f"cells/{spec.name}.parquet", spec.hash) == (name, known)
    plan = Plan.of(load(Path("config.yaml"), {"preset": "large"}))
    assert {f"cells/{name}.parquet" for name in plan.cells} == cells.keys()


def test_a_name_is_never_too_long_for_a_file():
    """A long one is cut; the hash at its end still tells cells apart."""
    wide = [CellSpec.model_validate({"algorithm": {"hidden": [64 + i] * 99}}) for i in range(2)]
    parts = [spec.name.split("/") for spec in wide]
    for part in (part for both in parts for part in both):
        assert len(f".{part}.12345678.parquet.damaged".encode()) <= 200
    assert parts[0][1].endswith(f"-{wide[0].hash}") and parts[0] != parts[1]
