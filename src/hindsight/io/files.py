"""Atomic writing of files, and checks before reading them."""

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


class FileError(Exception):
    """A file cannot be read or written; the message is one sentence."""


class DamagedError(FileError):
    """Files are damaged; `paths` lists them."""

    def __init__(self, message: str, *paths: Path) -> None:
        super().__init__(message)
        self.paths = paths


def set_aside(path: Path) -> Path:
    """Rename a damaged file so that nothing uses it; returns its new path."""
    aside = path.with_name(f"{path.name}.damaged")
    try:
        return path.replace(aside)
    except OSError as error:
        raise FileError(f"{path}: is damaged and cannot be renamed: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """An exception's message on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0]


def machine_failed(error: BaseException) -> bool:
    """Whether memory was lacking or a GPU failed, which says nothing of a file."""
    kinds = {kind.__name__ for kind in type(error).__mro__}  # torch's, without importing it
    ours = {"MemoryError", "OutOfMemoryError", "AcceleratorError"}
    return bool(kinds & ours) or "can't allocate memory" in str(error)


def is_unread(error: BaseException) -> bool:
    """Whether reading a file failed for reasons of the machine: nothing is known of its content."""
    if isinstance(error, FileError):
        return not isinstance(error, DamagedError)
    return machine_failed(error) or (isinstance(error, OSError) and bool(error.errno))


def must_be_regular(path: Path) -> None:
    """Raise FileError for a special file: a pipe never ends, and a device would be replaced."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # opening a folder raises anyway
        raise FileError(f"{path}: is not a regular file")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a file atomically: `write` fills a temporary file, which is then renamed.

    Raises FileError, naming `path`, if that fails (a full disk, no permission).
    """
    try:
        must_be_regular(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Some writers choose their format by the suffix, or write other files beside theirs.
        with TemporaryDirectory(prefix=f".{path.stem}.", dir=path.parent) as folder:
            temporary = Path(folder, path.name)
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
    except (OSError, RuntimeError) as error:  # torch.export raises RuntimeError
        raise FileError(f"{path}: cannot be written: {reason(error)}") from error


def sweep(folder: Path, stem: str = "") -> None:
    """Remove what killed processes have left of writing a folder's files, or those of one stem."""
    left = re.compile(rf"\.{re.escape(stem) or '.+'}\.[a-z0-9_]{{8}}")
    for rest in folder.glob(".*"):
        if left.fullmatch(rest.name) and rest.is_dir():
            shutil.rmtree(rest, ignore_errors=True)


def write_if_changed(path: Path, text: str) -> None:
    """Write a file only if its text differs, so that Snakemake does not redo what depends on it."""
    data = text.encode()
    with suppress(OSError):  # write_whole reports errors
        if path.read_bytes() == data:
            return
    write_whole(path, lambda temporary: temporary.write_bytes(data))


def as_json(value: Any) -> str:
    """Format plain data as stable, readable JSON."""
    return json.dumps(value, indent=1) + "\n"
