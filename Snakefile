# The whole replication: config.yaml -> cells -> curves -> tables -> claims -> figures -> report.
#   snakemake --cores all            everything of the preset in config.yaml
#   snakemake --cores 1 figures      draw what is there, train nothing


from pathlib import Path

from snakemake.exceptions import WorkflowError

from hindsight.fingerprint import fingerprint
from hindsight.specs.errors import SpecError
from hindsight.specs.experiments import Plan, parse
from hindsight.workflow import Stage


configfile: "config.yaml"


try:
    STAGE = Stage.of(Plan.of(parse(config)), targets=workflow.dag_settings.targets)
    STAGE.write_plans()
except (SpecError, OSError) as error:
    raise WorkflowError(f"config.yaml: {error}") from None


wildcard_constraints:
    cell="|".join(STAGE.cells) or "none",
    experiment="|".join(STAGE.experiments),
    figure="|".join(STAGE.figures),


include: "workflow/rules/train.smk"
include: "workflow/rules/summarise.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        STAGE.report,
        STAGE.drawn,


# Draws and judges what has been trained so far; Stage leaves out the cells that are not there.
rule figures:
    input:
        STAGE.report,
        STAGE.drawn,
