"""Files of tensors, numbers, strings, lists and dictionaries: checkpoints, policies, buffers."""

import pickletools
import re
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import ZipFile

import torch

from hindsight.io.files import DamagedError, FileError, must_be_stored, reason, write_whole

#: Upper bound on the values in a checkpoint; a shared list counts every time it is referenced.
MOST_VALUES = 10**7
#: The classes and functions named in what `save` writes.  torch's loader also calls others, such as
#: `bytearray`, whose argument is a size.
NAMED = re.compile(r"torch\._utils _rebuild_tensor_v2|torch \w+Storage|collections OrderedDict")


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint or a policy: tensors, numbers, strings, lists and dictionaries."""

    def write(beside: Path) -> None:
        # torch reports a full disk as an "iostream error".  Writing through Python's file raises an
        # OSError, but torch then fails to close the archive and raises a RuntimeError instead.
        with beside.open("wb") as file:
            try:
                torch.save(state, file)
            except RuntimeError as error:
                if isinstance(error.__context__, OSError):
                    raise error.__context__ from None
                raise

    write_whole(path, write)


def load(path: Path) -> dict[str, Any]:
    """Read a file that `save` wrote, without running code from it.

    Raises:
        DamagedError: the file is damaged, or `save` did not write it.
        FileError: the file cannot be read.
    """
    if path.suffix == ".parquet":  # of the same name, and whole: not to be set aside
        raise FileError(f"{path}: holds curves; policies are .pt files, as in results/policies")
    try:
        must_be_stored(path)
        # torch does not check the checksums of its archive.
        with ZipFile(path) as archive:
            broken = archive.testzip()
            for entry in archive.infolist():
                if entry.filename.lower().endswith(".pkl"):
                    _must_be_plain(archive.read(entry))
        if broken is not None:
            raise DamagedError(f"{path}: is damaged: the checksum of {broken} is wrong", path)
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        _must_hold_what_they_say(state)
    except FileError:
        raise
    except Exception as error:  # an unrelated file can make the loader raise anything
        if isinstance(error, OSError) and error.errno:
            raise FileError(f"{path}: cannot be read: {reason(error)}") from error
        # torch's message explains at length how to load unsafe objects anyway.
        refused = isinstance(error, UnpicklingError)
        why = "the safe loader refuses what is in it" if refused else reason(error)
        raise DamagedError(f"{path}: is damaged, or not a checkpoint: {why}", path) from error
    if not isinstance(state, dict):
        raise DamagedError(f"{path}: is not a checkpoint", path)
    return state


def shapes(state: Any) -> Any:
    """Replace a nested state's tensors by shape and type, lists by length, other values by None."""
    if isinstance(state, dict):
        return {name: shapes(value) for name, value in state.items()}
    if isinstance(state, torch.Tensor):
        return state.shape, state.dtype
    return len(state) if isinstance(state, list) else None


def _must_be_plain(data: bytes) -> None:
    """Raise UnpicklingError for a pickle that names anything but what `save` writes."""
    for op, argument, _ in pickletools.genops(data):
        if op.name in ("GLOBAL", "INST", "STACK_GLOBAL") and not NAMED.fullmatch(str(argument)):
            raise UnpicklingError(f"it names {argument}")


def _must_hold_what_they_say(state: Any) -> None:
    """Raise ValueError for a small file that would expand to far more than it stores.

    That is a tensor that repeats its storage, as with stride 0, or nested lists that share their
    elements, which would take forever to walk.
    """
    todo, count = [state], 0
    while todo:
        value = todo.pop()
        if isinstance(value, dict | list | tuple):
            count += len(value)
            if count > MOST_VALUES:
                raise ValueError(f"it holds more than {MOST_VALUES:,} values")
            todo += value.values() if isinstance(value, dict) else value
            continue
        said = value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
        if said and said > value.untyped_storage().nbytes():
            raise ValueError(f"a tensor of {value.numel():,} numbers is not stored in full")
