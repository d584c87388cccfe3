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

import gymnasium

from tests.support.configuration import ROOT, environment_of

CLI = "from hindsight.cli import main; main()"
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
    return Running(CLI, ["hindsight", *arguments], cwd, environment).finished()


def started(*arguments: str, cwd: Path) -> "Running":
    """`hindsight` with these arguments, while it runs."""
    return Running(CLI, ["hindsight", *arguments], cwd, {})


def in_copy(
    project: Path, command: str, *arguments: str, before: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    """`hindsight` or `snakemake` in a copy of the project, with the copy's sources, after others.

    All it tells is in `stdout`, as on a terminal.
    """
    code, own = CLI.replace("hindsight", command), environment_of(project, *before)
    how = {"sources": project / "src", "together": True}
    return Running(code, [command, *arguments], project, own, **how).finished()


def python(
    code: str, *arguments: str, sources: Path = ROOT / "src", cwd: Path = ROOT, **environment: str
) -> "Running":
    """A program that imports the package anew, from these sources, while it runs."""
    return Running(code, ["-c", *arguments], cwd, environment, sources)


class Running:
    def __init__(self, code, command, cwd, environment, sources=None, together=False) -> None:
        self._folder, self._command = tempfile.TemporaryDirectory(), command
        out, err = (Path(self._folder.name, name) for name in ("out", "err"))
        self._files = out, err
        ours = (code, command, cwd, environment, sources, out, out if together else err)
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
    code: str, command: list[str], cwd: Path, environment: Mapping[str, str],
    sources: Path | None, out: Path, err: Path,
) -> None:  # fmt: skip
    # A suite in the background of a shell ignores SIGINT, and so would what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, stream)
        os.close(file)
    os.chdir(cwd)
    os.environ.update(environment)
    if sources is not None:
        _forget_the_package()
        sys.path.insert(0, str(sources))
    sys.argv = command
    status: int | str | None = 0
    try:
        exec(compile(code, command[0], "exec"), {"__name__": "__main__"})
    except SystemExit as end:  # what its frames hold is let go: the exit waits for all workers
        status = end.code
    sys.exit(status)


def _forget_the_package() -> None:
    """Its modules and its environments, for those of other sources."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "hindsight"]:
        del sys.modules[name]
    for name, spec in [*gymnasium.registry.items()]:
        if str(spec.entry_point).startswith("hindsight."):
            del gymnasium.registry[name]
