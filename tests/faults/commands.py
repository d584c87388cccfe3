"""What is typed, configured or started wrongly, and environments that misbehave.

A mistake is told in one sentence and writes nothing; what can go on goes on.  Each kind has its
list, of which a fault takes the next: another mistake is one more line in it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.faults.lab import Lab, demand

ROOT = Path(__file__).parents[2]
HINDSIGHT = str(Path(sys.executable).parent / "hindsight")
SMALL = ("hidden=8", "--seeds", "1", "--steps", "2048", "n_dims=2")
STUBBORN = (
    *("train", "--env", "tests.envs.stubborn:Stubborn-v0", "--algorithm", "sac", "--her", "future"),
    *("hidden=8", "--seeds", "2", "--steps", "600", "evaluation_episodes=2"),
    *("learning_starts=100", "log_interval=50"),
)


@dataclass(frozen=True)
class Mistake:
    """A command that cannot be, and what its sentence has to name."""

    told: str
    command: tuple[str, ...]
    named: str
    status: int = 1


def plan(told: str, value: str, named: str) -> Mistake:
    return Mistake(told, ("plan", "-c", value), named)


def train(told: str, options: str, named: str) -> Mistake:
    return Mistake(told, ("train", *options.split()), named)


VALUES = [
    plan("no layers", "hidden=[]", "hidden"),
    plan("a bracket that is not closed", "seeds=[1", "--config seeds=[1: is not YAML"),
    plan("a newline in a value", "preset=sm\noke", "preset"),
    plan("a newline in a key", 'select={"a\nb": {}}', "select"),
    plan("a thousand million seeds", f"seeds={10**9}", "seeds: 1000000000 is not allowed"),
    plan("10^23 steps", f"steps={10**23}", "steps"),
    plan("a key given twice", "evaluation={points: 2, points: 3}", "'points' is given twice"),
    plan("brackets within brackets", "seeds=" + "[" * 60 + "]" * 60, "nested"),
    plan("a control character", "preset=\x01", "control characters"),
    plan("a date that there is not", "preset=2026-02-31", "day is out of range"),
    plan("no value", "seeds", "is not key=value"),
    plan("an alias of nothing", "preset=*a", "undefined alias"),
    plan("a foreign object", "preset=!!python/object:os.system x", "is not YAML"),
    Mistake("a negative seed", ("evaluate", "a.pt", "--seed", "-1"), "'--seed'", 2),
    Mistake("a negative seed", ("watch", "a.pt", "a.gif", "--seed", "-1"), "'--seed'", 2),
    Mistake("no runs on an axis", ("train", "--runs-per-axis", "0"), "'--runs-per-axis'", 2),
]
FLAGS = [
    train(
        "prey where there is none",
        "--env PointReach-v0 prey=repel n_dims=5",
        "option 'prey'",
    ),
    train("spawn where there is none", "--env BitFlipping-v0 spawn=apart", "option 'spawn'"),
    train(
        "a box where there is none",
        "--env BitFlipping-v0 grid_size=3",
        "option 'grid_size'",
    ),
    train("goals per step without hindsight", "--her none k=4", "needs hindsight"),
    train("copies of one goal", "--her final k=4", "k=4 has no effect"),
    train("fidelity without a difference", "fidelity=released", "fidelity"),
    train("workers for our own environment", "--workers 2", "--workers"),
    train("a key given twice", "prey=static prey=repel", "prey is given twice"),
    train("an option that is undone", "--her final strategy=future", "given by --her"),
    train("no layers", "hidden=,", "hidden=,: is not YAML"),
]

UNREADABLE: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("in Latin-1", lambda text: text + "# é\n".encode("latin-1"), "is not UTF-8 text"),
    ("in UTF-16", lambda text: text.decode().encode("utf-16"), "is not UTF-8 text"),
    ("a key given twice", lambda text: text + b"preset: smoke\n", "key 'preset' is given twice"),
    (
        "an experiment called environment",
        lambda text: text + b"experiments: {environment: {title: t, figures: f, arms: {A: {}}}}\n",
        "'environment' is the name of the picture",
    ),
    ("cut in a key", lambda text: text[: text.index(b"execution:") + 6], "is not YAML"),
    ("empty", lambda text: b"", "holds no keys"),
    ("noise", lambda text: b"\x8b" + text[::-1], "is not UTF-8 text"),
    ("a tab", lambda text: text.replace(b"\n  device:", b"\n\tdevice:", 1), "is not YAML"),
    ("a null byte", lambda text: text[:100] + b"\0" + text[100:], "is not YAML"),
]


def sentence(lab: Lab, said: str, named: str) -> None:
    """Demand one line that names what is wrong."""
    lines = said.strip().splitlines()
    demand(len(lines) == 1 and lines[0].startswith("error: "), f"no sentence: {said}")
    demand(named in lines[0], f"{named!r} is not named: {said}")
    demand(len(said) < 600, f"too long a sentence: {said}")


def mistaken(lab: Lab, mistakes: Sequence[Mistake]) -> str:
    mistake = mistakes[lab.turn % len(mistakes)]
    (lab.folder / "config.yaml").write_bytes((ROOT / "config.yaml").read_bytes())
    (lab.folder / "config").symlink_to(ROOT / "config")
    process = lab.start(*mistake.command)
    demand(process.wait() == mistake.status, process.said)
    if mistake.status == 2:  # typer's own usage, in a box
        demand("Invalid value" in process.said and mistake.named in process.said, process.said)
    else:
        sentence(lab, process.said, mistake.named)
    demand(not lab.root.exists(), "something was written")
    return f"{mistake.told}: refused"


def unreadable(lab: Lab) -> str:
    told, change, named = UNREADABLE[lab.turn % len(UNREADABLE)]
    config = lab.folder / "config.yaml"
    config.write_bytes(change((ROOT / "config.yaml").read_bytes()))
    (lab.folder / "config").symlink_to(ROOT / "config")
    command = ("plan",) if lab.rng.random() < 0.5 else ("replicate", "--cores", "1")
    process = lab.start(*command)
    demand(process.wait() == 1, process.said)
    sentence(lab, process.said, named)
    demand(not lab.root.exists(), "something was written")
    return f"{told}: refused"


# -- started badly --------------------------------------------------------------------------------


def shell(lab: Lab, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of shell, in which "$@" is `hindsight train` of a small cell."""
    command = ["sh", "-c", script, "sh", HINDSIGHT, "train", *SMALL]
    done = subprocess.run(
        command,
        cwd=lab.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    demand("Traceback" not in done.stderr + done.stdout, done.stderr + done.stdout)
    lab.said += [*done.stdout.splitlines(), *done.stderr.splitlines()]
    return done


def closed_streams(lab: Lab) -> str:
    streams = ["2>&-", "1>&-", "<&-", "1>&- 2>&-", "<&- 1>&- 2>&-"][lab.turn % 5]
    done = shell(lab, f'exec "$@" {streams}')
    demand(done.returncode == 0, done.stdout + done.stderr)
    (curves,) = lab.root.rglob("*.parquet")
    demand(curves.read_bytes()[:4] == b"PAR1", "messages in a results file")
    refused = shell(lab, f'exec "$@" prey=statc {streams}')
    demand(refused.returncode == 1, "a mistake was no failure")
    if "1>&-" not in streams:
        demand("environment.prey: 'statc'" in refused.stdout + refused.stderr, "told nobody")
    return f"{streams}: trained anyway"


def too_little_memory(lab: Lab) -> str:
    megabytes = [900, 700, 550, 400][lab.turn % 4]
    done = shell(lab, f'ulimit -v {megabytes * 1000}; exec "$@"')
    demand(done.returncode == 1 and not lab.root.exists(), done.stderr)
    sentence(lab, done.stderr, f"may use {megabytes * 1024 // 1000} MB of address space")
    return f"{megabytes} MB of address space: refused"


def no_home(lab: Lab) -> str:
    home = ["/proc/none", "/dev/null", "/none/at/all"][lab.turn % 3]
    done = shell(lab, 'exec "$@"', HOME=home)
    demand(done.returncode == 0, done.stderr)
    lines = [line for line in done.stderr.splitlines() if f"HOME {home} cannot be used" in line]
    demand(len(lines) == 1, done.stderr)
    return f"HOME={home}: a temporary one is used"


def linked_lock(lab: Lab) -> str:
    target = lab.folder / "notes.txt"
    there = lab.turn % 2 == 0
    if there:
        target.write_text("mine")
    lock = lab.path("checkpoints", ".lock")
    lock.parent.mkdir(parents=True)
    lock.symlink_to(target)
    process = lab.start()
    demand(process.wait() == 0, process.said)
    demand("was a symbolic link, which is removed" in process.said, process.said)
    demand(target.read_text() == "mine" if there else not target.exists(), "its target was written")
    return "removed, its target left alone"


def damaged_specification(lab: Lab) -> str:
    """Of a job whose specification is no text, no JSON, or of another cell."""
    damage: list[Callable[[bytes], bytes]] = [
        lambda data: data[: lab.rng.randrange(len(data))],
        lambda data: bytes([data[0] | 0x80]) + data[1:],
        lambda data: data.replace(b'"seeds"', b'"sedes"'),
        lambda data: lab.rng.randbytes(500),
        lambda data: b"[" * 100_000,
    ]
    spec = lab.folder / "broken.json"
    spec.write_bytes(damage[lab.turn % len(damage)](lab.spec.model_dump_json().encode()))
    process = lab.start("cell", spec.name, "--out", "results")
    demand(process.wait() == 1, process.said)
    sentence(lab, process.said, "")
    demand(not lab.root.exists(), "something was written")
    return "refused"


def trained_twice(lab: Lab) -> str:
    first = lab.start("train", *SMALL)
    demand(first.wait() == 0, first.said)
    (curves,) = lab.root.rglob("*.parquet")
    before = curves.stat().st_mtime_ns
    again = lab.start("train", *SMALL)
    demand(again.wait() == 0, again.said)
    demand(again.said.startswith("already trained") and "success rate" in again.said, again.said)
    demand(curves.stat().st_mtime_ns == before, "trained again")
    if lab.turn % 2:
        anew = lab.start("train", *SMALL, "--again")
        demand(anew.wait() == 0 and curves.stat().st_mtime_ns > before, "not trained again")
        return "shown, and retrained when asked"
    return "shown"


# -- environments that misbehave ------------------------------------------------------------------


def hangs(lab: Lab) -> str:
    number = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP][lab.turn % 3]
    command = (*STUBBORN, "--workers", str(1 + lab.turn // 3 % 2))
    first = lab.start(*command)
    kept: list[Path] = []
    while first.runs and not kept:
        kept = list(lab.root.rglob("checkpoints/**/[!.]*.pt"))
        time.sleep(0.005)
    if first.runs:
        os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = [path.read_bytes() for path in kept if path.exists()]
    finished = list(lab.root.rglob("*.parquet"))
    (lab.folder / "hang").touch()
    process = lab.start(*command)
    while process.runs and not (lab.folder / "hangs").exists():
        time.sleep(0.005)
    if process.runs:
        os.kill(process.pid, number)
    status = process.wait()
    (lab.folder / "hang").unlink()
    if status == 0:
        demand(bool(finished), process.said)
        return "had finished"
    demand(status == 128 + number, f"{status}: {process.said}")
    demand(f"stopped by {number.name} while" in process.said, process.said)
    now = [path.read_bytes() for path in kept if path.exists()]
    demand(now == before, "the checkpoint was changed")
    again = lab.start(*command)
    demand(again.wait() == 0, again.said)
    return f"ended by the first {number.name}, and continued"


def exits(lab: Lab) -> str:
    file, workers = [("exit", "1"), ("exit", "2"), ("exit-at-import", "1")][lab.turn % 3]
    (lab.folder / file).touch()
    process = lab.start(*STUBBORN, "--workers", workers)
    demand(process.wait() == 1, process.said)
    lines = [line for line in process.said.splitlines() if "called sys.exit" in line]
    demand(len(lines) == 1 and "stubborn.py, line" in lines[0], f"no sentence: {process.said}")
    (lab.folder / file).unlink()
    demand(lab.start(*STUBBORN, "--workers", workers).wait() == 0, "not completed")
    return f"{file}: reported, not mistaken for the end"


FAULTS: dict[str, Callable[[Lab], str]] = {
    "typed: a value that cannot be": partial(mistaken, mistakes=VALUES),
    "typed: a flag that does not apply": partial(mistaken, mistakes=FLAGS),
    "typed: train, twice": trained_twice,
    "config.yaml: cannot be read": unreadable,
    "specification: damaged": damaged_specification,
    "started: with closed streams": closed_streams,
    "started: with too little memory": too_little_memory,
    "started: without a home": no_home,
    "lock: a symbolic link": linked_lock,
    "environment: hangs": hangs,
    "environment: calls sys.exit": exits,
}
