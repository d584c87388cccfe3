"""One cell, from its specification to its curves: grouping of runs, early end, checkpoints.

Files of a cell `<name>`: `cells/<name>.parquet` (the curves), `policies/<name>.pt` (the parameters
at the end), `checkpoints/<name>.pt` (while it trains).
"""

import glob
import json
import math
import os
import platform
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from hindsight.files import DamagedError, reason, set_aside
from hindsight.interruption import Interrupted, Notice, noticed
from hindsight.locks import held
from hindsight.nn.products import products_of
from hindsight.specs.base import DEVICES
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import code_of
from hindsight.specs.cost import group_size
from hindsight.specs.errors import SpecError
from hindsight.training.files import load, save, write_curves
from hindsight.training.finished import DIVERGED, Finished, diverged_runs, finished, reusable
from hindsight.training.loops import runs_of
from hindsight.training.progress import Progress, Tell
from hindsight.training.runs import Runs

PACKAGES = ("torch", "numpy", "gymnasium", "pyarrow")
#: Noted where they are used, by their modules' names.
ALSO = {"gymnasium_robotics": "gymnasium-robotics", "mujoco": "mujoco"}
INTEGERS = {"seed": "int32", "iteration": "int32", "env_steps": "int64", "episodes": "int32"}


@dataclass(frozen=True)
class Execution:
    """How a cell is trained, which does not change its numbers (only its clock)."""

    device: str = "cpu"
    runs_per_axis: int | None = None  # None: as many as is fastest
    checkpoint_seconds: float = 60.0
    workers: int | None = None  # processes that step foreign environments; None: one per core
    #: Leave a last checkpoint behind, from which the files can be written again: Snakemake deletes
    #: those of all cells of a cluster's job if one cell, or the job, fails.
    keep_finished: bool = False
    #: Take runs over from a cell that differs in its number of seeds alone.
    reuses: bool = True


#: Called with the runs, the phase ("train" or "evaluation") and the columns [run] that were noted.
Noted = Callable[[Runs, str, dict[str, Tensor]], None]


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
    """The training of one cell, group of runs by group of runs."""

    def __init__(
        self,
        spec: CellSpec,
        root: Path,
        execution: Execution,
        tell: Tell,
        noted: Sequence[Noted] = (),
    ) -> None:
        must_be_usable(execution.device)
        self.spec, self.root, self.execution, self.tell = spec, root, execution, tell
        self.noted = noted
        #: Of this process: what it has imported, whatever becomes of the files.
        self.code = code_of(spec)
        self.columns: dict[str, list[np.ndarray]] = defaultdict(list)
        self.ended: list[dict[str, Any]] = []
        self.policies: dict[int, Tensor] = {}
        self.seconds = 0.0  # of the groups that are done
        self.steps_done = 0
        #: What multiplied; a checkpoint may have been continued elsewhere.
        hidden = spec.algorithm.hidden
        self.products = set(products_of(torch.device(execution.device), hidden))
        self._saved = time.monotonic()
        #: Runs that another number of seeds has left to train nothing of.
        self.reused: Finished | None = None
        self.groups: list[list[int]] = []
        self.group = 0
        self._resumed: Runs | None = None
        self._notice = Notice()

    def path(self, kind: str, suffix: str) -> Path:
        """Where a file of this cell lies."""
        return self.root / kind / f"{self.spec.name}{suffix}"

    def train(self) -> Path:
        """Train what is missing, write the curves, and return their path.

        One process at a time; who had to wait finds the cell trained, or its checkpoint.
        """
        what = f"cell {self.spec.name}"
        with held(self.path("checkpoints", ".lock"), what, wait=True):
            if finished(self.root, self.spec) is not None:
                if not self.execution.keep_finished:
                    self.path("checkpoints", ".pt").unlink(missing_ok=True)
                return self.path("cells", ".parquet")
            self._sweep()
            with noticed() as self._notice:
                return self._train()

    def _train(self) -> Path:
        self.reused = reusable(self.root, self.spec) if self.execution.reuses else None
        taken = self.reused.seeds if self.reused else ()
        missing = [seed for seed in range(self.spec.seeds) if seed not in taken]
        size = self.execution.runs_per_axis or group_size(self.spec, self.execution.device)
        self.groups = [missing[first : first + size] for first in range(0, len(missing), size)]
        self._resume()
        while self.group < len(self.groups):
            self._train_group(self.groups[self.group])
            self.group += 1
        if self.execution.keep_finished:
            self._save(None)
        policies = {**(self.reused.policies if self.reused else {}), **self.policies}
        kept = sorted(policies)
        rows = torch.stack([policies[s] for s in kept]) if kept else torch.empty(0, 0)
        save(
            self.path("policies", ".pt"),
            {"spec": self.spec.model_dump_json(), "seeds": kept, "rows": rows},
        )
        curves = self.path("cells", ".parquet")
        write_curves(curves, self._table(), self._metadata())
        tell_diverged(self.spec.name, diverged_runs(self._ended()))
        if not self.execution.keep_finished:
            self.path("checkpoints", ".pt").unlink(missing_ok=True)
        return curves

    def _runs(self, seeds: list[int]) -> Runs:
        return runs_of(self.spec, seeds, self.execution.device, self.execution.workers)

    def _train_group(self, seeds: list[int]) -> None:
        runs = self._resumed or self._runs(seeds)
        self._resumed = None
        over = False
        while not over:
            columns = runs.iterate()
            self.steps_done += runs.rollout_steps * len(runs.seeds)
            self._note(runs, "train", columns)
            going = self._leave_diverged(runs)
            if not len(going):
                break
            ended = runs.ended(columns["return_mean"][going])
            if runs.evaluation_due or ended.any():
                self._note(runs, "evaluation", runs.evaluate())
            self._finish(runs, ended)
            over = bool(ended.all())
            if not over:
                if ended.any():
                    runs.select((~ended).nonzero()[:, 0])  # the others go on without them
                self._checkpoint(runs)
                self._stop_if_asked(runs)
            self.tell(self._progress(columns, self.seconds + runs.clock.total))
        self.seconds += runs.clock.total

    def _leave_diverged(self, runs: Runs) -> Tensor:
        """Runs with a parameter that is no number end here, without a policy; the others go on.

        Returns the indices that these had.
        """
        finite = runs.rows.isfinite().all(1).cpu()
        if not finite.all():
            for i in (~finite).nonzero()[:, 0].tolist():
                self.ended.append(self._end_of(runs, runs.seeds[i], DIVERGED))
            if finite.any():
                runs.select(finite.nonzero()[:, 0])
        return finite.nonzero()[:, 0]

    def _finish(self, runs: Runs, ended: Tensor) -> None:
        """Keep what is to be known of the runs that have ended."""
        for i in ended.nonzero()[:, 0].tolist():
            seed = runs.seeds[i]
            self.ended.append(self._end_of(runs, seed, runs.why_ended(seed)))
            self.policies[seed] = runs.rows[i].detach().cpu().clone()

    def _end_of(self, runs: Runs, seed: int, why: str | None) -> dict[str, Any]:
        return {
            "seed": seed,
            "perfect_step": runs.perfect.get(seed),
            "end_step": runs.env_steps,
            "ended": why,
            "switch_step": runs.switched.get(seed),
        }

    def _ended(self) -> list[dict[str, Any]]:
        """Every run's end, those that were reused first."""
        return [*(self.reused.runs if self.reused else ()), *self.ended]

    def _note(self, runs: Runs, phase: str, columns: dict[str, Tensor]) -> None:
        """Append one row per run to the curves."""
        n = len(runs.seeds)
        rows = {
            "seed": np.array(runs.seeds),
            "iteration": np.full(n, runs.iteration),
            "env_steps": np.full(n, runs.env_steps),
            "wall_seconds": runs.clock.wall.numpy().copy(),
            "cpu_seconds": runs.clock.cpu.numpy().copy(),
            **{name: value.detach().cpu().double().numpy() for name, value in columns.items()},
        }
        for name, value in rows.items():
            self.columns[f"{phase}/{name}"].append(value)
        for noted in self.noted:
            noted(runs, phase, columns)

    def _table(self) -> pa.Table:
        """The curves, sorted by phase, seed, step; NaN where a phase lacks a column."""
        phases = []
        for phase in ("train", "evaluation"):
            columns = {
                name.removeprefix(f"{phase}/"): np.concatenate(parts)
                for name, parts in self.columns.items()
                if name.startswith(f"{phase}/")
            }
            rows = len(next(iter(columns.values()), ()))
            phases.append(pa.table({"phase": [phase] * rows, **columns}))
        if self.reused is not None:
            phases.append(self.reused.table)
        table = pa.concat_tables(phases, promote_options="permissive")
        table = table.sort_by([(name, "ascending") for name in ("phase", "seed", "env_steps")])
        curves = {"phase": table["phase"]}
        for name in table.column_names[1:]:
            integer = INTEGERS.get(name)
            column = table[name].cast(integer or "float32")
            curves[name] = column if integer else column.fill_null(math.nan)
        return pa.table(curves)

    def _metadata(self) -> dict[str, Any]:
        device = torch.device(self.execution.device)
        return {
            "spec": self.spec.model_dump(mode="json"),
            "spec_hash": self.spec.hash,
            "code": self.code,
            "versions": {
                "python": platform.python_version(),
                **{name: version(name) for name in PACKAGES},
                **{name: version(name) for module, name in ALSO.items() if module in sys.modules},
            },
            "machine": machine(device),
            "device": device.type,
            "precision": "float32",
            "products": sorted(self.products),
            "clock": "cpu" if device.type == "cpu" else "wall",
            "share_of_time": "what runs do together is shared among them alike; the updates of "
            "runs with and without hindsight count apart",
            "runs_per_axis": max(map(len, self.groups), default=len(self._ended())),
            "seconds": self.seconds + (self.reused.seconds if self.reused else 0.0),
            **({"reused": self.reused.origin} if self.reused else {}),
            "runs": sorted(self._ended(), key=lambda run: run["seed"]),
        }

    # -- surviving interruption -----------------------------------------------------------------

    def _identity(self) -> dict[str, str]:
        """What a checkpoint must have been made by to be continued."""
        return {
            "spec_hash": self.spec.hash,
            "code": self.code,
            "groups": json.dumps(self.groups),
        }

    def _checkpoint(self, runs: Runs) -> None:
        now = time.monotonic()
        due = now - self._saved >= self.execution.checkpoint_seconds
        if not due and self._notice.signal is None:
            return
        self._saved = now
        self._save(runs)

    def _save(self, runs: Runs | None) -> None:
        """Write a checkpoint, of a group under way or, without runs, between groups."""
        curves = {
            name: [torch.from_numpy(part) for part in parts] for name, parts in self.columns.items()
        }
        state = {
            "identity": self._identity(),
            "group": self.group,
            "runs": None if runs is None else runs.state_dict(),
            "curves": curves,
            "ended": self.ended,
            "policies": self.policies,
            "seconds": self.seconds,
            "steps_done": self.steps_done,
            "products": sorted(self.products),
        }
        save(self.path("checkpoints", ".pt"), state)

    def _stop_if_asked(self, runs: Runs) -> None:
        """End after an iteration, with its checkpoint written, once a signal has come."""
        if (number := self._notice.signal) is None:
            return
        name, of = signal.Signals(number).name, self.spec.steps * self.spec.seeds
        raise Interrupted(
            f"{self.spec.name}: stopped by {name} after {self.steps_done:,} of {of:,} steps; "
            f"the same command continues from {self.path('checkpoints', '.pt')}",
            number,
        )

    def _sweep(self) -> None:
        """Remove what killed processes left half-written."""
        for kind in ("cells", "policies", "checkpoints", "progress"):
            path = self.path(kind, ".*")
            for rest in path.parent.glob(f".{glob.escape(path.stem)}.*"):
                with suppress(OSError):
                    rest.unlink()

    def _resume(self) -> None:
        """Continue from a checkpoint of this very training, if there is one that can be used."""
        path = self.path("checkpoints", ".pt")
        if not path.exists():
            return
        try:
            saved = load(path)
            if "identity" in saved and saved["identity"] != self._identity():
                path.unlink()
                told = "of other code or specification"
                print(f"{path}: {told}; training starts anew", file=sys.stderr)
                return
            self._continue(saved)
        except DamagedError as error:
            set_aside(path)
            print(f"{error}; set aside, training starts anew", file=sys.stderr)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
            set_aside(path)
            told = f"does not fit its cell ({reason(error)})"
            print(f"{path}: {told}; set aside, training starts anew", file=sys.stderr)
        else:
            at = f"group {self.group + 1} of {len(self.groups)}"
            told = "was finished" if self.group == len(self.groups) else f"continued at {at}"
            print(f"{path}: {told}", file=sys.stderr)

    def _continue(self, saved: dict[str, Any]) -> None:
        """Take over a checkpoint's state, all of it or, where something does not fit, nothing."""
        group, state, runs = saved["group"], saved["runs"], None
        if state is not None:  # not between groups
            runs = self._runs(self.groups[group])
            runs.select(torch.tensor([runs.seeds.index(seed) for seed in state["seeds"]]))
            # A replay buffer is as long as has been written; it checks that itself.
            must_fit(runs.state_dict(), {**state, "buffer": None}, "runs")
            runs.load_state_dict(state)
        columns = {
            name: [part.numpy() for part in parts] for name, parts in saved["curves"].items()
        }
        kept = saved["ended"], saved["policies"], saved["steps_done"], saved["seconds"]
        self.columns.update(columns)
        self.products |= set(saved["products"])
        self.group, self._resumed = group, runs
        self.ended, self.policies, self.steps_done, self.seconds = kept

    def _progress(self, columns: dict[str, Tensor], seconds: float) -> Progress:
        return Progress(
            self.spec.name,
            self.steps_done,
            self.spec.steps * self.spec.seeds,
            self.steps_done / max(seconds, 1e-9),
            float(columns["return_mean"].nanmean()),
            float(columns["success_rate"].nanmean()),
        )


def tell_diverged(name: str, steps: dict[int, int]) -> None:
    """Name the runs that diverged, on the standard error, if there are any."""
    if steps:
        which = ", ".join(f"seed {seed} at step {step:,}" for seed, step in sorted(steps.items()))
        told = "their parameters are no numbers any more, and they count as not having learned"
        print(f"{name}: {len(steps)} runs diverged ({which}): {told}", file=sys.stderr)


def must_fit(own: Any, saved: Any, where: str) -> None:
    """Raise ValueError where a tensor that was saved is not of the shape and kind it is here.

    A saved None is not looked at.
    """
    if saved is None:
        return
    if isinstance(own, dict) and not isinstance(saved, dict):
        raise ValueError(f"{where} is no dictionary")
    if isinstance(own, dict):
        for name in own:
            if isinstance(own[name], dict | Tensor):
                must_fit(own[name], saved[name], f"{where}.{name}")
    elif saved.shape != own.shape or saved.dtype != own.dtype:
        raise ValueError(f"{where} is {tuple(saved.shape)}, not {tuple(own.shape)}")


def machine(device: torch.device) -> dict[str, Any]:
    """What the numbers were made on."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        name = models[0].split(":", 1)[1].strip() if models else name
    found = {"system": platform.system(), "processor": name, "cores": os.cpu_count()}
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def train_cell(
    spec: CellSpec,
    root: Path,
    execution: Execution | None = None,
    tell: Tell = lambda progress: None,
    noted: Sequence[Noted] = (),
) -> Path:
    """Train a cell, or what is left of it, below `root`; returns the path of its curves.

    `tell` hears of every iteration, `noted` of all that is noted.  Raises FileError where results
    cannot be written, Interrupted where a signal asked to stop.
    """
    execution = execution or Execution()
    prepare_process(execution.device)
    return CellTraining(spec, root, execution, tell, noted).train()
