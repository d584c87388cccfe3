"""Faults, injected at random moments, and what became of them.

    python -m tests.faults.inject --trainer 200 --pipeline 10 --out docs/survival.md

A fault of a trainer strikes one small cell, run by the real command in a forked process; a fault of
the pipeline strikes `hindsight replicate` on a small configuration.  After each: no traceback, no
process left behind, a restart that finishes without help, and curves and policies equal, bit for
bit, to those of a run that nobody disturbed.  Each fault has a folder and random numbers of
its own; as many are under way at a time as there are workers.
"""

import argparse
import contextlib
import ctypes
import functools
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from hindsight import cli, interruption
from hindsight.analysis import claims  # noqa: F401  forked processes have it then
from hindsight.fingerprint import fingerprint
from hindsight.integrity import ABOUT
from hindsight.specs.cell import CellSpec
from hindsight.training import cell as cell_module
from tests.faults import pipeline

CLOCKS = ["wall_seconds", "cpu_seconds"]
SPECS = {
    "ppo": {
        "algorithm": {"hidden": [8, 8], "n_steps": 64, "n_epochs": 1},
        "hindsight": {"strategy": "final"},
        "environment": {"n_dims": 2, "prey": "random"},
        "seeds": 2,
        "steps": 64 * 12,
        "evaluation": {"points": 2, "episodes": 5},
    },
    "dqn": {
        "environment": {"id": "BitFlipping-v0", "n_bits": 4},
        "algorithm": {
            "name": "dqn",
            "hidden": [8],
            "learning_starts": 16,
            "train_freq": 8,
            "batch_size": 16,
            "log_interval": 64,
        },
        "replay": {"strategy": "future"},
        "seeds": 2,
        "steps": 64 * 8,
        "evaluation": {"points": 2, "episodes": 5},
    },
}
NOBODY = 65534


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
    said: list[str] = field(default_factory=list)

    @property
    def spec(self) -> CellSpec:
        return CellSpec.model_validate(SPECS[self.name])

    @property
    def root(self) -> Path:
        return self.folder / "results"

    def path(self, kind: str, suffix: str) -> Path:
        return self.root / kind / f"{self.spec.name}{suffix}"

    @property
    def checkpoint(self) -> Path:
        return self.path("checkpoints", ".pt")

    @property
    def curves(self) -> Path:
        return self.path("cells", ".parquet")

    def start(self, *command: str, nobody: bool = False) -> "Process":
        """One of the project's commands, in this folder, in a process of its own."""
        if not command:
            spec = self.folder / "spec.json"
            spec.write_text(self.spec.model_dump_json())
            command = ("cell", str(spec), "--out", "results")
        return Process(self, command, nobody)

    def moment(self) -> None:
        """Any moment of a training."""
        time.sleep(self.rng.uniform(0, 1.1 * self.seconds))

    def until_checkpoint(self, process: "Process") -> bool:
        """Wait for the first checkpoint, and a while; false where the training ended before."""
        while process.runs and not self.checkpoint.exists():
            time.sleep(0.005)
        time.sleep(self.rng.uniform(0, 0.4 * self.seconds))
        return process.runs

    def interrupted(self) -> None:
        """A training that was killed and has left a checkpoint."""
        for _ in range(20):
            process = self.start()
            if self.until_checkpoint(process):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            if self.checkpoint.exists():
                return
            shutil.rmtree(self.root)
        raise Survived("no checkpoint in twenty trainings")

    def trained(self) -> None:
        demand(self.start().wait() == 0, "an undisturbed training failed")


class Process:
    """A forked process that runs one command of the project, with what it says."""

    def __init__(self, lab: Lab, command: tuple[str, ...], nobody: bool = False) -> None:
        self.log = Path(tempfile.mkstemp(dir=lab.folder.parent, suffix=".log")[1])
        self.lab, self.status = lab, None
        self.pid = os.fork()
        if self.pid == 0:
            _become(lab.folder, self.log, command, nobody)

    @property
    def runs(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is None

    def wait(self, limit: float = 120.0) -> int:
        """Its exit status; demands that it says no traceback."""
        end = time.monotonic() + limit
        while self.runs:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise Survived(f"hung: {self.said}")
            time.sleep(0.005)
        demand("Traceback" not in self.said, f"a traceback:\n{self.said}")
        self.lab.said += self.said.splitlines()
        return self.status

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


def _become(folder: Path, log: Path, command: tuple[str, ...], nobody: bool) -> None:
    """In the forked process: the command, and nothing of the parent's."""
    status = 1
    try:
        handle = os.open(log, os.O_WRONLY)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.chdir(folder)
        if nobody and os.getuid() == 0:
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
        # A small cell wants more checkpoints than one a minute.
        wanted = cell_module.Execution
        cell_module.Execution = lambda *a, **k: replace(wanted(*a, **k), checkpoint_seconds=0.02)
        sys.argv = ["hindsight", *command]
        cli.main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # before or after all of hindsight
        status = 1
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


# -- faults of a trainer ------------------------------------------------------------------------


def stop(lab: Lab, number: signal.Signals) -> str:
    process = lab.start()
    lab.moment()
    if process.runs:
        os.kill(process.pid, number)
    status = process.wait()
    if status == 0:
        return "had finished"
    if f"stopped by {number.name}" in process.said:
        demand(status == 128 + number, f"{status}: {process.said}")
        demand(lab.checkpoint.exists(), "stopped without a checkpoint")
        again = lab.start()
        demand(again.wait() == 0 and "continued at" in again.said, f"not continued: {again.said}")
        return "stopped with a checkpoint and continued"
    demand(status in (-number, 128 + number, 1), f"{status}: {process.said}")
    # A last checkpoint stays beside the curves of a short cell.
    demand(lab.curves.exists() or not lab.checkpoint.exists(), f"{status}: {process.said}")
    return "ended before training began, or after its end"


def kill(lab: Lab) -> str:
    kills = lab.rng.randint(1, 3)
    for _ in range(kills):
        process = lab.start()
        lab.moment()
        if process.runs:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    return f"killed {kills} times in a row" if kills > 1 else "killed once"


def orphan(lab: Lab) -> str:
    """The process that started the trainer is killed."""
    head = os.fork()
    if head == 0:
        os.environ[interruption.PARENT] = str(os.getpid())
        process = lab.start()
        (lab.folder / "pid").write_text(f"{process.pid} {process.log}")
        time.sleep(60)
        os._exit(0)
    while not (lab.folder / "pid").exists() or not (lab.folder / "pid").read_text():
        time.sleep(0.005)
    lab.moment()
    os.kill(head, signal.SIGKILL)
    os.waitpid(head, 0)
    pid, log = (lab.folder / "pid").read_text().split()
    adopted, end = int(pid), time.monotonic() + 20
    while os.waitpid(adopted, os.WNOHANG)[0] == 0:
        demand(time.monotonic() < end, "the trainer lives on")
        time.sleep(0.01)
    said = Path(log).read_text()
    demand("Traceback" not in said, said)
    lab.said += said.splitlines()
    return "the trainer ended too"


def two_at_once(lab: Lab) -> str:
    first, strike = lab.start(), lab.rng.random() < 0.5
    time.sleep(lab.rng.uniform(0, 0.5 * lab.seconds))
    second = lab.start()
    time.sleep(lab.rng.uniform(0, 0.5 * lab.seconds))
    if strike and first.runs:
        os.kill(first.pid, signal.SIGKILL)
    statuses = first.wait(), second.wait()
    demand(statuses[1] == 0, f"the second failed: {second.said}")
    return "the first was killed, the second went on" if statuses[0] else "the second waited"


def cut(path: Path, rng: random.Random) -> str:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])
    return "truncated"


def flip(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return "a bit flipped"


def scribble(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at : at + 64] = rng.randbytes(64)
    path.write_bytes(data)
    return "64 bytes overwritten"


def garbage(path: Path, rng: random.Random) -> str:
    path.write_bytes(rng.randbytes(rng.randrange(2000)))
    return "noise instead"


class Harmful:
    """What an unsafe loader would run."""

    def __reduce__(self) -> tuple:
        return Path.touch, (Path("harmed"),)


def foreign(path: Path, rng: random.Random) -> str:
    torch.save({"identity": Harmful()}, path)
    return "a foreign object instead"


def misfit(path: Path, rng: random.Random) -> str:
    """A checkpoint with the right name on it that lacks a key, or whose tensors do not fit."""
    state = torch.load(path, weights_only=True)
    runs = state["runs"] or state  # of a training that had ended there are none
    part = rng.choice([state, runs, runs.get("env", runs)])
    key = rng.choice([k for k in part if k != "identity"])
    if isinstance(part[key], torch.Tensor) and rng.random() < 0.7:
        part[key] = part[key].new_zeros((1, 0, 3))
    else:
        del part[key]
    torch.save(state, path)
    return "a key missing or of another shape"


DAMAGE = (cut, flip, scribble, garbage)


def damaged_checkpoint(lab: Lab, how: Callable | None = None) -> str:
    lab.interrupted()
    how = how or lab.rng.choice((*DAMAGE, foreign))
    before = lab.checkpoint.read_bytes()
    told = how(lab.checkpoint, lab.rng)
    process = lab.start()
    demand(process.wait() == 0, f"{told}: {process.said}")
    demand(not (lab.folder / "harmed").exists(), "code from a checkpoint was run")
    if "continued at" in process.said:
        demand(how in (flip, scribble, cut), f"{told}, and continued")
        return f"{told}: of no consequence" if before else "empty"
    demand(f"{lab.spec.name}.pt" in process.said and "set aside" in process.said, process.said)
    return f"{told}: set aside, trained anew"


def changed_specification(lab: Lab) -> str:
    """The checkpoint of other numbers under the cell's name; or made by other code."""
    lab.interrupted()
    state = torch.load(lab.checkpoint, weights_only=True)
    key = lab.rng.choice(["spec_hash", "code", "groups"])
    state["identity"][key] = "0123456789"
    torch.save(state, lab.checkpoint)
    process = lab.start()
    demand(process.wait() == 0, process.said)
    demand("of other code or specification" in process.said, process.said)
    return f"another {key}: refused, trained anew"


def plan_of(lab: Lab) -> Path:
    plan = lab.root / "tables" / "one" / "plan.json"
    plan.parent.mkdir(parents=True, exist_ok=True)
    entry = {"fidelity": "released", "arm": "PPO", "level": {}, "spawn": "random", "prey": "random"}
    entry |= {"seeds": 2, "cell": str(lab.curves.relative_to(lab.folder))}
    about = {"experiment": "one", "source": "one", "preset": {}, "vary": [], "entries": [entry]}
    plan.write_text(json.dumps(about))
    return plan.relative_to(lab.folder)


def rows_lost(path: Path, rng: random.Random) -> str:
    table = pq.read_table(path)
    pq.write_table(table.slice(0, rng.randrange(len(table))), path)
    return "rows lost"


def value_changed(path: Path, rng: random.Random) -> str:
    table = pq.read_table(path)
    values = table["return_mean"].to_numpy().copy()
    values[rng.randrange(len(values))] += 1e-3
    at = table.schema.get_field_index("return_mean")
    changed = table.set_column(at, table.schema.field(at), pa.array(values))
    pq.write_table(changed, path)
    return "one value changed"


def metadata_changed(path: Path, rng: random.Random) -> str:
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata)
    metadata[b"hindsight"] = metadata[b"hindsight"].replace(b'"seeds": 2', b'"seeds":  2')
    metadata[b"hindsight"] = metadata[b"hindsight"].replace(b'"cpu"', b'"wall"')
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return "metadata changed"


def _refused(lab: Lab, process: Process, path: Path, told: str, whole: bytes) -> str:
    """One sentence that names the file, which is set aside."""
    if process.wait() == 0:
        demand(path.exists(), "gone")
        demand(told in ("a bit flipped", "64 bytes overwritten"), f"{told}, and used")
        # Bytes without meaning, as padding and statistics: what is read must be the same.
        left, right = path.with_name("whole"), path
        left.write_bytes(whole)
        before, after = pq.read_table(left), pq.read_table(right)
        demand(before.to_pandas().equals(after.to_pandas()), "changed, and used")  # NaN is NaN
        about = (data.schema.metadata[ABOUT] for data in (before, after))
        demand(len(set(about)) == 1, "metadata changed, and used")
        left.unlink()
        path.unlink()
        return f"{told}: of no consequence"
    (line,) = process.said.splitlines() or [""]
    demand(line.startswith("error: ") and path.name in line, f"no sentence: {process.said}")
    demand("set aside" in line and not path.exists(), f"not set aside: {line}")
    demand(path.with_name(f"{path.name}.damaged").exists(), "lost")
    return f"{told}: named, set aside, made again"


def damaged_result(lab: Lab) -> str:
    lab.name = "ppo"
    lab.trained()
    plan, whole = plan_of(lab), lab.curves.read_bytes()
    how = lab.rng.choice((*DAMAGE, rows_lost, value_changed, metadata_changed))
    told = how(lab.curves, lab.rng)
    return _refused(lab, lab.start("summarise", str(plan)), lab.curves, told, whole)


def damaged_table(lab: Lab) -> str:
    lab.name = "ppo"
    lab.trained()
    plan = plan_of(lab)
    demand(lab.start("summarise", str(plan)).wait() == 0, "summarise failed")
    made = sorted(p for p in (lab.folder / plan).parent.iterdir() if p.name != "plan.json")
    path = lab.rng.choice([p for p in made if p.stat().st_size])
    whole = path.read_bytes()
    told = lab.rng.choice(DAMAGE)(path, lab.rng)
    if path.read_bytes() == whole:
        return "the same bytes by chance"
    process = lab.start("claims", str(plan.parents[1] / "claims.json"))
    if path.name == "record.json" and process.wait() == 0:
        # The record of the checksums is text: a changed word of it may mean nothing to a reader.
        return f"{told} in record.json: of no consequence"
    process.wait()
    names = process.said
    demand(names.startswith("error: ") and len(names.splitlines()) == 1, f"no sentence: {names}")
    demand("set aside" in names, names)
    demand(lab.start("summarise", str(plan)).wait() == 0, "not made again")
    demand(path.name == "record.json" or path.read_bytes() == whole, f"{path.name} differs")
    return f"{told}: named, set aside, made again"


def published(lab: Lab) -> str:
    """A results file from elsewhere that is not what its manifest vouches for."""
    lab.name = "ppo"
    lab.trained()
    target = lab.root / "published" / "cells" / f"{lab.spec.name}.parquet"
    target.parent.mkdir(parents=True)
    shutil.copy(lab.curves, target)
    from hindsight.integrity import file_sha256

    entry = {str(target.relative_to(lab.root / "published")): {"sha256": file_sha256(target)}}
    (lab.root / "published/manifest.json").write_text(json.dumps(entry))
    plan = plan_of(lab)
    text = (lab.folder / plan).read_text().replace("results/cells", "results/published/cells")
    (lab.folder / plan).write_text(text)
    demand(lab.start("summarise", str(plan)).wait() == 0, "a whole published file was refused")
    whole = target.read_bytes()
    told = lab.rng.choice((*DAMAGE, value_changed))(target, lab.rng)
    process = lab.start("summarise", str(plan))
    if target.read_bytes() != whole:
        demand(process.wait() == 1, f"{told}, and used")
        demand("differs from its checksum" in process.said and target.exists(), process.said)
    process.wait()
    return f"{told}: refused before anything was made of it"


def without_permission(lab: Lab) -> str:
    if os.getuid() == 0:
        lab.folder.chmod(0o777)
    process = lab.start(nobody=True)
    lab.until_checkpoint(process) if lab.rng.random() < 0.7 else lab.moment()
    kind = lab.rng.choice(["checkpoints", "cells", "policies"])
    place = lab.root / kind / Path(lab.spec.name).parent
    blocked = place if place.exists() else lab.root
    if blocked.exists():
        blocked.chmod(0o555)
    status = process.wait()
    if blocked.exists():
        blocked.chmod(0o777)
    if status:
        (line,) = [x for x in process.said.splitlines() if x.startswith("error: ")]
        demand("cannot be written" in line and str(lab.spec.name) in line, line)
    again = lab.start(nobody=True)
    demand(again.wait() == 0, again.said)
    return "told which file" if status else "had finished"


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own; raises OSError where it cannot be mounted."""
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
    """Whether there can be small disks, which takes root."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.suppress(OSError),
        small_disk(Path(folder), 1),
    ):
        return True
    return False


def full_disk(lab: Lab) -> str:
    with small_disk(lab.folder, 2) as disk:
        there = Lab(disk, lab.rng, lab.name, lab.seconds)
        process = there.start()
        if lab.rng.random() < 0.7:
            there.until_checkpoint(process)
        else:
            there.moment()
        room = lab.rng.choice([0, 4, 16, 40, 60, 100]) * 1024
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        size = (disk / "filler").stat().st_size
        with contextlib.suppress(OSError):
            os.truncate(disk / "filler", max(size - room, 0))
        status = process.wait()
        if status:
            lines = [x for x in process.said.splitlines() if x.startswith("error: ")]
            demand(len(lines) == 1, f"no sentence: {process.said}")
            demand("cannot be written" in lines[0] and lab.spec.name in lines[0], lines[0])
        (disk / "filler").unlink()
        again = there.start()
        demand(again.wait() == 0, again.said)
        lab.said += there.said
        shutil.copytree(disk / "results", lab.root)
    return "told which file" if status else "had finished, or found room enough"


TRAINER: dict[str, Callable[[Lab], str]] = {
    "trainer: SIGKILL": kill,
    "trainer: SIGTERM": partial(stop, number=signal.SIGTERM),
    "trainer: SIGINT": partial(stop, number=signal.SIGINT),
    "trainer: SIGHUP": partial(stop, number=signal.SIGHUP),
    "trainer: whoever started it is killed": orphan,
    "trainer: two of one cell": two_at_once,
    "checkpoint: damaged": damaged_checkpoint,
    "checkpoint: does not fit": partial(damaged_checkpoint, how=misfit),
    "checkpoint: other specification or code": changed_specification,
    "results file: damaged": damaged_result,
    "table: damaged": damaged_table,
    "published results file: changed": published,
    "full disk": full_disk,
    "no permission to write": without_permission,
}


def no_orphans(limit: float = 20.0) -> None:
    """Demand that no process is left that descends from this one, which adopts them all."""
    end = time.monotonic() + limit
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            demand(time.monotonic() < end, "a process was left behind")
            time.sleep(0.02)


def contents(lab: Lab) -> tuple[pd.DataFrame, torch.Tensor]:
    rows = torch.load(lab.path("policies", ".pt"), weights_only=True)["rows"]
    return pd.read_parquet(lab.curves).drop(columns=CLOCKS), rows


def undisturbed(folder: Path, name: str) -> Lab:
    """The lab in which a cell is trained without any fault."""
    return Lab(folder / f"undisturbed-{name}", random.Random(), name)


def prepare(folder: Path) -> dict[str, float]:
    """Train every cell undisturbed; returns how many seconds each took."""
    torch.set_num_threads(1)
    fingerprint("train")  # a second, once: the forked processes know it
    seconds = {}
    for name in SPECS:
        lab = undisturbed(folder, name)
        lab.folder.mkdir()
        began = time.monotonic()
        lab.trained()
        seconds[name] = time.monotonic() - began
    return seconds


def trainer_fault(number: int, seed: int, folder: Path, seconds: dict[str, float]) -> "Told":
    """Inject one fault of a trainer, and see that it is survived; else raises Survived."""
    kinds = [kind for kind in TRAINER if kind != "full disk" or can_mount()]
    kind, rng = kinds[number % len(kinds)], random.Random(f"trainer {seed} {number}")
    name = rng.choice(list(SPECS))
    lab = Lab(folder / f"{number}", rng, name, seconds[name])
    lab.folder.mkdir()
    try:
        happened = TRAINER[kind](lab)
        again = lab.start()
        demand(again.wait() == 0, f"the restart failed: {again.said}")
        demand("waiting" not in again.said, f"a stale lock: {again.said}")
        curves, rows = contents(lab)
        whole = contents(undisturbed(folder, lab.name))
        pd.testing.assert_frame_equal(curves, whole[0], check_exact=True)
        demand(torch.equal(rows, whole[1]), "other policies")
        no_orphans()
        rest = [p for p in lab.root.rglob(".*") if p.is_file()]
        demand(not rest, f"half-written files stay: {rest}")
    except Exception as error:
        raise Survived(f"fault {number} of seed {seed}, {kind}: {error!r}") from error
    shutil.rmtree(lab.folder)
    return kind, happened, lab.said


# -- the table ------------------------------------------------------------------------------------


#: Kind of a fault, what happened, and what was said.
Told = tuple[str, str, list[str]]


def table(found: list[Told]) -> str:
    """Markdown: a line per kind of fault and what happened."""
    lines = ["| fault | what happened | times |", "|---|---|--:|"]
    times = Counter((kind, happened) for kind, happened, _ in found)
    kinds = list(dict.fromkeys(kind for kind, _, _ in found))
    for kind in kinds:
        for (k, happened), n in sorted(times.items()):
            if k == kind:
                lines.append(f"| {kind} | {happened} | {n} |")
    return "\n".join(lines)


def shortened(line: str) -> str:
    """Without this machine's names and numbers, and without the details of cells' names."""
    line = re.sub(r"/\S*/(?=project-)| \(process [^)]*\)", "", line)
    return re.sub(r"(?<=[/ ])((?:ppo|dqn)-)[^\s/:]*-([0-9a-f]{10})", r"\1…-\2", line)


def examples(found: list[Told]) -> str:
    """Markdown: for each kind of fault one sentence that was said of it, if one was."""
    telling = (
        "error: ",
        "stopped by",
        "set aside",
        "of other code",
        "at work there",
        "interrupted;",
    )
    lines = {}
    for kind, _, said in found:
        for line in said:
            if kind not in lines and any(word in line for word in telling):
                lines[kind] = f"- {kind}: `{shortened(line.strip())}`"
    return "\n".join(lines.values())


def become_reaper() -> None:
    """Adopt the processes that this one's children leave behind."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def inject(trainer: int, whole: int, seed: int, workers: int, folder: Path) -> Iterator[Told]:
    """So many faults of trainers and of the whole pipeline; raises Survived at the first that is
    not survived."""
    become_reaper()
    seconds = prepare(folder)
    ready = pipeline.prepare(folder) if whole else None
    forked = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, forked, initializer=become_reaper) as pool:
        # The longest first.
        futures: list[Future] = [
            pool.submit(pipeline.fault, number, seed, folder, ready, can_mount(), small_disk)
            for number in range(whole)
        ]
        futures += [
            pool.submit(trainer_fault, number, seed, folder, seconds) for number in range(trainer)
        ]
        try:
            for future in [*futures[whole:], *futures[:whole]]:
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)
    no_orphans()


def main() -> int:
    """Inject, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainer", type=int, default=200)
    parser.add_argument("--pipeline", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    # Whoever is started with nohup, or in the background, would hand ignored signals on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    found, began = [], time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        faults = inject(chosen.trainer, chosen.pipeline, chosen.seed, chosen.workers, folder)
        try:
            for one in faults:
                found.append(one)
                print(f"{len(found):4} {one[0]}: {one[1]}", flush=True)
        except AssertionError as error:
            print(f"not survived: {error}")
            return 1
    told = table(found)
    print(f"\n{told}\n\n{len(found)} faults, all survived, {time.monotonic() - began:.0f} s")
    if not can_mount():
        print("No disk was filled: that takes root.")
    if chosen.out is not None:
        command = (
            f"python -m tests.faults.inject --trainer {chosen.trainer} "
            f"--pipeline {chosen.pipeline} --seed {chosen.seed}"
        )
        page = PAGE.format(count=len(found), command=command, table=told, said=examples(found))
        chosen.out.write_text(page)
    return 0


PAGE = """# What it survives

Written by `make faults` ({count} faults in one run: `{command}`).

After every fault: no traceback; no process left behind; a restart by the same command that finishes
without help; no lock in its way; and curves and policies equal, bit for bit, to those of a run that
nobody disturbed (but for the columns of clocks).

{table}

What was said, for example:

{said}

What a cluster does to its jobs is tested by `make test-slurm` ([what follows](cluster.md)).
"""

if __name__ == "__main__":
    sys.exit(main())
