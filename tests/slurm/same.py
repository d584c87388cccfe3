"""Results of a cluster beside those of this process."""

import pyarrow.parquet

from hindsight.training.cell import Execution, train_cell

CLOCKS = {"wall_seconds", "cpu_seconds"}


def bits(column):
    """A column's values such that equal means equal bits, NaN included."""
    values = column.to_numpy()
    return values.view(f"i{values.itemsize}") if values.dtype.kind == "f" else values


def assert_same_as_local(project, names, folder):
    """Bit for bit, but for the clocks; trains what is not in the folder yet."""
    for name in names:
        curves = folder / "cells" / f"{name}.parquet"
        if not curves.exists():
            train_cell(project.cells()[name], folder, Execution())
        local = pyarrow.parquet.read_table(curves)
        there = pyarrow.parquet.read_table(project.path(name))
        assert there.column_names == local.column_names
        for column in set(local.column_names) - CLOCKS:
            assert (bits(there[column]) == bits(local[column])).all(), (name, column)
