"""Cells that train together, from their specifications to their curves: axes, early end, signals.

The cells of a *bundle* differ in values only (`specs.axis`), so that all of their runs can share
one axis.  Each has its own files (`training.record`): who trained beside it stands in none of them,
and a bundle that is interrupted may be continued in any other company.
"""

import platform
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hindsight.files import FileError
from hindsight.interruption import Interrupted, Notice, noticed
from hindsight.locks import held
from hindsight.specs.axis import by_axis, must_share_axis
from hindsight.specs.base import DEVICES
from hindsight.specs.cell import CellSpec
from hindsight.specs.cost import axis_size
from hindsight.specs.errors import SpecError
from hindsight.specs.kinds import entry
from hindsight.training.files import load
from hindsight.training.finished import DIVERGED
from hindsight.training.progress import Progress, Tell
from hindsight.training.record import Record, joined, rows_of
from hindsight.training.runs import Runs


@dataclass(frozen=True)
class Execution:
    """How cells are trained, which does not change their numbers (only their clocks)."""

    device: str = "cpu"
    runs_per_axis: int | None = None  # None: as many as is fastest
    checkpoint_seconds: float = 60.0
    workers: int | None = None  # processes that step foreign environments; None: one per core
    #: Leave a last checkpoint behind, from which the files can be written again: Snakemake deletes
    #: those of all cells of a job if one cell, or the job, fails.
    keep_finished: bool = False
    #: Take runs over from a cell that differs in its number of seeds alone.
    reuses: bool = True


#: Called with the runs of an axis, the phase ("train" or "evaluation") and the columns [run] that
#: were recorded.
Callback = Callable[[Runs, str, dict[str, Tensor]], None]


def must_be_usable(device: str) -> None:
    """Raise SpecError for a device that is none, or that this machine has not."""
    if not re.fullmatch(DEVICES, device):
        raise SpecError(f"device {device!r} is unknown; there are cpu, cuda, cuda:1, ...")
    index = int(device.partition(":")[2] or 0)
    if device != "cpu" and index >= (there := torch.cuda.device_count()):
        raise SpecError(
            f"device {device}: torch {torch.__version__} finds {there} GPUs on {platform.node()}; "
            "the device cpu needs none"
        )


def prepare_process(device: str) -> None:
    """One thread, no denormals, and memory that is kept instead of given back to the kernel.

    These networks are small: a second thread costs more than it does.  The C library returns large
    blocks to the kernel and faults them in again at every minibatch: a third of the time.
    """
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    if device == "cpu" and sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        import ctypes

        mallopt = ctypes.CDLL("libc.so.6").mallopt
        m_trim_threshold, m_top_pad, m_mmap_threshold = -1, -2, -3
        mallopt(m_mmap_threshold, 1 << 30)
        mallopt(m_trim_threshold, 1 << 30)
        mallopt(m_top_pad, 1 << 26)


class BundleTraining:
    """The training of cells that share axes, axis by axis.

    A cell whose files cannot be written leaves the others.
    """

    def __init__(
        self,
        specs: Sequence[CellSpec],
        root: Path,
        execution: Execution,
        tell: Tell,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        must_share_axis(specs)
        self.execution, self.tell, self.callbacks = execution, tell, callbacks
        self.records = [Record(spec, root, execution.device) for spec in specs]
        #: The training loop of their algorithm.
        self.loop: type[Runs] = entry(specs[0].algorithm.loop)
        self.size = execution.runs_per_axis or axis_size(specs[0], execution.device)
        #: Whose files could not be written, and why.
        self.failed: dict[Record, FileError] = {}
        #: Runs that have not begun.
        self.fresh: list[tuple[Record, int]] = []
        #: Those that are to be trained.
        self.training: list[Record] = []
        #: On the axis: the cell of each run, by its number there.
        self._cells: list[Record] = []
        self._saved = time.monotonic()
        self._notice = Notice()

    def train(self) -> list[FileError]:
        """Train what is missing and write the curves; returns why some could not be written.

        One process at a time trains a cell; who had to wait finds it trained, or its checkpoint.
        """
        with ExitStack() as locks:
            missing = []
            # By name: of two bundles with cells in common neither waits for the other for ever.
            for record in sorted(self.records, key=lambda record: record.spec.name):
                what = f"cell {record.spec.name}"
                try:
                    locks.enter_context(held(record.path("checkpoints", ".lock"), what, wait=True))
                except FileError as error:
                    self.failed[record] = error
                    continue
                if not record.is_there:
                    missing.append(record)
                elif not self.execution.keep_finished:
                    record.forget()
            with noticed() as self._notice:
                self._train([record for record in self.records if record in missing])
        return list(self.failed.values())

    def _train(self, records: list[Record]) -> None:
        self.training = records
        begun: list[tuple[Record, Runs]] = []
        for record in records:
            try:
                runs = record.begin(self.execution.workers, self.execution.reuses)
            except FileError as error:
                self.failed[record] = error
                continue
            begun += [(record, runs)] if runs is not None else []
            on_the_way = record.under_way["seeds"] if record.under_way else ()
            self.fresh += [(record, s) for s in record.missing if s not in on_the_way]
        for record in records:
            self._complete(record)
        # Those first that were interrupted; those fresh in the order and number that they would
        # have had without.
        for company in self._companies(begun):
            self._cells = [record for record, runs in company for _ in runs.seeds]
            self._train_axis(self._continued(company))
        while self.fresh:
            members, self.fresh = self.fresh[: self.size], self.fresh[self.size :]
            members = [run for run in members if run[0] not in self.failed]
            if not members:
                continue
            self._cells = [record for record, _ in members]
            specs, seeds = [record.spec for record in self._cells], [seed for _, seed in members]
            how = self.execution
            self._train_axis(self.loop(specs, seeds, how.device, how.workers))

    def _companies(self, begun: list[tuple[Record, Runs]]) -> Iterator[list[tuple[Record, Runs]]]:
        """Cells that were interrupted in the same iteration, as many as an axis takes."""
        by_iteration = sorted(begun, key=lambda pair: -pair[1].iteration)
        company: list[tuple[Record, Runs]] = []
        for record, runs in by_iteration:
            if company and (
                runs.iteration != company[0][1].iteration
                or sum(len(one.seeds) for _, one in company) + len(runs.seeds) > self.size
            ):
                yield company
                company = []
            company.append((record, runs))
        if company:
            yield company

    def _continued(self, company: list[tuple[Record, Runs]]) -> Runs:
        """All runs of some cells on one axis, where their checkpoints left them."""
        (_, first), *others = company
        if not others:
            return first
        specs = [spec for _, runs in company for spec in runs.specs]
        seeds = [seed for _, runs in company for seed in runs.seeds]
        axis = self.loop(specs, seeds, self.execution.device, self.execution.workers)
        axis.load_state_dict(joined([record.under_way for record, _ in company]))
        return axis

    def _train_axis(self, runs: Runs) -> None:
        """Train these runs to their ends; `_cells` tells whose they are."""
        self._runs = runs
        beginning = list(dict.fromkeys(self._cells))
        for record in beginning:
            record.under_way = None
            record.runs_per_axis = max(record.runs_per_axis, len(runs.seeds))
            record.cells_per_axis = max(record.cells_per_axis, len(beginning))
        over = False
        while not over:
            columns = runs.iterate()
            for record, places in self._places():
                record.steps_done += runs.rollout_steps * len(places)
            self._record("train", columns)
            going = self._leave_diverged()
            if not len(going):
                break
            ended = runs.ended(columns["return_mean"][going])
            if runs.evaluation_due or ended.any():
                self._record("evaluation", runs.evaluate())
            over = self._leave(ended)
            if not over:
                over = self._checkpoint()
            if not over:
                self._stop_if_asked()
            self.tell(self._progress(columns, over))
        for record in beginning:
            if record.missing:
                self._save(record, None)

    def _places(self) -> list[tuple[Record, list[int]]]:
        """The cells on the axis, and the indices of their runs."""
        places: dict[Record, list[int]] = {}
        for i, number in enumerate(self._runs.numbers):
            places.setdefault(self._cells[number], []).append(i)
        return list(places.items())

    def _leave_diverged(self) -> Tensor:
        """Runs with a parameter that is no number end here, without a policy; the others go on.

        Returns the indices that these had.
        """
        runs = self._runs
        finite = runs.rows.isfinite().all(1).cpu()
        for i in (~finite).nonzero()[:, 0].tolist():
            self._cells[runs.numbers[i]].end(runs, i, DIVERGED, has_policy=False)
        if not finite.all():
            self._keep(finite)
        return finite.nonzero()[:, 0]

    def _leave(self, ended: Tensor) -> bool:
        """Keep what is to be known of the runs that have ended; returns whether all have."""
        runs = self._runs
        for i in ended.nonzero()[:, 0].tolist():
            self._cells[runs.numbers[i]].end(runs, i, runs.why_ended(i))
        if ended.any():
            self._keep(~ended)
        return bool(ended.all())

    def _keep(self, going: Tensor) -> None:
        """Let the others leave the axis, if somebody stays; write the cells that are complete."""
        on_axis = [record for record, _ in self._places()]
        if going.any():
            self._runs.select(going.nonzero()[:, 0])
        for record in on_axis:
            self._complete(record)

    def _complete(self, record: Record) -> None:
        """Write the files of a cell whose runs have all ended."""
        if record.missing or record in self.failed:
            return
        try:
            if self.execution.keep_finished:
                record.save(None)
            record.write()
            if not self.execution.keep_finished:
                record.forget()
        except FileError as error:
            self.failed[record] = error

    def _record(self, phase: str, columns: dict[str, Tensor]) -> None:
        """Append one row per run to the curves of its cell."""
        runs = self._runs
        n = len(runs.seeds)
        rows = {
            "seed": np.array(runs.seeds),
            "iteration": np.full(n, runs.iteration),
            "env_steps": np.full(n, runs.env_steps),
            "wall_seconds": runs.clock.wall.numpy().copy(),
            "cpu_seconds": runs.clock.cpu.numpy().copy(),
            **{name: value.detach().cpu().double().numpy() for name, value in columns.items()},
        }
        for record, places in self._places():
            record.add(phase, {name: value[places] for name, value in rows.items()})
        for callback in self.callbacks:
            callback(runs, phase, columns)

    # -- surviving interruption -----------------------------------------------------------------

    def _checkpoint(self) -> bool:
        """Write checkpoints if it is time; returns whether nobody is left who can have one."""
        now = time.monotonic()
        due = now - self._saved >= self.execution.checkpoint_seconds
        if not due and self._notice.signal is None:
            return False
        self._saved = now
        state, places = self._runs.state_dict(), self._places()
        for record, runs in places:
            self._save(record, state if len(places) == 1 else rows_of(state, runs))
        cells = [self._cells[number] for number in self._runs.numbers]
        going = torch.tensor([record not in self.failed for record in cells])
        if not going.all():
            self._keep(going)
        return not going.any()

    def _save(self, record: Record, runs: dict[str, Any] | None) -> None:
        try:
            if record not in self.failed:
                record.save(runs)
        except FileError as error:
            self.failed[record] = error

    def _stop_if_asked(self) -> None:
        """End after an iteration, with its checkpoint written, once a signal has come."""
        if (number := self._notice.signal) is None:
            return
        done, of = (sum(getattr(r, x) for r in self.training) for x in ("steps_done", "steps"))
        first, *others = self.training
        beside = f" and {len(others)} cells beside it" if others else ""
        raise Interrupted(
            f"{first.spec.name}{beside}: stopped by {signal.Signals(number).name} after {done:,} "
            f"of {of:,} steps; the same command continues from {first.path('checkpoints', '.pt')}"
            + (" and theirs" if others else ""),
            number,
        )

    def _progress(self, columns: dict[str, Tensor], over: bool) -> Progress:
        done, of, seconds = (
            sum(getattr(record, name) for record in self.training)
            for name in ("steps_done", "steps", "seconds")
        )
        seconds += 0.0 if over else float(self._runs.clock.wall.sum())
        return Progress(
            tuple(record.spec.name for record in self.training),
            done,
            of,
            done / max(seconds, 1e-9),
            float(columns["return_mean"].nanmean()),
            float(columns["success_rate"].nanmean()),
        )


def train_cells(
    specs: Sequence[CellSpec],
    root: Path,
    execution: Execution | None = None,
    tell: Tell = lambda progress: None,
    callbacks: Sequence[Callback] = (),
) -> list[Path]:
    """Train cells, or what is left of them, below `root`: those together that may share an axis,
    and one axis after another.

    Returns the paths of their curves.  `tell` hears of every iteration, `callbacks` of all that is
    recorded.

    Raises:
        FileError: results cannot be written: of the cells that it names, after the others.
        Interrupted: a signal asked to stop.
    """
    execution = execution or Execution()
    must_be_usable(execution.device)
    prepare_process(execution.device)
    failed: list[FileError] = []
    for bundle in by_axis(specs):
        failed += BundleTraining(bundle, root, execution, tell, callbacks).train()
    if failed:
        first, *others = failed
        raise FileError(f"{first}; {len(others)} more cells failed") if others else first
    return [root / "cells" / f"{spec.name}.parquet" for spec in specs]


def write_finished(specs: Sequence[CellSpec], root: Path) -> Iterator[Path]:
    """Write the files of those cells that a last checkpoint says are finished; yields the curves.

    Nothing is trained, and one whose files cannot be written is left out.
    """
    for spec in specs:
        record = Record(spec, root, "cpu")
        checkpoint = record.path("checkpoints", ".pt")
        with suppress(FileError), held(record.path("checkpoints", ".lock"), spec.name):
            if checkpoint.exists() and not record.is_there and load(checkpoint)["runs"] is None:
                record.begin(None)
                if not record.missing:
                    record.write()
                    yield record.path("cells", ".parquet")


def train_cell(
    spec: CellSpec,
    root: Path,
    execution: Execution | None = None,
    tell: Tell = lambda progress: None,
    callbacks: Sequence[Callback] = (),
) -> Path:
    """One cell alone; see `train_cells`."""
    return train_cells([spec], root, execution, tell, callbacks)[0]
