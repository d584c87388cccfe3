"""Optional outputs of a training: best policies, intermediate policies, TensorBoard curves.

Each is a `training.cell.Callback`: it sees everything recorded and changes no number.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hindsight.io.files import FileError
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import code_of
from hindsight.specs.errors import SpecError
from hindsight.training.files import load, save
from hindsight.training.runs import Runs

#: A run's parameters [parameter], their step, and their success rate and mean return.
Kept = tuple[Tensor, int, tuple[float, float]]


class Policies:
    """A policy file to which runs are added one by one.

    An existing file of the same code and specification is continued; any other is overwritten.
    """

    def __init__(self, path: Path, spec: CellSpec) -> None:
        self.path, self.spec, self.code = path, spec, code_of(spec)
        self.runs: dict[int, Kept] = {}  # by seed
        # A missing or damaged file, or one of another kind, is overwritten.
        with suppress(FileError, KeyError, TypeError, ValueError):
            saved = load(path)
            if (saved["spec"], saved["code"]) == (spec.model_dump_json(), self.code):
                self.runs = _runs_in(saved)

    def put(self, runs: Runs, scores: Mapping[int, tuple[float, float]]) -> None:
        """Keep the current parameters of these runs, given by seed, and write the file."""
        for seed, score in scores.items():
            row = runs.rows[runs.seeds.index(seed)].detach().cpu().clone()
            if row.isfinite().all():
                self.runs[seed] = row, runs.env_steps, score
        self.write()

    def write(self) -> None:
        """Write the file, unless there is no run."""
        if self.runs:
            seeds = sorted(self.runs)
            rows, steps, found = zip(*(self.runs[seed] for seed in seeds), strict=True)
            state = {
                "spec": self.spec.model_dump_json(),
                "code": self.code,
                "seeds": seeds,
                "rows": torch.stack(rows),
                "steps": list(steps),
                "scores": [list(score) for score in found],
            }
            save(self.path, state)


def _runs_in(saved: dict[str, Any]) -> dict[int, Kept]:
    kept = zip(saved["rows"], saved["steps"], map(tuple, saved["scores"]), strict=True)
    return dict(zip(saved["seeds"], kept, strict=True))


class KeepBest:
    """Keeps each run's parameters at its best evaluation.

    The highest success rate is best, then the highest return; of equals, the latest.
    """

    def __init__(self, path: Path, spec: CellSpec) -> None:
        self.kept = Policies(path, spec)

    def __call__(self, runs: Runs, phase: str, columns: Mapping[str, Tensor]) -> None:
        """Keep the runs that have just had their best evaluation."""
        if phase != "evaluation":
            return
        found = _scores(runs, columns)
        kept = self.kept.runs
        better = {s: own for s, own in found.items() if s not in kept or own >= kept[s][2]}
        if better:
            self.kept.put(runs, better)

    def add_reused(self, origin: Mapping[str, Any] | None) -> None:
        """Add the best policies of runs that were taken from another cell, if that cell kept them.

        origin: where they are from, as the curves' metadata say under `reused`; None: nothing.
        """
        if origin is None:
            return
        kept, found = self.kept, dict[int, Kept]()
        with suppress(FileError, KeyError, TypeError, ValueError):  # as for the cell's own file
            found = _runs_in(load(kept.path.parents[1] / f"{origin['cell']}-{kept.code}.pt"))
        kept.runs |= {seed: found[seed] for seed in origin["seeds"] if seed in found}
        kept.write()


class KeepOnTheWay:
    """Writes `<folder>/<steps>.pt`, a policy file of all runs, every `every` steps of each run."""

    def __init__(self, folder: Path, spec: CellSpec, every: int) -> None:
        if every < 1:
            raise SpecError(f"--checkpoint-every {every} is not allowed; use 1 or more")
        self.folder, self.spec, self.every = folder, spec, every

    def __call__(self, runs: Runs, phase: str, columns: Mapping[str, Tensor]) -> None:
        """Write a file if the iteration has reached a multiple of `every` steps."""
        now, before = runs.env_steps, runs.env_steps - runs.rollout_steps
        if phase == "train" and now // self.every > before // self.every:
            kept = Policies(self.folder / f"{now}.pt", self.spec)
            kept.put(runs, _scores(runs, columns))


def _scores(runs: Runs, columns: Mapping[str, Tensor]) -> dict[int, tuple[float, float]]:
    """Return success rate and mean return, by seed, of the runs that have them."""
    success, returns = columns["success_rate"].tolist(), columns["return_mean"].tolist()
    found = zip(runs.seeds, success, returns, strict=True)
    return {seed: (s, mean) for seed, s, mean in found if not math.isnan(s)}


#: Stable-Baselines3's names of the curves' columns, by phase.
NAMES = {
    "train": {
        "return_mean": "rollout/ep_rew_mean",
        "episode_length": "rollout/ep_len_mean",
        "success_rate": "rollout/success_rate",
        "episodes": "time/episodes",
        "policy_loss": "train/policy_gradient_loss",
        "policy_entropy": "train/entropy_loss",  # negated
        "alpha": "train/ent_coef",
    },
    "evaluation": {
        "return_mean": "eval/mean_reward",
        "episode_length": "eval/mean_ep_length",
        "success_rate": "eval/success_rate",
    },
}


class TensorBoard:
    """Writes curves for TensorBoard into a folder for each run, such as `<folder>/<cell>/run_0`.

    Metrics have Stable-Baselines3's names.  Those that it lacks keep the names of the curves'
    columns, under `train/`.
    """

    def __init__(
        self, folder: Path, spec: CellSpec, writer: Callable[[Path, int], Any] | None = None
    ) -> None:
        """Raise SpecError if the package tensorboard is missing.

        `writer` creates a run's SummaryWriter from its folder and first step; None: torch's.
        """
        self.folder, self.make = folder / spec.name, writer or _summary_writer()
        self.writers: dict[int, Any] = {}

    def __call__(self, runs: Runs, phase: str, columns: Mapping[str, Tensor]) -> None:
        """Write an iteration or an evaluation of every run."""
        step, wall = runs.env_steps, runs.clock.wall.tolist()
        values = {name: column.tolist() for name, column in columns.items()}
        for i, seed in enumerate(runs.seeds):
            if seed not in self.writers:
                self.writers[seed] = self.make(self.folder / f"run_{seed}", step)
            found = {name: column[i] for name, column in values.items()}
            for tag, value in self._named(phase, found).items():
                if not math.isnan(value):
                    self.writers[seed].add_scalar(tag, value, step)
            if phase == "train":
                self.writers[seed].add_scalar("time/time_elapsed", wall[i], step)
                self.writers[seed].add_scalar("time/fps", step / max(wall[i], 1e-9), step)
                self.writers[seed].add_scalar("time/iterations", runs.iteration, step)
                self.writers[seed].add_scalar("time/total_timesteps", step, step)

    @staticmethod
    def _named(phase: str, values: Mapping[str, float]) -> dict[str, float]:
        names = NAMES[phase]
        if phase == "evaluation":
            return {tag: values[name] for name, tag in names.items()}
        signs = {"policy_entropy": -1.0}
        return {
            names.get(name, f"train/{name}"): signs.get(name, 1.0) * value
            for name, value in values.items()
        }

    def close(self) -> None:
        """Flush and close all files."""
        for writer in self.writers.values():
            writer.close()


def _summary_writer() -> Callable[[Path, int], Any]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise SpecError(
            "curves for TensorBoard need the package tensorboard: pip install tensorboard"
        ) from None

    # purge_step hides what an interrupted training wrote after the checkpoint it continues from.
    return lambda folder, step: SummaryWriter(str(folder), purge_step=step)
