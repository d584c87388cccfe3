"""YAML that a person wrote: what is read in two ways is refused, and nothing grows unbounded."""

from pathlib import Path

import pytest

from hindsight.specs.config import load, overrides_of
from hindsight.specs.errors import SpecError
from hindsight.specs.reading import read_keys, values_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "pair",
    [
        "seeds=yes",
        "seeds=010",
        "steps=1:00:00",
        "select={algorithms: {seeds: 010}}",
        "end_test=Off",
    ],
)
def test_a_word_that_can_be_read_in_two_ways_is_refused(pair: str) -> None:
    with pytest.raises(SpecError, match="can be read in two ways"):
        overrides_of([pair])


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("0", 0), ("36_000", 36_000), ("3.0e-4", 3e-4), ("'yes'", "yes"), ("10", 10)],
)
def test_everything_else_is_read_as_it_was(text: str, value: object) -> None:
    assert values_of(text, "here") == value


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"seeds": True}, "seeds"),
        ({"steps": False}, "steps"),
        ({"hidden": [True]}, "hidden"),
        ({"evaluation": {"points": True}}, "points"),
    ],
)
def test_true_is_no_number(values: dict, key: str) -> None:
    with pytest.raises(SpecError, match=rf"{key}.*is no number"):
        load(ROOT / "config.yaml", {"preset": "smoke", **values})


def test_merges_of_merges_are_bounded(tmp_path: Path) -> None:
    lines = ["a0: &a0 {k: 1}"]
    lines += [
        f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], b{i}: [*a{i - 1}, *a{i - 1}]}}"
        for i in range(1, 60)
    ]
    path = tmp_path / "laugh.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(SpecError, match="holds more than 1,000,000 values"):
        read_keys(path)
