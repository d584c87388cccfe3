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
    # Short cells share a job of a cluster; elsewhere groups mean nothing.
    group:
        STAGE.group
    conda:
        "../../environment.yml"
    threads: one_core
    resources:
        mem_mb=STAGE.memory,
        runtime=STAGE.runtime,
        gpu=STAGE.gpus,
    params:
        # A change of the training code makes its cells stale; one of a comment does not.
        code=fingerprint("train"),
        execution=STAGE.execution,
    shell:
        "hindsight cell {input.spec:q} {params.execution} --workers {threads} > {log:q} 2>&1"
