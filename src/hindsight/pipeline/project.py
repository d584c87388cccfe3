"""What the Snakefile asks: which files belong to a configuration, and what a job needs.

Every job on a cluster reads the Snakefile, so figures (and matplotlib) are imported where needed.
Nothing is written before the first job begins.

Layout, relative to the project's folder:
    results/specs/<cell>-<code>.json       a cell's specification: all that its job reads
    results/cells/<cell>-<code>.parquet    its curves
    results/policies/<cell>-<code>.pt      its parameters at the end
    results/plans/<source>/<experiment>.json   what an experiment's tables are made of
    results/tables/<source>/<experiment>/  the tables
    figures/<source>/                      figures, report.html and REPLICATION.md

A source is a preset, or `published`.
"""

import hashlib
import math
import os
import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from hindsight.io.checksums import about
from hindsight.io.files import as_json, write_if_changed
from hindsight.io.locks import held
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import file_name
from hindsight.specs.config import AUTHORS, EPISODES, PUBLISHED, TRAINED, Config
from hindsight.specs.cost import megabytes, seconds
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError
from hindsight.specs.from_file import cell_of
from hindsight.specs.gymnasium import is_known
from hindsight.specs.plan import Plan, papers_grids, spec_document, spec_path

MAIN_EXPERIMENT = "algorithms"
SAFETY = 3  # a cluster's node may be this much slower than the machine the costs were measured on
NODE_START_SECONDS = 60  # of a job on a cluster, before it trains: a slow file system's
SNAKEMAKE_MB = 300  # a job of the cluster is two Snakemake processes beside the cell
#: What the names of all jobs on a cluster begin with (workflow/profiles/slurm).
JOB_PREFIX = "hindsight"
CANCEL_SECONDS = 120  # a cluster kills what does not end by itself within some ten seconds
#: The files with the answer to a reader's first question.
ANSWER = ("README.md", "docs/findings.md", "docs/with_and_without.gif")
#: What of a cell's file depends on its number of seeds.
SEEDS = re.compile(r"-(\d+)seeds(.*)-[0-9a-f]{10}-[0-9a-f]{12}$")


@dataclass(frozen=True)
class Project:
    """The files of one configuration."""

    plan: Plan
    #: Held from the first job to the end.
    _locks: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def of(cls, config: Config) -> "Project":
        """Raises SpecError for a cell that cannot be."""
        return cls(Plan.of(config))

    @property
    def config(self) -> Config:
        """What is replicated."""
        return self.plan.config

    @property
    def source(self) -> str:
        """A preset's name, or `published`."""
        return self.config.source

    @property
    def published(self) -> bool:
        """Whether it is about the results that ship."""
        return self.config.results == "published"

    @property
    def trains(self) -> bool:
        """Whether missing cells are trained."""
        return self.config.results == "trained"

    # -- cells --------------------------------------------------------------------------------

    @property
    def root(self) -> Path:
        """Below which cells are."""
        return PUBLISHED if self.published else TRAINED

    @cached_property
    def files(self) -> dict[str, str]:
        """What each cell's files are called, by the cell's name."""
        cells = self.plan.cells
        return {name: self.plan.file_of(name) for name in cells}

    def curves(self, name: str) -> Path:
        """Where a cell's curves are."""
        return self.root / "cells" / f"{self.files[name]}.parquet"

    @cached_property
    def there(self) -> set[str]:
        """Names of the cells whose curves are there."""
        found = files_below(self.root / "cells")  # one look per folder, not one per cell
        return {name for name, file in self.files.items() if file in found}

    @property
    def missing(self) -> list[str]:
        """Names of the cells whose curves are not there."""
        return [name for name in self.plan.cells if name not in self.there]

    def runs_there(self) -> dict[str, int]:
        """How many runs of missing cells are there, in a cell with another number of seeds."""
        seeds_of: dict[str, set[int]] = {}
        for file in (files := files_below(self.root / "cells")):
            if words := SEEDS.search(file):
                seeds_of.setdefault(SEEDS.sub(r"\2", file), set()).add(int(words[1]))
        found = {}
        for name in self.missing:
            spec, alike = self.plan.cells[name], SEEDS.sub(r"\2", self.files[name])
            for seeds in sorted(seeds_of.get(alike, ())):
                if file_name(spec.model_copy(update={"seeds": seeds})) in files:
                    found[name] = min(seeds, spec.seeds)
        return found

    @property
    def trained(self) -> list[str]:
        """Curves of all cells; none where nothing is trained."""
        return [str(self.curves(name)) for name in self.plan.cells if self.trains]

    def cells_of(self, experiment: str) -> list[str]:
        """Curves that an experiment's tables are made of: all, or those that are there."""
        names = [n for n in self.plan.cells_of(experiment) if self.trains or n in self.there]
        ships = [
            PUBLISHED / f"cells/{name}.parquet"
            for name in self.plan.cells_of(experiment, published=True)
        ]
        return [*(str(self.curves(n)) for n in names), *(str(p) for p in ships if p.exists())]

    def spec(self, file: str) -> CellSpec:
        """The cell whose files are called so; SpecError if the plan has none."""
        name = file.rpartition("-")[0]
        if name not in self.plan.cells:
            raise SpecError(f"cell {file!r} is not in the plan of {self.source}")
        return self.plan.cells[name]

    # -- tables, figures, pages ---------------------------------------------------------------

    @property
    def tables(self) -> str:
        """Folder of the tables."""
        return f"results/tables/{self.source}"

    @property
    def folder(self) -> str:
        """Folder of the figures."""
        return f"figures/{self.source}"

    @cached_property
    def experiments(self) -> list[str]:
        """Names of the experiments of which there is something to show."""
        return [name for name in self.plan.experiments if self.cells_of(name)]

    def plan_of(self, experiment: str) -> Path:
        """The file that says what an experiment's tables are made of."""
        return Path("results/plans", self.source, f"{experiment}.json")

    @property
    def all_tables(self) -> list[str]:
        """Every experiment's folder of tables."""
        return [f"{self.tables}/{name}" for name in self.experiments]

    @property
    def episodes(self) -> str:
        """Episodes for the picture of the environment: made from policies, or published."""
        return str((PUBLISHED if self.published else Path(self.tables)) / EPISODES)

    @cached_property
    def policies(self) -> list[str]:
        """Policies whose episodes the picture of the environment shows, if it is made anew."""
        names = dict.fromkeys(
            name
            for entry, name in self.plan.experiments.get(MAIN_EXPERIMENT, [])
            if not entry.published
            and entry.spec.hindsight is not None
            and entry.fidelity == "released"
            and entry.condition.spawn == "random"
            and not self.published
        )
        paths = [TRAINED / "policies" / f"{self.files[name]}.pt" for name in names]
        return [str(path) for path in paths if self.trains or path.exists()]

    @cached_property
    def figures(self) -> dict[str, str]:
        """The experiment of each figure, by the figure's name."""
        from hindsight.figures import names_for

        pictured = Path(self.episodes).exists() if self.published else self.policies
        found = dict.fromkeys(names_for(EPISODES.parent.name, []), EPISODES.parent.name)
        found = found if pictured else {}
        for name in self.experiments:
            entries = self.plan.experiments[name]
            fidelities = list(dict.fromkeys(entry.fidelity for entry, _ in entries))
            found |= dict.fromkeys(names_for(name, fidelities), name)
        return found

    @property
    def drawn(self) -> list[str]:
        """Files of all figures."""
        return [f"{self.folder}/{name}.png" for name in self.figures]

    def drawn_from(self, *figures: str) -> list[str]:
        """What these figures are drawn from."""
        experiments = dict.fromkeys(self.figures[name] for name in figures)
        made = [
            self.episodes if name == EPISODES.parent.name else f"{self.tables}/{name}"
            for name in experiments
        ]
        return made + self.authors * (MAIN_EXPERIMENT in experiments)

    @property
    def authors(self) -> list[str]:
        """The authors' own learning curves, which the main figure and the pages show."""
        return [str(AUTHORS)] if AUTHORS.exists() else []

    @property
    def answer(self) -> list[str]:
        """What the page's first screen shows of the published results, where it is there."""
        return [name for name in ANSWER if Path(name).exists()]

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
        return "REPLICATION.md" if self.published else f"{self.folder}/REPLICATION.md"

    @property
    def appendix(self) -> Path:
        """Folder of the scoreboard's appendix."""
        return PUBLISHED / "appendix" if self.published else Path(self.folder) / "appendix"

    @property
    def everything(self) -> list[str]:
        """All files.

        Those on the way to the page, too: Snakemake does not miss a file where all that was made of
        it is still there.
        """
        last = [self.page, self.scoreboard, self.claims]
        return [*last, *self.drawn, *self.all_tables, *self.trained]

    def digest(self, *experiments: str) -> str:
        """Changes with what these experiments are made of; of none: with the papers' grids."""
        made_of = [self.plan.document(name) for name in experiments]
        text = as_json(made_of or papers_grids(self.config))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def caption_of(self, figure: str) -> str:
        """The file of a figure's caption, which `snakemake --report` shows."""
        return f"results/captions/{self.source}/{figure}.rst"

    def title_of(self, figure: str) -> str:
        """The title of a figure's experiment."""
        experiment = self.figures[figure]
        known = self.config.experiments
        return known[experiment].title if experiment in known else experiment

    # -- what a job asks for ------------------------------------------------------------------

    def options(self, file: str) -> str:
        """Options of a cell's training."""
        execution, where = self.config.execution, self.spec(file).environment.id
        options = f"--device {execution.device}"
        if "checkpoint_seconds" in execution.model_fields_set:
            options += f" --checkpoint-seconds {execution.checkpoint_seconds:g}"
        # A file does not decide what is imported: a person's own environment is named.
        ours = where in ENVIRONMENTS or is_known(where)
        return options if ours else f"{options} --env={where}"

    @cached_property
    def _first(self) -> set[str]:
        entries = self.plan.experiments.get(MAIN_EXPERIMENT, [])
        return {name for _, name in entries}

    def priority(self, spec: CellSpec) -> int:
        """The main figure's cells come first, then what takes longest: all cores end together."""
        return int(10 * math.log2(1 + seconds(spec))) + 1000 * (spec.name in self._first)

    def memory(self, spec: CellSpec, attempt: int = 1) -> int:
        """Megabytes to ask for, more at each attempt."""
        return attempt * (SNAKEMAKE_MB + megabytes(spec))

    def runtime(self, spec: CellSpec, attempt: int = 1) -> int:
        """Minutes to ask for, more at each attempt."""
        work = NODE_START_SECONDS + SAFETY * attempt * seconds(spec)
        return -(-int(work) // 60)

    @property
    def on_gpu(self) -> bool:
        """Whether cells are trained on GPUs."""
        return self.config.execution.device.startswith("cuda")

    def queue(self) -> list[float]:
        """Seconds that each cell takes, in the order in which they start."""
        cells = sorted(self.plan.cells.values(), key=lambda spec: -self.priority(spec))
        return [seconds(spec) for spec in cells]

    # -- beginning and end of a run -----------------------------------------------------------

    def begin(self) -> None:
        """Be the only one at work on these results, and write what jobs read.

        The lock lies in results/ itself, which two folders may share by a link.  Raises LockedError
        where another is at work, FileError where it cannot be written.
        """
        self._locks.enter_context(held(Path("results/.lock"), f"the pipeline in {Path.cwd()}"))
        if self.trains:
            cancel_left_jobs()
            for name in self.missing:
                spec = self.plan.cells[name]
                write_if_changed(spec_path(self.files[name]), spec_document(spec))
        for plan in Path(self.tables).glob("*/plan.json"):
            if plan.parent.name not in self.experiments:  # else verdicts and page would show it
                shutil.rmtree(plan.parent)
        for name in self.experiments:
            write_if_changed(self.plan_of(name), as_json(self.plan.document(name)))
        write_if_changed(Path(self.tables, "papers.json"), as_json(papers_grids(self.config)))
        self._write_captions()

    def _write_captions(self) -> None:
        from hindsight.figures import specs_of

        specs = specs_of(dict.fromkeys(self.figures.values()))
        for name in self.figures:
            write_if_changed(Path(self.caption_of(name)), specs[name].caption + "\n")

    def end(self) -> None:
        """All went well: the checkpoints that finished cells left, for jobs that fail, may go."""
        cells = files_below(TRAINED / "cells")
        for file in cells & set(self.files.values()) if self.trains else ():
            (TRAINED / "checkpoints" / f"{file}.pt").unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let others work."""
        self._locks.close()


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


def clean(folder: Path = TRAINED) -> list[Path]:
    """Files below `folder` of cells that other code than today's has made or begun: nothing looks
    for them any more.
    """
    todays = set()
    left = []
    for name in sorted(files_below(folder / "cells")):
        path = folder / "cells" / f"{name}.parquet"
        if _is_of_today(path, name):
            todays.add(name.rpartition("-")[2])
        else:
            left.append(name)
    begun = files_below(folder / "checkpoints", ".pt") - files_below(folder / "cells")
    left += [name for name in sorted(begun) if name.rpartition("-")[2] not in todays]
    return [path for name in left for path in files_of_cell(folder, name)]


def _is_of_today(path: Path, name: str) -> bool:
    found = about(path).get("spec")
    try:
        where = found["environment"]["id"] if found else ""
        return file_name(cell_of(found, path, [where])) == name
    except Exception:  # damaged, or of an older version: nobody reads it
        return False


#: The kinds of a cell's files, each in a folder of its own, and how they end.
KINDS = {
    "cells": ".parquet", "policies": ".pt", "best": ".pt", "checkpoints": ".pt", "specs": ".json",
    "logs": ".log", "benchmarks": ".tsv", "progress": ".json",
}  # fmt: skip


def files_of_cell(folder: Path, name: str) -> list[Path]:
    """Whatever there is of a cell."""
    paths = (folder / kind / f"{name}{ending}" for kind, ending in KINDS.items())
    return [path for path in paths if path.exists()]
