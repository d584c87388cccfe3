# One job per cell, all seeds of one algorithm variant in one condition; or for short cells of an
# experiment, one after the other.
#
# All jobs have the same input, none of the parameters that Snakemake compares, and the same command:
# a cell is as well trained by the one as by the other, and needs no job when it is there.
TRAIN = "hindsight cell {params.specs:q} {params.execution} {params.named:q} --workers {threads} > {log:q} 2>&1"


rule train:
    input:
        due,
    output:
        # Not deleted before the job: a cell that was finished meanwhile stays.
        curves=update("results/cells/{cell}.parquet"),
        policies=update("results/policies/{cell}.pt"),
    log:
        "results/logs/{cell}.log",
    benchmark:
        "results/benchmarks/{cell}.tsv"
    priority: lambda wildcards: STAGE.priority(wildcards.cell)
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: STAGE.memory(wildcards.cell, attempt=attempt),
        runtime=lambda wildcards, attempt: STAGE.runtime(
            wildcards.cell, attempt=attempt
        ),
        gpu=int(STAGE.on_gpu),
    params:
        specs=lambda wildcards, output: spec_path(wildcards.cell),
        execution=lambda wildcards, output: STAGE.execution,
        # Of an environment of one's own: the job reads a file, which may not import it by itself.
        named=lambda wildcards, output: STAGE.named(wildcards.cell),
    shell:
        TRAIN


for job, names in TOGETHER.items():

    rule:
        name:
            job
        input:
            TO_TRAIN,
        output:
            update([f"results/cells/{name}.parquet" for name in names]),
            update([f"results/policies/{name}.pt" for name in names]),
        log:
            f"results/logs/{names[0]}.log",
        benchmark:
            f"results/benchmarks/{names[0]}.tsv"
        priority: STAGE.priority(*names)
        conda:
            "../../environment.yml"
        threads: 1
        resources:
            mem_mb=lambda wildcards, attempt, names=names: STAGE.memory(
                *names, attempt=attempt
            ),
            runtime=lambda wildcards, attempt, names=names: STAGE.runtime(
                *names, attempt=attempt
            ),
            gpu=int(STAGE.on_gpu),
        params:
            specs=lambda wildcards, output, names=names: [spec_path(x) for x in names],
            execution=lambda wildcards, output: STAGE.execution,
            named=lambda wildcards, output, names=names: STAGE.named(*names),
        shell:
            TRAIN

    # Either rule makes these files.
    workflow.ruleorder(job, "train")
