# The plan, from config.yaml; everything else the rules ask of it.


import shlex
import signal
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from hindsight.files import FileError
from hindsight.fingerprint import of_stage
from hindsight.interruption import end_with_parent
from hindsight.locks import only_head
from hindsight.specs.errors import SpecError
from hindsight.specs.plan import Plan, spec_path
from hindsight.specs.config import parse as parse_config
from hindsight.workflow import (
    TO_TRAIN,
    Stage,
    bundle_path,
    cancel_left_jobs,
    written_bundle,
)

try:
    if workflow.is_main_process and not workflow.output_settings.dryrun:
        end_with_parent(signal.SIGKILL)
        HEAD = only_head()
    # A job on a cluster is for cells that the head has planned and written.
    plan_of = Plan.as_written if workflow.remote_exec else Plan.of
    STAGE = Stage.of(plan_of(parse_config(config)))
    if not workflow.remote_exec:
        if workflow.is_main_process and not workflow.output_settings.dryrun:
            STAGE.set_damaged_aside()
        STAGE.write_plans()
        TOGETHER = STAGE.together
    else:
        # Its rules are named on its command line, which Snakemake has not told yet when it reads this.
        jobs = {
            word.partition(":")[0] for word in sys.argv if word.startswith("train_")
        }
        TOGETHER = {
            job: written_bundle(job) for job in jobs if bundle_path(job).exists()
        }
except (SpecError, FileError) as error:
    raise WorkflowError(str(error)) from None


# Jobs find the commands of the environment that Snakemake runs in, activated or not, and end with
# the Snakemake that started them.
shell.prefix(
    f"set -euo pipefail; PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; "
    'hindsight() {{ HINDSIGHT_PARENT=$PPID exec hindsight "$@"; }}; '
)


def asked():
    """All files, or, for the target `figures`, those that need no training."""
    return STAGE.present if "figures" in workflow.dag_settings.targets else STAGE


def cells_of(experiments):
    """Of an input: the cells that experiments' tables are made of."""
    return lambda wildcards: list(
        dict.fromkeys(path for name in experiments for path in asked().cells_of(name))
    )


def due(wildcards):
    """What a cell is made from; when it was written counts of one that is there, of other code."""
    return TO_TRAIN if wildcards.cell in STAGE.stale else ancient(TO_TRAIN)


onstart:
    STAGE.forget_unselected()
    if asked() is STAGE:
        cancel_left_jobs()


onsuccess:
    STAGE.forget_finished()


onerror:
    STAGE.write_finished()


# Any cell's name by its shape: thousands of names in one pattern would take minutes to match.
wildcard_constraints:
    cell="[^/]+/[^/]+",
    experiment="|".join(STAGE.experiments),
