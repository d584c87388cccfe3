# File names end with a hash of the code, so after a change of the code the file is missing, and the cell
# is trained again.
rule train:
    """Train a cell: all seeds of one algorithm variant in one condition."""
    output:
        curves=f"results/cells/{CELL}.parquet",
        policies=f"results/policies/{CELL}.safetensors",
    log:
        f"results/logs/{CELL}.log",
    benchmark:
        f"results/benchmarks/{CELL}.tsv"
    priority: lambda wc: PROJECT.priority(PROJECT.spec(cell_of(wc)))
    conda:
        "../../environment.yml"
    threads: PROJECT.config.execution.threads
    resources:
        mem_mb=lambda wc, attempt: PROJECT.memory(PROJECT.spec(cell_of(wc)), attempt),
        runtime=lambda wc, attempt: PROJECT.runtime(PROJECT.spec(cell_of(wc)), attempt),
        gpu=int(PROJECT.on_gpu),
    params:
        # Options change no result: a function of the output is exempt from Snakemake's rerun checks.
        spec=lambda wc, output: f"results/specs/{cell_of(wc)}.json",
        options=lambda wc, output: PROJECT.options(cell_of(wc)),
    shell:
        "hindsight cell {params.spec:q} {params.options}"
        " --threads {threads} > {log:q} 2>&1"
