"""Files of tensors, numbers, strings, lists and dictionaries: checkpoints, policies, buffers.

They are safetensors files.  A tensor's name is its path in the state, such as `rows`.  The metadata
hold everything else as JSON, and in it a checksum of the file, which the format lacks.
"""

import hashlib
import json
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from hindsight.io.files import (
    DamagedError,
    FileError,
    machine_failed,
    must_be_regular,
    reason,
    write_whole,
)

Tensors = dict[str, np.ndarray[Any, Any]]
#: The metadata's only key (safetensors writes several in any order), and keys in its JSON: the
#: checksum, and what stands for a tensor.
STATE, CHECKSUM, TENSOR = "hindsight", "sha256", "$tensor"
#: What restoring a state with other keys or tensors raises.
MISFITS = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError)
#: Largest number of characters of the JSON, so that a small file cannot fill the memory.
LONGEST_TEXT = 10**7


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint or a policy: tensors, numbers, strings, lists and dictionaries."""
    tensors: Tensors = {}
    text = json.dumps({CHECKSUM: "", **_without_tensors(state, "", tensors)})
    metadata = {STATE: text.replace('""', f'"{_checksum(text, tensors)}"', 1)}

    def write(beside: Path) -> None:
        try:
            save_file(tensors, beside, metadata)
        except SafetensorError as error:  # "... I/O error: File too large (os error 27)"
            why = reason(error).rpartition("I/O error: ")[2].partition(" (os error")[0]
            raise OSError(why) from error

    write_whole(path, write)


def load(path: Path) -> dict[str, Any]:
    """Read a file that `save` wrote, without running code from it.

    Raises:
        DamagedError: the file is damaged, or `save` did not write it.
        FileError: the file cannot be read.
    """
    if path.suffix == ".parquet":  # of the same name, and whole: not to be set aside
        raise FileError(f"{path}: holds curves; policies are in results/policies")
    must_be_regular(path)
    try:
        # Opened here, too, for the system's error if that fails.
        with path.open("rb"), safe_open(path, "np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            text = (file.metadata() or {}).get(STATE, "")
        if len(text) > LONGEST_TEXT:
            raise ValueError(f"it has more than {LONGEST_TEXT:,} characters of JSON")
        left = dict(tensors)

        def with_tensor(part: dict[str, Any]) -> Any:
            # Each tensor once, so that the state is no larger than the file.
            return torch.from_numpy(left.pop(part[TENSOR])) if part.keys() == {TENSOR} else part

        state: dict[str, Any] = json.loads(text, object_hook=with_tensor)
        found = state.pop(CHECKSUM)
        if found != _checksum(text.replace(f'"{found}"', '""', 1), tensors):
            raise ValueError("its checksum is wrong")
        return state
    except Exception as error:  # an unrelated file can make the loader raise anything
        if machine_failed(error):
            raise
        if isinstance(error, OSError) and error.errno:
            raise FileError(f"{path}: cannot be read: {reason(error)}") from error
        if path.suffix == ".pt" and is_zipfile(path):
            why = "was written by hindsight 1.0; CHANGELOG.md says how to convert it"
            raise FileError(f"{path}: {why}") from None
        why = "is damaged, or was not written by hindsight 1.1 or newer"
        raise DamagedError(f"{path}: {why}: {reason(error)}", path) from error


def _without_tensors(value: Any, name: str, tensors: Tensors) -> Any:
    """A nested state with tensors replaced by their names, under which `tensors` receives them."""
    if isinstance(value, torch.Tensor):
        tensors[name] = value.detach().cpu().contiguous().numpy()
        return {TENSOR: name}
    if isinstance(value, dict):
        parts = {key: (part, f"{name}/{key}" if name else key) for key, part in value.items()}
        return {key: _without_tensors(*part, tensors) for key, part in parts.items()}
    if isinstance(value, list | tuple):
        return [_without_tensors(part, f"{name}/{i}", tensors) for i, part in enumerate(value)]
    return value


def _checksum(text: str, tensors: Tensors) -> str:
    """SHA-256 of the JSON, and of the tensors' names, types, shapes and values."""
    digest = hashlib.sha256(text.encode())
    for name, values in sorted(tensors.items()):
        digest.update(f"\0{name} {values.dtype} {values.shape}\0".encode())
        digest.update(values.data)
    return digest.hexdigest()


def shapes(state: Any) -> Any:
    """Replace a nested state's tensors by shape and type, lists by length, other values by None."""
    if isinstance(state, dict):
        return {name: shapes(value) for name, value in state.items()}
    if isinstance(state, torch.Tensor):
        return state.shape, state.dtype
    return len(state) if isinstance(state, list) else None
