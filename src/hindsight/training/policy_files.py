"""Files with policies in them: whoever wrote one, it has a specification, seeds and parameters.

The workflow and `hindsight train` write parameters at the end, at the best evaluation and on the
way; `hindsight publish` only those that act; `Model.save` policies and curves.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hindsight.io.files import FileError
from hindsight.specs.cell import CellSpec
from hindsight.specs.from_file import cell_of, values_of
from hindsight.specs.manifest import verify
from hindsight.training.files import load
from hindsight.training.policies import acting_places, initial_row, n_parameters


@dataclass(frozen=True)
class PolicyFile:
    """A policy file, as it was read."""

    path: Path
    values: dict[str, Any]  # its specification, plain
    seeds: list[int]  # [run]
    rows: Tensor  # [run, parameter], float32
    acts_only: bool  # of a row's parameters there are those that act without randomness
    saved: dict[str, Any]  # whatever else its writer put there

    @classmethod
    def read(cls, path: Path) -> "PolicyFile":
        """Raises FileError for a file that is damaged or of another kind."""
        verify([path])
        saved = load(path)
        if "identity" in saved:
            raise FileError(
                f"{path}: is the checkpoint of a training; its policies lie in the folder best "
                "beside checkpoints, and in policies once it has ended"
            )
        if not {"spec", "seeds", "rows"} <= saved.keys():
            raise FileError(f"{path}: is no policy file")
        seeds, rows = saved["seeds"], saved["rows"]
        if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
            raise FileError(f"{path}: is no policy file: its seeds are not whole numbers")
        if not isinstance(rows, Tensor) or rows.dtype != torch.float32:
            raise FileError(
                f"{path}: is no policy file: its parameters are not real numbers (float32)"
            )
        if rows.layout != torch.strided or rows.dim() != 2 or len(rows) != len(seeds):
            raise FileError(f"{path}: is no policy file: it has not one row of parameters per seed")
        acts_only = saved.get("part") == "actor"
        return cls(path, values_of(saved["spec"], path), seeds, rows, acts_only, saved)

    def rows_of(self, spec: CellSpec) -> Tensor:
        """Parameters [run, parameter]; those that the file lacks are as training begins.

        Raises FileError where they are not those of the specification.
        """
        rows = self.rows
        if self.acts_only and rows.shape[1] == len(places := acting_places(spec)):
            first = torch.stack([initial_row(spec, seed) for seed in self.seeds])
            rows = first.index_copy_(1, places, rows)
        if rows.shape[1] != n_parameters(spec):
            raise FileError(f"{self.path}: its parameters are not those of its specification")
        return rows

    def must_draw(self) -> None:
        """Raise FileError if it lacks what actions are drawn by."""
        if self.acts_only:
            raise FileError(
                f"{self.path}: has only what acts without randomness; leave out what asks for "
                "random actions"
            )


def runs_in(path: Path) -> list[int]:
    """The runs (seeds) of a policy file."""
    return list(PolicyFile.read(path).seeds)


def read_policy(
    path: Path, run: int | None = None, named: str | None = None, *, random: bool = False
) -> tuple[CellSpec, Tensor]:
    """Specification and parameters [parameter] of one run of a policy file.

    Args:
        run: its seed; None is the file's first.
        named: the environment that a person has typed, without which the file's own is not imported
            unless it is known (`specs.from_file`).
        random: it is to act at random, which one that ships cannot.

    Raises:
        FileError: there is no such run, or it diverged.
    """
    file = PolicyFile.read(path)
    run = next(iter(file.seeds), None) if run is None else run
    if run not in file.seeds:
        raise FileError(f"{path}: has no run {run}; there are {file.seeds}")
    spec = cell_of(file.values, path, [named] if named else [])
    if random:
        file.must_draw()
    row = file.rows_of(spec)[file.seeds.index(run)]
    if not row.isfinite().all():
        raise FileError(f"{path}: parameters of run {run} are not finite: its training diverged")
    return spec, row
