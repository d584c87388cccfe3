"""Specifications: what is refused, what is one and the same, what a name says."""

import pytest

from hindsight.specs.cell import CellSpec, HindsightSpec
from hindsight.specs.errors import SpecError, validated


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
                "environment": {"id": "BitFlipping-v0"},
                "hindsight": {"fidelity": "described", "inside": 0.9},
            },
            ["inside is a share of a box", "BitFlipping-v0 has not"],
        ),
        ({"hindsight": {"strategy": "last"}}, ["hindsight.strategy", "last", "final"]),
        ({"hindsight": {"k": 0}}, ["hindsight.k", "0"]),
        ({"early_end": 0.5}, ["early_end", "0.5"]),
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
