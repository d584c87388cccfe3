"""`hindsight replicate`: Snakemake with one progress display, and a last word on what came out."""

import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from hindsight.io.interruption import PARENT, noticed
from hindsight.pipeline.project import Project, files_below
from hindsight.specs.config import load, overrides_of
from hindsight.specs.cost import seconds
from hindsight.specs.plan import left_out
from hindsight.training.progress import display, shown

LOG = Path("results/logs/snakemake.log")
PROGRESS = Path("results/progress")
LOOK_SECONDS = 5.0
#: Before that, processes start, and little can be said of how fast they train.
START_SECONDS = 15.0
#: Bytes below which a disk counts as full.
ROOM = 1 << 20


def run(arguments: Sequence[str], cores: str, published: bool) -> int:
    """Run the workflow; returns Snakemake's exit status."""
    places = _config_places(arguments)
    overrides = overrides_of([arguments[i] for i in places if not arguments[i].startswith("-")])
    if published:
        overrides["results"] = "published"
    project = Project.of(load(Path("config.yaml"), overrides))
    rest = [a for i, a in enumerate(arguments) if i not in places]
    pairs = [f"{key}={_as_yaml(value)}" for key, value in overrides.items()]
    # A profile that is named says itself how many cores, as that of a cluster does.
    own = any(a.split("=")[0] in ("--workflow-profile", "--profile") for a in rest)
    command = [sys.executable, "-m", "snakemake", *([] if own else ["--cores", cores]), *rest]
    command += ["--config", *pairs] if pairs else []
    narrowed = left_out(project.plan) if project.trains else []
    for line in [*what_comes(project, None if own else cores), *narrowed]:
        print(line, flush=True)
    started = time.time()
    status, stopped_by = _supervise(command, project)
    if stopped_by is not None:
        print("interrupted; the same command continues where this one stopped", file=sys.stderr)
        return 128 + stopped_by
    if status:
        print(f"Snakemake ended with status {status}; its log: {LOG}")
        _what_failed(project, started)
    else:
        _what_came_out(project)
    return status


def what_comes(project: Project, cores: str | None) -> Iterator[str]:
    """What will be trained, about how long that takes, and where it all goes.

    cores: as for Snakemake; None where a profile says it, as that of a cluster does.
    """
    if project.published:
        yield "Nothing is trained: the published results are drawn and judged again."
        yield "What comes out is byte for byte what is published, here and in REPLICATION.md."
        return
    if not project.trains:
        yield "Nothing is trained: what is there is drawn and judged."
    else:
        cells, missing = project.plan.cells, project.missing
        there = project.runs_there()
        runs = sum(cells[name].seeds for name in missing) - sum(there.values())
        yield f"Preset {project.source}: {len(missing)} of {len(cells)} cells are to be trained."
        if there:
            yield (
                f"That is {runs} runs: {sum(there.values())} more are taken from cells with "
                "another number of seeds."
            )
        left = [
            seconds(cells[name]) * (1 - there.get(name, 0) / cells[name].seeds) for name in missing
        ]
        if left:
            own = len(os.sched_getaffinity(0))
            # On a cluster its profile says how many at a time.
            n = 0
            if cores is not None and (cores == "all" or cores.isdigit()):
                n = own if cores == "all" else min(int(cores), own)
            here = f", {_duration(sum(left) / n)} on {n} of this machine's cores" if n else ""
            yield f"About {sum(left) / 3600:.1f} core-hours of training{here}, by a rough estimate."
    yield f"Results go to results/, figures and the page to {project.folder}/."


def _duration(length: float) -> str:
    """`40 minutes`, `3 hours`."""
    return f"{length / 60:.0f} minutes" if length < 5400 else f"{length / 3600:.0f} hours"


def _supervise(command: list[str], project: Project) -> tuple[int, int | None]:
    """Run Snakemake to its end; returns its status, and the signal that ended it early, if any.

    Snakemake and its jobs are a process group of their own, so that a signal reaches each of them
    once; they end with this process, however it ends.
    """
    LOG.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, PARENT: str(os.getpid())}
    with LOG.open("w", encoding="utf-8") as log, noticed() as notice:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, process_group=0,
            preexec_fn=_heed_interrupts,
        )  # fmt: skip
        try:
            watch = _Watch(project)
            with display(sys.stdout) as draw:
                while process.poll() is None and notice.signal is None:
                    draw(watch.state)
                    time.sleep(0.5)
                draw(watch.state)
            if process.poll() is None:
                # Jobs keep what they have, Snakemake takes its leave.
                os.killpg(process.pid, signal.SIGINT)
            return process.wait(), notice.signal
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _heed_interrupts() -> None:
    """A script's background command ignores SIGINT, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _as_yaml(value: Any) -> str:
    """One line that Snakemake reads as this value; JSON's 3e-05 would be text to it."""
    line = yaml.safe_dump(value, default_flow_style=True, width=math.inf)
    return line.removesuffix("...\n").strip()


def _config_places(arguments: Sequence[str]) -> list[int]:
    """Places of --config and of what follows it, up to the next option.

    Snakemake tells what it has understood only once it runs: too late to say what is to come, and
    its 3e-05 is text by then.
    """
    places = []
    inside = False
    for i, argument in enumerate(arguments):
        inside = argument in ("--config", "-C") or (inside and not argument.startswith("-"))
        if inside:
            places.append(i)
    return places


class _Watch:
    """What can be seen from outside: cells that are there, and the progress of those under way."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.work = {name: seconds(spec) for name, spec in project.plan.cells.items()}
        self.there = self.at_first = set(project.there)
        self.started = self.looked = time.monotonic()
        self.began = time.time()

    def state(self) -> tuple[float, float, str]:
        """For the display: cells that are there, of how many, and a line of text."""
        count, text = self.look()
        return count, max(len(self.work), 1), text

    def look(self) -> tuple[int, str]:
        """Cells that are there, and a line of text."""
        # One look per folder, and seldom: a network's file system has many thousands of cells.
        if time.monotonic() - self.looked >= LOOK_SECONDS:
            files = files_below(self.project.root / "cells")
            self.there = {name for name in self.work if self.project.files[name] in files}
            self.looked = time.monotonic()
        progress = (_progress(name) for name in sorted(files_below(PROGRESS, ".json")))
        under_way = [p for p in progress if p and p["cell"] in self.work.keys() - self.there]
        text = f"{len(self.there)} of {len(self.work)} cells"
        if under_way:
            speed = sum(p["steps_per_second"] for p in under_way)
            returns = ", ".join(shown(p["return_mean"], "+.2f") for p in under_way)
            text += f"  {speed:,.0f} steps/s  return {returns}"
        elif len(self.there) == len(self.work):
            text += f"  tables, figures{self._drawn()}, report"
        begun = sum(self.work[p["cell"]] * p["steps"] / max(p["of"], 1) for p in under_way)
        done = begun + sum(self.work[name] for name in self.there - self.at_first)
        left = sum(self.work[name] for name in self.work.keys() - self.there) - begun
        if minutes := minutes_left(time.monotonic() - self.started, done, left):
            text += f"  about {minutes:.0f} min left" if minutes >= 1 else "  a minute left"
        return len(self.there), text

    def _drawn(self) -> str:
        """How many figures have been drawn since, or found to be still of the same tables."""
        pictures = Path(self.project.folder).glob("*.png")
        count = sum(path.stat().st_mtime >= self.began for path in pictures)
        return f" ({count} done)" if count else ""


def minutes_left(elapsed: float, done: float, left: float) -> float:
    """Minutes until all is trained, if the rest goes as fast as what is done in `elapsed` seconds;
    0 while nothing can be said.

    `done` and `left` are estimated seconds of training on another machine.
    """
    return elapsed * left / done / 60 if elapsed > START_SECONDS and done else 0.0


def _progress(name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((PROGRESS / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if "cell" in found else None  # else of an older version


def _what_failed(project: Project, started: float) -> None:
    """Which jobs failed, what they and each failed cell's log said last, and how to go on."""
    lines = [line.strip() for line in _lines(LOG)]
    for line in dict.fromkeys(lines):
        if line.startswith(("Error in rule", "error: ")) or "Exception in rule" in line:
            print(f"  {line}")
    for kind, line in itertools.pairwise(lines):
        if kind.startswith("WorkflowError in "):
            print(f"  {line}")
    if shutil.disk_usage("results").free < ROOM:
        print(f"  The disk of {Path('results').resolve()} is full: make room.")
    if not project.trains:
        return
    there = files_below(project.root / "cells")
    missing = {name: file for name, file in project.files.items() if file not in there}
    for name, file in missing.items():
        log = Path("results/logs", f"{file}.log")
        if log.exists() and log.stat().st_mtime >= started and (its_lines := _lines(log)):
            print(f"  {name}\n    {its_lines[-1]}")
    count = f"{len(missing) or 'none'} of {len(project.files)} cells are missing"
    print(f"  {count}; the same command continues.")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _what_came_out(project: Project) -> None:
    """The verdicts, and where everything is."""
    if not Path(project.claims).exists():  # only some figures were asked for
        return
    print("\nThe claims")
    reasons: set[str] = set()
    for row in json.loads(Path(project.claims).read_text(encoding="utf-8")):
        print(f"  {row['claim']} {row['fidelity']:9} {row['verdict']:10} {row['sentence']}")
        if row["why"] and row["why"] not in reasons:  # one reason may be that of many claims
            reasons.add(row["why"])
            print(f"     {row['why']}")
    print(f"\nFigures    {project.folder}/*.png")
    print(f"Tables     {project.tables}/*/summary.csv, .tex")
    print(f"Scoreboard {project.scoreboard}")
    print(f"Page       {project.page}")
