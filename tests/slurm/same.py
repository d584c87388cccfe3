"""Results of a cluster beside those of this process."""

import numpy as np
import pyarrow.parquet

from hindsight.integrity import about
from hindsight.training.cell import Execution, train_cell

CLOCKS = {"wall_seconds", "cpu_seconds"}
COUNTED = {"phase", "seed", "iteration", "env_steps"}


def bits(column):
    """A column's values such that equal means equal bits, NaN included."""
    values = column.to_numpy()
    return values.view(f"i{values.itemsize}") if values.dtype.kind == "f" else values


def assert_same_as_local(project, names, folder):
    """Bit for bit, but for the clocks; trains what is not in the folder yet.

    Cells that trained beside others round differently: their first iterations are alike, and what
    is counted is the same to the end.
    """
    for name in names:
        curves = folder / "cells" / f"{name}.parquet"
        if not curves.exists():
            train_cell(project.plan().cells[name], folder, Execution())
        local = pyarrow.parquet.read_table(curves)
        there = pyarrow.parquet.read_table(project.path(name))
        assert there.column_names == local.column_names
        alone = about(project.path(name))["cells_per_axis"] == 1
        first = local["iteration"].to_numpy() <= 2
        for column in set(local.column_names) - CLOCKS:
            if alone or column in COUNTED:
                assert (bits(there[column]) == bits(local[column])).all(), (name, column)
                continue
            ours, theirs = (table[column].to_numpy()[first] for table in (local, there))
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4, err_msg=f"{name} {column}")
