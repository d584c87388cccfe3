"""Faults of a trainer, of its checkpoint and its files, at random moments."""

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import torch

from hindsight.io import interruption
from hindsight.io.checkpoints import load, save
from hindsight.io.checksums import ABOUT, file_sha256
from hindsight.specs.code import file_name
from tests.analysis.synthetic import what_it_is, where_it_is
from tests.faults.lab import Lab, Process, demand, small_disk


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
    state = load(path)
    runs = state["runs"] or state  # of a training that had ended there are none
    part = rng.choice([state, runs, runs.get("env", runs)])
    key = rng.choice([k for k in part if k != "identity"])
    if isinstance(part[key], torch.Tensor) and rng.random() < 0.7:
        part[key] = part[key].new_zeros((1, 0, 3))
    else:
        del part[key]
    save(path, state)
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
    named = f"{file_name(lab.spec)}.safetensors" in process.said
    demand(named and "set aside" in process.said, process.said)
    return f"{told}: set aside, retrained"


def changed_specification(lab: Lab) -> str:
    """The checkpoint of other numbers under the cell's name; or made by other code."""
    lab.interrupted()
    state = load(lab.checkpoint)
    key = lab.rng.choice(["spec_hash", "code"])
    state["identity"][key] = "0123456789"
    save(lab.checkpoint, state)
    process = lab.start()
    demand(process.wait() == 0, process.said)
    demand("made by other code or from another specification" in process.said, process.said)
    return f"another {key}: refused, retrained"


def plan_of(lab: Lab) -> Path:
    """The plan of PPO's cell, which is trained before."""
    lab.name = "ppo"
    lab.trained()
    plan = lab.root / "plans" / "one.json"
    plan.parent.mkdir(parents=True, exist_ok=True)
    entry = what_it_is("algorithms", "PPO") | where_it_is("random", "random")
    entry |= {"fidelity": "released", "level": {}, "arm": "PPO", "seeds": lab.spec.seeds}
    entry["cell"] = str(lab.curves.relative_to(lab.folder))
    about = {"experiment": "one", "source": "one", "preset": {}, "vary": [], "entries": [entry]}
    plan.write_text(json.dumps(about))
    return plan.relative_to(lab.folder)


def summarise(plan: Path) -> tuple[str, ...]:
    """The command that makes a plan's tables, in `tables/one`."""
    return ("summarise", str(plan), "--out", str(plan.parents[1] / "tables"))


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
    return f"{told}: named, set aside, remade"


def damaged_result(lab: Lab) -> str:
    plan, whole = plan_of(lab), lab.curves.read_bytes()
    told = lab.rng.choice(DAMAGE)(lab.curves, lab.rng)
    return _refused(lab, lab.start(*summarise(plan)), lab.curves, told, whole)


def damaged_table(lab: Lab) -> str:
    plan = plan_of(lab)
    demand(lab.start(*summarise(plan)).wait() == 0, "summarise failed")
    made = sorted((lab.root / "tables/one").iterdir())
    path = lab.rng.choice([p for p in made if p.stat().st_size])
    whole = path.read_bytes()
    told = lab.rng.choice(DAMAGE)(path, lab.rng)
    if path.read_bytes() == whole:
        return "the same bytes by chance"
    tables = plan.parents[1] / "tables"
    process = lab.start("claims", str(tables / "claims.json"), str(tables / "one/record.json"))
    process.wait()
    names = process.said
    demand(names.startswith("error: ") and len(names.splitlines()) == 1, f"no sentence: {names}")
    demand(path.name in names and "made again" in names, names)
    demand(lab.start(*summarise(plan)).wait() == 0, "not made again")
    demand(path.read_bytes() == whole, f"{path.name} differs")
    return f"{told}: named, remade"


def published(lab: Lab) -> str:
    """A results file from elsewhere that is not what its manifest vouches for."""
    plan = plan_of(lab)
    target = lab.root / "published" / "cells" / f"{file_name(lab.spec)}.parquet"
    target.parent.mkdir(parents=True)
    shutil.copy(lab.curves, target)
    entry = {str(target.relative_to(lab.root / "published")): {"sha256": file_sha256(target)}}
    (lab.root / "published/manifest.json").write_text(json.dumps(entry))
    text = (lab.folder / plan).read_text().replace("results/cells", "results/published/cells")
    (lab.folder / plan).write_text(text)
    demand(lab.start(*summarise(plan)).wait() == 0, "a whole published file was refused")
    whole = target.read_bytes()
    told = lab.rng.choice(DAMAGE)(target, lab.rng)
    process = lab.start(*summarise(plan))
    if target.read_bytes() != whole:
        demand(process.wait() == 1, f"{told}, and used")
        demand("differs from its checksum" in process.said and target.exists(), process.said)
    process.wait()
    return f"{told}: refused before anything was made from it"


def without_permission(lab: Lab) -> str:
    process = lab.start(heedful=True)
    lab.until_checkpoint(process) if lab.rng.random() < 0.7 else lab.moment()
    kind = lab.rng.choice(["checkpoints", "cells", "policies"])
    place = lab.root / kind / Path(file_name(lab.spec)).parent
    blocked = place if place.exists() else lab.root
    if blocked.exists():
        blocked.chmod(0o555)
    status = process.wait()
    if blocked.exists():
        blocked.chmod(0o777)
    if status:
        (line,) = [x for x in process.said.splitlines() if x.startswith("error: ")]
        demand("cannot be written" in line and file_name(lab.spec) in line, line)
    again = lab.start(heedful=True)
    demand(again.wait() == 0, again.said)
    return "named the file" if status else "had finished"


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
            demand("cannot be written" in lines[0] and file_name(lab.spec) in lines[0], lines[0])
        (disk / "filler").unlink()
        again = there.start()
        demand(again.wait() == 0, again.said)
        shutil.copytree(disk / "results", lab.root)
    return "named the file" if status else "had finished, or found room enough"


FAULTS: dict[str, Callable[[Lab], str]] = {
    "trainer: SIGKILL": kill,
    "trainer: SIGTERM": partial(stop, number=signal.SIGTERM),
    "trainer: SIGINT": partial(stop, number=signal.SIGINT),
    "trainer: SIGHUP": partial(stop, number=signal.SIGHUP),
    "trainer: its parent process is killed": orphan,
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
