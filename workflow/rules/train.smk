# One job per cell: all seeds of one algorithm variant in one condition.
rule train:
    input:
        # When it was written counts only of a cell that is there, but of other code.
        spec=planned,
    output:
        # Not deleted before the job: a cell that was finished meanwhile stays.
        curves=update("results/cells/{cell}.parquet"),
        policies=update("results/policies/{cell}.pt"),
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
        execution=STAGE.execution,
        # Of an environment of one's own: the job reads a file, which may not import it by itself.
        named=STAGE.named,
    shell:
        "hindsight cell {input.spec:q} {params.execution} {params.named:q} --workers {threads} > {log:q} 2>&1"
