"""Between Snakemake and the rest: which files there are, what a job needs, and what ships."""
