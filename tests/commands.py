"""Commands in processes of their own that need not start from nothing.

Starting Python and importing torch or Snakemake takes seconds, what is tested often less.  So one
process imports what commands need and does nothing else; each command is a fork of it
(multiprocessing's fork server), with its own folder, streams, environment and exit status.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

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


def hindsight(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`hindsight` with these arguments, and these variables beside the others."""
    return _forked("hindsight.cli", arguments, cwd, environment)


def training(spec: str, folder: Path, checkpoint_seconds: float) -> BaseProcess:
    """A cell's training in a process of its own, which is started."""
    process = _server.Process(target=_train, args=(spec, folder, checkpoint_seconds))
    process.start()
    return process


def _train(spec: str, folder: Path, checkpoint_seconds: float) -> None:
    from hindsight.specs.cell import CellSpec
    from hindsight.training.cell import Execution, train_cell

    execution = Execution(checkpoint_seconds=checkpoint_seconds)
    train_cell(CellSpec.model_validate_json(spec), folder, execution)


def snakemake(
    *arguments: str, project: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """`snakemake` in a copy of the project, with the copy's own sources.

    All it tells is in `stdout`, as on a terminal.
    """
    return _forked("snakemake.cli", arguments, project, environment, anew=True)


def _forked(
    module: str,
    arguments: tuple[str, ...],
    cwd: Path,
    environment: Mapping[str, str],
    anew: bool = False,
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        out, err = (Path(folder, name) for name in ("out", "err"))
        ours = (module, arguments, cwd, environment, anew, out, out if anew else err)
        process = _server.Process(target=_run, args=ours)
        process.start()
        process.join()
        told = [path.read_text(encoding="utf-8") if path.exists() else "" for path in (out, err)]
    assert process.exitcode is not None
    return subprocess.CompletedProcess([module, *arguments], process.exitcode, *told)


def _run(
    module: str, arguments: tuple[str, ...], cwd: Path, environment: Mapping[str, str], anew: bool,
    out: Path, err: Path,
) -> None:  # fmt: skip
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
    sys.modules[module].main()
