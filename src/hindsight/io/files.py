"""Files that appear whole or not at all."""

import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile


class FileError(Exception):
    """A file that cannot be written or read, in one sentence."""


class DamagedError(FileError):
    """Files that do not hold what was written; `paths` are all that were found."""

    def __init__(self, message: str, *paths: Path) -> None:
        super().__init__(message)
        self.paths = paths


def set_aside(path: Path) -> Path:
    """Rename a damaged file, which is then no longer there to be used; returns its new path."""
    aside = path.with_name(f"{path.name}.damaged")
    try:
        return path.replace(aside)
    except OSError as error:
        raise FileError(f"{path}: is damaged and cannot be renamed: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """What went wrong, on one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0]


def must_be_regular(path: Path) -> None:
    """Raise FileError for what is there and no regular file: reading a pipe would never end."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # a folder is told by who opens it
        raise FileError(f"{path}: is no regular file; remove it")


def must_be_stored(path: Path) -> None:
    """Raise DamagedError for an archive that is larger inside than outside.

    Ours are not compressed: one that is could hold a thousand times its size, and fill the memory.
    Whatever zipfile raises for a file that is no archive is the caller's to tell.
    """
    must_be_regular(path)
    with ZipFile(path) as archive:
        inside = archive.infolist()
    size = sum(entry.file_size for entry in inside)
    if size > path.stat().st_size or any(entry.compress_type != ZIP_STORED for entry in inside):
        raise DamagedError(
            f"{path}: is none of ours: its archive is compressed, and holds {size:,} bytes", path
        )


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, then rename: readers see the old or the new one.

    Raises FileError, naming `path`, where that is not possible (a full disk, no permission).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The ending stays: some writers choose their format by it.
        handle, name = tempfile.mkstemp(
            prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent
        )
        os.close(handle)
        beside = Path(name)
        try:
            write(beside)
            with beside.open("rb") as file:
                os.fsync(file.fileno())
            beside.chmod(0o644)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:
        # torch's archive writer has RuntimeErrors of its own.
        raise FileError(f"{path}: cannot be written: {reason(error)}") from error


def write_if_changed(path: Path, text: str) -> None:
    """Write a derived file only if it differs: what depends on it is then not redone.

    One with a time in the future is written, too: what is made of it would always be older.
    """
    data = text.encode()
    with suppress(OSError):  # writing it tells why
        if path.read_bytes() == data and path.stat().st_mtime <= time.time():
            return
    write_whole(path, lambda beside: beside.write_bytes(data))


def as_json(value: Any) -> str:
    """Plain data as stable, readable JSON."""
    return json.dumps(value, indent=1, sort_keys=False) + "\n"
