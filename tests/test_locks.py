"""Locks: held by another process, left behind by a killed one, and on odd file systems; and
requests to stop: once, twice at once, and again later.
"""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest

from hindsight.io.files import FileError
from hindsight.io.interruption import ECHO_SECONDS, noticed
from hindsight.io.locks import held

HOLDER = """
import sys, time
from pathlib import Path
from hindsight.io.locks import held
with held(Path(sys.argv[1]), "the cell"):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(path, seconds):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_the_holder_is_named(tmp_path):
    path = tmp_path / "cell.lock"
    process = holder(path, 60)
    named = rf"^the cell is already running .*process {process.pid} on "
    with pytest.raises(FileError, match=named), held(path, "the cell"):
        pytest.fail("held twice")
    process.kill()
    process.wait()
    # The file is still there, the lock is not.
    assert path.exists()
    with held(path, "the cell"):
        assert path.exists()
    assert not path.exists()


def test_a_fork_of_the_holder_leaves_the_lock_alone(tmp_path):
    path = tmp_path / "cell.lock"
    taker = [sys.executable, "-c", HOLDER, str(path), "0"]
    with held(path, "the cell"):
        try:
            with held(tmp_path / "other.lock", "another"):
                child = os.fork()
                if child == 0:
                    raise RuntimeError
                os.waitpid(child, 0)
                assert (tmp_path / "other.lock").exists()
        except RuntimeError:
            os._exit(0)
        other = subprocess.run(taker, capture_output=True, text=True, check=False)
        assert other.returncode and "is already running" in other.stderr
    assert subprocess.run(taker, capture_output=True, check=False).returncode == 0


def test_waiting_is_announced_and_ends_with_the_lock(tmp_path, capsys):
    path = tmp_path / "cell.lock"
    process = holder(path, 0.5)
    with held(path, "the cell", wait=True):
        # The holder removed its file: this lock is on the one that others will find.
        assert path.exists()
        with pytest.raises(FileError, match="is already running"), held(path, "the cell"):
            pytest.fail("held twice")
    assert capsys.readouterr().err.count("waiting for it") == 1
    assert process.wait() == 0


@pytest.mark.parametrize(
    "number",
    [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EINVAL, errno.EIO, 524],
)
def test_a_file_system_without_locks(tmp_path, monkeypatch, capsys, number):
    """EFS, autofs, FUSE and others: each has its own error (524 is the kernel's ENOTSUPP)."""

    def no_locks(file, flags):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with held(tmp_path / "cell.lock", "the cell"):
        pass
    assert capsys.readouterr().err.count("has no locks") == 1


def test_a_lock_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link.lock").symlink_to(tmp_path / "file")
    for path in (tmp_path / "file" / "cell.lock", tmp_path / "link.lock"):
        with pytest.raises(FileError, match="lock: cannot be written"), held(path, "the cell"):
            pytest.fail("held")


def test_two_signals_at_once_are_one_request():
    with noticed() as notice:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert notice.signal == signal.SIGTERM


def test_a_later_second_signal_interrupts():
    with pytest.raises(KeyboardInterrupt), noticed():
        signal.raise_signal(signal.SIGTERM)
        time.sleep(ECHO_SECONDS + 0.1)
        signal.raise_signal(signal.SIGTERM)
