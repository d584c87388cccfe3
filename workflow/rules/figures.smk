# One job per experiment, from tables only: a figure takes less time than starting a program.
for experiment in STAGE.drawn_experiments:

    rule:
        name:
            f"draw_{experiment}"
        input:
            tables=STAGE.tables_of(experiment),
        output:
            STAGE.drawn_of(experiment),
        log:
            f"results/logs/figures/{STAGE.source}-{experiment}.log",
        priority: 2
        localrule: True
        conda:
            "../../environment.yml"
        params:
            code=fingerprint("figures"),
            out=[f"--out={path}" for path in STAGE.drawn_of(experiment)],
        shell:
            "hindsight draw {input.tables:q} {params.out:q} > {log:q} 2>&1"
