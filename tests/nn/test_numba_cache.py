"""Compiled functions, and the folder in which their machine code is kept."""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock

from hindsight.nn.numba_cache import ENABLED, folder
from tests.support.commands import CLI, Running, hindsight, program, python
from tests.support.configuration import ROOT
from tests.support.curves import the_curves

SRC = ROOT / "src"
#: Steps of SAC, which calls many compiled functions, and velocities of a prey, which are one entry
#: point and one first-class function; what a clock counts, and what they took.
STEP = """
import time
import torch
from hindsight.training.runs import Clock
clock, began = Clock(1, torch.device("cpu")), time.process_time()
import numpy as np
from hindsight.algorithms import sac, sac_compiled
from hindsight.envs.prey import velocities
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.sac import SACSpec
from hindsight.specs.environments.predator_prey import PredatorPreySpec
torch.manual_seed(0)
agent = sac.Agent.of(PredatorPreySpec(n_dims=2), SACSpec(hidden=(16, 16)))
state = sac.TrainState(agent, torch.stack([agent.initial_row(0)]), torch.full((1,), 1e-3))
for _ in range(3):
    obs, actions, rewards = torch.randn(1, 64, 6), torch.rand(1, 64, 2), torch.randn(1, 64)
    batch = Batch(obs, actions, rewards, torch.randn(1, 64, 6), torch.rand(1, 64) < 0.1)
    sac_compiled.ENGINE.update(state, batch, torch.randn(1, 1, 128, 2), SACSpec(), 1)
d, uniform = (torch.rand(50, n).numpy() for n in (3, 8))
moves = velocities("repel", d, uniform, False)
took = time.process_time() - began
clock.lap(torch.tensor([0]))
numbers = np.concatenate([state.rows.numpy().ravel(), moves.ravel()])
print(numbers.tobytes().hex(), float(clock.cpu[0]), took)
"""


def folder_in(caches: Path) -> Path:
    """Where this machine's code is kept in a folder of caches."""
    return caches / "hindsight" / "numba" / Path(str(folder())).name


def started(caches: Path, code: str = STEP, *arguments: str, sources: Path = SRC) -> Running:
    """A program with this folder of caches, while it runs."""
    return python(code, *arguments, sources=sources, XDG_CACHE_HOME=str(caches))


@pytest.mark.skipif(not ENABLED, reason="nothing is compiled here")
def test_who_compiles_changes_no_bits_and_compiling_is_no_training_time(tmp_path: Path) -> None:
    """Two processes fill the cache at once, a third loads from it."""
    caches = tmp_path / "there"
    told = [process.finished().stdout.split() for process in (started(caches), started(caches))]
    files = {path: path.stat().st_mtime_ns for path in caches.rglob("*.nb*")}
    assert files
    told.append(started(caches).finished().stdout.split())
    assert {path: path.stat().st_mtime_ns for path in caches.rglob("*.nb*")} == files
    assert len({bits for bits, *_ in told}) == 1
    clocks, took = zip(*(map(float, seconds) for _, *seconds in told), strict=True)
    assert max(took) > 1.0 and clocks[took.index(max(took))] < max(took) - 1.0
    assert clocks == pytest.approx([clocks[2]] * 3, abs=0.6)


@pytest.mark.skipif(not ENABLED, reason="nothing is compiled here")
def test_threads_wait_for_one_compiler_and_what_is_damaged_is_compiled_anew(tmp_path: Path) -> None:
    code = """
import time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from hindsight.envs.prey import velocities
from hindsight.nn.numba_cache import seconds_compiling
began = time.perf_counter()
d, uniform = (np.random.default_rng(0).random((50, n), np.float32) for n in (3, 8))
with ThreadPoolExecutor(4) as pool:
    moves = list(pool.map(lambda _: velocities("repel", d, uniform, False), range(4)))
print(moves[0].tobytes().hex(), seconds_compiling()[0], time.perf_counter() - began)
"""
    numbers, waited, took = started(tmp_path, code).finished().stdout.split()
    assert 0 < float(waited) <= float(took)
    (place,) = (tmp_path / "hindsight/numba").iterdir()
    assert place.stat().st_mode & 0o777 == 0o700
    files = sorted(place.glob("*.nb*"))

    def said() -> str:
        again = started(tmp_path, code).finished()
        assert again.returncode == 0 and again.stdout.split()[0] == numbers
        return again.stderr

    rng = np.random.default_rng(0)
    for damage in ("a bit", "a crash", "no record"):
        data = bytearray(files[0].read_bytes())
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        if damage == "no record":
            for path in place.glob("*.sha256"):
                path.unlink()
        else:
            files[0].write_bytes(data if damage == "a bit" else b"")
        assert said() == f"{place}: a file is damaged or incomplete, and is compiled anew\n"
    made = {path: path.stat().st_mtime_ns for path in files}
    assert said() == "" and made == {path: path.stat().st_mtime_ns for path in files}


def test_a_cell_trains_to_the_same_numbers_without_numba_and_says_so(tmp_path: Path) -> None:
    train = (
        *("train", "--her", "final", "n_dims=2", "prey=attract", "grid_size=4.0", "hidden=8"),
        *("n_steps=64", "n_epochs=1", "--seeds", "2", "--steps", "128", "evaluation_episodes=2"),
    )
    slow, caches = tmp_path / "slow", tmp_path / "caches"
    without = {**os.environ, "XDG_CACHE_HOME": str(caches), "NUMBA_DISABLE_JIT": "1"}
    done = program(sys.executable, "-c", CLI, *train, "--out", str(slow), env=without)
    assert done.returncode == 0 and done.stderr.count("NUMBA_DISABLE_JIT") == 1, done.stderr
    assert not list(caches.glob("hindsight/**/*.nb*"))
    assert hindsight(*train, "--out", "quick", cwd=tmp_path).returncode == 0
    quick = the_curves(tmp_path / "quick")
    pd.testing.assert_frame_equal(the_curves(slow), quick, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(not ENABLED, reason="nothing is compiled here")
def test_waiting_for_another_process_to_compile_can_be_stopped(tmp_path: Path) -> None:
    place = folder_in(tmp_path)
    place.mkdir(parents=True)
    arguments = ["train", "--steps", "4096", "--seeds", "1", "--out", str(tmp_path / "results")]
    with FileLock(place / "ppo_compiled.lock"):
        waiting = started(tmp_path, CLI, *arguments)
        while not list((tmp_path / "results").rglob("*.lock")) and waiting.runs:
            time.sleep(0.1)
        os.kill(waiting.pid, signal.SIGTERM)
        ended = waiting.finished(timeout=60)
    assert ended.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM while the compiler did not answer" in ended.stderr
    assert "Traceback" not in ended.stderr


#: What a training says that compiles, and whose folder of caches it is.
TRAINED = """
from hindsight.algorithms import ppo_compiled
from hindsight.nn.numba_cache import _kept, folder
for function in (ppo_compiled._rollout.__wrapped__,) * 2:
    with _kept(function) as is_kept:
        print(is_kept)
"""


@pytest.mark.skipif(not ENABLED, reason="nothing is compiled here")
@pytest.mark.parametrize("why", ["none", "another user's", "a file in its place"])
def test_without_a_cache_each_process_compiles_and_says_so(tmp_path: Path, why: str) -> None:
    """Machine code of somebody else is never loaded: Numba's files are pickles."""
    if why == "another user's":
        if os.getuid():
            pytest.skip("only root can give a folder away")
        folder_in(tmp_path).mkdir(parents=True)
        os.chown(folder_in(tmp_path), 1234, 1234)
    caches = tmp_path
    if why == "a file in its place":
        (caches := tmp_path / "file").touch()
    done = started(caches, TRAINED).finished()
    out, said = done.stdout.split(), done.stderr
    if why == "none":
        assert out == ["True"] * 2 and "for this processor, once: up to" in said
        return
    assert out == ["False"] * 2
    assert said.count("\n") == 1 and "in each process" in said and "once" not in said


@pytest.mark.skipif(not ENABLED, reason="nothing is compiled here")
def test_machine_code_of_an_edited_text_is_not_kept(tmp_path: Path) -> None:
    """It would pass for that of the new text."""
    shutil.copytree(SRC / "hindsight", tmp_path / "hindsight")
    code = """
import numpy as np
from hindsight.envs import prey
with open(prey.__file__, "a") as source:
    source.write("EDITED = 1")
prey.velocities("repel", np.ones((50, 3), np.float32), np.ones((50, 8), np.float32), False)
"""
    ran = started(tmp_path / "caches", code, sources=tmp_path).finished()
    assert ran.returncode == 0, ran.stderr
    assert (
        ran.stderr == "prey.py changed since this process began: what it compiles now is not kept\n"
    )
    assert not [*(tmp_path / "caches").rglob("*.nb*")]
