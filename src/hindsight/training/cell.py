"""From specifications to curves: cells one after the other, early end, signals."""

import platform
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hindsight.files import FileError
from hindsight.interruption import Interrupted, Notice, noticed
from hindsight.io.compiled import ENABLED
from hindsight.locks import held
from hindsight.specs.base import DEVICES
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import SpecError
from hindsight.training.files import load
from hindsight.training.finished import DIVERGED
from hindsight.training.progress import Progress, Tell
from hindsight.training.record import Record
from hindsight.training.runs import Runs, runs_of


@dataclass(frozen=True)
class Execution:
    """How cells are trained, which does not change their numbers (only their clocks)."""

    device: str = "cpu"
    checkpoint_seconds: float = 60.0
    workers: int | None = None  # processes that step foreign environments; None: one per core
    #: Leave a last checkpoint behind, from which the files can be written again: Snakemake deletes
    #: those of all cells of a job if one cell, or the job, fails.
    keep_finished: bool = False
    #: Take runs over from a cell that differs in its number of seeds alone.
    reuses: bool = True


#: What is said where nothing is compiled.
SLOWLY = (
    "Numba is not installed, or switched off by NUMBA_DISABLE_JIT: PPO and SAC train in PyTorch, "
    "up to twenty times slower"
)
#: Called with a cell's runs, the phase ("train" or "evaluation") and the columns [run] that were
#: recorded.
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


class CellTraining:
    """The training of one cell: its runs side by side, until each has ended."""

    def __init__(
        self,
        spec: CellSpec,
        root: Path,
        execution: Execution,
        tell: Tell,
        callbacks: Sequence[Callback],
        notice: Notice,
    ) -> None:
        self.execution, self.tell, self.callbacks = execution, tell, callbacks
        self.record = Record(spec, root, execution.device)
        self._saved = time.monotonic()
        self._notice = notice

    def train(self) -> None:
        """Train what is missing and write the files; raises FileError, Interrupted.

        One process at a time trains a cell; who had to wait finds it trained, or its checkpoint.
        """
        record, how = self.record, self.execution
        lock = record.path("checkpoints", ".lock")
        with held(lock, f"cell {record.spec.name}", wait=True):
            if record.is_there:
                if not how.keep_finished:
                    record.forget()
                return
            runs = record.begin(how.workers, how.reuses)
            while record.missing:
                runs = runs or runs_of(record.spec, record.missing, how.device, how.workers)
                self._train(runs)
                runs = None
            self._write()

    def _train(self, runs: Runs) -> None:
        """Train these runs to their ends."""
        record = self.record
        record.runs_per_axis = max(record.runs_per_axis, len(runs.seeds))
        over = False
        while not over:
            columns = runs.iterate()
            record.steps_done += runs.rollout_steps * len(runs.seeds)
            self._record(runs, "train", columns)
            going = self._leave_diverged(runs)
            if not len(going):
                break
            ended = runs.ended(columns["return_mean"][going])
            if runs.evaluation_due or ended.any():
                began = time.monotonic()
                self._record(runs, "evaluation", runs.evaluate())
                record.evaluation_seconds += time.monotonic() - began
            over = self._leave(runs, ended)
            if not over:
                self._checkpoint(runs)
                self._stop_if_asked()
            self.tell(self._progress(runs, columns, over))

    def _leave_diverged(self, runs: Runs) -> Tensor:
        """Runs with a parameter that is no number end here, without a policy; the others go on.

        Returns the indices that these had.
        """
        finite = runs.rows.isfinite().all(1).cpu()
        for i in (~finite).nonzero()[:, 0].tolist():
            self.record.end(runs, i, DIVERGED, has_policy=False)
        if finite.any() and not finite.all():
            runs.select(finite.nonzero()[:, 0])
        return finite.nonzero()[:, 0]

    def _leave(self, runs: Runs, ended: Tensor) -> bool:
        """Keep what is to be known of the runs that have ended; returns whether all have."""
        for i in ended.nonzero()[:, 0].tolist():
            self.record.end(runs, i, runs.why_ended(i))
        if ended.any() and not ended.all():
            runs.select((~ended).nonzero()[:, 0])
        return bool(ended.all())

    def _write(self) -> None:
        """Write the files of the cell, whose runs have all ended."""
        if self.execution.keep_finished:
            self.record.save(None)
        self.record.write()
        if not self.execution.keep_finished:
            self.record.forget()

    def _record(self, runs: Runs, phase: str, columns: dict[str, Tensor]) -> None:
        """Append one row per run to the curves."""
        n = len(runs.seeds)
        self.record.add(
            phase,
            {
                "seed": np.array(runs.seeds),
                "iteration": np.full(n, runs.iteration),
                "env_steps": np.full(n, runs.env_steps),
                "wall_seconds": runs.clock.wall.numpy().copy(),
                "cpu_seconds": runs.clock.cpu.numpy().copy(),
                **{name: value.detach().cpu().double().numpy() for name, value in columns.items()},
            },
        )
        for callback in self.callbacks:
            callback(runs, phase, columns)

    # -- surviving interruption -----------------------------------------------------------------

    def _checkpoint(self, runs: Runs) -> None:
        """Write a checkpoint if it is time."""
        now = time.monotonic()
        due = now - self._saved >= self.execution.checkpoint_seconds
        if due or self._notice.signal is not None:
            self._saved = now
            self.record.save(runs.state_dict())

    def _stop_if_asked(self) -> None:
        """End after an iteration, with its checkpoint written, once a signal has come."""
        if (number := self._notice.signal) is None:
            return
        record = self.record
        raise Interrupted(
            f"{record.spec.name}: stopped by {signal.Signals(number).name} after "
            f"{record.steps_done:,} of {record.steps:,} steps; the same command continues from "
            f"{record.path('checkpoints', '.pt')}",
            number,
        )

    def _progress(self, runs: Runs, columns: dict[str, Tensor], over: bool) -> Progress:
        record = self.record
        seconds = record.seconds + (0.0 if over else float(runs.clock.wall.sum()))
        return Progress(
            (record.spec.name,),
            record.steps_done,
            record.steps,
            record.steps_done / max(seconds, 1e-9),
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
    """Train cells, or what is left of them, below `root`, one after the other.

    Returns the paths of their curves.  `tell` hears of every iteration, `callbacks` of all that is
    recorded.

    Raises:
        FileError: results cannot be written: of the cells that it names, after the others.
        Interrupted: a signal asked to stop.
    """
    execution = execution or Execution()
    must_be_usable(execution.device)
    prepare_process(execution.device)
    if not ENABLED and execution.device == "cpu":
        print(SLOWLY, file=sys.stderr)
    failed: list[FileError] = []
    with noticed() as notice:
        for spec in specs:
            try:
                CellTraining(spec, root, execution, tell, callbacks, notice).train()
            except FileError as error:
                failed.append(error)
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
