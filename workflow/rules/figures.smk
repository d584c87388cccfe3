# Figures, from tables only.


def shown(path, experiment):
    """A picture with its caption, for `snakemake --report`; a PDF beside it without."""
    if not path.endswith(".png"):
        return path
    name, known = Path(path).stem, STAGE.plan.config.experiments
    return report(
        path,
        caption=str(Path(STAGE.caption_of(name)).absolute()),
        category=known[experiment].title if experiment in known else experiment,
        labels={"figure": name},
    )


for job, experiments in STAGE.drawing.items():

    rule:
        name:
            job
        input:
            STAGE.drawn_from(experiments),
        output:
            [shown(path, name) for name in experiments for path in STAGE.drawn_of(name)],
        log:
            f"results/logs/figures/{STAGE.source}-{job}.log",
        priority: 5000
        localrule: True
        conda:
            "../../environment.yml"
        threads: workflow.cores if len(experiments) > 1 else 1
        params:
            code=of_stage("figures"),
            folders=list(
                dict.fromkeys(
                    str(Path(t).parent)
                    for name in experiments
                    for t in STAGE.tables_of(name)
                )
            ),
            out=[
                f"--out={Path(path).with_suffix('')}"
                for name in experiments
                for path in STAGE.drawn_of(name)
                if path.endswith(".png")
            ],
        shell:
            "hindsight draw {params.folders:q} {params.out:q} --processes {threads} > {log:q} 2>&1"
