"""The smoke preset end to end, in a copy of the project: what is made, and what is made again."""

import contextlib
import json
import os
import re
import shutil
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hindsight.analysis.cells import load_cell
from hindsight.pipeline.project import Project
from hindsight.specs.config import load
from hindsight.training.cell import train_cell
from tests.analysis.test_cells import rewrite
from tests.support.commands import in_copy
from tests.support.configuration import PARTS, copy_project
from tests.support.curves import curves

SMOKE = ("--config", "preset=smoke")


def jobs(output):
    """Jobs by rule, from what `snakemake -n` prints."""
    table = re.search(r"job +count\n-[- ]+\n(.*?)\n\n", output, re.S)
    if table is None:
        assert "Nothing to be done" in output, output
        return {}
    rows = (line.split() for line in table[1].splitlines())
    return {name: int(count) for name, count in rows if name != "total"}


def cells_to_train(output):
    """Names of the cells whose curves the jobs of `snakemake -n` make, as often as they do."""
    made = re.findall(r"^ *output: results/cells/.*$", output, re.M)
    return re.findall(r"results/cells/(\S+?)\.parquet", "\n".join(made))


def planned(project, *arguments):
    return jobs(in_copy(project, "snakemake", "--dry-run", *arguments, *SMOKE).stdout)


def asked_of(project):
    return Project(load(project / "config.yaml", {"preset": "smoke"}))


def of_jobs(project):
    """The cells of the smoke preset that jobs of the workflow train."""
    cells = asked_of(project).plan.cells.values()
    kinds = {
        (spec.algorithm.name, spec.environment.id, spec.hindsight is None): spec for spec in cells
    }
    return list(kinds.values())


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project in which the smoke preset has been replicated, with five experiments.

    Jobs train one cell of each kind.  The others are trained here, because starting a process
    takes longer than training such a cell.
    """
    folder = tmp_path_factory.mktemp("project")
    copy_project(folder)
    preset = folder / "config/presets/smoke.yaml"
    left_out = ("  learning_rate:", "  stop_her:", "  point_reach:")
    lines = preset.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith(left_out)]
    assert len(kept) == len(lines) - len(left_out)
    preset.write_text("\n".join(kept), encoding="utf-8")
    for spec in asked_of(folder).plan.cells.values():
        if spec not in of_jobs(folder):
            train_cell(spec, folder / "results")
    result = in_copy(folder, "hindsight", "replicate", "--cores", "2", "--", *SMOKE)
    assert result.returncode == 0, result.stdout
    (folder / "told.txt").write_text(result.stdout)
    return folder


@pytest.fixture
def asked(project, monkeypatch):
    """What was asked for."""
    monkeypatch.chdir(project)
    return asked_of(project)


@contextlib.contextmanager
def hidden(path):
    """Without a file for a while."""
    elsewhere = path.rename(path.with_suffix(".hidden"))
    try:
        yield
    finally:
        elsewhere.rename(path)


def test_it_ends_with_the_verdicts_and_where_the_files_are(project, asked):
    told = (project / "told.txt").read_text()
    claims = "The papers' claims: no claims tested; 21 need a larger preset."
    for word in (claims, "P1, P2a", "figures/smoke", "report.html", "REPLICATION.md"):
        assert word in told
    assert f"of {len(asked.files)} cells" in told
    reasons = {row["why"] or "" for row in json.loads((project / asked.claims).read_text())}
    page = unescape((project / asked.page).read_text(encoding="utf-8"))
    assert len(reasons) > 1 and all(reason[1:] in page for reason in reasons)
    counted = in_copy(project, "hindsight", "plan", "-c", "preset=smoke").stdout
    for text in (told, counted):
        assert "  grid_size: grid_size 10, 20 without 30, 40, 50" in text.splitlines()
    row = next(line for line in counted.splitlines() if "grid_size" in line)
    cells, runs, *_, there = re.findall(r"[\d.]+", row)
    assert (cells, runs, there) == ("4", "8", "4")


def test_every_cell_has_its_curves_policy_log_and_benchmark(project, asked):
    by_jobs = {spec.name for spec in of_jobs(project)}
    assert len(by_jobs) > 6
    for name, file in asked.files.items():
        assert (project / "results/logs" / f"{file}.log").exists() == (name in by_jobs)
        assert (project / "results/benchmarks" / f"{file}.tsv").exists() == (name in by_jobs)
        assert (project / "results/policies" / f"{file}.safetensors").exists()
        curves = pd.read_parquet(project / "results/cells" / f"{file}.parquet")
        assert curves.seed.nunique() == asked.plan.cells[name].seeds
    assert not list((project / "results/checkpoints").rglob("*.safetensors"))


def test_a_missing_cell_is_retrained_to_the_same_numbers(project, asked):
    """By a job, though the first time it was trained within another process."""
    names, by_jobs = asked.plan.cells_of("bit_flipping"), {spec.name for spec in of_jobs(project)}
    first, *kept = (asked.files[name] for name in sorted(names, key=by_jobs.__contains__))
    assert not (project / "results/logs" / f"{first}.log").exists()
    paths = {file: project / "results/cells" / f"{file}.parquet" for file in (first, *kept)}
    before = {file: paths[file].stat().st_mtime_ns for file in kept}
    before_it_went = curves(paths[first])
    paths[first].unlink()
    told = in_copy(project, "snakemake", "--dry-run", *SMOKE, "--cores", "2").stdout
    assert cells_to_train(told) == [first]
    assert "workflow specific profile profiles/default" in told
    ran = in_copy(project, "snakemake", "--cores", "2", *SMOKE)
    assert ran.returncode == 0, ran.stdout
    assert {file: paths[file].stat().st_mtime_ns for file in kept} == before
    pd.testing.assert_frame_equal(curves(paths[first]), before_it_went, check_exact=True)
    assert planned(project) == {}


def test_one_figure_makes_what_it_needs_and_nothing_else(project, asked):
    figure = next(name for name, of in asked.figures.items() if of == "grid_size")
    (project / asked.folder / f"{figure}.png").unlink()
    with hidden(project / asked.curves(asked.plan.cells_of("s_ratio")[0])):
        assert planned(project, f"{asked.folder}/{figure}.png") == {"figures": 1}
        ran = in_copy(project, "snakemake", "--cores", "1", f"{asked.folder}/{figure}.png", *SMOKE)
        assert ran.returncode == 0, ran.stdout


def test_reading_the_snakefile_writes_nothing_and_graphs_are_readable(project, tmp_path):
    copy = tmp_path / "project"
    copy.mkdir()
    for part in PARTS:
        (copy / part).symlink_to(project / part)
    told = in_copy(copy, "snakemake", "--rulegraph", *SMOKE).stdout
    rules = set(re.findall(r'label = "(\w+)"', told))
    assert rules == {"all", "train", "episodes", "tables", "claims", "figures", "report"}
    boxes = re.findall(r'label = "(.*?)"', in_copy(copy, "snakemake", "--dag", *SMOKE).stdout)
    assert sum(box.startswith(r"train\n") for box in boxes) >= 3
    assert max(len(line) for box in boxes for line in box.split(r"\n")) <= 60
    assert not (copy / "results").exists() and not (copy / "figures").exists()


def test_snakemakes_own_report_has_every_caption(project, asked):
    ended = in_copy(project, "snakemake", "--cores", "1", "--report", "own.html", *SMOKE)
    assert ended.returncode == 0, ended.stdout
    page = (project / "own.html").read_text(encoding="utf-8")
    assert all(asked.labels(name)["caption"] in page for name in asked.figures)
    other = (*SMOKE[:1], "preset=smoke", "seeds=1")
    refused = in_copy(project, "snakemake", "--cores", "1", "--report", "own.html", *other)
    assert refused.returncode == 1 and "run the same without --report first" in refused.stdout


def test_an_experiment_may_have_a_dash_in_its_name(project):
    mine = "{my-own: {title: Mine, figures: none, arms: {PPO: {}}}}"
    own = (f"experiments={mine}", "select={my-own: {preys: [repel]}}")
    assert jobs(in_copy(project, "snakemake", "-n", *SMOKE, *own).stdout)["figures"] == 3


def test_the_reports_have_no_gaps(project):
    page = (project / "figures/smoke/report.html").read_text(encoding="utf-8")
    board = (project / "figures/smoke/REPLICATION.md").read_text(encoding="utf-8")
    for text in (page, board):
        assert "P5" in text and "not tested" in text
        assert "nan" not in re.sub(r"<[^>]*>|\(data:[^)]*\)", "", text).split()


@pytest.mark.parametrize("killed", ["summarise", "draw"])
def test_a_killed_job_leaves_nothing_old(project, asked, tmp_path, killed):
    """What the job was to replace is gone, and the next run makes it, although all that is made
    from it still exists.
    """
    copy = tmp_path / "project"
    shutil.copytree(project, copy, symlinks=True)
    figure = next(name for name, of in asked.figures.items() if of == "grid_size")
    made = {
        "summarise": copy / asked.tables_of("grid_size"),  # the record, without which none counts
        "draw": copy / asked.folder / f"{figure}.png",
    }[killed]
    assert made.exists()
    if killed == "draw":
        made.write_bytes(b"another")
    else:
        slower(copy / asked.cells_of("grid_size")[0])
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, sys\nif {killed!r} in sys.orig_argv: os.kill(os.getpid(), 9)\n"
    )
    ended = in_copy(copy, "snakemake", "--cores", "1", *SMOKE, before=[tmp_path])
    assert ended.returncode != 0 and "Error in rule" in ended.stdout
    assert not made.exists()
    drawn = in_copy(copy, "hindsight", "figures", figure, "--from", asked.tables, "--out", "talk")
    if killed == "summarise":  # its old tables may still lie there
        assert drawn.returncode == 1 and "not as the workflow made it" in drawn.stdout
        assert not (copy / "talk").exists()
    else:
        assert drawn.returncode == 0
    told = in_copy(copy, "snakemake", "-n", *SMOKE).stdout
    assert {"summarise": "tables", "draw": "figures"}[killed] in jobs(told)
    assert "report" in jobs(told)


def slower(cell):
    """A cell's runs take longer, as after another training."""
    rows = pd.read_parquet(cell)
    rewrite(cell, rows.assign(cpu_seconds=rows["cpu_seconds"] + np.float32(1000)))


@pytest.mark.parametrize("lost", [False, True])
def test_what_is_not_of_todays_code_and_inputs_is_planned(project, asked, tmp_path, lost):
    """Whatever Snakemake remembers, if it remembers anything, and however old the files look."""
    copy = tmp_path / "project"
    shutil.copytree(project, copy, symlinks=True)
    if lost:
        shutil.rmtree(copy / ".snakemake")
        for path in (path for path in copy.rglob("*") if path.is_file() and not path.is_symlink()):
            os.utime(path, (1e9, 1e9))  # or what an earlier test made again would look new
    (copy / "results/tables/smoke/before").mkdir()
    shutil.copy(copy / asked.tables / "grid_size/plan.json", copy / "results/tables/smoke/before")
    assert planned(copy) == {}  # the user's own copy of tables is nobody's business
    figure, other = (copy / path for path in asked.drawn[:2])
    replaced = {
        copy / asked.cells_of("grid_size")[0]: ["tables", "claims", "report"],
        copy / asked.tables / "grid_size/summary.csv": ["tables", "claims", "report"],
        copy / asked.episodes: ["episodes", "figures", "report"],
        copy / asked.claims: ["claims", "report"],
        figure: ["figures", "report"],
        copy / asked.page: ["report"],
    }
    # One by one, and all at once where Snakemake has forgotten everything.
    for paths in [[*replaced]] if lost else [[path] for path in replaced]:
        before = [(path, path.read_bytes(), path.stat().st_mtime) for path in paths]
        for path in paths:
            if path.suffix == ".parquet":
                slower(path)
            else:
                path.write_bytes(other.read_bytes())
        for path, _, was in before:
            os.utime(path, (was - 10_000,) * 2)
        found = planned(copy)
        due = {name for path in paths for name in replaced[path]}
        assert found.keys() >= due and "train" not in found, paths
        assert "tables" in due or "tables" not in found, paths
        for path, whole, was in before:
            path.write_bytes(whole)
            os.utime(path, (was, was))
    assert planned(copy) == {}
    assert (copy / "results/tables/smoke/before/plan.json").exists()


def test_tables_of_another_clones_code_are_not_shown_as_this_ones(project, source, asked):
    """Two clones share results/: the other one's tables are whole, and newer."""
    edited(source / "analysis/summarise.py", "\nLEVEL = 0.8", "\nLEVEL = 0.1")
    (tables,) = (name for name in asked.experiments if name == "grid_size")
    made = project / asked.tables / tables
    kept = shutil.copytree(made, project.parent / "tables")
    command = "summarise", str(asked.plan_of(tables)), "--out", asked.tables
    assert in_copy(project, "hindsight", *command).returncode == 0
    assert (made / "summary.csv").read_text() != (kept / "summary.csv").read_text()
    edited(source / "analysis/summarise.py", "\nLEVEL = 0.1", "\nLEVEL = 0.8")
    try:
        assert planned(project)["tables"] == 1
        # And a job refuses code that changed since it was planned.
        ran = in_copy(project, "hindsight", *command, "--code", "0123456789ab")
        assert ran.returncode == 1 and "the source code changed after this run" in ran.stdout
    finally:
        shutil.rmtree(made)
        shutil.move(kept, made)


def edited(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture
def source(project):
    """The copy's sources, put back afterwards."""
    kept = shutil.copytree(project / "src", project.parent / "kept")
    yield project / "src" / "hindsight"
    shutil.rmtree(project / "src")
    shutil.move(kept, project / "src")


def test_a_comment_is_no_change_and_a_changed_figure_trains_nothing(project, source):
    edited(source / "algorithms/ppo.py", "import math\n", "import math  # for pi\n")
    edited(source / "figures/style.py", "\nDPI = ", "\nDPI = 1 + ")
    redone = planned(project)
    assert "figures" in redone and not redone.keys() & {"train", "tables"}


def test_a_changed_algorithm_is_noticed(project, source, asked):
    edited(source / "algorithms/ppo.py", "+ 1e-8)", "+ 1e-7)")
    its_own = [spec.name for spec in asked.plan.cells.values() if spec.algorithm.name == "ppo"]
    assert 0 < len(its_own) < len(asked.files)
    told = in_copy(project, "snakemake", "--dry-run", *SMOKE).stdout
    found = cells_to_train(told)
    assert sorted(file.rpartition("-")[0] for file in found) == sorted(its_own)
    assert not set(found) & set(asked.files.values())
    # What is left of the older code can be removed, and nothing else is.
    told = in_copy(project, "hindsight", "clean").stdout.splitlines()
    left = {line for line in told if line.startswith("results/cells/")}
    assert left == {str(asked.curves(name)) for name in its_own}


def test_cached_results_are_shown_without_training(project, asked):
    """With a cell gone it is left out."""
    with hidden(project / asked.curves(asked.plan.cells_of("grid_size")[-1])):
        redone = jobs(in_copy(project, "snakemake", "--dry-run", *SMOKE, "results=cached").stdout)
        assert "train" not in redone and redone["tables"] == 1


def test_a_damaged_cell_is_named_and_set_aside(project, asked):
    curves = project / asked.curves(asked.plan.cells_of("grid_size")[-1])
    whole = curves.read_bytes()
    curves.write_bytes(whole[: len(whole) // 2])
    aside = curves.with_name(f"{curves.name}.damaged")
    try:
        command = ("summarise", str(asked.plan_of("grid_size")), "--out", "elsewhere")
        result = in_copy(project, "hindsight", *command)
        assert result.returncode == 1
        (line,) = [line for line in result.stdout.splitlines() if line]
        assert line.startswith("error: ") and curves.name in line and aside.name in line
        assert aside.exists() and not curves.exists()
    finally:
        aside.unlink(missing_ok=True)
        curves.write_bytes(whole)


def test_a_failed_cell_is_named_and_the_others_are_kept(project, asked):
    """Where one cell cannot write, the others are finished and the end names what is missing."""
    part = {"preys": ["random"], "spawns": ["apart"], "fidelities": ["released"]}
    select = {"algorithms": {**part, "arms": ["PPO", "PPO-HER"]}}
    config = ("--config", "preset=smoke", f"select={json.dumps(select)}")
    own = Project(load(Path("config.yaml"), {"preset": "smoke", "select": select}))
    first, second = own.files.values()
    obstacle = project / "results/checkpoints" / f"{first}.safetensors"
    (obstacle / "in the way").mkdir(parents=True)
    result = in_copy(project, "hindsight", "replicate", "--cores", "2", "--", *config)
    assert result.returncode != 0
    name = first.rpartition("-")[0]
    assert name in result.stdout and "cannot be read: Is a directory" in result.stdout
    assert "1 of 2 cells are missing" in result.stdout
    curves = project / "results/cells" / f"{second}.parquet"
    assert load_cell(curves).budget == own.spec(second).steps
    assert cells_to_train(in_copy(project, "snakemake", "--dry-run", *config).stdout) == [first]
    shutil.rmtree(obstacle)
