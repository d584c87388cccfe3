"""Faults of the whole pipeline: `hindsight replicate` on a small configuration, disturbed."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pandas as pd
import psutil

from hindsight.nn.numba_cache import folder
from tests.faults.lab import demand
from tests.faults.trainer import cut, flip
from tests.support.configuration import environment_of
from tests.support.curves import curves

SELECT = {"forced_entropy": {"preys": ["static"], "spawns": ["random"]}}
CONFIG = ("--config", "preset=smoke", "steps=4096", f"select={json.dumps(SELECT)}")

REPLICATE = ("hindsight", "replicate", "--cores", "1", "--", *CONFIG)


@dataclass
class Project:
    """A copy of the project."""

    folder: Path
    rng: random.Random
    logs: Path  # not on the project's disk, which may be full
    seconds: float = 30.0  # of an undisturbed run
    variables: dict[str, str] = field(default_factory=dict)  # of the environment, for its commands

    def forget_a_cell(self) -> None:
        """Leave one cell of two, and nothing drawn."""
        path = self.rng.choice(sorted((self.folder / "results/cells").rglob("*.parquet")))
        cell = path.relative_to(self.folder / "results/cells").with_suffix("")
        path.unlink()
        (self.folder / "results/policies" / f"{cell}.safetensors").unlink()
        self.forget_derived()

    def forget_derived(self) -> None:
        """Remove all that was drawn."""
        shutil.rmtree(self.folder / "results/tables")
        shutil.rmtree(self.folder / "figures")

    def edit_the_code(self) -> None:
        """Make all cells stale by an edit that changes no number."""
        with (self.folder / "src/hindsight/algorithms/ppo.py").open("a") as file:
            file.write("\n_EDITED = True\n")

    def derived(self) -> dict[str, bytes]:
        """Every table, figure and page."""
        paths = [*self.folder.glob("results/tables/**/*"), *self.folder.glob("figures/**/*")]
        return {str(path): path.read_bytes() for path in paths if path.is_file()}

    def must_be_of_todays_cells(self) -> None:
        """Demand that every derived file is the one that today's cells give."""
        found = self.derived()
        self.forget_derived()
        self.finish()
        made = self.derived()
        other = [name for name in found | made if found.get(name) != made.get(name)]
        demand(not other, f"not of today's cells: {other}")

    def start(self, *command: str) -> "Command":
        """`hindsight replicate` of the small configuration, or another command."""
        return Command(self, command or REPLICATE)

    def finish(self) -> float:
        """Run it to the end; returns its seconds."""
        began, again = time.monotonic(), self.start()
        demand(again.wait() == 0, f"the restart failed: {again.said}\n{self.log}")
        return time.monotonic() - began

    @property
    def log(self) -> str:
        path = self.folder / "results/logs/snakemake.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def cells(self) -> dict[str, pd.DataFrame]:
        """The curves by the cell's name, the newest of each."""
        root = self.folder / "results/cells"
        paths = [p for p in root.rglob("*.parquet") if not p.name.startswith(".")]
        paths.sort(key=lambda path: path.stat().st_mtime_ns)
        newest = {str(p.relative_to(root)).rpartition("-")[0]: p for p in paths}
        return {n: curves(p) for n, p in sorted(newest.items())}

    def in_the_future(self) -> list[Path]:
        """Derived files that are newer than now."""
        derived = [
            *self.folder.glob("results/specs/*/*"),
            *self.folder.glob("results/plans/*/*"),
            *self.folder.glob("results/tables/*/*/*"),
        ]
        return [path for path in derived if path.stat().st_mtime > time.time()]

    def processes(self, word: str) -> dict[int, str]:
        """Processes at work in this folder whose command has this word, with their commands."""
        found = {
            process.pid: "\0".join(process.info["cmdline"] or [])
            for process in psutil.process_iter(["cmdline", "cwd"])
            if process.info["cwd"] == str(self.folder.resolve())
        }
        return {process: command for process, command in found.items() if word in command}

    def nobody_left(self, limit: float = 30.0) -> None:
        """Demand that no process stays at work in this folder."""
        end = time.monotonic() + limit
        while left := self.processes(""):
            demand(time.monotonic() < end, f"left behind: {left}")
            time.sleep(0.05)


class Command:
    """A running command with its output."""

    def __init__(self, project: Project, command: tuple[str, ...]) -> None:
        self.log = Path(tempfile.mkstemp(suffix=".log", dir=project.logs)[1])
        how = {"cwd": project.folder}
        how["env"] = environment_of(project.folder) | project.variables
        with self.log.open("w") as log:
            out = {"stdout": log, "stderr": subprocess.STDOUT}
            self.process = subprocess.Popen(command, start_new_session=True, **how, **out)

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, limit: float = 600.0) -> int:
        """Its exit status; demands that it prints no traceback."""
        status = self.process.wait(limit)
        demand("Traceback" not in self.said, f"a traceback:\n{self.said}")
        return status


def a_job_is_killed_at_an_update(project: Project, word: str) -> str:
    """The job of a command, soon after it has begun; what it was to replace was there."""
    command = project.start()
    while not (found := project.processes(f"hindsight\0{word}")) and command.runs:
        time.sleep(0.01)
    time.sleep(project.rng.uniform(0.0, 1.0))
    with contextlib.suppress(ProcessLookupError):
        os.kill(project.rng.choice(list(found)), signal.SIGKILL)
    status = command.wait()
    project.nobody_left()
    return "ended; the restart made everything from the new cells" if status else "had finished"


def struck(project: Project, word: str, number: signal.Signals) -> str:
    """A process of a running pipeline, chosen by a word of its command, gets a signal."""
    command = project.start()
    time.sleep(project.rng.uniform(0.1, 1.0) * project.seconds)
    end = time.monotonic() + project.seconds
    while not (found := project.processes(word)) and command.runs and time.monotonic() < end:
        time.sleep(0.02)
    try:
        os.kill(project.rng.choice(list(found)), number)
    except (IndexError, ProcessLookupError):  # there is none, or none any more
        demand(command.wait() == 0, command.said)
        return "had finished"
    status = command.wait()
    project.nobody_left()
    if status > 0:  # what is killed itself says nothing
        demand("the same command continues" in command.said, f"no way on is told: {command.said}")
    kept = len(project.cells())
    return f"ended, with {kept} of 2 cells kept" if status else "went on to the end"


def replicate_is_stopped(project: Project) -> str:
    number = project.rng.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    return struck(project, "hindsight\0replicate", number)


def two_at_once(project: Project) -> str:
    first = project.start()
    time.sleep(project.rng.uniform(0.0, 0.8) * project.seconds)
    if project.rng.random() < 0.5:
        second, what = project.start(), "replicate"
    else:
        second, what = project.start("snakemake", "--cores", "1", *CONFIG), "snakemake"
    statuses = first.wait(), second.wait()
    demand(0 in statuses, f"{first.said}\n{second.said}\n{project.log}")
    other = second if statuses[0] == 0 else first
    if all(status == 0 for status in statuses):
        return f"a second {what} came after the first"
    lines = [x for x in (other.said + project.log).splitlines() if "is already running" in x]
    demand(bool(lines), f"no sentence: {other.said}")
    return f"a second {what} reported the first, and ended"


def refused(project: Project, path: Path, words: str) -> None:
    """Truncate a file; the next run says so in one sentence with these words, and ends."""
    cut(path, project.rng)
    command = project.start()
    demand(command.wait() != 0, f"a damaged {path.name} was used")
    lines = [x for x in command.said.splitlines() if "error: " in x and path.name in x]
    demand(bool(lines) and words in lines[0], f"no sentence: {command.said}")


def a_result_is_damaged(project: Project) -> str:
    path = project.rng.choice(sorted((project.folder / "results/cells").rglob("*.parquet")))
    refused(project, path, "set aside")
    demand(path.with_name(f"{path.name}.damaged").exists(), "what was damaged is gone")
    return "named, set aside, retrained by the next run"


def a_table_is_damaged(project: Project) -> str:
    tables = project.folder / "results/tables/smoke/forced_entropy"
    path = project.rng.choice([tables / "runs.parquet", tables / "summary.csv"])
    whole = path.read_bytes()
    cut(path, project.rng)
    project.finish()
    demand(path.read_bytes() == whole, f"a damaged {path.name} was not made again")
    return "noticed, remade"


def snakemakes_records_are_damaged(project: Project) -> str:
    records = sorted(p for p in (project.folder / ".snakemake/metadata").rglob("*") if p.is_file())
    for path in project.rng.sample(records, min(5, len(records))):
        cut(path, project.rng)
    return "remade the affected files"


def the_disk_is_full(project: Project) -> str:
    """At a random moment, and Snakemake's own records lie on it too."""
    command = project.start()
    time.sleep(project.rng.uniform(0.0, 0.9) * project.seconds)
    filler = project.folder / "filler"
    # It is full when no more can be written.
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    status = command.wait()
    project.nobody_left()
    if status:
        told = re.search(r"disk .* is full|cannot be written|No space left", command.said)
        demand(told is not None, f"no sentence: {command.said}")
    filler.unlink()
    return "reported, nothing finished lost" if status else "had finished"


def damage(project: Project, path: Path) -> str:
    """Of a derived file one bit is another, or it lies in the future."""
    if project.rng.random() < 0.5:
        return flip(path, project.rng)
    later = time.time() + project.rng.uniform(100, 1e6)
    os.utime(path, (later, later))
    return "a time in the future"


def a_derived_file_is_damaged(project: Project, pattern: str) -> str:
    told = damage(project, project.rng.choice(sorted(project.folder.glob(pattern))))
    project.finish()
    demand(not project.in_the_future(), "still in the future")
    return f"{told}: rewritten, the same command completed"


def everything_is_from_the_future(project: Project) -> str:
    """As after the clock was set back; something must be made anew."""
    later = time.time() + 3600
    for path in project.folder.rglob("*"):
        if path.is_file() and {"results", "figures", "docs"}.intersection(path.parts):
            os.utime(path, (later, later))
    shutil.rmtree(project.folder / "results/tables/smoke/forced_entropy")
    project.finish()
    return "the same command completed"


def progress_files_are_malformed(project: Project) -> str:
    for i, text in enumerate(("[]", '{"cell": [1]}', "null", "{", '{"cell": "x", "steps": "y"}')):
        path = project.folder / f"results/progress/any/{i}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    project.finish()
    return "ignored"


def machine_code_is_damaged(project: Project) -> str:
    """Each file of the functions that a cell calls, by a bit or wholly."""
    caches = project.folder.with_name("caches")
    shutil.copytree(Path(folder()).parents[1], caches / "hindsight")
    project.variables["XDG_CACHE_HOME"] = str(caches)
    for path in caches.rglob("*.nb?"):
        project.rng.choice([cut, flip])(path, project.rng)
    project.finish()
    said = "".join(path.read_text() for path in project.folder.rglob("results/logs/*/*.log"))
    demand("is damaged or incomplete, and is compiled anew" in said, said)
    return "said so, and compiled anew"


def killed(word: str) -> Callable[[Project], str]:
    return partial(struck, word=word, number=signal.SIGKILL)


#: What each begins with: a project that is new, half or wholly run, or run by other code.
NEW, HALF, WHOLE, EDITED = "new", "half", "whole", "edited"
#: The commands of the pipeline's jobs.
JOBS = ("cell", "summarise", "draw", "claims", "report")
FAULTS: dict[str, tuple[Callable[[Project], str], str]] = {
    "pipeline: a cell gets SIGKILL": (killed("hindsight\0cell"), HALF),
    "pipeline: Snakemake gets SIGKILL": (killed("\0snakemake\0"), HALF),
    "pipeline: replicate gets SIGKILL": (killed("hindsight\0replicate"), HALF),
    "pipeline: replicate gets SIGTERM, SIGINT or SIGHUP": (replicate_is_stopped, HALF),
    "pipeline: two at once": (two_at_once, HALF),
    "pipeline: a results file is damaged": (a_result_is_damaged, WHOLE),
    "pipeline: full disk": (the_disk_is_full, NEW),
    "pipeline: a table is damaged": (a_table_is_damaged, WHOLE),
    "pipeline: Snakemake's records are damaged": (snakemakes_records_are_damaged, WHOLE),
    "pipeline: a plan is damaged or from the future": (
        partial(a_derived_file_is_damaged, pattern="results/plans/*/*.json"),
        HALF,  # a whole one reads its plans no more, until something changes and they are rewritten
    ),
    "pipeline: a specification is damaged or from the future": (
        partial(a_derived_file_is_damaged, pattern="results/specs/*/*.json"),
        HALF,
    ),
    "pipeline: everything is from the future": (everything_is_from_the_future, WHOLE),
    "pipeline: progress files are malformed": (progress_files_are_malformed, HALF),
    "pipeline: machine code is damaged": (machine_code_is_damaged, HALF),
} | {
    f"pipeline: `{job}` gets SIGKILL at an update": (
        partial(a_job_is_killed_at_an_update, word=job),
        EDITED,
    )
    for job in JOBS
}
