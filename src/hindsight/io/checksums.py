"""Checksums that detect damage; a results file holds that of its description and columns."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hindsight.io.files import FileError, is_unread, must_be_regular, reason

#: Keys of a results file's metadata: description and checksum.
ABOUT, SEAL = b"hindsight", b"hindsight_sha256"
#: Limits of a results file that keep it within memory: rows, values, and uncompressed bytes.
MOST_ROWS, MOST_VALUES, MOST_BYTES = 10**7, 10**8, 2 * 10**9
#: The only column that is not of numbers, and the most characters of its words.
WORDS, LONGEST_WORD = "phase", 20


def checksum(table: pa.Table, about: bytes) -> str:
    """SHA-256 of a table's description and of its columns' names, types and values."""
    digest = hashlib.sha256(about)
    for field in table.schema:
        digest.update(f"\0{field.name} {field.type} {len(table)}\0".encode())
        column = table[field.name]
        if _is_number(field.type):
            # to_numpy imports pandas, for 0.3 s, but only it reads missing numbers.
            missing = column.null_count > 0
            for part in [column.to_numpy()] if missing else map(np.from_dlpack, column.chunks):
                digest.update(part.tobytes())
        else:
            digest.update("\0".join(map(str, column.to_pylist())).encode())
    return digest.hexdigest()


def sealed(table: pa.Table, about: str) -> pa.Table:
    """Add a description and the checksum to a table's metadata."""
    seal = checksum(table, about.encode())
    return table.replace_schema_metadata({ABOUT: about, SEAL: seal})


def is_whole(table: pa.Table) -> bool:
    """Whether a table matches its checksum."""
    metadata = table.schema.metadata or {}
    return checksum(table, metadata.get(ABOUT, b"")).encode() == metadata.get(SEAL)


def read_table(path: Path) -> pa.Table:
    """Read a results file.

    Raises ValueError if it is too large, before it fills the memory; FileError if it is not a
    regular file; and whatever Arrow raises if it is damaged.
    """
    must_be_regular(path)
    with pq.ParquetFile(path) as file:
        found, schema = file.metadata, file.schema_arrow
    groups = [found.row_group(i) for i in range(found.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    values = found.num_rows * found.num_columns
    if found.num_rows > MOST_ROWS or values > MOST_VALUES or size > MOST_BYTES:
        raise ValueError(
            f"{found.num_rows:,} rows of {found.num_columns:,} columns, {size:,} bytes, are "
            f"too many: a results file has at most {MOST_VALUES:,} values in {MOST_BYTES:,} "
            "bytes"
        )
    words = [field for field in schema if not _is_number(field.type)]
    for field in words:
        if field.name != WORDS or field.type not in (pa.string(), pa.large_string()):
            raise ValueError(f"column {field.name!r} of type {field.type} does not hold numbers")
    # Encoded text that repeats takes little memory: it is decoded once its length is known.
    with pq.ParquetFile(path, read_dictionary=[field.name for field in words]) as file:
        table = file.read(use_threads=False)  # a file is small
    for chunk in table[WORDS].chunks if words else ():
        if (pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0) > LONGEST_WORD:
            raise ValueError(f"a {WORDS} is longer than {LONGEST_WORD} characters")
    return table.cast(schema)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


def about(path: Path) -> dict[str, Any]:
    """Read a results file's description without its rows; empty if it is missing or no such file.

    Raises FileError, OSError or MemoryError if it cannot be read now.
    """
    if not path.exists():
        return {}
    try:
        must_be_regular(path)
        found = json.loads((pq.read_schema(path).metadata or {}).get(ABOUT, b"null"))
    except Exception as error:  # the reader can raise anything for a damaged file
        if is_unread(error):
            raise
        return {}
    return found if isinstance(found, dict) else {}


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes; raises FileError."""
    must_be_regular(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {reason(error)}") from error
