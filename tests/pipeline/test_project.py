"""The order of a cluster's jobs, its queue against a simulated clock, and what `clean` lists."""

import os
import re
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hindsight.cli import app
from hindsight.io.files import FileError
from hindsight.pipeline.project import (
    KINDS,
    Project,
    cancel_left_jobs,
    clean,
    must_be_in_its_clone,
)
from hindsight.pipeline.replicate import what_comes
from hindsight.specs.code import file_name
from hindsight.specs.config import TRAINED, load
from hindsight.specs.cost import seconds, wall_seconds
from hindsight.specs.errors import PACKAGE, SpecError
from hindsight.training.finished import write_curves
from tests.support.commands import in_copy, program
from tests.support.configuration import ROOT
from tests.training import small


@given(st.lists(st.integers(1, 20), max_size=30), st.integers(1, 6), st.integers(0, 5))
def test_a_clock_that_ticks_agrees(jobs, slots, overhead):
    waiting, busy, now = [job + overhead for job in jobs], [], 0
    while waiting or busy:
        while waiting and len(busy) < slots:
            busy.append(waiting.pop(0))
        now += 1
        busy = [left - 1 for left in busy if left > 1]
    assert wall_seconds(jobs, slots, job_seconds=overhead) == now


def test_the_main_figure_comes_first_and_then_the_longest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where nothing was trained
    project = Project(load(ROOT / "config.yaml", {"preset": "laptop"}))
    cells = sorted(project.plan.cells.values(), key=lambda spec: -project.priority(spec))
    first = project.plan.cells_of("algorithms")
    assert {spec.name for spec in cells[: len(first)]} == set(first)
    rest = [seconds(spec) for spec in cells[len(first) :]]
    assert rest == pytest.approx(sorted(rest, reverse=True), rel=0.11)  # by tenths of a doubling
    project.there = {cells[0].name}
    assert project.queue() == [seconds(spec) for spec in cells[1:]]
    cached = Project(load(ROOT / "config.yaml", {"results": "cached"}))
    assert not cached.missing and not cached.queue()  # nothing is trained
    with pytest.raises(SpecError, match=r"experiment 'my' is not in the plan of laptop"):
        cached.cells_of("my")


def test_cells_that_take_runs_over_are_announced(tmp_path, monkeypatch):
    """Those of which a cell with other seeds, today's code and the same settings is there."""
    monkeypatch.chdir(tmp_path)

    def project(**more):
        return Project(load(ROOT / "config.yaml", {"preset": "smoke", **more}))

    assert project().taken_over == ""
    cell, *others = project().plan.cells
    path = project().curves(cell)
    policies = (TRAINED / "policies" / path.relative_to(TRAINED / "cells")).with_suffix(
        ".safetensors"
    )
    for file in (policies, path):
        file.parent.mkdir(parents=True)
        file.touch()
    assert project().taken_over == project(seeds=3, results="cached").taken_over == ""
    assert project(seeds=3, steps=1024).taken_over == ""
    more = project(seeds=3)
    asked = f"1 of the {len(more.missing)} cells to be trained, such as {cell[:20]}"
    assert more.taken_over.startswith(asked) and len(more.missing) == 1 + len(others)
    assert more.taken_over in list(what_comes(more, "1"))
    policies.unlink()  # without them no run can be taken over
    assert project(seeds=3).taken_over == ""
    policies.touch()
    path.rename(path.with_name(path.name.replace(project().files[cell][-12:], "0" * 12)))
    assert project(seeds=3).taken_over == ""


def test_rules_say_what_they_do_and_a_tiny_project_is_planned():
    """In one line each; the tiny one has its own configuration, and this one's code and docs."""
    listed = in_copy(ROOT, "snakemake", "--list").stdout
    rules = re.findall(r"^(\w+) \((.*)\)$", listed, re.M)
    named = {word for path in ROOT.glob("workflow/rules/*.smk")
             for word in re.findall(r"^ *rule (\w+):", path.read_text(), re.M)}  # fmt: skip
    assert {name for name, _ in rules} == named | {"all"}
    assert all(text.endswith(".") for _, text in rules)
    tiny = ("--directory", ".test", "--dry-run", "--forceall", "--quiet", "rules")
    planned = in_copy(ROOT, "snakemake", *tiny).stdout
    assert re.search(r"^train +2$", planned, re.M) and "figures" in planned, planned


def test_a_finished_cell_is_not_retrained_for_want_of_its_policy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def policies():
        return Project(load(ROOT / "config.yaml", {"preset": "smoke"})).policies

    (policy,) = policies()  # it will be made
    curves = Path(policy.replace("policies", "cells")).with_suffix(".parquet")
    for path, asked in ((curves, []), (Path(policy), [policy])):
        path.parent.mkdir(parents=True)
        path.touch()
        assert policies() == asked


def test_what_is_from_the_future_is_dated_to_now(tmp_path, monkeypatch):
    """As after the clock was set back: Snakemake refuses outputs that are older than inputs."""
    monkeypatch.chdir(tmp_path)
    project = Project(load(ROOT / "config.yaml", {"preset": "smoke"}))
    curves = [Path(project.cells_of(name)[0]) for name in project.experiments]
    files = [*curves, Path(project.tables, "algorithms/runs.parquet"), Path("docs/deviations.md")]
    files += [project.plan_of("algorithms"), TRAINED / f"specs/{min(project.files.values())}.json"]
    for path in (*files, Path(project.page), old := Path(project.scoreboard)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (time.time() + 3600,) * 2 if path != old else (1000, 1000))
    project.begin()
    assert all(path.stat().st_mtime <= time.time() for path in files)
    assert old.stat().st_mtime == 1000
    project.end()


def test_in_a_copy_the_code_of_another_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").touch()
    (own := Path("src/hindsight")).mkdir(parents=True)
    with pytest.raises(SpecError, match=r"code that runs is in .*src/hindsight, not in this"):
        must_be_in_its_clone()
    Path("results").mkdir()
    for words in (["clean"], ["verify-published"], ["figures"]):
        done = CliRunner().invoke(app, words)
        assert isinstance(done.exception, SpecError) and "not in this folder" in str(done.exception)
    own.rmdir()
    own.symlink_to(PACKAGE)
    must_be_in_its_clone()


def test_what_another_process_did_since_the_plan_is_planned_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    project = Project(load(ROOT / "config.yaml", {"preset": "smoke"}))
    assert project.missing
    done = Path(project.cells_of("algorithms")[0])
    done.parent.mkdir(parents=True)
    done.touch()
    with pytest.raises(FileError, match="trained or removed cells since this run was planned"):
        project.begin()


def test_only_jobs_that_snakemake_submitted_from_here_are_cancelled(tmp_path, monkeypatch, capsys):
    of_a_run = "hindsight_0f3a5b7c-1d2e-4f60-8a9b-0c1d2e3f4a5b"
    queue = tmp_path / "queue"
    queue.write_text(
        f"1|{of_a_run}|{tmp_path}\n2|hindsight_head|{tmp_path}\n3|{of_a_run}|{tmp_path.parent}\n"
    )
    for name, does in {
        "squeue": f"cat {queue}",
        "scancel": f'echo "$@" > done; rm {queue}',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.chdir(tmp_path)
    cancel_left_jobs()
    assert (tmp_path / "done").read_text() == "1\n"
    assert "if an earlier run left jobs in the queue, cancel them" in capsys.readouterr().err
    profile = yaml.safe_load((ROOT / "workflow/profiles/slurm/profile.yaml").read_text())
    assert of_a_run.startswith(f"{profile['slurm-jobname-prefix']}_")


def test_more_threads_than_a_job_has_cores_are_named(tmp_path, monkeypatch):
    """The executor would cut them to the profile's."""
    for name in ("sbatch", "squeue", "scancel", "sinfo"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("config", "config.yaml", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    how = ["--snakefile", ROOT / "Snakefile", "--config", "preset=smoke", "execution={threads: 4}"]
    profile = ["--workflow-profile", ROOT / "workflow/profiles/slurm"]
    refused = program(
        sys.executable, "-m", "snakemake", *profile, *how, cwd=tmp_path
    ).stderr  # fmt: skip
    assert "execution.threads: 4 is more than the cores of a job, 1: raise `cores`" in refused


def test_an_environments_id_is_one_word_of_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = Project(load(ROOT / "config.yaml", {"preset": "smoke"}))
    env = "a 'b';$(touch x)`touch y`:Name-v0"
    monkeypatch.setattr(project, "spec", lambda file: Mock(environment=Mock(id=env)))
    words = ["sh", "-c", f"printf '%s\\n' {project.options('cell')}"]
    assert program(*words).stdout.splitlines()[-1] == f"--env={env}"
    assert not list(tmp_path.iterdir())


OLD = "0123456789ab"


def put(name, spec, kinds=("cells",)):
    """Files of a cell, whose curves hold this specification."""
    for kind in kinds:
        path = Path("results", kind, f"{name}{KINDS[kind]}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        if kind == "cells":
            known = {
                "spec": spec,
                "spec_hash": small.SPEC.hash,
                "code": name.rpartition("-")[2][:12],
            }
            write_curves(path, pa.table({"phase": ["train"]}), known)


def test_clean_lists_what_is_certainly_of_other_code_and_imports_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = small.SPEC.model_dump(mode="json")
    put(file_name(small.SPEC), spec)
    former = f"{small.SPEC.name}-{OLD}"
    put(former, spec, ("cells", "policies", "logs"))
    older = f"b/older-{small.SPEC.hash}-00000000aaaa"
    put(older, {**spec, "a_key_of_an_older_version": 1})
    mine = "mine/for-the-talk", f"mine/x-{OLD}", f"{former} (copy)"
    for name in mine:
        put(name, spec)
    put(f"b/begun-{OLD}", None, ["checkpoints"])
    put("b/begun-111111111111", None, ["checkpoints"])  # of code that is unknown
    Path("evil.py").write_text("open('ran', 'w')")
    for i, where in enumerate(("evil:X-v0", "FetchReach-v99", "PandaReach-v3", ["evil:X-v0"])):
        put(f"b/elsewhere{i}-{OLD[::-1]}", {**spec, "environment": {"id": where}})
    put(f"b/damaged-{OLD}", spec)
    os.truncate(f"results/cells/b/damaged-{OLD}.parquet", 100)
    Path(f"results/policies/{former}.pt").touch()  # of version 1.0
    old = {
        f"policies/{former}.pt",
        f"cells/{former}.parquet",
        f"policies/{former}.safetensors",
        f"logs/{former}.log",
    }
    for name in (f"steps/{former}/500", f"best/{former}.again"):
        path = Path("results", f"{name}.safetensors")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        old.add(f"{name}.safetensors")
    listed = {str(path.relative_to("results")) for path in clean(Path("results"))}
    assert listed == old | {f"cells/{older}.parquet"}
    for name in (f"b/damaged-{OLD}", *mine):  # whose checkpoint it might be
        Path(f"results/cells/{name}.parquet").unlink()
    listed = {str(path) for path in clean(Path("results"))}
    assert f"results/checkpoints/b/begun-{OLD}.safetensors" in listed and len(listed) == 8
    assert not Path("ran").exists()
    clean(Path("results"), "evil:X-v0")
    assert Path("ran").exists()  # the user has typed its name


def test_the_page_on_clusters_says_what_the_plan_estimates():
    """Within a twentieth, as the estimates themselves are no better."""
    project = Project(load(ROOT / "config.yaml", {"preset": "paper"}))
    queue = [seconds(spec) for spec in project.plan.cells.values()]
    page = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")
    hours = re.search(r"estimates\s+([\d,]+)\s+jobs,\s+([\d,]+)\s+core-hours", page)
    rows = re.findall(r"^\| ([\d,]+) \| ([\d,]+) h", page, re.M)
    assert hours is not None and len(rows) == 3
    found = [int(text.replace(",", "")) for text in (*hours.groups(), *(x[1] for x in rows))]
    jobs = [int(row[0].replace(",", "")) for row in rows]
    walls = [wall_seconds(sorted(queue, reverse=True), n) / 3600 for n in jobs]
    assert found == pytest.approx([len(queue), sum(queue) / 3600, *walls], rel=0.05)
