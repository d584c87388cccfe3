"""The Snakefile's interface: the files of a configuration, and the resources of a job.

Every job on a cluster reads the Snakefile, so figures (and matplotlib) are imported only where they
are needed.  Nothing is written before the first job starts.

Layout, relative to the project's folder; the source is a preset or `published`:
    results/specs/<cell>-<code>.json           a cell's specification, the only input of its job
    results/cells/<cell>-<code>.parquet        its curves
    results/policies/<cell>-<code>.safetensors its final parameters
    results/plans/<source>/<experiment>.json   the cells behind an experiment's tables
    results/tables/<source>/<experiment>/      the tables, and their record
    results/records/                           of what the other derived files were made
    figures/<source>/                          figures, report.html and REPLICATION.md
"""

import atexit
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import cached_property
from pathlib import Path

from hindsight.io.checksums import about
from hindsight.io.files import FileError, as_json, write_if_changed
from hindsight.io.locks import held
from hindsight.io.records import RECORD, Digests, is_current
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import SEEDS, file_name
from hindsight.specs.config import (
    AUTHORS,
    CONFIG,
    EPISODES,
    HERO,
    MAIN_EXPERIMENT,
    PICTURE,
    PUBLISHED,
    TRAINED,
    Config,
)
from hindsight.specs.cost import megabytes, seconds
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import PACKAGE, SpecError
from hindsight.specs.from_file import cell_of, wants_naming
from hindsight.specs.manifest import MANIFEST
from hindsight.specs.plan import Plan, papers_grids

SAFETY = 3  # how much slower a node may be than the machine on which costs were measured
NODE_START_SECONDS = 180  # startup of a job on a slow file system, and compiling
SNAKEMAKE_MB = 300  # a cluster job runs two Snakemake processes besides the cell
#: The names of jobs on a cluster: a prefix (workflow/profiles/slurm), and the run's number.
JOB_NAME = re.compile(r"hindsight_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CANCEL_SECONDS = 120  # a cluster kills jobs that do not end within about ten seconds
#: Files that the page is made from besides results; the answer, on its first screen, may be absent.
DEVIATIONS = "docs/deviations.md"
SCOREBOARD = "REPLICATION.md"
ANSWER = ("README.md", "docs/findings.md", "docs/with_and_without.gif")


class Project:
    """The files of one configuration."""

    def __init__(self, config: Config) -> None:
        """Plan the configuration; raises SpecError for an invalid cell."""
        self.plan = plan = Plan.of(config)
        self.config = config
        #: Stem of each cell's files, by the cell's name.
        self.files = plan.files
        self.source = self.config.source
        self.published = self.config.results == "published"
        self.trains = self.config.results == "trained"
        self.on_gpu = self.config.execution.device.startswith("cuda")
        self.root = PUBLISHED if self.published else TRAINED
        self.tables = f"results/tables/{self.source}"
        self.folder = f"figures/{self.source}"
        #: The verdicts, and the self-contained HTML page.
        self.claims = f"{self.tables}/claims.json"
        self.page = f"{self.folder}/report.html"
        #: The scoreboard and the folder of its appendix; for published results, the repository's.
        self.scoreboard = SCOREBOARD if self.published else f"{self.folder}/REPLICATION.md"
        self.appendix = (PUBLISHED if self.published else Path(self.folder)) / "appendix"
        self.papers = f"{self.tables}/papers.json"
        #: Episodes for the figure of the environment: made from policies, or published.
        self.episodes = str((PUBLISHED if self.published else Path(self.tables)) / EPISODES)
        #: The authors' learning curves, shown in the main figure and the pages.
        self.authors = [str(AUTHORS)] if AUTHORS.exists() else []
        compared = [] if self.published else [SCOREBOARD, f"figures/published/{HERO}.png"]
        self.answer = [name for name in (*ANSWER, *compared) if Path(name).exists()]
        self._main = {name for _, name in plan.experiments.get(MAIN_EXPERIMENT, [])}
        #: Holds the lock from `begin` to `end`.
        self._locks = ExitStack()

    # -- cells --------------------------------------------------------------------------------

    def curves(self, name: str) -> Path:
        return self.root / "cells" / f"{self.files[name]}.parquet"

    def look(self) -> set[str]:
        """Names of the cells whose curves exist now."""
        found = files_below(self.root / "cells")  # lists folders once instead of per cell
        return {name for name, file in self.files.items() if file in found}

    @cached_property
    def there(self) -> set[str]:
        """Names of the cells whose curves existed at first."""
        return self.look()

    @property
    def missing(self) -> list[str]:
        """Names of the cells to be trained."""
        return [name for name in self.plan.cells if self.trains and name not in self.there]

    @cached_property
    def taken_over(self) -> str:
        """Say how many missing cells take over runs of one with other seeds; "" if none does."""
        there = files_below(TRAINED / "cells") & files_below(TRAINED / "policies", ".safetensors")
        seeds = {int(words[1]) for file in there if (words := SEEDS.search(file))}

        def others(spec: CellSpec) -> Iterator[str]:
            return (file_name(spec.model_copy(update={"seeds": n})) for n in seeds)

        missing = self.missing
        names = [name for name in missing if not there.isdisjoint(others(self.plan.cells[name]))]
        if not names:
            return ""
        cells = f"{len(names)} of the {len(missing)} cells to be trained, such as {names[0]},"
        return f"{cells} may take over runs of cells with other seeds."

    def cells_of(self, experiment: str) -> list[str]:
        """Curves behind an experiment's tables; only existing ones if nothing is trained.

        Raises SpecError for an unknown experiment.
        """
        if experiment not in self.plan.experiments:
            raise SpecError(f"experiment {experiment!r} is not in the plan of {self.source}")
        names = [n for n in self.plan.cells_of(experiment) if self.trains or n in self.there]
        ships = [
            PUBLISHED / f"cells/{name}.parquet"
            for name in self.plan.cells_of(experiment, published=True)
        ]
        return [*(str(self.curves(n)) for n in names), *(str(p) for p in ships if p.exists())]

    def spec(self, file: str) -> CellSpec:
        """The cell with this file stem; raises SpecError if it is not in the plan."""
        name = file.rpartition("-")[0]
        if name not in self.plan.cells:
            raise SpecError(f"cell {file!r} is not in the plan of {self.source}")
        return self.plan.cells[name]

    # -- tables, figures, pages ---------------------------------------------------------------

    @cached_property
    def experiments(self) -> list[str]:
        """Names of the experiments that have cells to show."""
        return [name for name in self.plan.experiments if self.cells_of(name)]

    def plan_of(self, experiment: str) -> Path:
        return Path("results/plans", self.source, f"{experiment}.json")

    def tables_of(self, experiment: str) -> str:
        """The record of an experiment's tables, which stands for all of them."""
        return f"{self.tables}/{experiment}/{RECORD}"

    @property
    def all_tables(self) -> list[str]:
        return [self.tables_of(name) for name in self.experiments]

    @cached_property
    def policies(self) -> list[str]:
        """Policies whose episodes the figure of the environment shows, unless it is published."""
        names = dict.fromkeys(
            name
            for entry, name in self.plan.experiments.get(MAIN_EXPERIMENT, [])
            if not entry.published
            and entry.spec.hindsight is not None
            and entry.fidelity == "released"
            and entry.spawn == "random"
            and not self.published
        )
        paths = {name: TRAINED / "policies" / f"{self.files[name]}.safetensors" for name in names}
        made = set(self.missing)  # a policy that is missing must not make a finished cell train
        return [str(path) for name, path in paths.items() if name in made or path.exists()]

    @cached_property
    def figures(self) -> dict[str, str]:
        """Experiment of each figure, by the figure's name."""
        from hindsight.figures.specs import names_for

        found: dict[str, str] = {}
        if Path(self.episodes).exists() if self.published else self.policies:
            found = dict.fromkeys(names_for(PICTURE, []), PICTURE)
        for name in self.experiments:
            fidelities = [entry.fidelity for entry, _ in self.plan.experiments[name]]
            found |= dict.fromkeys(names_for(name, fidelities), name)
        return found

    def drawing(self, figure: str) -> str:
        return f"{self.folder}/{figure}.png"

    @property
    def drawn(self) -> list[str]:
        return [self.drawing(name) for name in self.figures]

    def drawn_from(self, *figures: str) -> list[str]:
        """Inputs of these figures; raises SpecError for an unknown one."""
        for name in figures:
            if name not in self.figures:
                known = ", ".join(self.figures)
                raise SpecError(f"there is no figure {name!r} in {self.source}; use {known}")
        from hindsight.figures.specs import made_from

        tables, episodes = Path(self.tables), Path(self.episodes)
        found = (made_from(self.figures[name], tables, episodes) for name in figures)
        return list(dict.fromkeys(path for paths in found for path in paths))

    @property
    def shown(self) -> list[str]:
        """Inputs of the page."""
        more = [self.papers, *self.authors, DEVIATIONS, *self.answer]
        return [self.claims, *self.all_tables, *self.drawn, *more]

    @property
    def everything(self) -> list[str]:
        """All outputs."""
        # Snakemake misses no file in between while what is made from it exists.
        cells = [str(self.curves(name)) for name in self.plan.cells if self.trains]
        return [self.page, self.scoreboard, self.claims, *self.drawn, *self.all_tables, *cells]

    @cached_property
    def texts(self) -> dict[Path, str]:
        """What `begin` writes for jobs that make tables and pages."""
        found = {self.plan_of(x): as_json(self.plan.document(x)) for x in self.experiments}
        return found | {Path(self.papers): as_json(papers_grids(self.config))}

    @cached_property
    def derived(self) -> dict[str, tuple[str, list[str], list[str]]]:
        """Stage, outputs and inputs of all jobs but cells', by their first output."""
        jobs = []
        for name in self.experiments:
            cells = (path for path in self.cells_of(name) if Path(path).exists())
            jobs += [("tables", [self.tables_of(name)], [str(self.plan_of(name)), *cells])]
        if not self.published:
            jobs += [("episodes", [self.episodes], self.policies)]
        together = [[*self.figures]] if self.published else [[name] for name in self.figures]
        for names in filter(None, together):
            jobs += [("figures", [*map(self.drawing, names)], self.drawn_from(*names))]
        jobs += [("claims", [self.claims], self.all_tables)]
        jobs += [("report", [self.page, self.scoreboard], self.shown)]
        return {outputs[0]: (stage, outputs, inputs) for stage, outputs, inputs in jobs}

    def outdated(self, *outputs: str) -> list[str]:
        """Those of these first outputs that exist, but are not of today's code and inputs."""
        digests = Digests(self.texts)
        return [
            name
            for name in outputs
            if Path(name).exists() and not is_current(*self.derived[name], digests)
        ]

    def labels(self, figure: str) -> dict[str, str]:
        """A figure's name and caption for `snakemake --report`."""
        from hindsight.figures.specs import specs_of

        return {"figure": figure, "caption": specs_of([self.figures[figure]])[figure].caption}

    # -- options and resources of a job -------------------------------------------------------

    def options(self, file: str) -> str:
        execution, env = self.config.execution, self.spec(file).environment.id
        every = execution.checkpoint_seconds
        options = f"--device {execution.device} --checkpoint-seconds {every:g}"
        # A specification file must not decide what is imported, so name the user's own environment.
        return f"{options} --env={shlex.quote(env)}" if wants_naming(env) else options

    def priority(self, spec: CellSpec) -> int:
        """The main figure's cells first, then the longest, so that all cores end together."""
        first = spec.name in self._main
        return int(10 * math.log2(1 + seconds(spec))) + 1000 * first

    def memory(self, spec: CellSpec, attempt: int = 1) -> int:
        """Megabytes to request, more at the second and third attempt."""
        return min(attempt, 3) * (SNAKEMAKE_MB + megabytes(spec))

    def runtime(self, spec: CellSpec, attempt: int = 1) -> int:
        """Minutes to request, more at each attempt."""
        at_a_time = 1 if self.on_gpu else self.config.execution.threads
        share = -(-spec.seeds // at_a_time) / spec.seeds
        work = NODE_START_SECONDS + SAFETY * share * seconds(spec)
        return -(-int(attempt * work) // 60)

    def queue(self) -> list[float]:
        """Estimated seconds of each cell to be trained, in the order in which they start."""
        cells = (self.plan.cells[name] for name in self.missing)
        return [seconds(spec) for spec in sorted(cells, key=lambda spec: -self.priority(spec))]

    # -- beginning and end of a run -----------------------------------------------------------

    def begin(self) -> None:
        """Lock the results and write the jobs' inputs.

        Raises FileError if there are no results to show, another process holds the lock, or a file
        cannot be written.
        """
        if not self.experiments:
            raise FileError(f"{self.root}/cells: there are no results of {self.source} to show")
        self._locks.enter_context(lock())
        atexit.register(self._locks.close)  # `end` is not called after a failure
        if self.trains:
            cancel_left_jobs()
            if self.look() != self.there:
                raise FileError(
                    "another process has trained or removed cells since this run was planned; type "
                    "the same command again"
                )
        self._leave_the_future()
        for name in self.missing:
            path = TRAINED / "specs" / f"{self.files[name]}.json"
            write_if_changed(path, self.plan.cells[name].model_dump_json(indent=1))
        for path, text in self.texts.items():
            write_if_changed(path, text)

    def _leave_the_future(self) -> None:
        """Date files of the future to now: Snakemake would refuse what is made from them."""
        specs = [f"{TRAINED}/specs/{file}.json" for file in self.files.values()]
        cells = [path for name in self.experiments for path in self.cells_of(name)]
        made = [*self.policies, self.episodes, *map(str, Path(self.tables).rglob("*"))]
        begun = map(str, (*self.texts, MANIFEST))
        for path in (*specs, *cells, *made, *begun, *self.shown, *self.everything):
            with suppress(OSError):  # there is none, or it belongs to somebody else
                if os.stat(path).st_mtime > time.time():
                    os.utime(path)

    def end(self) -> None:
        """Remove the checkpoints of finished cells after a successful run, and release the lock."""
        cells = files_below(TRAINED / "cells")
        for file in cells & set(self.files.values()) if self.trains else ():
            (TRAINED / "checkpoints" / f"{file}.safetensors").unlink(missing_ok=True)
        self._locks.close()


def must_be_in_its_clone() -> None:
    """Raise SpecError if this folder has no configuration, or its code is not what runs."""
    if not CONFIG.exists():
        raise SpecError(
            "there is no config.yaml here: the replication runs in a clone of the repository, so "
            "cd there first; train, watch, evaluate and export work anywhere"
        )
    must_run_this_code()


def must_run_this_code() -> None:
    """Raise SpecError if changes of this folder's code would be ignored: that of another runs."""
    own = Path("src/hindsight")
    if own.exists() and not own.samefile(PACKAGE):
        raise SpecError(
            f"the code that runs is in {PACKAGE}, not in this folder: after copying or moving the "
            "project, remove .venv, and run `make .venv/ready`"
        )


def lock(name: str = ".lock", results: Path = TRAINED) -> AbstractContextManager[None]:
    """The pipeline's lock, in results/, which clones may share; a held one raises FileError."""
    return held(results / name, f"the pipeline whose results are in {results.resolve()}")


def files_below(folder: Path, ending: str = ".parquet") -> set[str]:
    """Stems `<environment>/<algorithm>` of the files with this ending in a folder of cells."""
    paths = folder.glob(f"*/*{ending}")
    return {str(path.relative_to(folder)).removesuffix(ending) for path in paths}


def cancel_left_jobs() -> None:
    """Cancel this folder's jobs that a killed Snakemake left on the cluster, and wait for them.

    Otherwise two jobs could train the same cell.  Cells continue from their checkpoints.
    """
    if shutil.which("squeue") is None or not (left := _left_jobs()):
        return
    print(f"cancelling {len(left)} jobs that an earlier run left in the queue", flush=True)
    subprocess.run(["scancel", *left], check=False)
    deadline = time.monotonic() + CANCEL_SECONDS
    while (left := _left_jobs()) and time.monotonic() < deadline:
        time.sleep(1)
    if left:
        raise SpecError(f"jobs {', '.join(left)} of an earlier run are still running: cancel them")


def _left_jobs() -> list[str]:
    """Ids of the user's unfinished jobs that Snakemake submitted from this folder."""
    query = ["squeue", "--me", "--noheader", "--format=%i|%j|%Z"]
    found = subprocess.run(query, capture_output=True, text=True, check=False)
    if found.returncode:
        why = found.stderr.strip().partition("\n")[0]
        print(
            f"squeue failed ({why}): if an earlier run left jobs in the queue, cancel them",
            file=sys.stderr,
        )
    rows = (line.split("|", 2) for line in found.stdout.splitlines())
    return [
        job
        for job, name, folder in rows
        if JOB_NAME.fullmatch(name) and Path(folder).resolve() == Path.cwd()
    ]


def clean(folder: Path = TRAINED, named: str | None = None) -> list[Path]:
    """List the files of cells that another version of the code trained or began to train.

    A checkpoint without a cell is listed if its code is that of a listed cell.

    named: the environment if the user has typed one (`specs.from_file`).
    """
    cells = files_below(folder / "cells")
    left = [
        name
        for name in sorted(cells)
        if _is_of_other_code(folder / "cells" / f"{name}.parquet", name, named)
    ]
    old = {name.rpartition("-")[2] for name in left}
    old -= {name.rpartition("-")[2] for name in cells.difference(left)}
    begun = (files_below(folder / "checkpoints", ending) for ending in (".safetensors", ".pt"))
    left += [x for x in sorted(set().union(*begun) - cells) if x.rpartition("-")[2] in old]
    kinds = [*KINDS.items(), *KINDS_OF_1_0.items(), ("best", ".again.safetensors")]
    paths = (folder / kind / f"{name}{ending}" for name in left for kind, ending in kinds)
    steps = (path for name in left for path in sorted((folder / "steps" / name).glob("*")))
    return [*(path for path in paths if path.exists()), *steps]


def _is_of_other_code(path: Path, name: str, named: str | None) -> bool:
    """Whether it is certain that other code than today's trained a cell, and named its file."""
    ours = False
    try:
        found = about(path)
        spec, ending = found["spec"], f"{found['spec_hash']}-{found['code']}"
        ours = spec["environment"]["id"] in ENVIRONMENTS and name.endswith(f"-{ending}")
        cell = cell_of(spec, path, named)
        return name == f"{cell.name}-{found['code']}" and file_name(cell) != name
    except FileError:  # a key of an older version, or an environment that cannot be made here
        return ours
    except Exception:  # a file can hold anything, and others' environments can raise anything
        return False


#: Suffix of a cell's file in each folder of results.
KINDS = {
    "cells": ".parquet", "specs": ".json", "progress": ".json", "logs": ".log",
    "benchmarks": ".tsv", "policies": ".safetensors", "best": ".safetensors",
    "checkpoints": ".safetensors",
}  # fmt: skip
KINDS_OF_1_0 = dict.fromkeys(("policies", "best", "checkpoints"), ".pt")
