if PROJECT.published:

    # One job for all: starting a process takes longer than drawing a figure.
    rule figures:
        """Draw all figures from the tables of the published results."""
        input:
            PROJECT.drawn_from(*PROJECT.figures),
            lambda wildcards: again(*PROJECT.drawn[:1]),
        output:
            [shown(figure) for figure in PROJECT.figures],
        log:
            "results/logs/figures/published.log",
        localrule: True
        conda:
            "../../environment.yml"
        threads: workflow.cores
        params:
            code=lambda wildcards: of_stage("figures"),
        shell:
            "hindsight draw {output:q} --tables results/tables/published"
            f" --episodes {PROJECT.episodes} --processes {{threads}}"
            " --code {params.code} > {log:q} 2>&1"

else:

    rule figures:
        """Draw a figure from its experiment's tables."""
        input:
            lambda wildcards: PROJECT.drawn_from(wildcards.figure),
            lambda wildcards: again(PROJECT.drawing(wildcards.figure)),
        output:
            shown("{figure}"),
        log:
            f"results/logs/figures/{PROJECT.source}/{{figure}}.log",
        priority: 5000
        localrule: True
        conda:
            "../../environment.yml"
        params:
            code=lambda wildcards: of_stage("figures"),
        shell:
            f"hindsight draw {{output:q}} --tables {PROJECT.tables} --episodes {PROJECT.episodes}"
            " --code {params.code} > {log:q} 2>&1"
