"""`hindsight publish-policies`: policies that ship, one of each published cell of an experiment.

It is the run that is in the middle by its final evaluation, and of its parameters those by which it
acts.  Where cells' policies are not at hand, those runs alone are trained again, of all cells that
may share an axis together: a run's numbers do not depend on its neighbours.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from hindsight.analysis.cells import load_cell
from hindsight.analysis.reduce import reduce_cell
from hindsight.files import FileError
from hindsight.publish import STAGED, verify, vouch
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import code_of
from hindsight.specs.config import PUBLISHED, TRAINED, Config
from hindsight.specs.errors import SpecError
from hindsight.specs.from_file import cell_of
from hindsight.specs.plan import Plan
from hindsight.training.cell import prepare_process
from hindsight.training.files import load, save
from hindsight.training.finished import finished
from hindsight.training.policies import acting_places
from hindsight.training.progress import Progress, show
from hindsight.training.runs import runs_of
from hindsight.workflow import MAIN_EXPERIMENT


def publish_policies(
    config: Config,
    arms: Collection[str] = (),
    trained: Path = TRAINED,
    again: bool = False,
    experiment: str = MAIN_EXPERIMENT,
    tasks: Collection[str] = (),
) -> Iterator[str]:
    """Write what is missing of results/published/policies; yields a line for each file.

    Args:
        config: of the published results.
        arms, tasks: their names; all if none is given.
        trained: below which cells that were trained are looked for, with their policies.
        again: also those that are there.
    """
    plan = Plan.of(config)
    _must_be_among("--experiment", [experiment], plan.experiments)
    places = plan.experiments[experiment]
    _must_be_among("--arm", arms, [entry.arm for entry, _ in places])
    _must_be_among("--task", tasks, [entry.condition.task for entry, _ in places])
    names = dict.fromkeys(
        name
        for entry, name in places
        if (not arms or entry.arm in arms) and (not tasks or entry.condition.task in tasks)
    )
    again_of: list[Middle] = []
    for name in names:
        out = PUBLISHED / "policies" / f"{name}.pt"
        if out.exists() and not again:
            yield f"{out}: is there"
        elif not (curves := PUBLISHED / "cells" / f"{name}.parquet").exists():
            yield f"missing: {curves}"
        else:
            verify([curves])
            spec = plan.cells[name]
            if (told := _write_trained(spec, trained, out)) is not None:
                vouch(out)
                yield told
            else:
                again_of.append(Middle.of(spec, curves))
    for middle in again_of:
        out = PUBLISHED / "policies" / f"{middle.spec.name}.pt"
        told = middle.write(out, *train_again(middle))
        vouch(out)
        yield f"{told}, trained again (its curves say {middle.score[0]:.3f})"


def publish_trained(curves: Path, named: Collection[str] = ()) -> str:
    """Write the policy of a cell of no experiment, which `hindsight train` has trained; returns a
    line for it.

    Args:
        curves: of the cell, in the folder of results that has its policies, too.
        named: environments that a person has typed (`specs.from_file`).

    Raises:
        FileError: they are no cell's, or its policies are not there, or of other code.
    """
    spec = cell_of(load_cell(curves).metadata["spec"], curves, named)
    out = PUBLISHED / "policies" / f"{spec.name}.pt"
    told = _write_trained(spec, curves.parents[2], out)
    if told is None:
        raise FileError(f"{curves}: no policies of today's code are beside it; train it again")
    vouch(out)
    return told


def stage_policy(spec: CellSpec, trained: Path) -> None:
    """Keep the policy of a cell that is staged, from where it was trained, if it is there.

    `hindsight publish` moves it along with its cell.
    """
    _write_trained(spec, trained, STAGED / "policies" / f"{spec.name}.pt")


def _write_trained(spec: CellSpec, trained: Path, out: Path) -> str | None:
    """Write the middle run's policy of a cell that is trained, whose policies are at hand; returns
    a line that says what it is, None where they are not.
    """
    if (done := finished(trained, spec)) is None:
        return None
    middle = Middle.of(spec, trained / "cells" / f"{spec.name}.parquet")
    return middle.write(out, done.policies[middle.seed], middle.steps, middle.score)


def _must_be_among(option: str, asked: Iterable[str], there: Iterable[str]) -> None:
    for name in sorted(set(asked) - set(there)):
        known = ", ".join(dict.fromkeys(there))
        raise SpecError(f"{option} {name!r} is unknown; there are {known}")


def middle_run(runs: pd.DataFrame) -> pd.Series:
    """The run in the middle by its final evaluation; of two in the middle the lesser one."""
    keys = ["final_evaluation_return", "final_evaluation_success", "seed"]
    return runs.sort_values(keys).iloc[(len(runs) - 1) // 2]


@dataclass(frozen=True)
class Middle:
    """The run in the middle of a cell."""

    spec: CellSpec
    seed: int
    steps: int  # where it ended
    score: tuple[float, float]  # its last evaluation: mean return, share of successes
    of_runs: int

    @classmethod
    def of(cls, spec: CellSpec, curves: Path) -> "Middle":
        """By these curves of the cell."""
        runs = reduce_cell(load_cell(curves)).runs
        middle = middle_run(runs)
        score = middle["final_evaluation_return"], middle["final_evaluation_success"]
        seed, steps = int(middle["seed"]), int(middle["end_step"])
        return cls(spec, seed, steps, (float(score[0]), float(score[1])), len(runs))

    def write(self, out: Path, row: Tensor, steps: int, found: tuple[float, float]) -> str:
        """Write its policy, of these parameters [parameter]; returns a line that says what it is.

        Args:
            found: what these evaluate to: mean return, share of successes.
        """
        which = f"run {self.seed}, in the middle of {self.of_runs} by the return of its last"
        result = {
            "which": f"{which} evaluation",
            "episodes": self.spec.evaluation.episodes,
            "steps": steps,
            "return_mean": found[0],
            "success_rate": found[1],
            "return_mean_of_curves": self.score[0],
            "success_rate_of_curves": self.score[1],
            "code": code_of(self.spec),
        }
        write_policy(out, self.spec, self.seed, row, result)
        return f"{out}: run {self.seed}, return {found[0]:.3f}, success {found[1]:.2f}"


#: Last parameters [parameter] of a run, its steps, and what it then evaluates to.
End = tuple[Tensor, int, tuple[float, float]]


def train_again(middle: Middle) -> End:
    """Train this run to its end."""
    prepare_process("cpu")
    spec, seed = middle.spec, middle.seed
    runs = runs_of(spec, [seed], "cpu")
    with show() as tell:
        ended = False
        while not ended:
            columns = runs.iterate()
            if not runs.rows.isfinite().all():
                raise FileError(f"{spec.name}: run {seed} diverged at step {runs.env_steps:,}")
            ended = bool(runs.ended(columns["return_mean"]))
            rate = runs.env_steps / max(float(runs.clock.wall.sum()), 1e-9)
            score = float(columns["return_mean"]), float(columns["success_rate"])
            tell(Progress((spec.name,), runs.env_steps, spec.steps, rate, *score))
    tested = runs.evaluate()
    found = float(tested["return_mean"]), float(tested["success_rate"])
    return runs.rows[0].detach().cpu().clone(), runs.env_steps, found


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
