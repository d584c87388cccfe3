"""Faults at random moments: nothing finished is lost, and the same command brings the same numbers.

A fault of a cell strikes one small cell, trained by the real command in a forked process; a fault
of the pipeline strikes `hindsight replicate` on a small configuration.  After each: no traceback,
no process left behind, a restart that finishes without help, and curves and policies equal, bit
for bit, to those of a run that nobody disturbed.
"""

import contextlib
import ctypes
import os
import random
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest
import torch

from hindsight.io.checkpoints import load
from hindsight.specs.code import code_of
from tests.conftest import made_once
from tests.faults import pipeline, trainer
from tests.faults.lab import SPECS, Lab, can_mount, demand, small_disk
from tests.faults.pipeline import EDITED, HALF, NEW, Project
from tests.support.configuration import copy_project
from tests.support.curves import curves

pytestmark = pytest.mark.faults


@pytest.fixture(scope="session", autouse=True)
def reaper():
    """Adopt the processes that this one's children leave behind."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)
    torch.set_num_threads(1)


def no_orphans(limit: float = 20.0) -> None:
    """Demand that no process is left that descends from this one."""
    end = time.monotonic() + limit
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            demand(time.monotonic() < end, "a process was left behind")
            time.sleep(0.02)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Each cell, trained without any fault."""
    labs = {}
    for name in SPECS:
        labs[name] = lab = Lab(tmp_path_factory.mktemp(name), random.Random(), name)
        code_of(lab.spec)  # a second, once: the forked processes know it
        began = time.monotonic()
        lab.trained()
        lab.seconds = time.monotonic() - began
    return labs


def contents(lab: Lab) -> tuple[pd.DataFrame, torch.Tensor]:
    return curves(lab.curves), load(lab.path("policies", ".safetensors"))["rows"]


@pytest.mark.parametrize("kind", trainer.FAULTS)
def test_a_cell_survives(kind, turn, trained, tmp_path, record_property):
    if kind == "full disk" and not can_mount():
        pytest.skip("mounting a small disk takes root")
    rng = random.Random(f"{kind} {turn}")
    name = rng.choice(list(SPECS))
    lab = Lab(tmp_path / "lab", rng, name, trained[name].seconds)
    lab.folder.mkdir()
    happened = trainer.FAULTS[kind](lab)
    again = lab.start()
    demand(again.wait() == 0, f"the restart failed: {again.said}")
    demand("waiting" not in again.said, f"a stale lock: {again.said}")
    (found, rows), (whole, policies) = contents(lab), contents(trained[lab.name])
    pd.testing.assert_frame_equal(found, whole, check_exact=True)
    demand(torch.equal(rows, policies), "other policies")
    no_orphans()
    rest = [*lab.root.rglob(".*")]
    demand(not rest, f"half-written files stay: {rest}")
    record_property(kind, happened)


@pytest.fixture(scope="session")
def replicated(tmp_path_factory):
    """A project that was replicated without any fault."""

    def replicate(folder: Path) -> str:
        copy_project(folder)
        return str(Project(folder, random.Random(), folder.parent).finish())

    folder, seconds = made_once(tmp_path_factory, "replicated", replicate)
    return Project(folder, random.Random(), folder.parent, float(seconds))


@pytest.mark.parametrize("kind", pipeline.FAULTS)
def test_the_pipeline_survives(kind, replicated, tmp_path, record_property):
    strike, begin = pipeline.FAULTS[kind]
    if begin == NEW and not can_mount():
        pytest.skip("mounting a small disk takes root")
    disk = small_disk(tmp_path, 48) if begin == NEW else contextlib.nullcontext(tmp_path)
    with disk as folder:
        rng = random.Random(kind)
        project = Project(Path(folder) / "project", rng, tmp_path, replicated.seconds)
        if begin == NEW:
            copy_project(project.folder)
        else:  # files keep their times, on which Snakemake relies
            shutil.copytree(replicated.folder, project.folder, symlinks=True)
        if begin == HALF:
            project.forget_a_cell()
        if begin == EDITED:
            project.edit_the_code()
        happened = strike(project)
        project.nobody_left()
        before = project.cells().keys()
        project.finish()
        project.nobody_left()
        found, whole = project.cells(), replicated.cells()
        demand(found.keys() == whole.keys(), f"other cells: {found.keys() ^ whole.keys()}")
        for name, rows in found.items():
            pd.testing.assert_frame_equal(rows, whole[name], check_exact=True)
        if begin == EDITED:
            project.must_be_of_todays_cells()
        demand(before <= whole.keys(), "cells that nobody asked for")
        shutil.rmtree(project.folder)
    record_property(kind, happened)
