# One job per figure, from tables only.
rule draw:
    input:
        lambda wildcards: STAGE.tables_of(wildcards.figure),
    output:
        png=STAGE.folder + "/{figure}.png",
        pdf=STAGE.folder + "/{figure}.pdf",
    params:
        code=fingerprint("figures"),
        tables=STAGE.tables,
        stem=lambda wildcards, output: output.png.removesuffix(".png"),
    log:
        "results/logs/figures/" + STAGE.source + "-{figure}.log",
    conda:
        "../../environment.yml"
    shell:
        "hindsight draw {wildcards.figure} {params.tables:q} {params.stem:q} > {log:q} 2>&1"
