"""Results of a cluster beside those of this process."""

import pyarrow.parquet

from hindsight.training.cell import Execution, train_cell

CLOCKS = {"wall_seconds", "cpu_seconds"}


def assert_same_as_local(project, plan, names, folder):
    """Bit for bit, but for the clocks."""
    for name in names:
        local = pyarrow.parquet.read_table(train_cell(plan.cells[name], folder, Execution()))
        there = pyarrow.parquet.read_table(project.path(name))
        assert there.column_names == local.column_names
        for column in set(local.column_names) - CLOCKS:
            # Arrow's equality takes no NaN for another; their bytes are equal.
            assert (
                there[column]
                .combine_chunks()
                .buffers()[1]
                .equals(local[column].combine_chunks().buffers()[1])
            ), (name, column)
