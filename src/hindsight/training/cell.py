"""From a specification to curves: a cell's runs until each has ended, checkpoints, signals."""

import platform
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hindsight.io.compiled import ENABLED, use_threads
from hindsight.io.interruption import Interrupted, Notice, noticed
from hindsight.io.locks import held
from hindsight.specs.base import DEVICES
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import file_name
from hindsight.specs.errors import SpecError
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
    threads: int = 1  # runs that the compiled core trains at a time
    #: Leave a last checkpoint behind, from which the files can be written again: Snakemake deletes
    #: those of a job that fails.
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


def prepare_process(device: str, threads: int = 1) -> None:
    """One thread, no denormals, and memory that is kept instead of given back to the kernel.

    These networks are small: a second thread in a product costs more than it does; but `threads`
    runs may train at a time.  The C library returns large
    blocks to the kernel and faults them in again at every minibatch: a third of the time.
    """
    torch.set_num_threads(1)
    use_threads(threads)
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
            if how.keep_finished:
                record.save(None)
            record.write()
            if not how.keep_finished:
                record.forget()

    def _train(self, runs: Runs) -> None:
        """Train these runs to their ends."""
        record = self.record
        record.runs_per_axis = max(record.runs_per_axis, len(runs.seeds))
        going = True
        while going:
            columns = runs.iterate()
            record.steps_done += runs.rollout_steps * len(runs.seeds)
            self._record(runs, "train", columns)
            # A run with a parameter that is no number ends here, without a policy.
            finite = runs.rows.isfinite().all(1).cpu()
            if not self._leave(runs, [None if x else DIVERGED for x in finite.tolist()]):
                break
            ended = runs.ended(columns["return_mean"][finite])
            if runs.evaluation_due or any(ended):
                began = time.monotonic()
                self._record(runs, "evaluation", runs.evaluate())
                record.evaluation_seconds += time.monotonic() - began
            going = self._leave(runs, ended)
            if going:
                self._checkpoint(runs)
                self._stop_if_asked()
            self.tell(self._progress(runs, columns, not going))

    def _leave(self, runs: Runs, why: Sequence[str | None]) -> bool:
        """Keep what is to be known of the runs that end for some reason; whether others go on."""
        for i, reason in enumerate(why):
            if reason is not None:
                self.record.end(runs, i, reason)
        stay = [i for i, reason in enumerate(why) if reason is None]
        if 0 < len(stay) < len(why):
            runs.select(torch.tensor(stay, device=runs.device))
        return bool(stay)

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
            record.spec.name,
            record.steps_done,
            record.steps,
            record.steps_done / max(seconds, 1e-9),
            float(columns["return_mean"].nanmean()),
            float(columns["success_rate"].nanmean()),
        )


def train_cell(
    spec: CellSpec,
    root: Path,
    execution: Execution | None = None,
    tell: Tell = lambda progress: None,
    callbacks: Sequence[Callback] = (),
) -> Path:
    """Train a cell, or what is left of it, below `root`; returns the path of its curves.

    `tell` hears of every iteration, `callbacks` of all that is recorded.

    Raises:
        FileError: results cannot be written.
        Interrupted: a signal asked to stop.
    """
    execution = execution or Execution()
    must_be_usable(execution.device)
    prepare_process(execution.device, execution.threads)
    if not ENABLED and execution.device == "cpu":
        print(SLOWLY, file=sys.stderr)
    with noticed() as notice:
        CellTraining(spec, root, execution, tell, callbacks, notice).train()
    return root / "cells" / f"{file_name(spec)}.parquet"
