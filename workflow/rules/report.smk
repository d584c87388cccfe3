# Verdicts on the papers' claims, and the report.
rule claims:
    input:
        PROJECT.all_tables,
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
        "hindsight claims {output:q} > {log:q} 2>&1"


rule report:
    input:
        claims=PROJECT.claims,
        tables=PROJECT.all_tables,
        figures=PROJECT.drawn,
        authors=PROJECT.authors,
        deviations="docs/deviations.md",
        answer=PROJECT.answer,
    output:
        html=PROJECT.page,
        scoreboard=PROJECT.scoreboard,
        appendix=directory(PROJECT.appendix),
    log:
        f"results/logs/report/{PROJECT.source}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        grids=lambda wildcards: PROJECT.digest(),
        code=lambda wildcards: of_stage("report"),
    shell:
        "hindsight report {input.claims:q} {output.html:q} {output.scoreboard:q}"
        " {output.appendix:q} > {log:q} 2>&1"
