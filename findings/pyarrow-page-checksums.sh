#!/bin/sh
# pyarrow 26.0.1.
#
# Parquet has a checksum for each page.  write_table writes none and read_table verifies none unless told,
# each by its own argument; asking for verification of a file without checksums is no error.  So with one
# flipped bit in a page, three of the four ways to write and read give a wrong number in silence.  (The file
# is not compressed here, so that the bit is easy to find.)
#
# It matters to whoever passes page_checksum_verification=True to read_table and believes the file is whole.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-compile pyarrow==26.0.1 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'END'
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

values = 1_000_003 * np.arange(1000, dtype=np.int64)
path, seen = Path("table.parquet"), []
for written in (False, True):
    table = pa.table({"x": values})
    options = {"compression": "none", "use_dictionary": False}
    pq.write_table(table, path, write_page_checksum=written, **options)
    content = bytearray(path.read_bytes())
    content[content.index(values[500].tobytes())] ^= 1
    path.write_bytes(content)
    for verified in (False, True):
        try:
            read = pq.read_table(path, page_checksum_verification=verified)["x"].to_numpy()
            seen.append(f"{(read != values).sum()} wrong number")
        except OSError as error:
            seen.append(f"OSError: {error}")
        print(f"checksums written: {written}, verified: {verified}: {seen[-1]}")
assert seen[:3] == ["1 wrong number"] * 3 and "CRC" in seen[3]
END
