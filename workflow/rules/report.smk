rule claims:
    """Judge the papers' claims from the tables."""
    input:
        lambda wildcards: again(PROJECT.claims),
        tables=PROJECT.all_tables,
    output:
        PROJECT.claims,
    log:
        f"results/logs/claims/{PROJECT.source}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=lambda wildcards: of_stage("claims"),
    shell:
        "hindsight claims {output:q} {input.tables:q} --code {params.code} > {log:q} 2>&1"


rule report:
    """Write the page, report.html, and the scoreboard, REPLICATION.md, with its appendix."""
    input:
        [path for path in PROJECT.shown if path != PROJECT.papers],
        lambda wildcards: again(PROJECT.page),
    output:
        PROJECT.page,
        PROJECT.scoreboard,
    log:
        f"results/logs/report/{PROJECT.source}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        appendix=PROJECT.appendix,
        # written when the run begins, unless it is there
        inputs=lambda wildcards: [f"--input={path}" for path in PROJECT.shown],
        code=lambda wildcards: of_stage("report"),
    shell:
        "hindsight report {output:q} {params.appendix:q} {params.inputs:q}"
        " --code {params.code} > {log:q} 2>&1"
