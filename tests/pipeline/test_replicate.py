"""What `hindsight replicate` shows while it works."""

import os
from pathlib import Path

from hindsight.pipeline.project import Project
from hindsight.pipeline.replicate import what_comes
from hindsight.specs.config import load
from hindsight.specs.cost import seconds

CONFIG = Path(__file__).parents[2] / "config.yaml"


def test_it_begins_by_saying_what_comes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    project = Project.of(load(CONFIG, {"preset": "smoke"}))
    first, how_long, where = what_comes(project, "2")
    total = len(project.plan.cells)
    assert first == f"Preset smoke: {total} of {total} cells are to be trained."
    work = sum(map(seconds, project.plan.cells.values()))
    assert f"{work / 120:.0f} minutes on 2 of this machine's cores" in how_long
    assert where.endswith("figures and the page to figures/smoke/.")
    # On a cluster the profile says how many cores there are; all are those that this process has.
    assert "machine" not in list(what_comes(project, None))[1]
    assert "on 4 of" in list(what_comes(project, "all"))[1]


def test_published_results_are_drawn_byte_for_byte(tmp_path):
    told = list(what_comes(Project.of(load(CONFIG, {"results": "published"})), "all"))
    assert told[0].startswith("Nothing is trained") and "byte for byte" in told[1]
