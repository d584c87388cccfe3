# From an experiment's cells to its tables.
rule summarise:
    input:
        plan=f"{STAGE.tables}/{{experiment}}/plan.json",
        cells=lambda wildcards: asked().cells_of(wildcards.experiment),
    output:
        expand(f"{STAGE.tables}/{{{{experiment}}}}/{{table}}", table=STAGE.TABLES),
    log:
        f"results/logs/summarise/{STAGE.source}-{{experiment}}.log",
    priority: 2
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=of_stage("summarise"),
    shell:
        "hindsight summarise {input.plan:q} > {log:q} 2>&1"


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
