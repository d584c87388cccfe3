"""Read one results file: all seeds of one algorithm variant in one condition.

Anything but an intact results file is rejected by an error that names the file, so that an
incomplete or foreign file never gets into a figure.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight.io.checksums import ABOUT, MOST_ROWS, about, is_whole, read_table
from hindsight.io.files import FileError, reason
from hindsight.specs.cell import DEFAULTS, hash_of

#: Columns of a table by name, all of one length. Those of a data frame take ten times as long to
#: look up, which for hundreds of thousands of look-ups is most of the time.
Columns = dict[str, NDArray[Any]]
#: The id of the papers' environment, the default of a cell.
PAPERS_ENVIRONMENT = DEFAULTS["environment"]["id"]
#: Columns of every algorithm.
COLUMNS = (
    "phase", "seed", "iteration", "env_steps", "wall_seconds", "cpu_seconds", "episodes",
    "return_mean", "success_rate", "episode_length", "updates",
)  # fmt: skip
#: Columns of some algorithms only, of newer files, or of evaluation rows; NaN where absent.
OPTIONAL = (
    "policy_entropy", "log_std", "approx_kl", "value_loss", "s_ratio_after",
    "hindsight_log_ratio_max", "hindsight_log_ratio_mean", "relabelled_z_squared",
    "relabelled_advantage", "relabelled_share",
    "reward_entropy", "action_entropy", "observation_entropy",
    "critic_loss", "actor_loss", "loss", "q_mean", "alpha",
    "episode_return", "episode_success", "goal_moved", "goal_displacement",
)  # fmt: skip
#: All columns that figures, tables and claims read, and two losses, which `verify` compares.
KNOWN = (*COLUMNS, *OPTIONAL)
METADATA = (
    "spec", "spec_hash", "code", "versions", "machine", "device", "precision", "clock",
    "runs_per_axis", "seconds", "runs",
)  # fmt: skip
CLOCKS = {"cpu": "cpu_seconds", "wall": "wall_seconds"}
#: Two runs differ in at least one of these, even if neither learns.
UNLIKE = (
    "return_mean", "episode_length", "policy_entropy", "value_loss", "critic_loss", "loss",
    "q_mean",
)  # fmt: skip
LOSSES = slice(2, None)
#: A cell's runs take at least 1/200 of its time; starting up takes the rest.
LEAST_SHARE = 200
#: The largest difference between a mean return and the return that follows from the success rate.
#: Until November 2026, a prey caught exactly at the threshold could be rewarded twice (CHANGELOG),
#: a difference of at most 0.02.
MOST_DIFFERENCE = 0.05


class ResultError(FileError):
    """A results file cannot be used."""


@dataclass(frozen=True)
class Cell:
    """One results file: rows of `training` and of `tests`, sorted by seed and step."""

    path: Path
    training: Columns
    tests: Columns
    metadata: dict[str, Any]

    @property
    def clock_column(self) -> str:
        """The column of training time in seconds: CPU time on a CPU, wall time on a GPU."""
        return CLOCKS[self.metadata["clock"]]

    @property
    def diverged(self) -> dict[int, int]:
        """By seed, the step at which a run ended because its parameters were not finite."""
        runs = self.metadata["runs"]
        return {run["seed"]: run["end_step"] for run in runs if run["ended"] == "diverged"}

    @property
    def budget(self) -> int:
        return int(self.metadata["spec"]["steps"])


def load_cell(path: str | Path) -> Cell:
    """Read and check a results file.

    Raises:
        ResultError: the file is missing, truncated, changed, foreign or inconsistent.
        FileError: the file cannot be read.
    """
    path = Path(path)
    try:
        return _read(path)
    except (FileError, MemoryError):
        raise
    except FileNotFoundError:
        raise ResultError(f"{path}: no such results file") from None
    except Exception as error:  # readers can raise anything on a damaged file
        if isinstance(error, OSError) and error.errno:
            raise FileError(f"{path}: cannot be read: {error.strerror}") from None
        raise ResultError(
            f"{path}: not a readable results file, truncated or damaged ({reason(error)})"
        ) from error


def _read(path: Path) -> Cell:
    table = read_table(path)
    if missing := [name for name in COLUMNS if name not in table.column_names]:
        raise ResultError(f"{path}: not a results file, it lacks the columns {', '.join(missing)}")
    if not is_whole(table):
        raise ResultError(f"{path}: its checksum is missing or does not match its content")
    metadata = _checked(path, json.loads(table.schema.metadata[ABOUT]))
    # The only column of text, and therefore slow to sort.
    phases = table["phase"].to_numpy()
    rows = {name: table[name].to_numpy() for name in table.column_names if name != "phase"}
    absent = dict.fromkeys(OPTIONAL, np.full(len(table), np.nan))
    if foreign := sorted(map(str, set(phases) - {"train", "evaluation"})):
        raise ResultError(f"{path}: phase {foreign[0]!r} is neither train nor evaluation")
    order = np.lexsort([rows["env_steps"], rows["seed"]])
    train, tests = (
        {name: values[own] for name, values in (absent | rows).items()}
        for own in (order[phases[order] == phase] for phase in ("train", "evaluation"))
    )
    cell = Cell(path, train, tests, metadata)
    for problem in _problems(cell):
        raise ResultError(f"{path}: {problem}")
    cell = _tested_on_grid(cell)
    return _failing_once_diverged(cell) if cell.diverged else cell


def _tested_on_grid(cell: Cell) -> Cell:
    """Leave out evaluations off the grid, except the one with which a run ends.

    Until November 2026 all runs were evaluated whenever one of them ended, so that the evaluations
    of a run depended on the others.
    """
    points, budget = cell.metadata["spec"].get("evaluation", {}).get("points", 20), cell.budget
    steps = cell.tests["env_steps"].astype(np.int64)
    iteration = cell.training["env_steps"].min()
    due = steps * points // budget > (steps - iteration) * points // budget  # as in training
    last = np.diff(cell.tests["seed"], append=np.nan) != 0
    return replace(cell, tests={name: x[due | last] for name, x in cell.tests.items()})


def _failing_once_diverged(cell: Cell) -> Cell:
    """Add rows in which every episode fails to diverged runs, up to the budget.

    The return is -1 in predator-prey, else the lowest of any run of the cell. The success rate is
    0, and the time stays what it was. The other columns are NaN.
    """
    every = int(cell.training["env_steps"].min())
    if cell.budget // every > MOST_ROWS:
        raise ResultError(f"{cell.path}: {cell.budget:,} steps are too many")
    grid = np.arange(every, cell.budget + 1, every)
    worst = np.nanmin(cell.training["return_mean"])
    environment = cell.metadata["spec"].get("environment", {})
    if environment.get("id", PAPERS_ENVIRONMENT) == PAPERS_ENVIRONMENT:
        worst = -1.0  # the prey is never caught
    found = []
    # Also at the end of the budget, where none was tested if the others ended early.
    tested = np.union1d(cell.tests["env_steps"], grid[-1:])
    for rows, steps in ((cell.training, grid), (cell.tests, tested)):
        parts = [rows]
        for seed in cell.diverged:
            later = steps[steps > rows["env_steps"][rows["seed"] == seed].max(initial=0)]
            last = np.flatnonzero(cell.training["seed"] == seed)[-1]
            kept = {
                name: cell.training[name][last]
                for name in ("seed", "wall_seconds", "cpu_seconds", "episodes")
            }
            known = {"env_steps": later, "iteration": later // every, "return_mean": worst,
                     "success_rate": 0.0, **kept}  # fmt: skip
            parts.append({
                name: np.full(len(later), known.get(name, np.nan), values.dtype)
                for name, values in rows.items()
            })  # fmt: skip
        whole = {name: np.concatenate([part[name] for part in parts]) for name in rows}
        order = np.lexsort([whole["env_steps"], whole["seed"]])
        found.append({name: values[order] for name, values in whole.items()})
    return replace(cell, training=found[0], tests=found[1])


#: The end of a planned cell's file name: its hash and, unless published, that of its code.
HASH = re.compile(r"-([0-9a-f]{10})(?:-([0-9a-f]{12}))?$")


def _checked(path: Path, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a file's metadata if it is a cell's, and of the cell that the file's name says.

    The checksum in a file does not detect that it was renamed.
    """
    if missing := [key for key in METADATA if key not in metadata]:
        raise ResultError(f"{path}: not a results file, its metadata lacks {', '.join(missing)}")
    asked = HASH.search(path.stem)
    if asked is None:  # not a file of the workflow
        return metadata
    try:
        held = hash_of(metadata["spec"])
    except (KeyError, TypeError, AttributeError, ValueError):
        held = metadata["spec_hash"]
    code = asked[2] and metadata["code"]
    if (asked[1], asked[1], asked[2]) != (held, metadata["spec_hash"], code):
        raise ResultError(
            f"{path}: it holds another cell, {held} of the code {metadata['code']}; the file was "
            "renamed or exchanged with another"
        )
    return metadata


def metadata_of(path: Path) -> dict[str, Any]:
    """Read only the metadata of a cell's file.

    Raises:
        ResultError: it is not a results file, or holds another cell than its name says.
    """
    return _checked(path, about(path))


def _problems(cell: Cell) -> Iterator[str]:
    """Yield what training cannot have written, even if the checksum is right.

    Checks that every run in the metadata has all its rows on the common grid, that clocks do not
    run backwards, that values are possible, and that the rows agree with the specification. Each
    check relies on the ones before it, so only the first problem counts.
    """
    curves, runs, spec = cell.training, cell.metadata["runs"], cell.metadata["spec"]
    announced = sorted(int(run["seed"]) for run in runs)
    found = sorted(int(seed) for seed in np.unique(curves["seed"]))
    if not found or len(announced) != spec["seeds"] or found != announced:
        yield (
            f"{spec['seeds']} seeds are specified, but its metadata has {len(announced)} and its "
            f"rows have {len(found)}"
        )
    tested = (cell.tests[name].tolist() for name in ("seed", "env_steps"))
    last_tests = dict(zip(*tested, strict=True))  # steps ascend
    yield from _impossible(cell)
    seeds, steps, iterations, clock = (
        curves[name] for name in ("seed", "env_steps", "iteration", cell.clock_column)
    )
    starts = np.flatnonzero(np.diff(seeds, prepend=np.nan))
    lengths = np.diff(starts, append=seeds.size)
    ends = starts + lengths - 1
    last_step = dict(zip(seeds[starts].tolist(), steps[ends].tolist(), strict=True))
    for run in runs:
        seed, end, last = run["seed"], run["end_step"], last_step[run["seed"]]
        if last != end:
            yield f"seed {seed} ended at step {end}, but its rows end at step {last}"
    place = np.arange(seeds.size) - np.repeat(starts, lengths)
    if not (iterations == place + 1).all():
        yield "a seed's iterations are not 1, 2, 3, ... without gaps"
    if (steps != steps[starts[lengths.argmax()] + place]).any():
        yield "its seeds are not on one grid of steps"
    if not (np.diff(clock)[np.diff(seeds) == 0] >= 0.0).all():
        yield f"{cell.clock_column} decreases within a run or is missing"
    for run in runs:
        seed, end, ended = (run[name] for name in ("seed", "end_step", "ended"))
        earliest = (spec.get("early_end") or np.inf) * (run["perfect_step"] or np.inf)
        wrong = {
            "budget": cell.budget - end >= steps[0],
            "early": end < earliest,
            "test": not spec.get("end_test"),
        }
        if wrong.get(ended, False):
            yield (
                f"seed {seed} ended at step {end} of {cell.budget} ({ended}), which its "
                "specification does not allow"
            )
        if ended != "diverged" and last_tests.get(seed) != end:
            yield f"seed {seed} has no evaluation at step {end}, where it ended"
    # Not `clock`: a process that is stopped uses no CPU time.
    took, whole = curves["wall_seconds"][ends].sum(), cell.metadata["seconds"]
    if took * LEAST_SHARE < whole:
        yield f"its runs took only {took:g} s of the cell's {whole:g} s"
    columns = np.stack([curves[name] for name in UNLIKE], axis=1).astype(np.float64)
    every = [columns[i : j + 1] for i, j in zip(starts, ends, strict=True)]
    # Runs without any update may be equal.
    updated = [run.tobytes() for run in every if np.isfinite(run[:, LOSSES]).any()]
    if len(set(updated)) < len(updated):
        yield "two seeds have the same numbers in every row"


def _impossible(cell: Cell) -> Iterator[str]:
    where = cell.metadata["spec"].get("environment", {})
    returns, longest = _possible(where)
    bounds = {
        "return_mean": returns, "success_rate": (0.0, 1.0), "episode_length": (1.0, longest)
    }  # fmt: skip
    # Values are NaN until the first episode ends, and may be in a diverged run's last row.
    untold = cell.training["episodes"] == 0
    for seed, step in cell.diverged.items():
        untold |= (cell.training["seed"] == seed) & (cell.training["env_steps"] == step)
    for phase, rows, early in (
        ("training", cell.training, untold),
        ("evaluation", cell.tests, np.zeros(len(cell.tests["seed"]), bool)),
    ):
        seeds, steps = rows["seed"], rows["env_steps"]
        for row in np.flatnonzero((np.diff(seeds) == 0) & (np.diff(steps) == 0)):
            yield f"seed {seeds[row]} has two rows of {phase} at step {steps[row]}"
        beyond = steps.max(initial=1)
        if beyond > cell.budget or steps.min(initial=1) < 1:
            yield f"a row of {phase} is at step {beyond}, its budget is {cell.budget}"
        for column, (low, high) in bounds.items():
            values = rows[column].astype(np.float64)
            # Means are in float32.
            slack = 1e-4 * max(1.0, abs(low) if np.isfinite(low) else abs(high))
            inside = np.isfinite(values) & (values >= low - slack) & (values <= high + slack)
            for row in np.flatnonzero(~(inside | (early & np.isnan(values)))):
                at = f"{column} of {phase} is {values[row]:g} at step {steps[row]} of seed"
                between = f", which lies between {low:g} and {high:g}" if np.isfinite(high) else ""
                yield f"{at} {seeds[row]}{between}"
        if where.get("id", PAPERS_ENVIRONMENT) == PAPERS_ENVIRONMENT:
            mean, success = (rows[name] for name in ("return_mean", "success_rate"))
            gaps = np.nan_to_num(np.abs(mean - (2 * success - 1)))
            if gaps.max(initial=0.0) > MOST_DIFFERENCE:
                row = gaps.argmax()
                yield (
                    f"return {mean[row]:g} at success {success[row]:g} is impossible: an episode's "
                    "return is 1 with success and -1 without"
                )


def _possible(where: dict[str, Any]) -> tuple[tuple[float, float], float]:
    """Return the bounds of a return and the longest episode, for known environments."""
    longest = where.get("max_steps")
    kind = where.get("id", PAPERS_ENVIRONMENT)
    if kind == PAPERS_ENVIRONMENT:
        # 1 if the prey is caught, else -1; an episode ends one step after max_steps.
        return (-1.0, 1.0), float(longest or 20) + 1.0
    if kind == "BitFlipping-v0":
        longest = longest or where.get("n_bits")
    if kind in ("PointReach-v0", "BitFlipping-v0") and longest:  # each step costs 1 or nothing
        return (-float(longest), 0.0), float(longest)
    return (-np.inf, np.inf), np.inf
