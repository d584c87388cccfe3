"""YAML written by hand: ambiguous values are refused, and nothing grows without bounds."""

from pathlib import Path

import pytest

from hindsight.specs.config import load, overrides_of
from hindsight.specs.errors import SpecError
from hindsight.specs.reading import read_again, read_keys, values_of
from tests.support.configuration import ROOT

TWO_WAYS = "is ambiguous: write true, false or a decimal"


@pytest.mark.parametrize(
    ("pair", "named"),
    [
        ("seeds=[1", r"--config seeds=\[1: is not YAML: did not find expected ',' or '\]'$"),
        ("select={a\n: {}", r"--config select=\{a\\n: \{\}: is not YAML: .* in line 2$"),
        ("seeds={a: 1, a: 2}", "key 'a' is given twice"),
        ("seeds", "is not key=value"),
        ("preset=*a", "undefined alias"),
        ("preset=!!python/object:os.system x", "is not YAML"),
        ("seeds=yes", TWO_WAYS),
        ("steps=1:00:00", TWO_WAYS),
        ("select={algorithms: {seeds: 010}}", TWO_WAYS),
    ],
)
def test_typed_pairs_that_are_refused(pair, named):
    with pytest.raises(SpecError, match=named):
        overrides_of([pair])


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (
            "a: 1\nb: é".encode("latin-1"),
            r"cannot be read as UTF-8 text: .* can't decode byte 0xe9 in position 8",
        ),
        (b"a: 1\n\nb: 2\na: 3", r"key 'a' is given twice, in lines 1 and 4$"),
        (b"x: {b: 2, b: 2}", r"key 'b' is given twice, in line 1$"),
        (b"x:\n  y: 1\n  z: [{q: 1,\n q: 2}]", r"key 'q' is given twice, in lines 3 and 4$"),
        (b"a: [1, 2\nb: }", r"is not YAML: did not find expected ',' or '\]' in line 2$"),
        (b"a: \x01", r"is not YAML: control characters are not allowed$"),
        (b"a: 2026-02-31", r"is not YAML: day is out of range for month$"),
        (b"a: " + b"[" * 300_000 + b"]" * 300_000, r"is nested more than 50 deep$"),
        (b"", r"holds no keys$"),
        (b"- a list", r"holds no keys$"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_with_its_line(tmp_path, data, named):
    path = tmp_path / "config.yaml"
    path.write_bytes(data)
    with pytest.raises(SpecError, match=rf"config\.yaml: {named}"):
        load(path)
    with pytest.raises(SpecError, match="cannot be read"):
        load(tmp_path / "none.yaml")


def test_merged_keys_may_be_overridden_and_lists_may_repeat(tmp_path):
    path = tmp_path / "keys.yaml"
    path.write_text("a: &a {k: 1, m: [1, 1]}\nb: {<<: *a, k: 2}\nc: {k: k, l: k}\n")
    assert read_keys(path) == {
        "a": {"k": 1, "m": [1, 1]},
        "b": {"k": 2, "m": [1, 1]},
        "c": {"k": "k", "l": "k"},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("0", 0),
        ("36_000", 36_000),
        ("3.0e-4", 3e-4),
        ("'yes'", "yes"),
        ("10", 10),
        ("3e-4", 3e-4),
        ("1E6", 1e6),
        ("-2e+1", -20.0),
        ("'3e-4'", "3e-4"),
        ("3e", "3e"),
        (".5e3", 500.0),
        ("e3", "e3"),
    ],
)
def test_unambiguous_values_are_read(text: str, value: object) -> None:
    assert values_of(text, "here") == value


def test_what_snakemake_reads_as_text_is_read_again() -> None:
    given = {"a": "null", "b": ["true", "3e-4", "PPO, 3 × 512"], "c": {"d": ["64"]}, "e": 2}
    found = {"a": None, "b": [True, 3e-4, "PPO, 3 × 512"], "c": {"d": [64]}, "e": 2}
    assert read_again(given) == found
    words = ["a: [", "mine: a title", "[1, 2", "yes", "", "#x", "&a b", "Bits #2", "2026-12-01"]
    assert read_again(words) == words
    title = 'experiments={b: {title: "4", figures: "Bits #2"}}'
    (own,) = overrides_of([title])["experiments"].values()
    with pytest.raises(SpecError) as refused:  # for what it lacks, and not for its words
        load(ROOT / "config.yaml", {"experiments": {"b": own}})
    assert "title" not in str(refused.value) and "figures" not in str(refused.value)


@pytest.mark.parametrize("key", ["seeds", "hidden", "points"])
def test_true_is_not_a_number(key):
    values = {"seeds": True, "hidden": [True], "points": True}[key]
    given = {"evaluation": {key: values}} if key == "points" else {key: values}
    with pytest.raises(SpecError, match=rf"{key}.*is not a number"):
        load(ROOT / "config.yaml", {"preset": "smoke", **given})


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
