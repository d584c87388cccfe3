"""What is missing of the papers' figures is told as it is, and follows the cells that are there."""

import json
from pathlib import Path
from typing import Any

import pytest

from hindsight.report.coverage import coverage

RATES = [{"learning_rate": rate} for rate in (3e-3, 3e-4)]
WHERE = ["random static", "apart straight_away"]
GRID: dict[str, Any] = {
    "title": "Rates", "figures": "PPO-HER Fig. 4", "paper": "PPO-HER", "seeds": 4, "steps": 100,
    "fidelities": ["released", "described"], "hidden": [512, 512, 512],
    "arms": {name: {"levels": RATES, "conditions": WHERE} for name in ("PPO", "PPO-HER")},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def covered(
    there: list[tuple[str, str, int, str]], seeds: int = 4, steps: int = 100, hidden: int = 512
) -> list[list[str]]:
    """The rows with cells of (fidelity, arm, level, condition); another is planned, not there."""
    Path("papers.json").write_text(json.dumps({"rates": GRID}))
    entries = []
    for i, (fidelity, arm, level, condition) in enumerate(there):
        cell = Path(f"{i}.parquet")
        cell.touch()
        entries.append({
            "fidelity": fidelity, "arm": arm, "level": RATES[level], "condition": condition,
            "seeds": seeds, "steps": steps, "cell": str(cell),
        })  # fmt: skip
    lost = {"fidelity": "released", "arm": "PPO", "level": RATES[1], "condition": WHERE[1],
            "seeds": seeds, "steps": steps, "cell": "lost.parquet"}  # fmt: skip
    plan = {"experiment": "rates", "preset": {"hidden": [hidden] * 3}, "entries": [*entries, lost]}
    (table,) = coverage([plan], Path("papers.json"))
    assert table.title == "The papers' figures"
    assert all(len(row) == len(table.header) for row in table.rows)
    return table.rows


def grid(*arms: str, fidelities: tuple[str, ...] = ("released", "described")) -> list[Any]:
    return [(f, a, i, w) for f in fidelities for a in arms for i in (0, 1) for w in WHERE]


def test_all_of_the_papers_is_one_row_that_misses_nothing() -> None:
    assert covered(grid("PPO", "PPO-HER")) == [[
        "PPO-HER Fig. 4", "PPO, PPO-HER", "released and described", "2 of 2", "2 of 2", "4",
        "100", "3 × 512", "nothing",
    ]]  # fmt: skip


def test_a_planned_cell_counts_once_it_is_there() -> None:
    places = grid("PPO", "PPO-HER")
    rows = covered([p for p in places if p != ("released", "PPO", 1, WHERE[1])])
    lacking = {(row[1], row[2]): row[-1] for row in rows}
    assert lacking.pop(("PPO", "released")) == "only 3 of these 4 combinations are there"
    assert set(lacking.values()) == {"nothing"}


def test_conditions_settings_seeds_steps_and_network_are_named() -> None:
    there = [(f, a, 0, WHERE[0]) for f in GRID["fidelities"] for a in GRID["arms"]]
    (row,) = covered(there, seeds=2, steps=50, hidden=64)
    assert row[3:8] == ["1 of 2", "1 of 2", "2 of 4", "50 of 100", "3 × 64 for 3 × 512"]
    assert row[8] == (
        "conditions: straight away, spawn apart; settings: learning rate 0.0003; seeds; steps; "
        "network size"
    )


def test_what_was_not_trained_at_all_stands_there_too() -> None:
    rows = covered(grid("PPO", "PPO-HER", fidelities=("released",)))
    assert [(row[2], row[-1]) for row in rows] == [
        ("released", "nothing"), ("described", "everything: not trained"),
    ]  # fmt: skip
    (table,) = coverage([], Path("papers.json"))
    assert [row[-1] for row in table.rows] == ["everything: not trained"]


def test_without_the_papers_grids_there_is_no_coverage() -> None:
    assert coverage([], Path("absent.json")) == []
