"""Files are written whole or not at all."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from hindsight.io.checkpoints import save
from hindsight.io.files import FileError, write_if_changed, write_whole


def test_a_failed_write_leaves_only_the_old_file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fails(part: Path) -> None:
        part.write_text("half of the n")
        raise OSError("the disk is full")

    with pytest.raises(FileError, match=r"table\.csv: cannot be written: the disk is full"):
        write_whole(path, fails)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_or_a_device_is_not_replaced(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe: is not a regular file"):
        write_whole(pipe, lambda part: part.write_text("text"))
    assert pipe.is_fifo()


def test_a_checkpoint_without_room_says_why(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(
            FileError, match=r"cell\.safetensors: cannot be written: File too large$"
        ):
            save(tmp_path / "cell.safetensors", {"rows": torch.zeros(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_a_killed_process_leaves_only_what_the_next_one_clears_away(tmp_path):
    """safetensors writes to a name of its own, which nobody would clear away."""
    code = (
        "import sys, torch; from pathlib import Path; from hindsight.io.checkpoints import save\n"
        "while True: save(Path(sys.argv[1], 'cell.safetensors'), {'rows': torch.zeros(50_000_000)})"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(".*/*")) and time.monotonic() < deadline:
        assert child.poll() is None
    child.kill()
    child.wait()
    left = [path.name for path in tmp_path.iterdir() if path.name != "cell.safetensors"]
    assert left and all(name.startswith(".cell.") for name in left)


def test_a_derived_file_is_written_if_it_differs_or_is_damaged(tmp_path):
    path = tmp_path / "a" / "plan.json"
    write_if_changed(path, "one")
    first = path.stat().st_mtime_ns
    write_if_changed(path, "one")
    assert path.stat().st_mtime_ns == first
    for damage in (b"\xff\xfe", b"", b"ond", b"two"):
        path.write_bytes(damage)
        write_if_changed(path, "one")
        assert path.read_text() == "one"
