"""`hindsight publish-policies`: policies that ship, one of each cell of the main figure.

It is the run that is in the middle by its final evaluation, and of its parameters those by which it
acts.  Where the cell's policies are not at hand, that run alone is trained again: a run's numbers
do not depend on its neighbours.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from hindsight.analysis.cells import load_cell
from hindsight.analysis.reduce import reduce_cell
from hindsight.files import FileError
from hindsight.publish import verify
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import code_of
from hindsight.specs.config import PUBLISHED, TRAINED, Config
from hindsight.specs.errors import SpecError
from hindsight.specs.plan import Plan
from hindsight.training.cell import prepare_process
from hindsight.training.files import load, save
from hindsight.training.finished import finished
from hindsight.training.policies import acting_places
from hindsight.training.progress import Progress, show
from hindsight.training.runs import runs_of

#: Whose policies ship.
EXPERIMENT = "algorithms"


def publish_policies(
    config: Config, arms: Collection[str] = (), trained: Path = TRAINED, again: bool = False
) -> Iterator[str]:
    """Write what is missing of results/published/policies; yields a line for each file.

    Args:
        config: of the published results; `select` narrows them.
        arms: their names; all if none is given.
        trained: below which cells that were trained are looked for, with their policies.
        again: also those that are there.
    """
    plan = Plan.of(config)
    places = plan.experiments.get(EXPERIMENT, [])
    there = dict.fromkeys(entry.arm for entry, _ in places)
    if unknown := sorted(set(arms) - set(there)):
        raise SpecError(f"--arm {unknown[0]!r} is unknown; there are {', '.join(there)}")
    names = dict.fromkeys(name for entry, name in places if not arms or entry.arm in arms)
    for name in names:
        out = PUBLISHED / "policies" / f"{name}.pt"
        if out.exists() and not again:
            yield f"{out}: is there"
        elif not (curves := PUBLISHED / "cells" / f"{name}.parquet").exists():
            yield f"missing: {curves}"
        else:
            verify([curves])
            yield _publish(plan.cells[name], curves, trained, out)


def middle_run(runs: pd.DataFrame) -> pd.Series:
    """The run in the middle by its final evaluation; of two in the middle the lesser one."""
    keys = ["final_evaluation_return", "final_evaluation_success", "seed"]
    return runs.sort_values(keys).iloc[(len(runs) - 1) // 2]


def _publish(spec: CellSpec, curves: Path, trained: Path, out: Path) -> str:
    """Write the policy of one cell; returns a line that says what it is."""
    there = finished(trained, spec)
    source = trained / "cells" / f"{spec.name}.parquet" if there is not None else curves
    runs = reduce_cell(load_cell(source)).runs
    middle = middle_run(runs)
    seed = int(middle["seed"])
    steps = int(middle["end_step"])
    score = float(middle["final_evaluation_return"]), float(middle["final_evaluation_success"])
    if there is not None:
        row, found = there.policies[seed], score
    else:
        row, steps, found = train_alone(spec, seed)
    result = {
        "which": f"run {seed}, in the middle of {len(runs)} by the return of its last evaluation",
        "episodes": spec.evaluation.episodes,
        "steps": steps,
        "return_mean": found[0],
        "success_rate": found[1],
        "return_mean_of_curves": score[0],
        "success_rate_of_curves": score[1],
        "code": code_of(spec),
    }
    write_policy(out, spec, seed, row, result)
    again = "" if there is not None else f", trained again (its curves say {score[0]:.3f})"
    return f"{out}: run {seed}, return {found[0]:.3f}, success {found[1]:.2f}{again}"


def train_alone(spec: CellSpec, seed: int) -> tuple[Tensor, int, tuple[float, float]]:
    """One run of a cell: its last parameters [parameter], its steps, and what it then evaluates to,
    mean return and share of successes.
    """
    prepare_process("cpu")
    runs = runs_of(spec, [seed], "cpu", None)
    over = False
    with show() as tell:
        while not over:
            columns = runs.iterate()
            if not runs.rows.isfinite().all():
                raise FileError(f"{spec.name}: run {seed} diverged at step {runs.env_steps:,}")
            over = bool(runs.ended(columns["return_mean"]).all())
            seconds = max(float(runs.clock.wall.sum()), 1e-9)
            tell(
                Progress(
                    (spec.name,), runs.env_steps, spec.steps, runs.env_steps / seconds,
                    float(columns["return_mean"][0]), float(columns["success_rate"][0]),
                )
            )  # fmt: skip
    tested = runs.evaluate()
    score = float(tested["return_mean"][0]), float(tested["success_rate"][0])
    return runs.rows[0].detach().cpu().clone(), runs.env_steps, score


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
