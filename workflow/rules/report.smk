# Verdicts on the papers' claims, and the pages that show everything.
rule claims:
    input:
        STAGE.all_tables,
    output:
        STAGE.tables + "/claims.json",
    params:
        code=fingerprint("claims"),
        tables=STAGE.tables,
    log:
        "results/logs/claims/" + STAGE.source + ".log",
    conda:
        "../../environment.yml"
    shell:
        "hindsight claims {params.tables:q} > {log:q} 2>&1"


rule report:
    input:
        STAGE.tables + "/claims.json",
        STAGE.all_tables,
        STAGE.drawn,
        "docs/deviations.md",
    output:
        STAGE.report,
    params:
        code=fingerprint("report"),
        tables=STAGE.tables,
        folder=STAGE.folder,
    log:
        "results/logs/report/" + STAGE.source + ".log",
    conda:
        "../../environment.yml"
    shell:
        "hindsight report {params.tables:q} {params.folder:q} {output:q} > {log:q} 2>&1"
