"""A user's environment that hangs, calls sys.exit, or changes the working directory."""

import os
import re
import shutil
import signal
import time
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from hindsight.envs.gymnasium.trial import success_in
from hindsight.specs.errors import EnvironmentFailure, SpecError
from tests.envs.test_goal_environments import children, gone
from tests.support.commands import hindsight, started
from tests.support.curves import the_curves

COMMAND = (
    *("train", "--env", "tests.envs.stubborn:Stubborn-v0", "--algorithm", "sac", "--her", "future"),
    *("hidden=8", "--seeds", "2", "--steps", "600", "evaluation_episodes=2"),
    *("learning_starts=100", "log_interval=50"),
)


def start(folder, workers):
    return started(*COMMAND, "--workers", workers, cwd=folder)


def hangs(folder, workers):
    """A training that hangs, and the processes that step its environments."""
    (folder / "hang").touch()
    hung = start(folder, workers)
    while hung.runs and not (folder / "hangs").exists():
        time.sleep(0.01)
    return hung, children(hung.pid)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    done = start(folder, "1").finished()
    assert done.returncode == 0, done.stderr
    return the_curves(folder)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The same, stopped at its first checkpoint."""
    folder = tmp_path_factory.mktemp("begun")
    process = start(folder, "2")
    while process.runs and not list(folder.rglob("progress/**/*.json")):
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGTERM)
    assert process.finished().returncode == 128 + signal.SIGTERM
    return folder


@pytest.mark.parametrize(("workers", "number"), [("1", signal.SIGINT), ("2", signal.SIGTERM)])
def test_the_first_signal_ends_a_training_that_hangs(tmp_path, begun, whole, workers, number):
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    (checkpoint,) = tmp_path.rglob("checkpoints/**/*.safetensors")
    before = checkpoint.read_bytes()

    hung, steppers = hangs(tmp_path, workers)
    os.kill(hung.pid, number)
    ended = hung.finished(timeout=30)
    assert ended.returncode == 128 + number
    assert ended.stderr.splitlines()[-1] == (
        f"stopped by {number.name} while tests.envs.stubborn:Stubborn-v0 did not answer; the same "
        f"command continues from {checkpoint}"
    )
    assert gone(steppers) and checkpoint.read_bytes() == before

    (tmp_path / "hang").unlink()
    again = start(tmp_path, workers).finished()
    assert again.returncode == 0 and "continued at" in again.stderr
    pd.testing.assert_frame_equal(the_curves(tmp_path), whole)


def test_a_worker_that_was_killed_is_reported_and_the_training_continues(tmp_path, whole):
    """kill -9 of one of two: a sentence with the environment, no orphans, the same curves."""
    running, workers = start(tmp_path, "2"), []
    while not (workers and list(tmp_path.rglob("progress/**/*.json"))) and running.runs:
        time.sleep(0.01)
        workers = children(running.pid)
    os.kill(workers[-1], signal.SIGKILL)
    ended = running.finished(timeout=60)
    assert ended.returncode == 1 and "Traceback" not in ended.stderr
    (line,) = [x for x in ended.stderr.splitlines() if x.startswith("error: ")]
    assert "Stubborn-v0: a process that steps it was killed by signal 9; the same command" in line
    assert gone(workers)
    assert start(tmp_path, "2").finished().returncode == 0
    pd.testing.assert_frame_equal(the_curves(tmp_path), whole)


def test_who_hangs_ends_with_the_one_that_was_killed(tmp_path):
    hung, steppers = hangs(tmp_path, "2")
    assert steppers
    os.kill(hung.pid, signal.SIGKILL)
    hung.finished()
    assert gone(steppers)


@pytest.mark.parametrize(
    ("file", "workers", "code"),
    [
        ("exit", "1", "'I have had enough'"), ("exit", "2", "'I"), ("exit-at-import", "1", "3"),
        ("_exit", "2", "0"), ("_exit-at-import", "0", "0"),
    ],
)  # fmt: skip
def test_sys_exit_is_reported_and_is_no_success(tmp_path, file, workers, code):
    """At every moment, by any of these processes: test_going_on."""
    (tmp_path / file).touch()
    done = start(tmp_path, workers).finished(timeout=60)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "success" not in line]
    where = r"error: (environment: )?tests\.envs\.stubborn:Stubborn-v0"
    assert pd.Series([line]).str.match(where)[0], line
    assert f"called {'os._' if '_' in file else 'sys.'}exit({code}" in line
    assert "stubborn.py, line " in line
    assert ("the same command starts again" in line) == (file in ("exit", "_exit"))
    assert not list(tmp_path.rglob("*.parquet"))


def test_training_again_replaces_results_only_once_there_are_new_ones(tmp_path, whole):
    """An environment that fails meanwhile costs nothing; the same command then trains."""
    assert start(tmp_path, "1").finished().returncode == 0
    results = [p for kind in ("cells", "policies", "best") for p in tmp_path.rglob(f"{kind}/*/*.*")]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in results}
    assert len(before) == 3
    again = started(*COMMAND, "--workers", "1", "--again", cwd=tmp_path)
    while again.runs and not list(tmp_path.rglob("best/*/*.again.*")):
        time.sleep(0.01)
    (tmp_path / "exit").touch()
    assert again.finished(timeout=60).returncode == 1
    assert {x: (x.read_bytes(), x.stat().st_mtime_ns) for x in results} == before
    (tmp_path / "exit").unlink()
    done = hindsight(*COMMAND, "--again", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_mtime_ns > then for path, (_, then) in before.items())
    assert not list(tmp_path.rglob("*.again.*"))
    pd.testing.assert_frame_equal(the_curves(tmp_path), whole)


@pytest.mark.parametrize(
    ("said", "success"),
    [
        (True, True), (np.False_, False), (1, True), (0.0, False), (np.ones(1), True),
        (np.nan, None), ("no", None), (0.5, None), (None, None), ([], None),
    ],
)  # fmt: skip
def test_what_is_neither_true_nor_false_is_no_success(said, success):
    if success is None:
        with pytest.raises(SpecError, match="it must be True or False, or 1 or 0"):
            success_in({"is_success": said})
    else:
        assert success_in({"is_success": said}) is success


def test_an_environment_that_changes_the_folder_moves_no_results(tmp_path):
    (tmp_path / "mine.py").write_text("import tests.envs.stubborn\n")  # a module that is found here
    (tmp_path / "wander").touch()
    words = [word.replace("tests.envs.stubborn", "mine") for word in COMMAND]
    done = hindsight(*words, "--workers", "1", "--out", "mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"steps/s  return .* success \d+%", done.stderr)
    assert "files: mine/cells/" in done.stdout and "success rate" in done.stdout
    (path,) = tmp_path.glob("mine/cells/*/*.parquet")
    assert path.parent.name == "Stubborn"
    policy = str(next(tmp_path.glob("mine/policies/*/*.safetensors")).relative_to(tmp_path))
    done = hindsight("export", policy, "it.pt2", "--env", "mine:Stubborn-v0", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "it.pt2").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_error_that_cannot_say_what_it_is_is_reported_too():
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    said = str(EnvironmentFailure.of("a step failed", Mute()))
    assert said.startswith("a step failed: Mute: its message cannot be shown\n")
