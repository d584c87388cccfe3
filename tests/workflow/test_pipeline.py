"""The smoke preset end to end, in a copy of the project: what is made, and what is made again."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hindsight.analysis.cells import load_cell
from hindsight.integrity import ABOUT, sealed
from hindsight.specs.config import load
from hindsight.specs.plan import Plan
from hindsight.workflow import Stage
from tests import commands
from tests.browser import probed

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "config.yaml", "environment.yml", "workflow", "profiles", "docs", "src")
SMOKE = ("--config", "preset=smoke")


def environment_of(project):
    """In which the copy's own sources are found, and the commands of this Python."""
    return {
        **os.environ,
        "PYTHONPATH": str(project / "src"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def run(project, *command):
    """A command in the copy, with the copy's own sources; returns it with its output."""
    return subprocess.run(
        command,
        cwd=project,
        env=environment_of(project),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def snakemake(project, *arguments):
    return commands.snakemake(*arguments, project=project, environment=environment_of(project))


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
    return re.findall(
        r"results/cells/(\S+?)\.parquet",
        "".join(
            line
            for line in output.splitlines(True)
            if line.strip().startswith("output: results/cells/")
        ),
    )


def planned(project, *arguments):
    return jobs(snakemake(project, "--dry-run", *SMOKE, *arguments).stdout)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project in which the smoke preset has been replicated."""
    folder = tmp_path_factory.mktemp("project")
    for part in PARTS:
        if (ROOT / part).is_dir():
            # What is compiled goes with it, but for what is just being written.
            ignored = shutil.ignore_patterns("*.pyc.*", "*.egg-info")
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
        else:
            shutil.copy(ROOT / part, folder / part)
    result = run(folder, "hindsight", "replicate", "--cores", "2", "--", *SMOKE)
    assert result.returncode == 0, result.stdout
    (folder / "told.txt").write_text(result.stdout)
    return folder


@pytest.fixture
def stage(project, monkeypatch):
    monkeypatch.chdir(project)
    return Stage.of(Plan.of(load(Path("config.yaml"), {"preset": "smoke"})))


def test_it_ends_with_where_things_are_and_what_was_reproduced(project, stage):
    told = (project / "told.txt").read_text()
    claims, places = (
        ("P1 released", "P8 described", "M1 released"),
        ("report.html", "REPLICATION.md"),
    )
    for word in (*claims, "figures/smoke", *places):
        assert word in told
    assert f"of {len(stage.cells)} cells" in told
    assert "  agent_size: interception_distance 1, 0.5 without 0.2, 0.1" in told.splitlines()


def test_every_figure_is_there_and_not_blank(project, stage):
    assert len(stage.drawn) >= 2 * 20
    for path in stage.drawn:
        file = project / path
        if file.suffix == ".pdf":
            assert file.read_bytes().startswith(b"%PDF")
            continue
        picture = matplotlib.image.imread(file)
        dark = (picture[..., :3].min(-1) < 0.9).mean()
        assert 0.002 < dark < 0.9, path


def test_every_cell_has_its_curves_policy_log_and_benchmark(project, stage):
    """Of cells that one process trained the first one's log and benchmark are all of theirs."""
    jobs = stage.jobs(stage.plan.cells)
    assert len(jobs) < len(stage.cells)
    for names in jobs:
        assert (project / "results/logs" / f"{names[0]}.log").exists()
        assert (project / "results/benchmarks" / f"{names[0]}.tsv").exists()
        for name in names:
            curves = pd.read_parquet(project / "results/cells" / f"{name}.parquet")
            assert curves.seed.nunique() == stage.plan.cells[name].seeds
            assert (project / "results/policies" / f"{name}.pt").exists()
    assert not list((project / "results/checkpoints").rglob("*.pt"))


def test_of_cells_that_train_together_only_what_is_missing_or_changed_trains(project, stage):
    """One is gone, of one another code has made the curves; the job leaves the others alone."""
    names = max(stage.jobs(stage.plan.cells), key=len)
    gone, stale, *kept = names
    assert kept
    twin = next(x for x in stage.jobs(stage.plan.cells) if len(x) == 2)
    paths = {name: project / "results/cells" / f"{name}.parquet" for name in names}
    before = {name: paths[name].stat().st_mtime_ns for name in kept}
    clocks = ["wall_seconds", "cpu_seconds"]
    curves = {name: pd.read_parquet(paths[name]).drop(columns=clocks) for name in names}
    paths[gone].unlink()
    for name in twin:
        (project / "results/cells" / f"{name}.parquet").unlink(missing_ok=True)
    table = pq.read_table(paths[stale])
    told = {**json.loads(table.schema.metadata[ABOUT]), "code": "0123456789ab"}
    pq.write_table(sealed(table.replace_schema_metadata(), json.dumps(told)), paths[stale])
    told = snakemake(project, "--dry-run", *SMOKE, "--cores", "2").stdout
    assert set(cells_to_train(told)) == {gone, stale, *twin}, told
    assert [job for job in jobs(told) if job.startswith("train_")]
    ran = snakemake(project, "--cores", "2", *SMOKE)
    assert ran.returncode == 0, ran.stdout
    assert {name: paths[name].stat().st_mtime_ns for name in kept} == before
    for name in (gone, stale):
        found = pd.read_parquet(paths[name]).drop(columns=clocks)
        exact = ["phase", "seed", "iteration", "env_steps"]
        pd.testing.assert_frame_equal(found[exact], curves[name][exact])
        first = found.iteration <= 2
        pd.testing.assert_frame_equal(found[first], curves[name][first], atol=1e-4, rtol=1e-4)
    assert planned(project) == {}
    # A cell is as well trained by its own job: asked for by its name, it is there.
    told = snakemake(project, "--dry-run", f"results/cells/{kept[0]}.parquet", *SMOKE).stdout
    assert "Nothing to be done" in told


def test_the_page_opens_in_a_browser_and_needs_no_network(project, tmp_path):
    """Every image has loaded, and nothing was asked of a server."""
    page = (project / "figures/smoke/report.html").read_text(encoding="utf-8")
    question = """
      const images = [...document.images];
      for (const image of images) image.loading = "eager";
      await Promise.allSettled(images.map((image) => image.decode()));
      const asked = performance.getEntriesByType("resource").map((e) => e.name);
      return {images: images.length,
              missing: images.filter((i) => !(i.complete && i.naturalWidth)).length,
              asked: asked.filter((name) => !name.startsWith("data:"))};"""
    found = probed(page, tmp_path, question)
    assert found["images"] >= 15
    assert found["missing"] == 0
    assert found["asked"] == []


def test_the_reports_know_no_errors(project):
    page = (project / "figures/smoke/report.html").read_text(encoding="utf-8")
    board = (project / "figures/smoke/REPLICATION.md").read_text(encoding="utf-8")
    for text in (page, board):
        assert "P5" in text and "not tested" in text
        assert "nan" not in re.sub(r"<[^>]*>|\(data:[^)]*\)", "", text).split()
    for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)", board):
        assert (project / "figures/smoke" / link).exists(), link


def test_a_second_run_does_nothing(project):
    assert planned(project) == {}


def test_the_default_profile_applies_by_itself(project):
    told = snakemake(project, "--dry-run", *SMOKE).stdout
    assert "workflow specific profile profiles/default" in told


@pytest.mark.parametrize("killed", ["summarise", "draw"])
def test_a_killed_job_leaves_nothing_old(project, stage, tmp_path, killed):
    """At an update: what a job was to replace is gone once it was killed, and is made next time.

    Also where all that is made of it is still there.
    """
    copy = tmp_path / "project"
    shutil.copytree(project, copy, symlinks=True)
    made = (
        copy
        / {
            "summarise": f"{stage.tables}/to_meher/runs.parquet",
            "draw": f"{stage.folder}/curves_to_meher.png",
        }[killed]
    )
    assert made.exists()
    if killed == "draw":
        (copy / stage.drawn[0]).unlink()
    else:
        _take_longer(copy / "results/cells" / f"{stage.plan.cells_of('to_meher')[0]}.parquet")
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, sys\nif {killed!r} in sys.orig_argv: os.kill(os.getpid(), 9)\n"
    )
    environment = environment_of(copy)
    deadly = {**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}{os.pathsep}{tmp_path}"}
    ended = commands.snakemake("--cores", "1", *SMOKE, project=copy, environment=deadly)
    assert ended.returncode != 0 and "Error in rule" in ended.stdout
    assert not made.exists()
    told = commands.snakemake("-n", *SMOKE, project=copy, environment=environment).stdout
    assert {f"{killed}_all", "report"} <= jobs(told).keys()


def _take_longer(curves):
    """Let a cell say that its runs took longer, as after another training."""
    table = pq.read_table(curves)
    seconds = pa.array(table["cpu_seconds"].to_numpy() + 1000, pa.float32())
    place = table.column_names.index("cpu_seconds")
    said = table.schema.metadata[ABOUT].decode()
    table = table.set_column(place, "cpu_seconds", seconds).replace_schema_metadata()
    pq.write_table(sealed(table, said), curves)


def test_drawing_does_not_import_torch(project, stage):
    """`snakemake figures` works where torch is not installed."""
    blocked = project / "blocked"
    blocked.mkdir(exist_ok=True)
    (blocked / "torch.py").write_text("raise ImportError('torch was imported')\n")
    path = f"{blocked}{os.pathsep}{project / 'src'}"
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    (project / stage.drawn_of("grid_size")[0]).unlink()
    command = ["snakemake", "--cores", "1", "figures", *SMOKE]
    result = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert (project / stage.drawn_of("grid_size")[0]).exists()


def edited(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture
def source(project):
    """The copy's sources and configuration, put back afterwards."""
    kept = project.parent / "kept"
    shutil.copytree(project / "src", kept / "src")
    shutil.copy(project / "config.yaml", kept / "config.yaml")
    yield project / "src" / "hindsight"
    shutil.rmtree(project / "src")
    shutil.move(kept / "src", project / "src")
    shutil.move(kept / "config.yaml", project / "config.yaml")
    shutil.rmtree(kept)


def test_a_comment_is_no_change(project, source):
    edited(source / "algorithms/ppo.py", "import math\n", "import math  # for pi\n")
    edited(source / "figures/style.py", '"""', '"""More words.  ')
    assert planned(project) == {}


def test_a_changed_figure_trains_nothing(project, source):
    (source / "figures/style.py").write_text(
        (source / "figures/style.py").read_text(encoding="utf-8") + "\nDPI = 100\n"
    )
    redone = planned(project)
    kinds = {name.partition("_")[0] for name in redone}
    assert "draw" in kinds and not kinds & {"train", "summarise"}


def test_a_changed_algorithm_is_noticed(project, source, stage):
    edited(source / "algorithms/ppo.py", "+ 1e-8)", "+ 1e-7)")
    its_own = [spec for spec in stage.plan.cells.values() if spec.algorithm.name == "ppo"]
    assert 0 < len(its_own) < len(stage.cells)
    told = snakemake(project, "--dry-run", *SMOKE).stdout
    assert sorted(cells_to_train(told)) == sorted(spec.name for spec in its_own)


def test_a_changed_hyperparameter_retrains_exactly_its_cells(project, source):
    values = yaml.safe_load((project / "config.yaml").read_text())
    values["experiments"]["learning_rate"]["vary"]["learning_rate"] = [1.0e-3, 3.0e-4]
    select = values["presets"]["smoke"]["select"]["learning_rate"]
    select["levels"]["learning_rate"] = [1.0e-3, 3.0e-4]
    (project / "config.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    told = snakemake(project, "--dry-run", *SMOKE).stdout
    assert len(cells_to_train(told)) == 2  # PPO and PPO-HER at the new rate
    assert [name for name in jobs(told) if "summarise" in name] == ["summarise_all"]


def test_figures_of_what_is_there(project, stage):
    """With a cell gone, `figures` leaves it out and says so; nothing is trained."""
    name = stage.plan.cells_of("grid_size")[-1]
    curves = project / "results/cells" / f"{name}.parquet"
    hidden = curves.with_suffix(".hidden")
    curves.rename(hidden)
    try:
        redone = jobs(snakemake(project, "--dry-run", "figures", *SMOKE).stdout)
        assert not [job for job in redone if job.startswith("train")]
        assert "summarise_all" in redone
    finally:
        hidden.rename(curves)


def test_a_damaged_result_is_named(project, stage):
    name = stage.plan.cells_of("grid_size")[-1]
    curves = project / "results/cells" / f"{name}.parquet"
    whole = curves.read_bytes()
    curves.write_bytes(whole[: len(whole) // 2])
    try:
        plan = f"{stage.tables}/grid_size/plan.json"
        result = run(project, "hindsight", "summarise", plan)
        assert result.returncode == 1
        (line,) = [line for line in result.stdout.splitlines() if line]
        assert line.startswith("error: ") and curves.name in line
    finally:
        curves.write_bytes(whole)


@pytest.mark.parametrize(
    ("pair", "named"),
    [
        ("sedes=3", "did you mean 'seeds'"),
        ("preset=smokey", "preset 'smokey' is unknown"),
        ("seeds=0", "seeds: 0 is not allowed"),
        ("steps=10", "steps 10 is below one rollout"),
        (f"steps={10**23}", "less than or equal to 10000000000"),
    ],
)
def test_bad_configuration_stops_before_anything_is_trained(project, pair, named):
    result = snakemake(project, "--cores", "1", "--config", "preset=smoke", pair)
    assert result.returncode != 0
    assert named in result.stdout
    assert "Select jobs" not in result.stdout
    told = commands.hindsight("plan", "-c", "preset=smoke", "-c", pair, cwd=project)
    assert told.returncode == 1
    assert told.stderr.startswith("error: ") and named in told.stderr and not told.stdout


def test_a_failed_cell_is_named_and_the_others_are_kept(project, stage):
    """Where one cell cannot write, the others are finished and the end names what is missing."""
    part = {"preys": ["random"], "spawns": ["apart"], "fidelities": ["released"]}
    none = {"preys": ["static"]}
    arms = {"SAC": none, "SAC-HER": none}
    select = {"algorithms": {**part, "arms": arms}}
    config = ("--config", "preset=smoke", f"select={json.dumps(select)}")
    plan = Plan.of(load(Path("config.yaml"), {"preset": "smoke", "select": select}))
    first, second = plan.cells
    obstacle = project / "results/checkpoints" / f"{first}.pt"
    (obstacle / "in the way").mkdir(parents=True)
    result = run(project, "hindsight", "replicate", "--cores", "2", "--", *config)
    assert result.returncode != 0
    assert first in result.stdout and "cannot be read: Is a directory" in result.stdout
    assert "1 of 2 cells are missing" in result.stdout
    # They were one job, of which Snakemake has deleted all files.
    assert "Removing output files" in (project / "results/logs/snakemake.log").read_text()
    curves = project / "results/cells" / f"{second}.parquet"
    assert load_cell(curves).budget == plan.cells[second].steps
    when = curves.stat().st_mtime_ns
    assert set(cells_to_train(snakemake(project, "--dry-run", *config).stdout)) == {first}
    assert curves.stat().st_mtime_ns == when
    shutil.rmtree(obstacle)


def test_plan_counts_what_is_there(project):
    told = run(project, "hindsight", "plan", "-c", "preset=smoke").stdout
    assert "  agent_size: interception_distance 1, 0.5 without 0.2, 0.1" in told.splitlines()
    row = next(line for line in told.splitlines() if "grid_size" in line)
    cells, runs, *_, there = re.findall(r"[\d.]+", row)
    assert (cells, runs, there) == ("4", "8", "4")


def test_curves_are_the_same_wherever_they_are_trained(project, stage, tmp_path):
    """A cell of the workflow is the cell of `hindsight cell`, number for number."""
    name = next(names[0] for names in stage.jobs(stage.plan.cells) if len(names) == 1)
    spec = project / "results/specs" / f"{name}.json"
    result = run(project, "hindsight", "cell", str(spec), "--out", str(tmp_path))
    assert result.returncode == 0, result.stdout
    clocks = ["wall_seconds", "cpu_seconds"]
    here = pd.read_parquet(tmp_path / "cells" / f"{name}.parquet").drop(columns=clocks)
    there = pd.read_parquet(project / "results/cells" / f"{name}.parquet").drop(columns=clocks)
    pd.testing.assert_frame_equal(here, there, check_exact=True)
    assert np.isfinite(here.env_steps).all()
