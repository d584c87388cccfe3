# The whole replication: config.yaml -> cells -> curves -> tables -> claims -> figures -> report.
#   snakemake --cores all                                  everything in the preset of config.yaml
#   snakemake -n --quiet rules                             list what would be done
#   snakemake --cores 1 --config results=cached            draw existing results, train nothing
#   snakemake --cores 1 figures/laptop/ppo_her_fig2.png    one figure, and what it depends on


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    """Train, draw and judge all that config.yaml selects."""
    default_target: True
    input:
        PROJECT.everything,
