"""Train a cell: its runs until each has ended, with checkpoints and signal handling."""

import math
import platform
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.io.interruption import Interrupted, Notice, noticed
from hindsight.io.locks import held
from hindsight.nn.numba_cache import ENABLED, use_threads
from hindsight.specs.base import DEVICES
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import import_code
from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.training.finished import DIVERGED, load_trained
from hindsight.training.progress import Progress, Tell
from hindsight.training.record import Record
from hindsight.training.runs import Runs, runs_of


@dataclass(frozen=True)
class Execution:
    """How a cell is trained; none of this changes its numbers except its measured times."""

    device: str = "cpu"
    checkpoint_seconds: float = 60.0
    workers: int | None = None  # processes that step gymnasium environments; None: one per core
    threads: int = 1  # runs that the compiled core trains at a time
    #: Keep the last checkpoint, so that the result files can be written again if Snakemake deletes
    #: them after a failed job.
    keep_finished: bool = False
    #: Train even if there are results, of the cell or of one that differs in its number of seeds.
    again: bool = False


SLOWLY = (
    "Numba is disabled by NUMBA_DISABLE_JIT: PPO and SAC train in PyTorch, up to 20 times slower"
)
#: Called with a cell's runs, the phase ("train" or "evaluation") and the recorded columns [run].
Callback = Callable[[Runs, str, dict[str, Tensor]], None]


def known_device(device: str) -> str:
    """The device; of `auto`, a GPU if there is one.

    Raises SpecError for an unknown device, or one that this machine lacks.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(DEVICES, device):
        raise SpecError(f"device {device!r} is unknown; choose from auto, cpu, cuda, cuda:1, ...")
    index = int(device.partition(":")[2] or 0)
    if device != "cpu" and index >= (there := torch.cuda.device_count()):
        raise SpecError(
            f"device {device}: torch {torch.__version__} finds {there} GPUs on {platform.node()}; "
            "use the device cpu"
        )
    return device


def prepare_process(device: str, threads: int = 1) -> None:
    """Configure this process for training: one PyTorch thread, no denormals, no memory trimming.

    The networks are too small for a second thread in a matrix product to pay off; instead, the
    compiled core trains `threads` runs at a time.  By default the C library returns large blocks to
    the kernel and faults them in again for every minibatch, which takes a third of the time.

    Raises SpecError if another module has changed PyTorch's default type.
    """
    if (kind := torch.get_default_dtype()) != torch.float32:
        raise SpecError(
            f"PyTorch's default type is {kind}, which a module has set; networks here are float32: "
            "torch.set_default_dtype(torch.float32)"
        )
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


@dataclass
class CellTraining:
    """The training of one cell, whose runs train together until each has ended."""

    record: Record
    execution: Execution
    tell: Tell
    callbacks: Sequence[Callback]
    notice: Notice
    saved: float = field(default_factory=time.monotonic)  # when the last checkpoint was written

    def train(self) -> None:
        """Train the missing runs and write the files, after any other process that does so."""
        record, how = self.record, self.execution
        lock = record.path("checkpoints", ".lock")
        with held(lock, f"cell {record.spec.name}", wait=True):
            if how.again or load_trained(record.root, record.spec) is None:
                try:
                    runs = record.begin(reuses=not how.again)
                    while record.missing:
                        runs = runs or runs_of(record.spec, record.missing, how.device, how.workers)
                        self._train(runs)
                        runs = None
                except (EnvironmentFailure, Interrupted) as error:
                    path = record.path("checkpoints", ".safetensors")
                    begins = f"continues from {path}"
                    if not path.exists():
                        begins = "starts again: there was no checkpoint yet"
                    said, gap, traceback = str(error).partition("\n\n")
                    told = f"{said}; the same command {begins}{gap}{traceback}"
                    error.args = (told, *error.args[1:])
                    raise
                if how.keep_finished:
                    record.save(None)
                record.write()
            if not how.keep_finished:
                record.path("checkpoints", ".safetensors").unlink(missing_ok=True)

    def _train(self, runs: Runs) -> None:
        record = self.record
        record.runs_per_axis = max(record.runs_per_axis, len(runs.seeds))
        going = True
        while going:
            columns = runs.iterate()
            record.steps_done += runs.rollout_steps * len(runs.seeds)
            self._record(runs, "train", columns)
            # A run whose parameters are no longer finite ends here, without a policy.
            finite = runs.rows.isfinite().all(1).cpu()
            if not self._leave(runs, [None if x else DIVERGED for x in finite.tolist()]):
                break
            ended = runs.ended(columns["return_mean"][finite], columns["success_rate"][finite])
            # Only the runs that end are tested off the grid: the others must not depend on them.
            tested = [runs.evaluation_due or why is not None for why in ended]
            if any(tested):
                began = time.monotonic()
                self._record(runs, "evaluation", runs.evaluate(), np.array(tested))
                record.evaluation_seconds += time.monotonic() - began
            going = self._leave(runs, ended)
            if going:
                self._checkpoint(runs)
            seconds = record.seconds + record.evaluation_seconds
            seconds += float(runs.clock.wall.sum()) if going else 0.0
            done, steps = record.steps_done, record.steps
            self.tell(Progress.of_iteration(record.spec.name, done, steps, seconds, columns))

    def _leave(self, runs: Runs, why: Sequence[str | None]) -> bool:
        """End the runs that have a reason, and record it; returns whether any run continues."""
        for i, reason in enumerate(why):
            if reason is not None:
                self.record.end(runs, i, reason)
        stay = [i for i, reason in enumerate(why) if reason is None]
        if 0 < len(stay) < len(why):
            runs.select(torch.tensor(stay, device=runs.device))
        return bool(stay)

    def _record(
        self,
        runs: Runs,
        phase: str,
        columns: dict[str, Tensor],
        which: NDArray[np.bool_] | None = None,
    ) -> None:
        """Append a row per run, or of those `which` [run]; callbacks see the others as NaN."""
        rows = runs.recorded(columns)
        if which is not None:
            rows = {name: values[which] for name, values in rows.items()}
            out = torch.from_numpy(~which)
            columns = {
                x: v.double().masked_fill(out.to(v.device), math.nan) for x, v in columns.items()
            }
        self.record.add(phase, rows)
        for callback in self.callbacks:
            callback(runs, phase, columns)

    # -- surviving interruption -----------------------------------------------------------------

    def _checkpoint(self, runs: Runs) -> None:
        """Write a checkpoint if one is due; after a signal, write one and raise Interrupted."""
        record, number = self.record, self.notice.signal
        due = self.saved + self.execution.checkpoint_seconds
        if number is not None or time.monotonic() >= due:
            record.save(runs.state_dict())
            self.saved = time.monotonic()
        if number is None:
            return
        raise Interrupted(
            f"{record.spec.name}: stopped by {signal.Signals(number).name} after "
            f"{record.steps_done:,} of {record.steps:,} steps",
            number,
        )


def train_cell(
    spec: CellSpec,
    root: Path,
    execution: Execution | None = None,
    tell: Tell = lambda progress: None,
    callbacks: Sequence[Callback] = (),
) -> Path:
    """Train a cell, or what is left of it; returns the path of its curves.

    `tell` is called with the progress after every iteration, `callbacks` with all that is recorded.
    Raises FileError if results cannot be written, and Interrupted after a signal.
    """
    how = execution or Execution()
    import_code(spec)
    how = replace(how, device=known_device(how.device))
    prepare_process(how.device, how.threads)
    if not ENABLED and how.device == "cpu":
        print(SLOWLY, file=sys.stderr)
    record = Record(spec, root, how.device, how.workers)
    with noticed() as notice:
        CellTraining(record, how, tell, callbacks, notice).train()
    return record.path("cells", ".parquet")
