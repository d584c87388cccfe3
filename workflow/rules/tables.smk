# Tables of an experiment, from its cells.
if PROJECT.published:

    # One job for all: starting a process takes longer than making an experiment's tables.
    rule tables:
        input:
            "results/published/manifest.json",
        output:
            [directory(folder) for folder in PROJECT.all_tables],
        log:
            "results/logs/tables/published.log",
        localrule: True
        conda:
            "../../environment.yml"
        threads: workflow.cores
        params:
            # The manifest is as old as before once a missing cell is back.
            cells=len(PROJECT.there),
            plans=[PROJECT.plan_of(name) for name in PROJECT.experiments],
            plan=lambda wildcards: PROJECT.digest(*PROJECT.experiments),
            code=lambda wildcards: of_stage("summarise"),
        shell:
            "hindsight summarise {params.plans:q} --out results/tables/published"
            " --processes {threads} > {log:q} 2>&1"

else:

    rule tables:
        input:
            lambda wildcards: PROJECT.cells_of(wildcards.experiment),
        output:
            directory(f"{PROJECT.tables}/{{experiment}}"),
        log:
            f"results/logs/tables/{PROJECT.source}/{{experiment}}.log",
        priority: 5000
        localrule: True
        conda:
            "../../environment.yml"
        params:
            plans=lambda wildcards: PROJECT.plan_of(wildcards.experiment),
            plan=lambda wildcards: PROJECT.digest(wildcards.experiment),
            code=lambda wildcards: of_stage("summarise"),
        shell:
            "hindsight summarise {params.plans:q} --out $(dirname {output:q}) > {log:q} 2>&1"


# Episodes of trained policies, for the figure of the environment.
rule episodes:
    input:
        PROJECT.policies,
    output:
        f"{PROJECT.tables}/environment/episodes.npz",
    log:
        f"results/logs/episodes/{PROJECT.source}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=lambda wildcards: of_stage("episodes"),
    shell:
        "hindsight episodes {output:q} {input:q} > {log:q} 2>&1"
