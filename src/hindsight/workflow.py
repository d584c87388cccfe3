"""What the Snakefile asks: which files belong to one source, a preset or the published results.

Every job on a cluster reads the Snakefile, so figures (and matplotlib) are imported where needed.

Layout, relative to the project's folder:
    results/specs/<cell>.json             a cell's specification: all that its job reads
    results/cells/<cell>.parquet          its curves
    results/policies/<cell>.pt            its parameters at the end
    results/tables/<source>/<experiment>/ plan.json and the tables made from the cells
    figures/<source>/                     figures, report.html and REPLICATION.md
"""

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hindsight.files import as_json, set_aside, write_if_changed
from hindsight.integrity import RECORD, about
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import is_of
from hindsight.specs.config import AUTHORS, EPISODES, PUBLISHED, TRAINED
from hindsight.specs.cost import START_SECONDS, megabytes, seconds
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError
from hindsight.specs.gymnasium import is_known
from hindsight.specs.plan import Plan, Written, papers_grids, spec_document, spec_path

MAIN_EXPERIMENT = "algorithms"
SAFETY = 3  # a cluster's node may be this much slower than the machine the costs were measured on
NODE_START_SECONDS = 60  # of a job on a cluster, before it trains: a slow file system's
SNAKEMAKE_MB = 300  # a job of the cluster is two Snakemake processes beside the cell
#: What the names of all jobs on a cluster begin with (workflow/profiles/slurm).
JOB_PREFIX = "hindsight"
#: Seconds of a core (estimated) below which all training ends soon enough to be drawn at once.
SHORT_TRAINING = 600
#: What every training job has as its input, and no other: of cells that train together Snakemake
#: would otherwise remember another set of inputs than of the same cells apart.
TO_TRAIN = "results/specs/stale.txt"
CANCEL_SECONDS = 120  # a cluster kills what does not end by itself within some ten seconds


@dataclass(frozen=True)
class Stage:
    """The files of one plan."""

    plan: Plan
    never_train: bool

    #: Tables of an experiment that other rules read.
    TABLES = (
        "summary.csv",
        "summary.tex",
        "tests.csv",
        "aggregate.csv",
        "sensitivity.csv",
        "m_c.csv",
        "best_level.csv",
        "time_saved.csv",
        "curves.parquet",
        "seed_curves.parquet",
        "evaluations.parquet",
        "runs.parquet",
        RECORD,
    )

    @classmethod
    def of(cls, plan: Plan) -> "Stage":
        """Everything; but nothing is trained for published results."""
        return cls(plan, plan.config.results == "published")

    @cached_property
    def present(self) -> "Stage":
        """The part for which nothing need be trained."""
        return replace(self, never_train=True)

    @property
    def source(self) -> str:
        """A preset's name, or `published`."""
        return self.plan.config.source

    @property
    def tables(self) -> str:
        """Folder of the tables."""
        return f"results/tables/{self.source}"

    @property
    def folder(self) -> str:
        """Folder of the figures."""
        return f"figures/{self.source}"

    @property
    def cells(self) -> list[str]:
        """Names of all cells."""
        return list(self.plan.cells)

    @property
    def experiments(self) -> list[str]:
        """Names of the experiments that are trained."""
        return list(self.plan.experiments)

    @property
    def root(self) -> Path:
        """Below which cells are."""
        return PUBLISHED if self.plan.config.results == "published" else TRAINED

    @property
    def trained(self) -> list[str]:
        """Curves of all cells; none where nothing is trained."""
        return [] if self.never_train else [str(self.curves(name)) for name in self.cells]

    def curves(self, name: str) -> Path:
        """Where a cell's curves are."""
        return Path(f"{self.root}/cells/{name}.parquet")

    @cached_property
    def _found(self) -> dict[str, dict[str, Any]]:
        """What lies in the cells' places, and what it says of itself: nothing if it is damaged.

        Where nothing is trained nobody asks what it says.
        """
        names = sorted(files_below(self.root / "cells"))  # one look per folder, not one per cell
        found = {n: self.curves(n) for n in names if n in self.plan.cells}
        return {n: {} if self.never_train else about(path) for n, path in found.items()}

    @cached_property
    def there(self) -> set[str]:
        """Names of the cells whose curves are there; where nothing is trained, damaged or not."""
        return {name for name, found in self._found.items() if found or self.never_train}

    @property
    def damaged(self) -> list[str]:
        """Cells in whose place lies what is no results file, and that are trained again."""
        return [name for name in self._found if name not in self.there]

    @cached_property
    def stale(self) -> list[str]:
        """Cells that are there but of other code than today's.

        By their own word: Snakemake's bookkeeping stays behind where results are copied.
        """
        cells = self.plan.cells
        return [n for n in sorted(self.there) if not is_of(self._found[n], cells[n])]

    def cells_of(self, experiment: str) -> list[str]:
        """Curves that an experiment's tables are made of."""
        names = self.plan.cells_of(experiment)
        root = f"{self.root}/cells"
        own = [f"{root}/{n}.parquet" for n in names if not self.never_train or n in self.there]
        ships = [PUBLISHED / f"cells/{name}.parquet" for name in self.plan.shipped_of(experiment)]
        return own + [str(path) for path in ships if path.exists()]

    @property
    def episodes(self) -> str:
        """Episodes for the picture of the environment: made from policies, or published."""
        published = self.plan.config.results == "published"
        return str((PUBLISHED if published else Path(self.tables)) / EPISODES)

    @cached_property
    def policies(self) -> list[str]:
        """Policies whose episodes the picture of the environment shows, if it is made anew."""
        if self.plan.config.results == "published":
            return []
        names = dict.fromkeys(
            name
            for entry, name in self.plan.experiments.get(MAIN_EXPERIMENT, [])
            if not entry.published
            and entry.spec.hindsight is not None
            and entry.fidelity == "released"
            and entry.condition.spawn == "random"
        )
        paths = [TRAINED / "policies" / f"{name}.pt" for name in names]
        return [str(path) for path in paths if path.exists() or not self.never_train]

    @cached_property
    def drawn_experiments(self) -> list[str]:
        """Experiments of which there is something to draw."""
        trained = [name for name in self.experiments if self.cells_of(name)]
        published = self.plan.config.results == "published"
        pictured = Path(self.episodes).exists() if published else self.policies
        return ["environment"] * bool(pictured) + trained

    def drawn_of(self, experiment: str) -> list[str]:
        """Files of an experiment's figures."""
        from hindsight.figures import names_for

        entries = self.plan.experiments.get(experiment, [])
        names = names_for(experiment, list(dict.fromkeys(entry.fidelity for entry, _ in entries)))
        return [f"{self.folder}/{name}.{kind}" for name in names for kind in ("png", "pdf")]

    @cached_property
    def shown_at_once(self) -> bool:
        """Whether one job makes all tables and one draws, instead of one for each experiment.

        Published results are all there, and a short training's are soon; starting a program takes
        longer than an experiment's tables.  Else an experiment is shown as soon as it is trained.
        """
        published = self.plan.config.results == "published"
        return published or sum(map(seconds, self.plan.cells.values())) < SHORT_TRAINING

    @cached_property
    def summarising(self) -> dict[str, list[str]]:
        """Experiments whose tables one job makes, by the job's name."""
        return _jobs("summarise", self.experiments, self.shown_at_once)

    @cached_property
    def drawing(self) -> dict[str, list[str]]:
        """Experiments whose figures one job draws, by the job's name."""
        return _jobs("draw", self.drawn_experiments, self.shown_at_once)

    @cached_property
    def drawn(self) -> list[str]:
        """Files of all figures."""
        return [path for name in self.drawn_experiments for path in self.drawn_of(name)]

    def tables_of(self, experiment: str) -> list[str]:
        """What an experiment's figures are drawn from."""
        if experiment == "environment":
            return [self.episodes]
        return [f"{self.tables}/{experiment}/{table}" for table in self.TABLES]

    @property
    def authors(self) -> list[str]:
        """The authors' own learning curves, which the main figure and the pages show."""
        return [str(AUTHORS)] if AUTHORS.exists() else []

    def drawn_from(self, experiments: Sequence[str]) -> list[str]:
        """What a job has as its input that draws these experiments' figures: of tables the record
        alone, which has their checksums, because Snakemake reads every input for every output.
        """
        tables = dict.fromkeys(t for name in experiments for t in self.tables_of(name))
        made = [path for path in tables if path.endswith(RECORD) or path == self.episodes]
        return made + self.authors * (MAIN_EXPERIMENT in experiments)

    @property
    def all_tables(self) -> list[str]:
        """Every experiment's tables."""
        return [
            f"{self.tables}/{name}/{table}" for name in self.experiments for table in self.TABLES
        ]

    @property
    def sums(self) -> str:
        """Checksums of all cells: what one job that makes all tables has as its input."""
        return f"{self.tables}/cells.sha256"

    @property
    def between(self) -> list[str]:
        """What is made on the way from cells to figures and pages.

        Targets name it.  Snakemake records the inputs of a job that failed as if it had ended well,
        and does not miss its outputs where all that was made of them is still there: figures of old
        tables would pass for new.
        """
        sums = [self.sums] * any(len(names) > 1 for names in self.summarising.values())
        episodes = [self.episodes] * ("environment" in self.drawn_experiments)
        return [*self.all_tables, *sums, *episodes]

    @property
    def papers(self) -> str:
        """What the papers' own grids are: by it the page tells what is missing."""
        return f"{self.tables}/papers.json"

    @property
    def claims(self) -> str:
        """The verdicts."""
        return f"{self.tables}/claims.json"

    @property
    def page(self) -> str:
        """The self-contained HTML page."""
        return f"{self.folder}/report.html"

    @property
    def scoreboard(self) -> str:
        """REPLICATION.md; the published one is the repository's own."""
        published = self.source == "published"
        return "REPLICATION.md" if published else f"{self.folder}/REPLICATION.md"

    @property
    def appendix(self) -> Path:
        """Folder of the scoreboard's appendix."""
        published = self.source == "published"
        return PUBLISHED / "appendix" if published else Path(self.folder) / "appendix"

    @property
    def execution(self) -> str:
        """Options of every training job."""
        execution = self.plan.config.execution
        options = f"--device {execution.device}"
        if "checkpoint_seconds" in execution.model_fields_set:
            options += f" --checkpoint-seconds {execution.checkpoint_seconds:g}"
        return options

    # -- what one job trains ------------------------------------------------------------------

    @cached_property
    def to_train(self) -> dict[str, CellSpec]:
        """Cells that are not there, or of other code; or whose policies are wanted and missing."""
        lost = {
            name
            for name in self.there
            if (path := f"{TRAINED}/policies/{name}.pt") in self.policies
            and not Path(path).exists()
        }
        undone = self.plan.cells.keys() - self.there | lost | set(self.stale)
        return {name: spec for name, spec in self.plan.cells.items() if name in undone}

    @cached_property
    def _experiment_of(self) -> dict[str, str]:
        """The first experiment that a cell is of."""
        found: dict[str, str] = {}
        for experiment in self.experiments:
            found |= {n: experiment for n in self.plan.cells_of(experiment) if n not in found}
        return found

    def jobs(self, cells: dict[str, CellSpec]) -> list[list[str]]:
        """Of these cells those that one process trains, one after the other.

        They are an experiment's, because starting a process takes seconds.  A job is no longer than
        `job_minutes` (estimated), unless it is a single cell.  What runs somebody else's code
        shares its process with nothing.
        """
        most = 60 * self.plan.config.execution.job_minutes
        jobs: list[list[str]] = []
        last: dict[str, list[str]] = {}
        for name, spec in cells.items():
            experiment = self._experiment_of[name]
            job = last.get(experiment)
            if job is None or spec.environment.foreign or self.seconds(*job, name) > most:
                jobs.append([name])
                if not spec.environment.foreign:
                    last[experiment] = jobs[-1]
            else:
                job.append(name)
        return jobs

    @cached_property
    def together(self) -> dict[str, list[str]]:
        """Cells of the jobs that train several, by the job's name.

        Written for the jobs of a cluster, which do not plan.
        """
        found: dict[str, list[str]] = {}
        todo = {} if self.never_train else self.to_train
        # Apart: of a job with a file missing Snakemake does not look at how old the others are.
        missing = {name: spec for name, spec in todo.items() if name not in self.there}
        stale = {name: spec for name, spec in todo.items() if name in self.there}
        for names in (*self.jobs(missing), *self.jobs(stale)):
            if len(names) > 1:
                which = hashlib.sha256("\n".join(names).encode()).hexdigest()[:4]
                job = f"train_{self._experiment_of[names[0]]}_{which}"
                found[job] = names
                write_if_changed(bundle_path(job), as_json(names))
        return found

    @property
    def logs(self) -> dict[str, Path]:
        """Where cells that train together tell of themselves: in the log of the first."""
        written = sorted(bundle_path("*").parent.glob("*.json"), key=os.path.getmtime)
        bundles = (written_bundle(path.stem) for path in written)
        return {x: Path("results/logs", f"{names[0]}.log") for names in bundles for x in names}

    # -- what a job asks for -----------------------------------------------------------------

    def specs_of(self, *names: str) -> list[CellSpec]:
        """A job's cells; SpecError if the plan has none of a name."""
        for name in names:
            if name not in self.plan.cells and not isinstance(self.plan.cells, Written):
                raise SpecError(f"cell {name!r} is none of {self.source}'s")
        return [self.plan.cells[name] for name in names]

    def named(self, *names: str) -> list[str]:
        """Options of a training job that name a person's own environment, for it to be imported."""
        where = self.specs_of(*names)[0].environment.id
        return [] if where in ENVIRONMENTS or is_known(where) else [f"--env={where}"]

    @cached_property
    def _first(self) -> set[str]:
        entries = self.plan.experiments.get(MAIN_EXPERIMENT, [])
        return {name for _, name in entries}

    def priority(self, *names: str) -> int:
        """The main figure's cells come first, then what takes longest: all cores end together."""
        length = int(10 * math.log2(1 + self.seconds(*names)))
        return length + 1000 * any(name in self._first for name in names)

    def seconds(self, *names: str) -> float:
        """How long a job of these cells is expected to take."""
        return sum(map(seconds, self.specs_of(*names))) - START_SECONDS * (len(names) - 1)

    def memory(self, *names: str, attempt: int = 1) -> int:
        """Megabytes to ask for, more at each attempt."""
        return attempt * (SNAKEMAKE_MB + max(map(megabytes, self.specs_of(*names))))

    def runtime(self, *names: str, attempt: int = 1) -> int:
        """Minutes to ask for, more at each attempt."""
        work = NODE_START_SECONDS + SAFETY * attempt * self.seconds(*names)
        return -(-int(work) // 60)

    @property
    def on_gpu(self) -> bool:
        """Whether cells are trained on GPUs."""
        return self.plan.config.execution.device.startswith("cuda")

    def queue(self) -> list[float]:
        """Seconds of the jobs that all cells make, as they start."""
        jobs = sorted(self.jobs(self.plan.cells), key=lambda names: -self.priority(*names))
        return [self.seconds(*names) for names in jobs]

    # -- beginning and end of a run -----------------------------------------------------------

    def set_damaged_aside(self) -> None:
        """Rename what lies in a cell's place and is no results file: Snakemake would take it."""
        for name in self.damaged:
            set_aside(self.curves(name))

    def write_plans(self) -> None:
        """Write what jobs read: each experiment's plan, and each cell's specification, if new."""
        for experiment in self.experiments:
            text = as_json(self.plan.document(experiment))
            write_if_changed(Path(self.tables) / experiment / "plan.json", text)
        write_if_changed(Path(self.papers), as_json(papers_grids(self.plan.config)))
        self._write_captions()
        if self.never_train:
            return
        for name, spec in self.plan.cells.items():
            write_if_changed(spec_path(name), spec_document(spec))
        text = "What is older than this file is to be trained again.\n"
        if (
            self.stale
        ):  # a newer time is not enough: of a small file Snakemake looks at what it says
            text += f"{time.time_ns()}\n" + "\n".join(self.stale)
        if self.stale or not Path(TO_TRAIN).exists():
            write_if_changed(Path(TO_TRAIN), text)
        for name in self.stale:
            _make_newer(Path(TO_TRAIN), self.curves(name))

    def caption_of(self, figure: str) -> str:
        """The file of a figure's caption, which `snakemake --report` shows."""
        return f"results/captions/{self.source}/{figure}.rst"

    def _write_captions(self) -> None:
        from hindsight.figures import specs_of

        specs = specs_of(self.drawn_experiments)
        for name in {Path(path).stem for path in self.drawn}:
            write_if_changed(Path(self.caption_of(name)), specs[name].caption + "\n")

    def forget_unselected(self) -> None:
        """Delete tables of experiments that are not in the plan: verdicts and page would tell of
        them.  They are made again from their cells when they are selected again.
        """
        for plan in Path(self.tables).glob("*/plan.json"):
            if plan.parent.name not in self.plan.experiments:
                shutil.rmtree(plan.parent)

    def write_finished(self) -> None:
        """Write again what was finished: of a failed job Snakemake deletes the files of all cells,
        but not their last checkpoints.
        """
        begun = files_below(TRAINED / "checkpoints", ".pt") & self.plan.cells.keys()
        # A person's own environment, which must be named, shares no job with anything.
        lost = sorted(x for x in begun if not self.curves(x).exists() and not self.named(x))
        if lost and not self.never_train:
            program = Path(sys.executable).with_name("hindsight")
            subprocess.run([program, "finish", *map(spec_path, lost)], check=False)

    def forget_finished(self) -> None:
        """Delete the last checkpoints of cells that are there: Snakemake knows it by now.

        And what was written of who trains together.
        """
        there = set(files_below(self.root / "cells"))
        for name in files_below(TRAINED / "checkpoints", ".pt") & there & self.plan.cells.keys():
            (TRAINED / "checkpoints" / f"{name}.pt").unlink(missing_ok=True)
        if self.experiments:  # not of a job, beside which others are to come
            shutil.rmtree(bundle_path("").parent, ignore_errors=True)


def _jobs(verb: str, experiments: list[str], together: bool) -> dict[str, list[str]]:
    """What each job is for, by its name: one for all experiments, or each for one."""
    if together:
        return {f"{verb}_all": experiments}
    return {f"{verb}_{name}": [name] for name in experiments}


def _make_newer(path: Path, other: Path) -> None:
    """Let a file be the newer one of two: what Snakemake makes of it is made anew."""
    made = other.stat().st_mtime_ns
    if path.stat().st_mtime_ns <= made:
        now = max(time.time_ns(), made + 1_000_000)
        os.utime(path, ns=(now, now))


def bundle_path(job: str) -> Path:
    """Where the names of the cells are written that a job trains together."""
    return TRAINED / "specs" / "together" / f"{job}.json"


def written_bundle(job: str) -> list[str]:
    """The cells that a job trains together, as the head has written them."""
    names: list[str] = json.loads(bundle_path(job).read_text(encoding="utf-8"))
    return names


def files_below(folder: Path, ending: str = ".parquet") -> set[str]:
    """Names `<environment>/<algorithm>` of the files with this ending in a folder of cells."""
    found = set()
    for place in folder.iterdir() if folder.is_dir() else ():
        if place.is_dir():
            names = (name for name in os.listdir(place) if name.endswith(ending))
            found |= {f"{place.name}/{name.removesuffix(ending)}" for name in names}
    return found


def cancel_left_jobs() -> None:
    """Cancel the jobs that a killed Snakemake left on the cluster for this folder, and wait for it.

    Its cells continue from their checkpoints; two trainers of one cell would be one too many.
    """
    if shutil.which("squeue") is None or not (left := _left_jobs()):
        return
    print(f"cancelling {len(left)} jobs that an earlier run left in the queue", flush=True)
    subprocess.run(["scancel", *left], check=False)
    deadline = time.monotonic() + CANCEL_SECONDS
    while (left := _left_jobs()) and time.monotonic() < deadline:
        time.sleep(1)
    if left:
        raise SpecError(f"jobs {', '.join(left)} of an earlier run do not end; cancel them first")


def _left_jobs() -> list[str]:
    """Ids of this user's unfinished jobs that were submitted from this folder."""
    query = ["squeue", "--me", "--noheader", "--format=%i|%j|%Z"]
    found = subprocess.run(query, capture_output=True, text=True, check=False)
    rows = (line.split("|", 2) for line in found.stdout.splitlines())
    return [
        job
        for job, name, folder in rows
        if name.startswith(f"{JOB_PREFIX}_") and Path(folder).resolve() == Path.cwd()
    ]
