if PROJECT.published:

    # One job for all: starting a process takes longer than making an experiment's tables.
    rule tables:
        """Make the tables of all experiments from their published cells."""
        input:
            "results/published/manifest.json",
            lambda wildcards: again(*PROJECT.all_tables),
        output:
            PROJECT.all_tables,
        log:
            "results/logs/tables/published.log",
        localrule: True
        conda:
            "../../environment.yml"
        threads: workflow.cores
        params:
            plans=[PROJECT.plan_of(name) for name in PROJECT.experiments],
            code=lambda wildcards: of_stage("tables"),
        shell:
            "hindsight summarise {params.plans:q} --out results/tables/published"
            " --processes {threads} --code {params.code} > {log:q} 2>&1"

else:

    rule tables:
        """Make an experiment's tables from its cells; their record stands for all of them."""
        input:
            lambda wildcards: PROJECT.cells_of(wildcards.experiment),
            lambda wildcards: again(PROJECT.tables_of(wildcards.experiment)),
        output:
            PROJECT.tables_of("{experiment}"),
        log:
            f"results/logs/tables/{PROJECT.source}/{{experiment}}.log",
        priority: 5000
        localrule: True
        conda:
            "../../environment.yml"
        params:
            plans=lambda wildcards: PROJECT.plan_of(wildcards.experiment),
            code=lambda wildcards: of_stage("tables"),
        shell:
            f"hindsight summarise {{params.plans:q}} --out {PROJECT.tables}"
            " --code {params.code} > {log:q} 2>&1"

    rule episodes:
        """Play episodes with trained policies, for the figure of the environment."""
        input:
            lambda wildcards: again(PROJECT.episodes),
            policies=PROJECT.policies,
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
            "hindsight episodes {output:q} {input.policies:q} --code {params.code} > {log:q} 2>&1"
