# One job a cell: all seeds of one algorithm variant in one condition.  Its file's name ends with the
# hash of its code, so a cell of older code is another file, and this one is missing.
rule train:
    output:
        curves="results/cells/{cell}.parquet",
        policies="results/policies/{cell}.pt",
    log:
        "results/logs/{cell}.log",
    benchmark:
        "results/benchmarks/{cell}.tsv"
    priority: lambda wildcards: PROJECT.priority(PROJECT.spec(wildcards.cell))
    conda:
        "../../environment.yml"
    threads: PROJECT.config.execution.threads
    resources:
        mem_mb=lambda wildcards, attempt: PROJECT.memory(
            PROJECT.spec(wildcards.cell), attempt
        ),
        runtime=lambda wildcards, attempt: PROJECT.runtime(
            PROJECT.spec(wildcards.cell), attempt
        ),
        gpu=int(PROJECT.on_gpu),
    params:
        # By a function of the output, which Snakemake does not compare: it changes no number.
        options=lambda wildcards, output: PROJECT.options(wildcards.cell),
    shell:
        "hindsight cell results/specs/{wildcards.cell}.json {params.options}"
        " --threads {threads} > {log:q} 2>&1"
