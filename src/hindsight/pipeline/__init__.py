"""The layer between Snakemake and the package: files, jobs' resources, and published results."""
