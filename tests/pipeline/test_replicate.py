"""What `hindsight replicate` shows while it works."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from hindsight.io import records
from hindsight.io.files import FileError, write_if_changed
from hindsight.io.records import Making
from hindsight.pipeline import replicate
from hindsight.pipeline.project import Project, lock
from hindsight.pipeline.replicate import LOG, what_comes
from hindsight.specs.config import load
from hindsight.specs.cost import seconds
from hindsight.specs.errors import SpecError
from hindsight.training.progress import Progress

CONFIG = Path(__file__).parents[2] / "config.yaml"


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    LOG.parent.mkdir(parents=True)
    return Project(load(CONFIG, {"preset": "smoke"}))


@pytest.fixture
def commands(project, monkeypatch):
    """The commands that `run` would start, in a folder with the project's configuration."""
    for name in ("config.yaml", "config"):
        Path(name).symlink_to(CONFIG.parent / name)
    LOG.write_text("of another run\n")
    found: list[list[str]] = []

    def supervise(command, project):
        found.append(command)
        return 0, signal.SIGINT

    monkeypatch.setattr(replicate, "supervise", supervise)
    return found


def test_it_begins_by_saying_what_comes(project, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    first, how_long, where, *_ = what_comes(project, "2")
    total = len(project.plan.cells)
    assert first == f"Preset smoke: {total} of {total} cells are to be trained."
    work = sum(map(seconds, project.plan.cells.values()))
    assert f"{work / 2:.0f} s on 2 of this machine's cores" in how_long
    assert where.endswith("figures and the page to figures/smoke/.")
    # On a cluster the profile says how many cores there are; all are those that this process has.
    assert "machine" not in list(what_comes(project, None))[1]
    assert "on 4 of" in list(what_comes(project, "all"))[1]


def test_snakemake_gets_the_keys_before_the_targets(commands):
    told = ["--config", "preset=smoke", "--", "a.png"]
    assert replicate.run(told, "1", published=False) == 130
    assert commands[0][-6:] == ["--cores", "1", *told]
    for same in ("--config=preset=smoke", "-Cpreset=smoke"):
        assert replicate.run([same, "--", "a.png"], "1", published=False) == 130
        assert commands[-1] == commands[0]
    for words in (["--cores", "2"], ["-c2"], ["--cores=2"]):
        assert replicate.run(words, "1", published=False) == 130
        assert commands[-1][-2:] == ["--cores", "2"]
        assert replicate.run(["--profile", "p", *words], "1", published=False) == 130
        assert commands[-1][-4:] == ["--cores", "2", "--profile", "p"]
    with pytest.raises(SpecError, match="give keys as --config KEY=VALUE"):
        replicate.run(["--configfile", "x.yaml"], "1", published=False)
    for words in (["-d", "x"], ["--directory=x"], ["-s", "Snakefile"], ["--snakef", "x"]):
        with pytest.raises(SpecError, match="is for snakemake itself; replicate"):
            replicate.run(words, "1", published=False)
    with lock(".replicate.lock"), pytest.raises(FileError, match="is already running"):
        replicate.run([], "1", published=False)


def test_the_log_of_a_pipeline_at_work_is_left_alone(commands):
    with lock(), pytest.raises(FileError, match="is already running"):
        replicate.run(["--config", "preset=smoke"], "1", published=False)
    assert not commands and LOG.read_text() == "of another run\n"


@pytest.mark.parametrize(
    "text",
    [
        "[]", "null", "7", "{", "", '{"cell": [1]}', '{"steps": 1}', "[" * 10_000, "\xff",
        '{"cell": "CELL", "steps": 1, "of": 2, "steps_per_second": "x", "return_mean": 0}',
        '{"cell": "CELL", "steps": 1e999, "of": 2, "steps_per_second": 1, "return_mean": 0, '
        '"success_rate": 0}',
        f'{{"cell": "CELL", "steps": {10**400}, "of": 1, "steps_per_second": 1, "return_mean": 0, '
        '"success_rate": 0}',
    ],
)  # fmt: skip
def test_a_malformed_progress_file_is_ignored(project, text):
    watch = replicate._Watch(project)
    nothing = watch.state()
    path = replicate.PROGRESS / "x" / "y.json"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace("CELL", min(project.plan.cells)), encoding="latin-1")
    assert watch.state() == nothing


def test_a_special_file_among_those_of_progress_is_not_read(project, monkeypatch):
    (replicate.PROGRESS / "x").mkdir(parents=True)
    (replicate.PROGRESS / "x" / "y.json").symlink_to("/dev/null")
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
    assert replicate._progress("x/y", 0.0) is None


def test_only_cells_that_train_now_are_shown(project):
    """A killed process leaves its file: of this run, or of an earlier one."""
    name = min(project.plan.cells)
    path = replicate.PROGRESS / "x" / "y.json"
    path.parent.mkdir(parents=True)
    now = Progress(name, 10, 100, 1234.5, math.nan, 0.5)
    path.write_text(json.dumps(asdict(now)))
    os.utime(path, (time.time() - 10,) * 2)
    watch = replicate._Watch(project)
    assert "steps/s" not in watch.state()[2]
    os.utime(path, (time.time(),) * 2)  # the kernel's own stamps lag by milliseconds
    assert "  1,234 steps/s  return –" in watch.state()[2]
    watch.began -= 1000
    os.utime(path, (time.time() - 2 * replicate.STALE_SECONDS,) * 2)
    assert "steps/s" not in watch.state()[2]


MISTAKES = {
    "usage: x\n__main__.py: error: unrecognized arguments: --preset": "error: unrecognized argum",
    "MissingRuleException:\nNo rule to produce a.txt": "No rule to produce a.txt",
    "InputFunctionException in rule x, line 2:\nError:\n  SpecError: no figure": "  no figure",
    "Error: Error parsing number of cores": "Error parsing number of cores",
    'WorkflowError in file "x", line 2:\nunknown key': "  unknown key",
}


@pytest.mark.parametrize(("log", "told"), MISTAKES.items())
def test_a_mistake_is_named_and_repeating_it_is_not_advised(project, capsys, log, told):
    LOG.write_text(log)
    replicate.what_failed(project, 0.0)
    said = capsys.readouterr().out
    assert told in said and "continues" not in said
    for failed in (f"{log}\n    Error in rule train:\n", "killed"):
        LOG.write_text(failed)
        replicate.what_failed(project, 0.0)
        assert "; the same command continues" in capsys.readouterr().out


def test_the_error_of_a_cells_log_is_shown_and_not_what_follows_it(project, capsys):
    name = min(project.plan.cells)
    log = Path("results/logs", f"{project.files[name]}.log")
    log.parent.mkdir(parents=True)
    log.write_text(
        "error: X-v0: step 3 failed\n\nTraceback\n  mine\n; the same command continues\n"
    )
    LOG.write_text("    Error in rule train:\n")
    replicate.what_failed(project, 0.0)
    assert f"  {name}\n    error: X-v0: step 3 failed\n" in capsys.readouterr().out


def test_verdicts_are_shown_only_of_this_configurations_tables(project, capsys, monkeypatch):
    def shows(project):
        replicate.what_came_out(project)
        return "The papers' claims" in capsys.readouterr().out

    LOG.write_text("")
    claims = Path(project.claims)
    claims.parent.mkdir(parents=True)
    claims.write_text("[]")
    assert not shows(project)  # without tables
    for path, text in project.texts.items():
        write_if_changed(path, text)
    for name in project.experiments:
        record, made_of = Path(project.tables_of(name)), [str(project.plan_of(name))]
        write_if_changed(record.with_name("summary.csv"), "")
        Making("tables", made_of).record(record, [record.with_name("summary.csv")])
    assert not shows(project)  # of unknown origin
    Making("claims", project.all_tables).record(claims)
    assert shows(project)
    old = Path(project.drawn[0]).with_name("ppo_her_figX.png")
    old.parent.mkdir(parents=True, exist_ok=True)
    old.touch()
    replicate.what_came_out(project)
    assert f"but not {old}, of an earlier selection" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(records, "versions", lambda: {"scipy": "of another year"})
        assert not shows(project)
    assert not shows(Project(load(CONFIG, {"preset": "smoke", "seeds": 1})))
    LOG.write_text(f"{replicate.DRY_RUN} (flag -n).")
    assert not shows(project)
    LOG.write_text("")
    claims.write_text("[ ]")
    assert not shows(project)


def test_the_end_lists_what_was_tested_and_how_it_agrees_with_the_published(
    project, capsys, monkeypatch
):
    monkeypatch.setattr(replicate, "is_current", lambda _: True)
    LOG.write_text("")
    rows = [
        {
            "claim": claim,
            "fidelity": fidelity,
            "network": "",
            "verdict": "not tested",
            "sentence": f"It is {claim}",
        }
        for claim in ("P1", "P2a", "P2b", "M5b")
        for fidelity in ("released", "described")
    ]
    claims = Path(project.claims)
    claims.parent.mkdir(parents=True)

    def told() -> str:
        claims.write_text(json.dumps(rows))
        replicate.what_came_out(project)
        return capsys.readouterr().out.partition("\n\nFigures")[0]

    nothing = "\nThe papers' claims: no claims tested; 4 need a larger preset.\n"
    rest = "  Not tested (the page says why): "
    assert told() == f"{nothing}{rest}P1, P2a, P2b, M5b"
    Path("REPLICATION.md").symlink_to(CONFIG.parent / "REPLICATION.md")
    assert told() == f"{nothing}{rest}P1, P2a, P2b, M5b"
    rows[2]["verdict"] = rows[6]["verdict"] = rows[7]["verdict"] = "yes"
    lines = ["  P2a released  yes  It is P2a", "  M5b released  yes  It is M5b",
             "  M5b described yes  It is M5b"]  # fmt: skip
    first = "\nThe papers' claims: 2 claims tested, all as published; 2 need a larger preset."
    assert told().split("\n", 2)[2].splitlines() == [*lines, f"{rest}P1, P2b"]
    assert told().startswith(first)
    rows[3]["verdict"] = "no"  # published: yes
    said = told()
    assert ": 2 claims tested: 1 as published, 1 not (P2a); 2 need a larger preset." in said
    assert "  P2a described no   It is P2a (published: yes)" in said
    for row in rows:
        row["verdict"] = {"P2b": "no", "P1": "open"}.get(row["claim"], "yes")
    assert "claims: 4 claims tested, all as published.\n" in told() and rest not in told()
    rows.append({**rows[0], "claim": "P9"})  # one of one's own
    assert "claims: 5 claims tested: 4 as published, 1 never published (P9).\n" in told()
    del rows[1:]  # with a network whose cells are not published
    rows[0] |= {"verdict": "yes", "network": "9 × 9"}
    assert "claims: 1 claim tested: 0 as published, 1 never published (P1).\n" in told()


#: A pipeline that a script starts in the background, where SIGINT is ignored.
BACKGROUND = """
import signal, sys, threading, os
from pathlib import Path
signal.signal(signal.SIGINT, signal.SIG_IGN)
from hindsight.pipeline.project import Project
from hindsight.pipeline.replicate import supervise
from hindsight.specs.config import load
project = Project(load(Path(sys.argv[1]), {"preset": "smoke"}))
threading.Timer(2, os.kill, (os.getpid(), signal.SIGTERM)).start()
status, stopped_by = supervise([sys.executable, "-c", "import time; time.sleep(100)"], project)
assert (status, stopped_by) == (-signal.SIGINT, signal.SIGTERM), (status, stopped_by)
"""


def test_in_the_background_it_can_be_stopped(tmp_path):
    command = [sys.executable, "-c", BACKGROUND, str(CONFIG)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
