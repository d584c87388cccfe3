# File names end with a hash of the code, so after a change of the code the file is missing, and the cell
# is trained again.
rule train:
    """Train a cell: all seeds of one algorithm variant in one condition."""
    output:
        curves="results/cells/{cell}.parquet",
        policies="results/policies/{cell}.safetensors",
    log:
        "results/logs/{cell}.log",
    benchmark:
        "results/benchmarks/{cell}.tsv"
    priority: lambda wildcards: PROJECT.priority(PROJECT.spec(wildcards.cell))
    conda:
        "../../environment.yml"
    threads: PROJECT.config.execution.threads
    resources:
        mem_mb=lambda wc, attempt: PROJECT.memory(PROJECT.spec(wc.cell), attempt),
        runtime=lambda wc, attempt: PROJECT.runtime(PROJECT.spec(wc.cell), attempt),
        gpu=int(PROJECT.on_gpu),
    params:
        # Options change no result: a function of the output is exempt from Snakemake's rerun checks.
        options=lambda wildcards, output: PROJECT.options(wildcards.cell),
    shell:
        "hindsight cell results/specs/{wildcards.cell:q}.json {params.options}"
        " --threads {threads} > {log:q} 2>&1"
