"""A real SLURM for the tests, and a copy of the project to run through it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml

from hindsight.specs.config import load
from hindsight.specs.plan import Plan
from hindsight.specs.reading import read_keys
from hindsight.training.cell import train_cell
from tests.support.commands import program
from tests.support.configuration import ROOT, copy_project, environment_of
from tests.support.curves import curves

HERE = Path(__file__).parent
PROFILE = ("--workflow-profile", "workflow/profiles/slurm")
#: The profile as it is, but for waiting: this queue is quick, and this file system no network's.
QUICK = ("--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "5")


def bash(command):
    """What a command prints."""
    return subprocess.run(
        command, shell=True, check=True, stdout=subprocess.PIPE, text=True, timeout=60
    ).stdout


def until(happens, seconds, what):
    """Wait for something to become true; returns it."""
    deadline = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < deadline, f"{seconds} s have passed without: {what}"
        time.sleep(0.1)
    return found


class Project:
    """A copy of the project, with a configuration of its own, and commands run in it."""

    def __init__(self, folder, config):
        self.folder = folder
        copy_project(folder)
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        self.heads = []

    def cells(self):
        """Specifications, by what their cells' files are called."""
        plan = Plan.of(load(self.folder / "config.yaml"))
        return {plan.files[name]: spec for name, spec in plan.cells.items()}

    def cell(self, n_epochs):
        """What the files of the only cell with so many epochs are called."""
        cells = self.cells().items()
        (name,) = (name for name, spec in cells if spec.algorithm.n_epochs == n_epochs)
        return name

    def path(self, name, kind="cells", ending=".parquet"):
        return self.folder / "results" / kind / f"{name}{ending}"

    def log(self, name):
        path = self.path(name, "logs", ".log")
        return path.read_text() if path.exists() else ""

    def start(self, *command):
        """A command in the copy, with the copy's own sources; its output goes to a file."""
        self.told = self.folder / f"head{len(self.heads)}.txt"
        how = {"cwd": self.folder, "env": environment_of(self.folder), "stderr": subprocess.STDOUT}
        with self.told.open("w") as file:
            head = subprocess.Popen(command, stdout=file, **how)
        self.heads.append(head)
        return head

    def train(self, *cells, options=()):
        """Start Snakemake for some cells, each its own job of the cluster."""
        targets = [f"results/cells/{name}.parquet" for name in cells]
        return self.start(
            sys.executable, HERE / "head.py", *PROFILE, *QUICK, *options, "--", *targets
        )

    def wait(self, head, seconds=900, status=0):
        """Until a command has ended, with this status; returns what it said."""
        ended, told = head.wait(timeout=seconds), self.told.read_text()
        assert ended == status, told
        return told

    def jobs(self):
        """Unfinished jobs of this folder: id, state, comment."""
        rows = bash("squeue -h -o '%i|%T|%k|%Z'").splitlines()
        rows = [row.split("|") for row in rows]
        return [
            (job, state, cells) for job, state, cells, where in rows if where == str(self.folder)
        ]

    def trainers(self, name):
        """Process ids of a cell's training in this folder.

        A process that a trainer has just forked has its command line until it becomes another
        program: it is no second trainer.
        """
        found = {}
        for process in psutil.process_iter(["cmdline", "cwd", "ppid"]):
            here, words = process.info["cwd"] == str(self.folder), process.info["cmdline"] or []
            trains = "cell" in words[:4] and any(word.endswith(f"{name}.json") for word in words)
            if here and trains:
                found[process.pid] = process.info["ppid"]
        return [process for process, parent in found.items() if parent not in found]

    def frozen(self, *cells, seconds=600):
        """Stop each cell's trainer, once it has left a checkpoint; returns the jobs, by cell.

        It stays stopped until a signal ends it.
        """
        jobs = {}

        def all_frozen():
            for name in cells:
                started = self.path(name, "checkpoints", ".safetensors").exists() and self.trainers(
                    name
                )
                if name not in jobs and started:
                    (process,) = started
                    os.kill(process, signal.SIGSTOP)
                    jobs[name] = psutil.Process(process).environ()["SLURM_JOB_ID"]
            return len(jobs) == len(cells)

        until(all_frozen, seconds, f"checkpoints of {len(cells)} cells that train")
        return jobs

    def most_at_once(self, cells, head, seconds=900):
        """How many trainers one cell had at a time until the head ended."""
        most = 0

        def ended():
            nonlocal most
            most = max(most, *(len(self.trainers(name)) for name in cells))
            return head.poll() is not None

        until(ended, seconds, "the head ends")
        return most

    def end(self):
        """Kill the heads and cancel the jobs."""
        for head in self.heads:
            head.kill()
            head.wait()
        if left := [job for job, *_ in self.jobs()]:
            bash(f"scancel {' '.join(left)}")


@pytest.fixture(scope="module")
def make_project(slurm, tmp_path_factory):
    """Projects whose commands and jobs end with the module's tests."""
    made = []

    def make(config):
        made.append(Project(tmp_path_factory.mktemp("slurm") / "project", config))
        return made[-1]

    yield make
    for project in made:
        project.end()


@pytest.fixture(scope="module")
def slurm(request):
    """SLURM, as the module wants it; on a machine that has its own, its tests are skipped."""
    start = program(HERE / "start.sh", *["--accounting"] * request.module.ACCOUNTING)
    if start.returncode == 77:
        pytest.skip(start.stdout.strip())
    assert start.returncode == 0, start.stdout + start.stderr
    yield
    subprocess.run([HERE / "stop.sh"], check=True)


@pytest.fixture(scope="session")
def local(tmp_path_factory):
    """Where cells are trained by this process."""
    return tmp_path_factory.mktemp("local")


def smoke(select):
    """A part of the project's configuration for the preset `smoke`."""
    return read_keys(ROOT / "config.yaml") | {"preset": "smoke", "select": select}


def assert_same_as_local(project, folder):
    """A project's curves are those that this process trains, if they are not in the folder yet."""
    for name, spec in project.cells().items():
        path = folder / "cells" / f"{name}.parquet"
        expected = curves(path if path.exists() else train_cell(spec, folder))
        pd.testing.assert_frame_equal(curves(project.path(name)), expected, check_exact=True)
