"""A folder where one small cell is trained by the real commands, disturbed, and trained again."""

import contextlib
import functools
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Forked processes have the first two then.
import hindsight.claims
import hindsight.training.cell  # noqa: F401
from hindsight import cli
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import file_name
from tests.support.permissions import heed_permissions
from tests.training import small

FORK = multiprocessing.get_context("fork")
DQN = {
    "name": "dqn", "learning_starts": 16, "train_freq": 8, "batch_size": 16, "log_interval": 64,
}  # fmt: skip
MORE = {
    "replay": {"strategy": "future"}, "seeds": 2, "steps": 64 * 8,
    "evaluation": {"points": 2, "episodes": 5},
}  # fmt: skip
SPECS = {
    "ppo": small.SPEC,
    "dqn": small.cell_in({"id": "BitFlipping-v0", "n_bits": 4}, DQN, **MORE),
}


class Survived(AssertionError):
    """Raised where a fault was not survived as promised."""


def demand(truth: bool, told: str) -> None:
    if not truth:
        raise Survived(told)


@dataclass
class Lab:
    """A folder in which one cell is trained, disturbed, and trained again."""

    folder: Path
    rng: random.Random
    name: str = "ppo"
    seconds: float = 1.0  # of an undisturbed training

    @property
    def spec(self) -> CellSpec:
        return SPECS[self.name]

    @property
    def root(self) -> Path:
        return self.folder / "results"

    def path(self, kind: str, suffix: str) -> Path:
        return self.root / kind / f"{file_name(self.spec)}{suffix}"

    @property
    def checkpoint(self) -> Path:
        return self.path("checkpoints", ".safetensors")

    @property
    def curves(self) -> Path:
        return self.path("cells", ".parquet")

    def start(self, *command: str, heedful: bool = False) -> "Process":
        """Run one of the project's commands in this folder, in a forked process.

        heedful: permissions count for it, also where it is root's.
        """
        if not command:
            spec = self.folder / "spec.json"
            spec.write_text(self.spec.model_dump_json())
            # A small cell wants more checkpoints than one a minute.
            command = ("cell", str(spec), "--checkpoint-seconds", "0.02")
        return Process(self, command, heedful)

    def moment(self) -> None:
        """Wait until some moment of a training."""
        time.sleep(self.rng.uniform(0, 1.1 * self.seconds))

    def until_checkpoint(self, process: "Process") -> bool:
        """Wait for the first checkpoint, and a while; false where the training ended before."""
        while process.runs and not self.checkpoint.exists():
            time.sleep(0.005)
        time.sleep(self.rng.uniform(0, 0.4 * self.seconds))
        return process.runs

    def interrupted(self) -> None:
        """A training that was killed, and has left a checkpoint but no curves."""
        for _ in range(20):
            process = self.start()
            if self.until_checkpoint(process):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            if self.checkpoint.exists() and not self.curves.exists():
                return
            shutil.rmtree(self.root)
        raise Survived("no checkpoint in twenty trainings")

    def trained(self) -> None:
        demand(self.start().wait() == 0, "an undisturbed training failed")


class Process:
    """A forked process that runs one command of the project, with what it says."""

    def __init__(self, lab: Lab, command: tuple[str, ...], heedful: bool = False) -> None:
        self.log = Path(tempfile.mkstemp(dir=lab.folder.parent, suffix=".log")[1])
        ours = (lab.folder, self.log, command, heedful)
        self._process = FORK.Process(target=_become, args=ours)
        self._process.start()
        self.pid = self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.is_alive()

    def wait(self, limit: float = 120.0) -> int:
        """Its exit status; demands that it says no traceback."""
        self._process.join(limit)
        if self.runs:
            self._process.kill()
            raise Survived(f"hung: {self.said}")
        demand("Traceback" not in self.said, f"a traceback:\n{self.said}")
        return self._process.exitcode

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


def _become(folder: Path, log: Path, command: tuple[str, ...], heedful: bool) -> None:
    out = os.open(log, os.O_WRONLY)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    if heedful:
        heed_permissions()
    sys.argv = ["hindsight", *command]
    try:
        cli.main()
    except KeyboardInterrupt:  # before or after all of hindsight
        sys.exit(1)


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A small file system; raises OSError if it cannot be mounted."""
    disk = Path(tempfile.mkdtemp(dir=folder))
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise OSError("a small file system cannot be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@functools.cache
def can_mount() -> bool:
    """Whether small disks can be mounted, which takes root."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.suppress(OSError),
        small_disk(Path(folder), 1),
    ):
        return True
    return False
