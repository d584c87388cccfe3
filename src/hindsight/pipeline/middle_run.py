"""The policy of a cell that ships: of the run in the middle, what acts without randomness."""

from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from hindsight.analysis.cells import load_cell
from hindsight.analysis.reduce import reduce_cell
from hindsight.specs.cell import CellSpec
from hindsight.training.files import load, save
from hindsight.training.policies import acting_places


def middle_run(runs: pd.DataFrame) -> pd.Series:
    """The run in the middle by its final evaluation; of two in the middle the lesser one."""
    keys = ["final_evaluation_return", "final_evaluation_success", "seed"]
    return runs.sort_values(keys).iloc[(len(runs) - 1) // 2]


def write_middle(spec: CellSpec, curves: Path, policies: Path, out: Path) -> None:
    """Write the middle run's policy of a trained cell.

    Args:
        curves: of the cell.
        policies: the parameters that its runs ended with.
        out: the file.

    Raises:
        FileError: one of the files is damaged.
    """
    cell, saved = load_cell(curves), load(policies)
    runs = reduce_cell(cell).runs
    middle = middle_run(runs)
    seed = int(middle["seed"])
    result = {
        "which": f"run {seed}, in the middle of {len(runs)} by the return of its last evaluation",
        "episodes": spec.evaluation.episodes,
        "steps": int(middle["end_step"]),
        "return_mean": float(middle["final_evaluation_return"]),
        "success_rate": float(middle["final_evaluation_success"]),
        "code": cell.metadata["code"],
    }
    row = saved["rows"][list(saved["seeds"]).index(seed)]
    write_policy(out, spec, seed, row, result)


def write_policy(out: Path, spec: CellSpec, seed: int, row: Tensor, result: dict[str, Any]) -> None:
    """Write what acts of a run's parameters [parameter], with its specification and result."""
    save(
        out,
        {
            "spec": spec.model_dump_json(),
            "seeds": [seed],
            "part": "actor",
            "rows": row[acting_places(spec)][None].to(torch.float32).clone(),
            "result": result,
        },
    )


def result_of(path: Path) -> dict[str, Any]:
    """What a policy that ships says of itself; empty for another file."""
    found = load(path).get("result")
    return found if isinstance(found, dict) else {}
