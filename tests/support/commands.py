"""Commands in other processes that start fast.

Starting Python and importing torch or Snakemake takes seconds, what is tested often less.  So one
process imports what commands need and does nothing else; each command is a fork of it
(multiprocessing's fork server), with its own folder, streams, environment and exit status.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.configuration import environment_of

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(
    [
        "hindsight.cli",
        "hindsight.library.callbacks",
        "hindsight.library.train",
        "hindsight.training.cell",
        "hindsight.training.evaluate",
        "hindsight.training.finished",
        "hindsight.training.watch",
        "snakemake.cli",
    ]
)


def program(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, and what it tells."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def hindsight(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`hindsight` with these arguments, and these variables beside the others."""
    return Running("hindsight.cli", arguments, cwd, environment).finished()


def started(*arguments: str, cwd: Path) -> "Running":
    """`hindsight` with these arguments, while it runs."""
    return Running("hindsight.cli", arguments, cwd, {})


def in_copy(
    project: Path, command: str, *arguments: str, before: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    """`hindsight` or `snakemake` in a copy of the project, with the copy's sources, after others.

    All it tells is in `stdout`, as on a terminal.
    """
    own = environment_of(project, *before)
    return Running(f"{command}.cli", arguments, project, own, anew=True).finished()


class Running:
    def __init__(
        self,
        module: str,
        arguments: tuple[str, ...],
        cwd: Path,
        environment: Mapping[str, str],
        anew: bool = False,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._command = [module, *arguments]
        out, err = (Path(self._folder.name, name) for name in ("out", "err"))
        self._files = out, err
        ours = (module, arguments, cwd, environment, anew, out, out if anew else err)
        self._process = _server.Process(target=_run, args=ours)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.exitcode is None

    def finished(self, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        self._process.join(timeout)
        status = self._process.exitcode
        assert status is not None, "it goes on"
        files = self._files
        told = [path.read_text(encoding="utf-8") if path.exists() else "" for path in files]
        return subprocess.CompletedProcess(self._command, status, *told)


def _run(
    module: str, arguments: tuple[str, ...], cwd: Path, environment: Mapping[str, str], anew: bool,
    out: Path, err: Path,
) -> None:  # fmt: skip
    # A suite in the background of a shell ignores SIGINT, and so would what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, stream)
        os.close(file)
    os.chdir(cwd)
    if anew:
        os.environ.clear()
    os.environ.update(environment)
    if anew:
        sys.path.insert(0, str(cwd / "src"))
        for name in [name for name in sys.modules if name.partition(".")[0] == "hindsight"]:
            del sys.modules[name]
    sys.argv = [module.partition(".")[0], *arguments]
    __import__(module)
    status: int | str | None = 0
    try:
        sys.modules[module].main()
    except SystemExit as end:  # what its frames hold is let go: the exit waits for all workers
        status = end.code
    sys.exit(status)
