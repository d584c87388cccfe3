"""Optional outputs of a training: best policies, intermediate policies, TensorBoard curves.

Each is a `training.cell.Callback`: it sees everything recorded and changes no number.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hindsight.io.checkpoints import load, save
from hindsight.io.files import FileError
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import SEEDS, code_of
from hindsight.specs.errors import SpecError
from hindsight.training.finished import changed_versions
from hindsight.training.record import versions_in_use
from hindsight.training.runs import Runs

#: A run's parameters [parameter], their step, and their success rate and mean return.
Kept = tuple[Tensor, int, tuple[float, float]]


class KeepBest:
    """Keeps each run's parameters at its best evaluation, in a policy file.

    The highest success rate is best, then the highest return; of equals, the latest.  An existing
    file of the same code, packages and specification is continued; any other is overwritten.
    """

    def __init__(self, path: Path, spec: CellSpec) -> None:
        self.path, self.spec = path, spec
        self.runs = _runs_in(path, spec)

    def __call__(self, runs: Runs, phase: str, columns: Mapping[str, Tensor]) -> None:
        if phase != "evaluation":
            return
        kept, now = self.runs, _runs_now(runs, columns)
        better = {s: own for s, own in now.items() if s not in kept or own[2] >= kept[s][2]}
        if better:
            kept |= better
            _write(self.path, self.spec, kept)

    def add_reused(self, origin: Mapping[str, Any] | None) -> None:
        """Add the best policies of runs that were taken from another cell, if that cell kept them.

        origin: where they are from, as the curves' metadata say under `reused`; None: nothing.
        """
        if origin is None or (not self.runs and self.path.exists()):  # of other code or packages
            return
        code, seeds = code_of(self.spec), SEEDS.search(origin["cell"])
        other = self.path.parents[1] / f"{origin['cell']}-{code}.safetensors"
        spec = self.spec.model_copy(update={"seeds": int(seeds[1]) if seeds else 0})
        found = _runs_in(other, spec)
        self.runs |= {seed: found[seed] for seed in origin["seeds"] if seed in found}
        _write(self.path, self.spec, self.runs)


class KeepOnTheWay:
    """Writes `<folder>/<steps>.safetensors`, a policy file of all runs, every `every` steps."""

    def __init__(self, folder: Path, spec: CellSpec, every: int) -> None:
        self.folder, self.spec, self.every = folder, spec, every

    def __call__(self, runs: Runs, phase: str, columns: Mapping[str, Tensor]) -> None:
        now, before = runs.env_steps, runs.env_steps - runs.rollout_steps
        if phase == "train" and now // self.every > before // self.every:
            _write(self.folder / f"{now}.safetensors", self.spec, _runs_now(runs, columns))


def _runs_now(runs: Runs, columns: Mapping[str, Tensor]) -> dict[int, Kept]:
    """Return by seed the runs that have not diverged; one scores -inf before its first episode."""
    names = "success_rate", "return_mean"
    scores = zip(*(columns[name].nan_to_num(-math.inf).tolist() for name in names), strict=True)
    found = zip(runs.seeds, runs.rows.detach().cpu(), scores, strict=True)
    return {
        seed: (row.clone(), runs.env_steps, score)
        for seed, row, score in found
        if row.isfinite().all()
    }


def _runs_in(path: Path, spec: CellSpec) -> dict[int, Kept]:
    """Return a policy file's runs by seed; {} unless it is whole and of this code and packages."""
    with suppress(FileError, KeyError, TypeError, ValueError):
        saved = load(path)
        kept = zip(saved["rows"], saved["steps"], map(tuple, saved["scores"]), strict=True)
        runs = dict(zip(saved["seeds"], kept, strict=True))
        made_by = saved["spec"], saved["code"]
        ours = made_by == (spec.model_dump_json(), code_of(spec))
        if ours and not changed_versions(saved["versions"]):
            return runs
    return {}


def _write(path: Path, spec: CellSpec, runs: Mapping[int, Kept]) -> None:
    if runs:
        seeds = sorted(runs)
        rows, steps, scores = zip(*(runs[seed] for seed in seeds), strict=True)
        state = {
            "spec": spec.model_dump_json(),
            "code": code_of(spec),
            "versions": versions_in_use(spec),
            "seeds": seeds,
            "rows": torch.stack(rows),
            "steps": list(steps),
            "scores": [list(score) for score in scores],
        }
        save(path, state)


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

    def __init__(self, folder: Path, spec: CellSpec) -> None:
        """Raise SpecError if the package tensorboard is missing."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise SpecError(
                "curves for TensorBoard need the package tensorboard: pip install tensorboard"
            ) from None
        self.folder, self.make = folder / spec.name, SummaryWriter
        self.writers: dict[int, Any] = {}

    def __call__(self, runs: Runs, phase: str, columns: Mapping[str, Tensor]) -> None:
        step, wall = runs.env_steps, runs.clock.wall.tolist()
        values = {name: column.tolist() for name, column in columns.items()}
        if phase == "evaluation":
            values = {name: values[name] for name in NAMES["evaluation"]}
        for i, seed in enumerate(runs.seeds):
            if seed not in self.writers:
                # An interrupted training wrote more than the checkpoint that it continues from.
                folder = str(self.folder / f"run_{seed}")
                self.writers[seed] = self.make(folder, purge_step=step)
            add = self.writers[seed].add_scalar
            for name, column in values.items():
                value = -column[i] if name == "policy_entropy" else column[i]
                if not math.isnan(value):
                    add(NAMES[phase].get(name, f"train/{name}"), value, step)
            if phase == "train":
                add("time/time_elapsed", wall[i], step)
                add("time/fps", step / max(wall[i], 1e-9), step)
                add("time/iterations", runs.iteration, step)
                add("time/total_timesteps", step, step)

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()
