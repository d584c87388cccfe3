# From an experiment's cells to its tables.
rule summarise:
    input:
        plan=STAGE.tables + "/{experiment}/plan.json",
        cells=lambda wildcards: STAGE.cells_of(wildcards.experiment),
    output:
        expand(STAGE.tables + "/{{experiment}}/{table}", table=STAGE.TABLES),
    params:
        code=fingerprint("summarise"),
    log:
        "results/logs/summarise/" + STAGE.source + "-{experiment}.log",
    conda:
        "../../environment.yml"
    shell:
        "hindsight summarise {input.plan:q} > {log:q} 2>&1"


# Episodes of trained policies, for the picture of the environment.
rule episodes:
    input:
        STAGE.policies,
    output:
        STAGE.tables + "/environment/episodes.npz",
    params:
        code=fingerprint("episodes"),
    log:
        "results/logs/episodes/" + STAGE.source + ".log",
    conda:
        "../../environment.yml"
    shell:
        "hindsight episodes {output:q} {input:q} > {log:q} 2>&1"
