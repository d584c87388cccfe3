# The whole replication: config.yaml -> cells -> curves -> tables -> claims -> figures -> report.
#   snakemake --cores all            everything of the preset in config.yaml
#   snakemake --cores 1 figures      draw what is there, train nothing


from pathlib import Path

from snakemake.exceptions import WorkflowError

from hindsight.specs.errors import SpecError
from hindsight.specs.reading import read_keys

# Snakemake would tell of it by a traceback, or, of a key that is there twice, not at all.
try:
    read_keys(Path("config.yaml"))
except SpecError as error:
    raise WorkflowError(str(error)) from None


configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/train.smk"


# A job on a cluster trains, and need not know the rest.
if not workflow.remote_exec:

    include: "workflow/rules/summarise.smk"
    include: "workflow/rules/figures.smk"
    include: "workflow/rules/report.smk"

    rule all:
        default_target: True
        input:
            STAGE.page,
            STAGE.scoreboard,
            STAGE.claims,
            STAGE.drawn,
            # By name: one that is gone is not missed where its tables are still there.
            STAGE.trained,
            STAGE.between,

    # Draws and judges what has been trained so far.
    rule figures:
        input:
            STAGE.page,
            STAGE.scoreboard,
            STAGE.claims,
            STAGE.present.drawn,
            STAGE.present.between,
