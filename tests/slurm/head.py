"""Snakemake, but for its patience: it asks SLURM every two seconds what became of its jobs.

The executor waits ten seconds more each time, which a test of many short jobs cannot.
"""

import sys

from snakemake.cli import main
from snakemake_executor_plugin_slurm import Executor

Executor.next_seconds_between_status_checks = property(
    lambda executor: 2, lambda executor, seconds: None
)

if __name__ == "__main__":
    sys.exit(main())
