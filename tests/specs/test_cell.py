"""Specifications: what is refused, what is one and the same, what a name says."""

import json
from pathlib import Path

import pytest

from hindsight.io.checksums import about
from hindsight.specs.cell import CellSpec
from hindsight.specs.config import load
from hindsight.specs.errors import SpecError, validated
from hindsight.specs.hindsight import HindsightSpec
from hindsight.specs.plan import Plan

BITS = {"id": "BitFlipping-v0"}
PUBLISHED = Path(__file__).parents[2] / "results" / "published"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"environment": {"n_dims": 1}}, ["environment.n_dims", "1"]),
        ({"environment": {"interception_distance": -0.1}}, ["interception_distance", "-0.1"]),
        ({"environment": {"prey": "statc"}}, ["environment.prey", "statc", "static"]),
        ({"environment": {"n_dim": 3}}, ["environment.n_dim", "did you mean 'n_dims'"]),
        ({"environment": {"interception_distance": 6.0}}, ["interception_distance", "grid_size"]),
        ({"environment": {"grid_size": float("inf")}}, ["grid_size"]),
        ({"seeds": 0}, ["seeds", "0"]),
        ({"steps": 2047}, ["2047", "one rollout", "2048"]),
        ({"algorithm": {"hidden": [64, 0]}}, ["algorithm.hidden.1", "0"]),
        (
            {
                "environment": BITS,
                "hindsight": {"fidelity": "described", "inside": 0.9},
            },
            ["inside needs goals that lie in a box", "those of BitFlipping-v0 do not"],
        ),
        ({"hindsight": {"strategy": "last"}}, ["hindsight.strategy", "last", "final"]),
        ({"hindsight": {"k": 0}}, ["hindsight.k", "0"]),
        ({"early_end": 0.5}, ["early_end", "0.5"]),
        # What a file may not hold: else it would be trained to its end, and then refused.
        ({"environment": {"grid_size": 2_000_000.0}}, ["grid_size: 2000000.0 is not allowed"]),
        ({"environment": {"max_steps": 20_000}}, ["max_steps: 20000 is not allowed"]),
        ({"algorithm": {"hidden": [20_000]}}, ["hidden: 20000 is not allowed"]),
        ({"algorithm": {"hidden": [10_000] * 3}}, ["weights is larger than 100,000,000"]),
        (
            {"hindsight": {"strategy": "future", "k": 2_000_000}},
            ["hindsight.k: 2000000 is not allowed"],
        ),
        ({"algorithm": {"name": "sac", "buffer_size": 10**9}}, ["buffer_size"]),
        # What does not fit together.
        ({"environment": BITS, "algorithm": {"name": "sac"}}, ["needs continuous actions"]),
        ({"algorithm": {"name": "dqn"}}, ["needs discrete actions"]),
        (
            {"environment": BITS, "algorithm": {"exploration": "squashed"}},
            ["exploration and sigma_init need continuous actions"],
        ),
        (
            {"environment": BITS, "algorithm": {"sigma_init": 0.5}},
            ["exploration and sigma_init need continuous actions"],
        ),
        (
            {
                "environment": BITS,
                "hindsight": {"s_ratio": 0.5, "failures": "targeted", "fidelity": "described"},
            },
            ["BitFlipping-v0 has none: set failures untargeted"],
        ),
        ({"algorithm": {"name": "sac"}, "hindsight": {}}, ["sac uses replay"]),
        ({"replay": {}}, ["ppo uses hindsight"]),
        ({"hindsight": {"clone": True, "until_success": 0.5}}, ["until_success has no effect"]),
        ({"hindsight": {"copies": "failed", "s_ratio": 0.5}}, ["without copies 'failed'"]),
    ],
)
def test_impossible_values_are_told_in_one_sentence(values, named):
    with pytest.raises(SpecError) as caught:
        validated(CellSpec, values)
    message = str(caught.value)
    assert "\n" not in message
    for word in named:
        assert word in message


def test_equal_specifications_have_one_name():
    default = CellSpec()
    assert default.name == CellSpec(algorithm={"gamma": 0.99}).name
    assert default.name != CellSpec(algorithm={"gamma": 0.98}).name
    assert default.name != CellSpec(hindsight={}).name
    # Defaults are left out of a hash, but not which environment and algorithm they are of.
    sac, point = {"name": "sac"}, {"id": "PointReach-v0"}
    kinds = ({}, {"algorithm": sac}, {"algorithm": sac, "environment": point})
    specs = [CellSpec(**kind) for kind in (*kinds, {"algorithm": {"name": "td3"}})]
    assert len({spec.hash for spec in specs}) == len(specs)


def test_final_has_one_copy():
    assert HindsightSpec(strategy="final", k=8) == HindsightSpec(strategy="final", k=1)
    assert HindsightSpec(strategy="future", k=8) != HindsightSpec(strategy="future", k=1)


def test_fidelities_share_the_environments_in_which_they_agree():
    def environment(prey, fidelity):
        return CellSpec(environment={"prey": prey, "fidelity": fidelity}).name

    assert environment("static", "released") == environment("static", "described")
    assert environment("repel", "released") != environment("repel", "described")


def test_a_specification_survives_its_json():
    spec = CellSpec(hindsight={"strategy": "future", "k": 4}, environment={"n_dims": 5})
    assert CellSpec.model_validate_json(spec.model_dump_json()) == spec
    assert CellSpec.model_validate_json(spec.model_dump_json()).name == spec.name


def test_published_cells_keep_their_names_and_hashes():
    """Where they lie, and what they say of themselves, is what their specifications say today."""
    published = json.loads((PUBLISHED / "manifest.json").read_text(encoding="utf-8"))
    cells = {name: known["spec_hash"] for name, known in published.items() if "spec_hash" in known}
    assert len(cells) > 500
    for name, known in cells.items():
        spec = CellSpec.model_validate(about(PUBLISHED / name)["spec"])
        assert (f"cells/{spec.name}.parquet", spec.hash) == (name, known)


def test_the_hash_of_a_cell_that_ends_by_a_test_is_of_what_differs_from_the_defaults():
    """Cells that are trained already have it in their names."""
    name = "random-static-n3-G10-r1/sac-her-final-k2-released-end-test-lr0.0003-64x64-8seeds"
    plan = Plan.of(load(Path("config.yaml"), {"preset": "large"}))
    assert f"{name}-150000steps-7c9b70a0bc" in plan.cells


def test_a_name_is_never_too_long_for_a_file():
    """A long one is cut; the hash at its end still tells cells apart."""
    wide = [CellSpec.model_validate({"algorithm": {"hidden": [64 + i] * 99}}) for i in range(2)]
    parts = [spec.name.split("/") for spec in wide]
    for part in (part for both in parts for part in both):
        assert len(f".{part}.12345678.parquet.damaged".encode()) <= 200
    assert parts[0][1].endswith(f"-{wide[0].hash}") and parts[0] != parts[1]
