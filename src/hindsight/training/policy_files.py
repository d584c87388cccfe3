"""Policy files: a specification, seeds and a row of parameters for each seed.

The workflow and `hindsight train` write final, best and intermediate policies.  `hindsight publish`
writes only the parameters for deterministic actions, `Model.save` policies and curves.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hindsight.io.checkpoints import load
from hindsight.io.files import FileError
from hindsight.specs.cell import CellSpec, hash_of
from hindsight.specs.from_file import cell_of, values_of
from hindsight.specs.gymnasium import NAMESPACE
from hindsight.specs.manifest import verify
from hindsight.training.policies import acting_places, initial_row, n_bounds, n_parameters

#: The end of the name of a trained cell's file: the hashes of its specification and of the code.
NAMED = re.compile(r"-([0-9a-f]{10})-([0-9a-f]{12})$")
#: Marks files written by `Model.save`.
FORMAT = "hindsight model 1"


class AnotherPolicyError(FileError):
    """A file holds another policy than its name says."""


@dataclass(frozen=True)
class PolicyFile:
    path: Path
    values: dict[str, Any]  # its specification, as plain values
    seeds: list[int]  # [run]
    rows: Tensor  # [run, parameter], float32
    acts_only: bool  # rows hold only the parameters that determine deterministic actions
    saved: dict[str, Any]  # the whole file, including what only its writer uses

    @classmethod
    def read(cls, path: Path) -> "PolicyFile":
        """Read a policy file; raise FileError if it is damaged or of another kind."""
        verify([path])
        saved = load(path)
        if "identity" in saved:
            raise FileError(
                f"{path}: is a training checkpoint, not a policy file; policies are in the folders "
                "best (beside checkpoints) and, after training, policies"
            )
        if (form := saved.get("format", FORMAT)) != FORMAT:
            if re.fullmatch(r"hindsight model [1-9]\d*", str(form)):
                why = f"was written by a newer version of hindsight ({form!r}); update hindsight"
            else:
                why = f"is not a policy file: its format is {form!r}"
            raise FileError(f"{path}: {why}")
        if not {"spec", "seeds", "rows"} <= saved.keys():
            raise FileError(f"{path}: is not a policy file")
        seeds, rows, wrong = saved["seeds"], saved["rows"], ""
        lists = [x for x in (saved.get("steps"), saved.get("scores")) if isinstance(x, list)]
        if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
            wrong = "its seeds are not whole numbers"
        elif any(len(each) != len(seeds) for each in lists):
            wrong = "it lacks the steps or the scores of a run"
        elif not isinstance(rows, Tensor) or rows.dtype != torch.float32:
            wrong = "its parameters are not real numbers (float32)"
        elif rows.layout != torch.strided or rows.dim() != 2 or len(rows) != len(seeds):
            wrong = "it lacks one row of parameters per seed"
        if wrong:
            raise FileError(f"{path}: is not a policy file: {wrong}")
        if not seeds:
            raise FileError(f"{path}: every run diverged in training, so it holds no policy")
        values, acts_only = values_of(saved["spec"], path), saved.get("part") == "actor"
        named = NAMED.search(path.stem)
        if named is not None and "format" not in saved:  # a user names a model's file
            elsewhere = "policies" if "scores" in saved else "best"
            with suppress(KeyError, TypeError, AttributeError):  # told of where it is used
                same = (hash_of(values), saved.get("code", named[2])) == named.groups()
                home = path.absolute().parent.parent
                is_there = home.name == elsewhere and (home.parent / "cells").is_dir()
                if not same or is_there:
                    raise AnotherPolicyError(
                        f"{path}: holds another policy than its name says, such as a copy of "
                        "another file; hindsight train with --again makes it anew"
                    )
        return cls(path, values, seeds, rows, acts_only, saved)

    def rows_of(self, spec: CellSpec) -> Tensor:
        """Return parameters [run, parameter]; those that the file lacks have initial values.

        Raises FileError if their number does not match the specification.
        """
        rows = self.rows
        first = torch.stack([initial_row(spec, seed) for seed in self.seeds])
        places = acting_places(spec) if self.acts_only else torch.arange(first.shape[1])
        unbounded = len(places) - n_bounds(spec)  # before 1.1, observations were not clipped
        if rows.shape[1] in (len(places), unbounded):
            rows = first.index_copy_(1, places[: rows.shape[1]], rows)
        if rows.shape[1] != n_parameters(spec):
            raise FileError(f"{self.path}: its parameters do not match its specification")
        return rows

    def must_draw(self) -> None:
        if self.acts_only:
            raise FileError(
                f"{self.path}: contains only the parameters for deterministic actions; random "
                "actions cannot be sampled from it"
            )


def read_policy(
    path: Path, run: int | None = None, named: str | None = None, *, random: bool = False
) -> tuple[CellSpec, Tensor]:
    """Read the specification and the parameters [parameter] of one run of a policy file.

    `run` is a seed, by default the first; `named` the environment that the user has named, see
    `specs.from_file`; `random` whether actions will be sampled.

    Raises FileError if the file lacks the run, the run diverged, or actions cannot be sampled.
    """
    file = PolicyFile.read(path)
    run = next(iter(file.seeds), None) if run is None else run
    if run not in file.seeds:
        raise FileError(f"{path}: has no run {run}; choose from {file.seeds}")
    spec = cell_of(_in_named(file, named), path, named)
    if random:
        file.must_draw()
    row = file.rows_of(spec)[file.seeds.index(run)]
    if not row.isfinite().all():
        raise FileError(f"{path}: run {run} diverged in training; its parameters are not finite")
    return spec, row


def _in_named(file: PolicyFile, named: str | None) -> dict[str, Any]:
    """A file's specification as plain values, in the environment that the user has named.

    A program may have registered it by itself: then the file does not say which module does.
    """
    where = file.values.get("environment")
    trained_in = str(where.get("id")) if isinstance(where, dict) else ""
    is_object = trained_in.startswith(f"{NAMESPACE}/")
    if is_object and not named:
        raise FileError(
            f"{file.path}: its environment was passed as an object, which a file cannot contain; "
            "name it with --env module:Name-v0, or load it in Python: SAC.load(path, env=...)"
        )
    if where and named and (is_object or trained_in == named.rpartition(":")[2]):
        return file.values | {"environment": where | {"id": named}}
    return file.values
