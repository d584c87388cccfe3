"""`hindsight replicate`: run Snakemake with a progress display and a summary of the results."""

import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from hindsight.io.files import FileError, must_be_regular
from hindsight.io.interruption import PARENT, noticed
from hindsight.library.train import duration
from hindsight.pipeline.project import SCOREBOARD, Project, files_below, lock, must_be_in_its_clone
from hindsight.report.definitions import must_fit
from hindsight.specs.config import CONFIG, load, overrides_of
from hindsight.specs.cost import seconds
from hindsight.specs.errors import SpecError
from hindsight.specs.plan import left_out
from hindsight.training.progress import Progress, display, shown

LOG = Path("results/logs/snakemake.log")
PROGRESS, PROGRESS_FORMAT = Path("results/progress"), TypeAdapter(Progress)
LOOK_SECONDS = 5.0
#: How Snakemake ends a dry run in which something is to be done.
DRY_RUN = "This was a dry-run"
#: Startup time of the processes, during which the remaining time cannot be estimated.
START_SECONDS = 15.0
#: Age of a progress file whose cell counts as killed: one that trains writes every few seconds.
STALE_SECONDS = 300.0
#: Free bytes below which a disk counts as full.
ROOM = 1 << 20


def run(arguments: Sequence[str], cores: str, published: bool) -> int:
    """Run the workflow; returns Snakemake's exit status.

    Raises SpecError outside a clone or for a mistake in the configuration, or FileError if another
    process runs it.
    """
    must_be_in_its_clone()
    at = arguments.index("--") if "--" in arguments else len(arguments)  # targets follow
    given, rest = _apart(arguments[:at])
    overrides = overrides_of(given.config)
    if published:
        for key in {"results", "preset"} & overrides.keys():
            raise SpecError(f"--published: {key} has no effect on these results; leave it out")
        overrides["results"] = "published"
    project = Project(load(CONFIG, overrides))
    must_fit(project.config)
    keys = [f"{key}={_as_yaml(value)}" for key, value in overrides.items()]
    # A profile given by the user sets the cores itself.
    own = any(a.split("=")[0] in ("--workflow-profile", "--profile") for a in rest)
    used = given.cores or (None if own else cores)
    command = [sys.executable, "-m", "snakemake", *(["--cores", used] if used else []), *rest]
    command += [*(["--config", *keys] if keys else []), *arguments[at:]]
    with lock(".replicate.lock"):
        with lock():  # Snakemake takes it later, when this process would have overwritten the log
            pass
        for line in what_comes(project, used):
            print(line, flush=True)
        started = time.time()
        status, stopped_by = supervise(command, project)
        if stopped_by is not None:
            print("interrupted; the same command continues where this one stopped", file=sys.stderr)
            return 128 + stopped_by
        if status:
            print(f"Snakemake ended with status {status}; its log: {LOG}")
            what_failed(project, started)
        else:
            what_came_out(project)
        return status


def what_comes(project: Project, cores: str | None) -> Iterator[str]:
    """Lines that say what will be trained, roughly how long it takes, and where the results go.

    cores: as for Snakemake; None if a profile sets them.
    """
    if project.published:
        yield "Nothing is trained: figures and verdicts are made from the published results."
        yield "They should be those of this repository: `git status` names any that are not."
        return
    if not project.trains:
        yield "Nothing is trained: figures and verdicts are made from the existing results."
    else:
        cells, missing = project.plan.cells, project.missing
        yield f"Preset {project.source}: {len(missing)} of {len(cells)} cells are to be trained."
        if project.taken_over:
            yield project.taken_over
        if missing:
            left = sum(seconds(cells[name]) for name in missing)
            n = len(os.sched_getaffinity(0))
            if cores != "all":
                n = min(n, int(cores)) if cores and cores.isdigit() else 0
            here = f", {duration(left / n)} on {n} of this machine's cores" if n else ""
            older = "; older cores, without AVX-512, take up to three times as long"
            yield f"Rough estimate: {duration(left)} of training on one core{here}{older}."
    yield f"Results go to results/, figures and the page to {project.folder}/."
    if project.trains:
        yield from left_out(project.plan)


def supervise(command: list[str], project: Project) -> tuple[int, int | None]:
    """Run Snakemake; returns its exit status, and the signal that stopped it early, if any.

    Snakemake and its jobs have their own process group, so that each receives a signal once; they
    end with this process, however it ends.
    """
    LOG.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, PARENT: str(os.getpid())}
    with LOG.open("w", encoding="utf-8") as log, noticed() as notice:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, process_group=0,
            # Background commands of a script ignore SIGINT, and so would Snakemake.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        try:
            watch = _Watch(project)
            with display(sys.stdout) as draw:
                while process.poll() is None and notice.signal is None:
                    draw(watch.state)
                    time.sleep(0.5)
                draw(watch.state)
            if process.poll() is None:
                # jobs save checkpoints, and Snakemake ends
                os.killpg(process.pid, signal.SIGINT)
            return process.wait(), notice.signal
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _as_yaml(value: Any) -> str:
    """Format a value on one line for Snakemake, which would read JSON's 3e-05 as text."""
    line = yaml.safe_dump(value, default_flow_style=True, width=math.inf)
    return line.removesuffix("...\n").strip()


def _apart(arguments: Sequence[str]) -> tuple[Namespace, list[str]]:
    """Part --config and --cores, which are needed before Snakemake starts, from other arguments.

    Raises SpecError for a configuration in another file.
    """
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", "-C", nargs="*", action="extend", default=[])
    parser.add_argument("--cores", "-c")
    found, rest = parser.parse_known_args(arguments)
    elsewhere = ArgumentParser(add_help=False)  # it knows abbreviations, as Snakemake's does
    for names in (("--configfiles",), ("--directory", "-d"), ("--snakefile", "-s")):
        elsewhere.add_argument(*names, nargs="?", const="")
    wrong = vars(elsewhere.parse_known_args(rest)[0])
    for option in (name for name, value in wrong.items() if value is not None):
        instead = "it is for snakemake itself; replicate runs in this folder"
        if option == "configfiles":
            instead = "give keys as --config KEY=VALUE, or in config.yaml"
        raise SpecError(f"--{option} is not allowed: {instead}")
    return found, rest


class _Watch:
    """Watches result and progress files: finished cells, and the progress of running ones."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.work = {name: seconds(spec) for name, spec in project.plan.cells.items()}
        self.there = self.at_first = set(project.there)
        self.started = self.looked = time.monotonic()
        self.began = time.time()

    def state(self) -> tuple[float, float, str]:
        """Number of finished cells, of all cells, and a line of text, for the display."""
        # List folders rarely: there may be thousands of cells on a network file system.
        if time.monotonic() - self.looked >= LOOK_SECONDS:
            self.there = self.project.look()
            self.looked = time.monotonic()
        of_this_run = max(self.began, time.time() - STALE_SECONDS)
        progress = (_progress(name, of_this_run) for name in sorted(files_below(PROGRESS, ".json")))
        under_way = [p for p in progress if p and p.cell in self.work.keys() - self.there]
        text = f"{len(self.there)} of {len(self.work)} cells"
        if under_way:
            speed = sum(p.steps_per_second for p in under_way)
            returns = ", ".join(shown(p.return_mean, "+.2f") for p in under_way)
            text += f"  {speed:,.0f} steps/s  return {returns}"
        elif len(self.there) == len(self.work):
            text += "  tables, figures, report"
        begun = sum(self.work[p.cell] * p.steps / max(p.of, 1) for p in under_way)
        done = begun + sum(self.work[name] for name in self.there - self.at_first)
        left = sum(self.work[name] for name in self.work.keys() - self.there) - begun
        # Of these estimates only the ratio counts.
        elapsed = time.monotonic() - self.started
        if elapsed > START_SECONDS and done and left:
            text += f"  about {duration(elapsed * left / done)} left"
        return len(self.there), max(len(self.work), 1), text


def _progress(name: str, since: float) -> Progress | None:
    """What a progress file written since then tells; None if it is damaged."""
    path = PROGRESS / f"{name}.json"
    with suppress(OSError, ValueError, FileError):  # pydantic's errors are ValueErrors
        must_be_regular(path)
        found = PROGRESS_FORMAT.validate_json(path.read_bytes())
        if path.stat().st_mtime >= since and 0 <= found.steps <= found.of:
            return found
    return None


def what_failed(project: Project, started: float) -> None:
    """Print the failed jobs, the last line of each failed cell's log, and how to continue.

    Or what is wrong with Snakemake's arguments or the configuration, if no job was started.
    """
    lines = [line.strip().removeprefix("__main__.py: ") for line in _lines(LOG)]
    told = [line for line in lines if line.startswith(("Error in rule", "error: ", "Error: "))]
    for place, kind in enumerate(lines):
        if kind.startswith("MissingInputException"):
            told.append(" ".join(filter(None, lines[place + 1 : place + 6])))
    for kind, line in itertools.pairwise(lines):
        if kind == "Error:" or kind.startswith("WorkflowError in ") or kind.endswith("Exception:"):
            told.append(line.removeprefix("SpecError: "))
    if not told and any(line.startswith("Traceback") for line in lines):
        told = lines[-1:]
    for line in dict.fromkeys(told):
        if not line.startswith("CalledProcessError in "):  # the job's own error says more
            print(f"  {line}")
    mistaken = told and not any(line.startswith("Error in rule") for line in told)
    if shutil.disk_usage("results").free < ROOM:
        print(f"  The disk of {Path('results').resolve()} is full: free some space.")
    if mistaken or not project.trains:
        return
    missing = sorted(project.files.keys() - project.look())
    for name in missing:
        log = Path("results/logs", f"{project.files[name]}.log")
        if log.exists() and log.stat().st_mtime >= started and (its_lines := _lines(log)):
            errors = [line for line in its_lines if line.startswith("error: ")]
            print(f"  {name}\n    {(errors or its_lines)[-1]}")
    count = f"{len(missing) or 'none'} of {len(project.files)} cells are missing"
    print(f"  {count}; the same command continues.")


def is_current(project: Project) -> bool:
    """Whether the verdicts follow from all tables of this configuration."""
    made = (project.claims, *project.all_tables)
    return all(Path(path).exists() for path in made) and not project.outdated(*made)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def what_came_out(project: Project) -> None:
    """Print the verdicts, and where the results are, unless only other files were requested."""
    if not is_current(project) or any(line.startswith(DRY_RUN) for line in _lines(LOG)):
        return
    from hindsight.report import words

    rows = json.loads(Path(project.claims).read_text(encoding="utf-8"))
    known = words.published(Path(SCOREBOARD))
    found, sentence, rest = words.tested(rows, known)
    print(f"\nThe papers' claims: {sentence}.")
    width = max((len(words.reading(row)) for row in found), default=0)
    for row in found:
        verdict, claim = row["verdict"], (row["claim"], words.reading(row))
        print(f"  {claim[0]:3} {claim[1]:{width}} {verdict:4} {row['sentence']}", end="")
        print("" if known.get(claim, verdict) == verdict else f" (published: {known[claim]})")
    if rest:
        print(f"  Not tested (the page says why): {rest}")
    print(f"\nFigures    {project.folder}/*.png")
    if left := sorted({*map(str, Path(project.folder).glob("*.png"))} - {*project.drawn}):
        many = f" and {len(left) - 1} others" * (len(left) > 1)
        print(f"           but not {left[0]}{many}, of an earlier selection")
    print(f"Tables     {project.tables}/*/summary.csv")
    print(f"Scoreboard {project.scoreboard}")
    print(f"Page       {project.page}")
