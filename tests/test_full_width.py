"""MKL's full width on request: the same training to rounding, the same process to others."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from hindsight import full_width, processor
from hindsight.specs.errors import SpecError

HINDSIGHT = Path(sys.executable).with_name("hindsight")
SMALL = ["--seeds", "2", "--steps", "512", "--evaluation-episodes", "5", "--her", "final"]
SMALL += ["--set", "n_steps=256", "--hidden", "16,16"]
LONG = ["--seeds", "1", "--steps", "200000", "--set", "n_steps=64", "--hidden", "8"]
COMPILER = next(filter(None, map(shutil.which, full_width.COMPILERS)), None)
widens = pytest.mark.skipif(
    not processor.hides_width(), reason="no AMD core with AVX-512: full_width does nothing"
)
compiles = pytest.mark.skipif(COMPILER is None, reason="no C compiler: full_width is refused")


def command(out: Path, *options: str) -> list[str]:
    return [str(HINDSIGHT), "train", *options, "--out", str(out)]


@widens
@compiles
def test_the_same_training_up_to_rounding(tmp_path: Path) -> None:
    found = {}
    for name, options in {"mkl": (), "mkl-full-width": ("--full-width",)}.items():
        subprocess.run(command(tmp_path / name, *SMALL, *options), check=True, capture_output=True)
        (path,) = (tmp_path / name / "cells").rglob("*.parquet")
        assert json.loads(pq.read_metadata(path).metadata[b"hindsight"])["products"] == [name]
        found[name] = pd.read_parquet(path).drop(columns=["wall_seconds", "cpu_seconds"])
    plain, wide = found.values()
    pd.testing.assert_frame_equal(wide, plain, rtol=1e-4, atol=1e-5)
    assert not np.array_equal(wide.policy_loss.dropna(), plain.policy_loss.dropna())


def wait_for(condition: object, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.05)
    assert condition()  # type: ignore[operator]


@widens
@compiles
def test_a_trainer_that_was_started_anew_stops_when_asked(tmp_path: Path) -> None:
    trainer = subprocess.Popen(
        command(tmp_path, *LONG, "--full-width"), stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: list(tmp_path.rglob("progress/*/*.json")))
    trainer.send_signal(signal.SIGTERM)
    assert "stopped by SIGTERM" in trainer.communicate(timeout=60)[1]
    assert trainer.returncode == 128 + signal.SIGTERM


@widens
@compiles
def test_a_trainer_that_was_started_anew_ends_with_its_parent(tmp_path: Path) -> None:
    script = 'HINDSIGHT_PARENT=$$ "$@" 2> "$0" & wait'
    said = tmp_path / "said"
    parent = subprocess.Popen(
        ["bash", "-c", script, str(said), *command(tmp_path, *LONG, "--full-width")]
    )
    wait_for(lambda: list(tmp_path.rglob("progress/*/*.json")))
    parent.kill()
    parent.wait()
    wait_for(lambda: "stopped by SIGTERM" in said.read_text())


def test_a_machine_without_a_compiler_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SpecError, match="full_width needs a C compiler, one of cc, gcc, clang"):
        full_width.built(tmp_path)


@compiles
def test_the_library_is_made_once_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = full_width.built(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    monkeypatch.setenv("PATH", "")
    assert full_width.built(tmp_path) == path
    ask = f"import ctypes; print(ctypes.CDLL({str(path)!r}).{processor.FUNCTION}())"
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert told.stdout == "1\n"


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in full_width.COMPILERS:
        broken = tmp_path / "bin" / name
        broken.parent.mkdir(exist_ok=True)
        broken.write_text("#!/bin/sh\necho 'no headers' >&2; exit 1\n")
        broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")
    with pytest.raises(SpecError, match="cannot compile the library: no headers"):
        full_width.built(tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize(
    "cpuinfo",
    ["vendor_id: GenuineIntel\nflags: avx2 avx512f fma", "vendor_id: AuthenticAMD\nflags: avx2 "],
)
def test_nothing_is_done_where_nothing_is_gained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpuinfo: str
) -> None:
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("the process was started anew"))
    processor.hides_width.cache_clear()
    full_width.multiply_at_full_width()
    monkeypatch.undo()
    processor.hides_width.cache_clear()
