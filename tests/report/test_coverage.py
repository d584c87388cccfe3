"""What is missing of the papers' figures is told as it is: where cells were planned, those that are
there count.  The published ones' table is compared whole (tests/workflow/test_published.py).
"""

import itertools
import json
from pathlib import Path

from hindsight.report.coverage import coverage

RATES = [{"learning_rate": rate} for rate in (3e-3, 3e-4)]
WHERE = ["random static", "apart straight_away"]
FIDELITIES, ARMS = ["released", "described"], ["PPO", "PPO-HER"]
SIZE = {"seeds": 4, "steps": 100}
GRID = {
    "title": "Rates", "figures": "PPO-HER Fig. 4", "paper": "PPO-HER", "hidden": [512] * 3,
    "fidelities": FIDELITIES,
    "arms": {name: {"levels": RATES, "conditions": WHERE} for name in ARMS},
}  # fmt: skip
LOST = ("released", "PPO", RATES[1], WHERE[1])
WHOLE = ["2 of 2", "2 of 2", "4", "100", "3 × 512"]


def test_a_planned_cell_counts_once_it_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("papers.json").write_text(json.dumps({"rates": GRID | SIZE}))
    entries = []
    for i, place in enumerate(itertools.product(FIDELITIES, ARMS, RATES, WHERE)):
        cell = Path(f"{i}.parquet")
        if place != LOST:
            cell.touch()
        where = dict(zip(("fidelity", "arm", "level", "condition"), place, strict=True))
        entries.append(where | SIZE | {"cell": str(cell)})
    plan = {"experiment": "rates", "preset": {"hidden": [512] * 3}, "entries": entries}
    (table,) = coverage([plan], Path("papers.json"))
    assert sorted(table.rows) == [
        ["PPO-HER Fig. 4", "PPO", "released", *WHOLE, "only 3 of these 4 combinations are there"],
        ["PPO-HER Fig. 4", "PPO, PPO-HER", "described", *WHOLE, "nothing"],
        ["PPO-HER Fig. 4", "PPO-HER", "released", *WHOLE, "nothing"],
    ]
