"""What the Snakefile asks: which files belong to one source, a preset or the published results.

Every job on a cluster reads the Snakefile, so figures (and matplotlib) are imported where needed.

Layout, relative to the project's folder:
    results/specs/<cell>.json             a cell's specification: all that its job reads
    results/cells/<cell>.parquet          its curves
    results/policies/<cell>.pt            its parameters at the end
    results/tables/<source>/<experiment>/ plan.json and the tables made from the cells
    figures/<source>/                     figures, report.html and REPLICATION.md
"""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hindsight.integrity import about
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import is_of
from hindsight.specs.cost import cells_per_job, megabytes, seconds
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError
from hindsight.specs.experiments import (
    EPISODES,
    PUBLISHED,
    TRAINED,
    Plan,
    as_json,
    papers_grids,
    spec_document,
    spec_path,
    write_if_changed,
)
from hindsight.specs.gymnasium import is_known
from hindsight.specs.queue_simulation import Queued, jobs_of

MAIN_EXPERIMENT = "algorithms"
SAFETY = 3  # a cluster's node may be this much slower than the machine the costs were measured on
START_SECONDS = 60  # of a cell inside a cluster's job, before it trains: a slow file system's
SNAKEMAKE_MB = 300  # a job of the cluster is two Snakemake processes beside the cell
#: What the names of all jobs on a cluster begin with (workflow/profiles/slurm).
JOB_PREFIX = "hindsight"
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
        "record.json",
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

    def curves(self, name: str) -> Path:
        """Where a cell's curves are."""
        return Path(f"{self.root}/cells/{name}.parquet")

    @cached_property
    def there(self) -> set[str]:
        """Names of the cells whose curves are there: one look per folder, not one per cell."""
        return {name for name in files_below(self.root / "cells") if name in self.plan.cells}

    @cached_property
    def stale(self) -> list[str]:
        """Cells that are there but of other code than today's.

        By their own word: Snakemake's bookkeeping stays behind where results are copied.
        """
        return [
            name
            for name in sorted(self.there)
            if not is_of(about(self.curves(name)), self.plan.cells[name])
        ]

    def cells_of(self, experiment: str) -> list[str]:
        """Curves that an experiment's tables are made of."""
        names = self.plan.cells_of(experiment)
        root = f"{self.root}/cells"
        return [f"{root}/{n}.parquet" for n in names if not self.never_train or n in self.there]

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
            if entry.spec.hindsight is not None
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
    def summarising(self) -> dict[str, list[str]]:
        """Experiments whose tables one job makes, by the job's name; as with `drawing`."""
        if self.plan.config.results == "published":
            return {"summarise": self.experiments}
        return {f"summarise_{name}": [name] for name in self.experiments}

    @cached_property
    def drawing(self) -> dict[str, list[str]]:
        """Experiments whose figures one job draws, by the job's name.

        Published results are all there, and starting a program takes longer than a figure does;
        otherwise an experiment is drawn as soon as its cells are trained.
        """
        if self.plan.config.results == "published":
            return {"draw_figures": self.drawn_experiments}
        return {f"draw_{name}": [name] for name in self.drawn_experiments}

    @cached_property
    def drawn(self) -> list[str]:
        """Files of all figures."""
        return [path for name in self.drawn_experiments for path in self.drawn_of(name)]

    def tables_of(self, experiment: str) -> list[str]:
        """What an experiment's figures are drawn from."""
        if experiment == "environment":
            return [self.episodes]
        from hindsight.figures import ALSO_READ

        beside = [name for name in ALSO_READ.get(experiment, ()) if name in self.experiments]
        names = [experiment, *beside]
        return [f"{self.tables}/{name}/{table}" for name in names for table in self.TABLES]

    @property
    def all_tables(self) -> list[str]:
        """Every experiment's summary."""
        return [f"{self.tables}/{name}/summary.csv" for name in self.experiments]

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
    def execution(self) -> str:
        """Options of every training job."""
        execution = self.plan.config.execution
        options = f"--device {execution.device}"
        if execution.runs_per_axis is not None:
            options += f" --runs-per-axis {execution.runs_per_axis}"
        if execution.full_width:
            options += " --full-width"
        # A default is not spelled out: options that change make Snakemake train again.
        if "checkpoint_seconds" in execution.model_fields_set:
            options += f" --checkpoint-seconds {execution.checkpoint_seconds:g}"
        return options

    # -- what a job asks for -----------------------------------------------------------------

    def spec_of(self, wildcards: Any) -> CellSpec:
        """The cell a job is for; SpecError if the plan has none of that name."""
        try:
            return self.plan.cells[wildcards.cell]
        except KeyError:
            raise SpecError(f"cell {wildcards.cell!r} is none of {self.source}'s") from None

    def named(self, wildcards: Any) -> list[str]:
        """Options of a training job that name a person's own environment, for it to be imported."""
        where = self.spec_of(wildcards).environment.id
        return [] if where in ENVIRONMENTS or is_known(where) else [f"--env={where}"]

    @cached_property
    def _first(self) -> set[str]:
        entries = self.plan.experiments.get(MAIN_EXPERIMENT, [])
        return {name for _, name in entries}

    def priority(self, wildcards: Any) -> int:
        """The main figure's cells come first."""
        return int(wildcards.cell in self._first)

    def seconds(self, spec: CellSpec) -> float:
        """How long a cell is expected to take."""
        return seconds(spec, self.plan.config.execution.runs_per_axis)

    def memory_of(self, spec: CellSpec) -> int:
        """Megabytes of a cell's job."""
        return SNAKEMAKE_MB + megabytes(spec)

    def memory(self, wildcards: Any, attempt: int = 1) -> int:
        """Megabytes to ask for, more at each attempt."""
        return attempt * self.memory_of(self.spec_of(wildcards))

    def runtime(self, wildcards: Any, attempt: int = 1) -> int:
        """Minutes to ask for, more at each attempt."""
        work = START_SECONDS + SAFETY * attempt * self.seconds(self.spec_of(wildcards))
        return -(-int(work) // 60)

    @property
    def on_gpu(self) -> bool:
        """Whether cells are trained on GPUs."""
        return self.plan.config.execution.device.startswith("cuda")

    def gpus(self, wildcards: Any) -> int:
        """GPUs to ask for."""
        return int(self.on_gpu)

    def group(self, wildcards: Any) -> str:
        """Cells of one group share jobs of a cluster: `train_8` fills a job with eight of them."""
        return f"train_{cells_per_job(self.spec_of(wildcards))}"

    def queue(self) -> list[float]:
        """Seconds of the jobs that all cells make on a cluster, in their order."""
        return jobs_of(
            Queued(self.seconds(spec), int(name in self._first), cells_per_job(spec))
            for name, spec in self.plan.cells.items()
        )

    # -- beginning and end of a run -----------------------------------------------------------

    def write_plans(self) -> None:
        """Write what jobs read: each experiment's plan, and each cell's specification, if new."""
        for experiment in self.experiments:
            text = as_json(self.plan.document(experiment))
            write_if_changed(Path(self.tables) / experiment / "plan.json", text)
        write_if_changed(Path(self.papers), as_json(papers_grids(self.plan.config)))
        if self.never_train:
            return
        for name, spec in self.plan.cells.items():
            write_if_changed(spec_path(name), spec_document(spec))
        for name in self.stale:
            _make_newer(spec_path(name), self.curves(name))

    def forget_unselected(self) -> None:
        """Delete tables of experiments that are not in the plan: verdicts and page would tell of
        them.  They are made again from their cells when they are selected again.
        """
        for plan in Path(self.tables).glob("*/plan.json"):
            if plan.parent.name not in self.plan.experiments:
                shutil.rmtree(plan.parent)

    def forget_finished(self) -> None:
        """Delete the last checkpoints of cells that are there: Snakemake knows it by now."""
        there = set(files_below(self.root / "cells"))
        for name in files_below(TRAINED / "checkpoints", ".pt") & there & self.plan.cells.keys():
            (TRAINED / "checkpoints" / f"{name}.pt").unlink(missing_ok=True)


def _make_newer(path: Path, other: Path) -> None:
    """Let a file be the newer one of two: what Snakemake makes of it is made anew."""
    made = other.stat().st_mtime_ns
    if path.stat().st_mtime_ns <= made:
        now = max(time.time_ns(), made + 1_000_000)
        os.utime(path, ns=(now, now))


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
