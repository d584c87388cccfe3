# From experiments' cells to their tables.  No derived file is an update(): Snakemake restores those
# of a failed job with a new time, and what is old would then count as made.
for job, experiments in STAGE.summarising.items():

    if len(experiments) > 1:

        # Snakemake reads every input for every output, at the end of a job and at each later start:
        # hundreds of tables by a thousand cells.  So all cells are one file to that job.
        rule:
            name:
                "checksums"
            input:
                plans=[f"{STAGE.tables}/{name}/plan.json" for name in experiments],
                cells=cells_of(experiments),
            output:
                STAGE.sums,
            log:
                f"results/logs/summarise/{STAGE.source}-sums.log",
            priority: 5000
            localrule: True
            conda:
                "../../environment.yml"
            shell:
                "hindsight sums {output:q} {input.plans:q} > {log:q} 2>&1"

    rule:
        name:
            job
        input:
            plans=[f"{STAGE.tables}/{name}/plan.json" for name in experiments],
            cells=STAGE.sums if len(experiments) > 1 else cells_of(experiments),
        output:
            [
                f"{STAGE.tables}/{name}/{table}"
                for name in experiments
                for table in STAGE.TABLES
            ],
        log:
            f"results/logs/summarise/{STAGE.source}-{job}.log",
        priority: 5000
        localrule: True
        conda:
            "../../environment.yml"
        threads: workflow.cores if len(experiments) > 1 else 1
        params:
            code=of_stage("summarise"),
        shell:
            "hindsight summarise {input.plans:q} --processes {threads} > {log:q} 2>&1"


# Episodes of trained policies, for the picture of the environment.
rule episodes:
    input:
        lambda wildcards: asked().policies,
    output:
        f"{STAGE.tables}/environment/episodes.npz",
    log:
        f"results/logs/episodes/{STAGE.source}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=of_stage("episodes"),
    shell:
        "hindsight episodes {output:q} {input:q} > {log:q} 2>&1"
