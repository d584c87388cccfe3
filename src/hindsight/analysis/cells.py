"""Reading one results file: all seeds of one algorithm variant in one condition.

Refuses whatever is not a whole results file, in one sentence that names the file, so that a
half-copied or foreign file never becomes a point of a figure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hindsight.files import FileError
from hindsight.integrity import is_whole

KEYS = ("phase", "seed", "iteration", "env_steps")
MEASURED = (
    "wall_seconds", "cpu_seconds", "episodes", "return_mean", "success_rate", "episode_length",
)  # fmt: skip
#: Of training rows: what every algorithm notes, and what PPO does beside.
TRAIN_ONLY = ("updates",)
PPO_ONLY = (
    "policy_entropy", "log_std", "approx_kl", "clip_fraction", "policy_loss", "value_loss",
    "gradient_norm", "ratio_max", "relabelled_share", "s_ratio_before", "s_ratio_after",
)  # fmt: skip
#: What some algorithms note, older files lack, or evaluation rows hold; NaN where it is absent.
OPTIONAL = (
    "relabelled_ratio_max", "hindsight_log_ratio_max",
    "reward_entropy", "action_entropy", "observation_entropy",
    "critic_loss", "actor_loss", "loss", "q_mean", "alpha",
    "episode_return", "episode_success", "goal_moved", "goal_displacement",
)  # fmt: skip
COLUMNS = (*KEYS, *MEASURED, *TRAIN_ONLY)
METADATA = (
    "spec", "spec_hash", "code", "versions", "machine", "device", "precision", "clock",
    "runs_per_axis", "seconds", "runs",
)  # fmt: skip
RUN_KEYS = ("seed", "perfect_step", "end_step", "ended")
CLOCKS = {"cpu": "cpu_seconds", "wall": "wall_seconds"}


class ResultError(FileError):
    """A results file that cannot be used; the message names it and says why in one sentence."""


@dataclass(frozen=True)
class Cell:
    """One results file: training rows, evaluation rows (both sorted by seed and step) and its
    metadata.
    """

    path: Path
    curves: pd.DataFrame
    evaluations: pd.DataFrame
    metadata: dict[str, Any]

    @property
    def clock_column(self) -> str:
        """The column that holds a run's training time in seconds: CPU time on a CPU, wall time on a
        GPU.
        """
        return CLOCKS[self.metadata["clock"]]

    @property
    def budget(self) -> int:
        """Environment steps a run may take."""
        return int(self.metadata["spec"]["steps"])


def load_cell(path: str | Path) -> Cell:
    """Read and check a results file; ResultError if it is missing, truncated, changed, foreign or
    inconsistent, FileError if it cannot be read.
    """
    path = Path(path)
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise ResultError(f"{path}: there is no such results file") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise FileError(f"{path}: cannot be read: {error.strerror}") from None
        reason = str(error).splitlines()[0]
        message = f"{path}: not a readable parquet file, truncated or damaged ({reason})"
        raise ResultError(message) from None
    if not is_whole(table):
        raise ResultError(f"{path}: its checksum is not that of its content, it was changed")
    _require(path, COLUMNS, table.column_names)
    metadata = _metadata(path, table.schema.metadata or {})
    if metadata["spec"].get("algorithm", {}).get("name", "ppo") == "ppo":
        _require(path, PPO_ONLY, table.column_names)
    rows = table.to_pandas()
    absent = [name for name in (*PPO_ONLY, *OPTIONAL) if name not in rows]
    rows = rows.assign(**dict.fromkeys(absent, np.nan))
    foreign = sorted(map(str, set(rows["phase"].unique()) - {"train", "evaluation"}))
    if foreign:
        raise ResultError(f"{path}: phase {foreign[0]!r} is neither train nor evaluation")
    rows = rows.sort_values(["seed", "env_steps"], kind="stable")
    train, evaluations = (
        rows[rows["phase"] == phase].reset_index(drop=True) for phase in ("train", "evaluation")
    )
    cell = Cell(path, train, evaluations, metadata)
    _check_rows(cell)
    return cell


def _require(path: Path, columns: Iterable[str], present: list[str]) -> None:
    missing = [name for name in columns if name not in present]
    if missing:
        raise ResultError(f"{path}: not a results file, it lacks the columns {', '.join(missing)}")


def _metadata(path: Path, raw: dict[bytes, bytes]) -> dict[str, Any]:
    """The JSON under the key `hindsight`, with every key that analysis relies on."""
    if b"hindsight" not in raw:
        raise ResultError(f"{path}: not a results file, its metadata has no key 'hindsight'")
    try:
        metadata = json.loads(raw[b"hindsight"])
    except ValueError:
        raise ResultError(f"{path}: its metadata is not valid JSON") from None
    missing = [key for key in METADATA if not isinstance(metadata, dict) or key not in metadata]
    if missing:
        raise ResultError(f"{path}: its metadata lacks {', '.join(missing)}")
    if metadata["clock"] not in CLOCKS:
        raise ResultError(f"{path}: its clock is {metadata['clock']!r}, allowed are cpu and wall")
    spec, runs = metadata["spec"], metadata["runs"]
    if not isinstance(spec, dict) or not {"seeds", "steps"} <= spec.keys():
        raise ResultError(f"{path}: the specification in its metadata lacks seeds or steps")
    if not isinstance(runs, list) or not all(
        isinstance(run, dict) and set(RUN_KEYS) <= run.keys() for run in runs
    ):
        raise ResultError(f"{path}: a run in its metadata lacks one of {', '.join(RUN_KEYS)}")
    return metadata


def _check_rows(cell: Cell) -> None:
    """Every run announced in the metadata is there, whole, on the common grid, with a clock that
    never goes back.
    """
    path, curves, runs = cell.path, cell.curves, cell.metadata["runs"]
    expected = int(cell.metadata["spec"]["seeds"])
    announced = sorted(int(run["seed"]) for run in runs)
    found = sorted(int(seed) for seed in curves["seed"].unique())
    if len(announced) != expected or found != announced:
        raise ResultError(
            f"{path}: {expected} seeds are specified, {len(announced)} announced and "
            f"{len(found)} found"
        )
    unevaluated = set(found) - set(cell.evaluations["seed"].tolist())
    if unevaluated:
        raise ResultError(f"{path}: seed {min(unevaluated)} has no evaluation rows")
    last_step = curves.groupby("seed")["env_steps"].max()
    for run in runs:
        if int(last_step[run["seed"]]) != int(run["end_step"]):
            raise ResultError(
                f"{path}: seed {run['seed']} ended at step {run['end_step']} but its rows stop at "
                f"{last_step[run['seed']]}"
            )
    counts = curves.groupby("seed")["iteration"].agg(["size", "max", "nunique"])
    if not ((counts["size"] == counts["max"]) & (counts["size"] == counts["nunique"])).all():
        raise ResultError(f"{path}: a seed's iterations are not 1, 2, 3, ... without gaps")
    if (curves.groupby("iteration")["env_steps"].nunique() > 1).any():
        raise ResultError(f"{path}: its seeds do not share one grid of steps")
    same_run = np.diff(curves["seed"]) == 0
    ticks = np.diff(curves[cell.clock_column])
    if not (ticks[same_run] >= 0.0).all():
        raise ResultError(f"{path}: {cell.clock_column} goes back within a run or is missing")
