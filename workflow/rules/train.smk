# One job per cell: all seeds of one algorithm variant in one condition.
rule train:
    input:
        spec=ancient("results/specs/{cell}.json"),
    output:
        curves="results/cells/{cell}.parquet",
        policies="results/policies/{cell}.pt",
    log:
        "results/logs/{cell}.log",
    benchmark:
        "results/benchmarks/{cell}.tsv"
    priority: STAGE.priority
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=STAGE.memory,
        runtime=STAGE.runtime,
    params:
        # A change of the training code makes its cells stale; one of a comment does not.
        code=fingerprint("train"),
        execution=STAGE.execution,
    shell:
        "hindsight cell {input.spec:q} {params.execution} > {log:q} 2>&1"
