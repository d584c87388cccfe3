# Verdicts on the papers' claims, and the pages that show everything.
rule claims:
    input:
        STAGE.all_tables,
    output:
        claims=STAGE.claims,
    log:
        f"results/logs/claims/{STAGE.source}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=of_stage("claims"),
    shell:
        "hindsight claims {output.claims:q} > {log:q} 2>&1"


rule report:
    input:
        claims=STAGE.claims,
        papers=STAGE.papers,
        tables=STAGE.all_tables,
        figures=lambda wildcards: asked().drawn,
        deviations="docs/deviations.md",
        authors=STAGE.authors,
    output:
        html=STAGE.page,
        scoreboard=STAGE.scoreboard,
        appendix=directory(STAGE.appendix),
    log:
        f"results/logs/report/{STAGE.source}.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=of_stage("report"),
    shell:
        "hindsight report {input.claims:q} {output.html:q} {output.scoreboard:q} {output.appendix:q} > {log:q} 2>&1"
