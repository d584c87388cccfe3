# Reads and plans the configuration: all rules get their files and resources from PROJECT.


import shlex
import signal
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

from hindsight.io.files import FileError
from hindsight.io.fingerprint import of_stage
from hindsight.io.interruption import end_with_parent
from hindsight.pipeline.project import Project, must_be_in_its_clone
from hindsight.specs.config import CONFIG, load
from hindsight.specs.errors import PACKAGE, EnvironmentFailure, SpecError

if workflow.is_main_process and not workflow.output_settings.dryrun:
    end_with_parent(signal.SIGKILL)

try:
    if set("{}") & set(str(Path.cwd())):
        raise SpecError(
            f"{Path.cwd()}: Snakemake fails in a folder with braces; rename it"
        )
    must_be_in_its_clone()
    # Without `configfile:`, `config` holds only what --config and --configfile give.  Snakemake would
    # accept duplicate keys, and not say where the file is not YAML.
    PROJECT = Project(load(CONFIG, config))
    if workflow.is_main_process:  # jobs need not wait for the import
        from hindsight.report.definitions import must_fit

        must_fit(PROJECT.config)
        if any(x.partition("=")[0] == "--report" for x in sys.argv):
            if old := PROJECT.outdated(*PROJECT.derived):
                raise SpecError(
                    f"{old[0]} was made from other results: run the same without --report first"
                )
        if taken := PROJECT.taken_over:
            print(taken, file=sys.stderr)
except (SpecError, EnvironmentFailure, FileError) as error:
    raise WorkflowError(str(error)) from None


# Jobs run in Snakemake's own Python, or in that of the environment that --sdm conda created, and end
# with the Snakemake process that started them.
PYTHON = (
    "python"
    if DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
    else shlex.quote(sys.executable)
)
shell.prefix(
    f"set -euo pipefail; export PYTHONPATH={shlex.quote(str(PACKAGE.parent))}${{{{PYTHONPATH:+:$PYTHONPATH}}}}; "
    f'hindsight() {{{{ HINDSIGHT_PARENT=$PPID exec {PYTHON} -m hindsight "$@"; }}}}; '
)


onstart:
    try:
        threads = PROJECT.config.execution.threads
        cores = workflow.resource_settings.cores or threads
        if workflow.non_local_exec and threads > cores:
            raise SpecError(
                f"execution.threads: {threads} is more than the cores of a job, {cores}: "
                f"raise `cores` in the profile, or add --cores {threads}"
            )
        PROJECT.begin()
    except (SpecError, EnvironmentFailure, FileError) as error:
        raise WorkflowError(str(error)) from None


onsuccess:
    PROJECT.end()


def again(*outputs):
    """Have outdated outputs made again; returns no further input.

    Snakemake would take some of them for new, such as another clone's: records decide.
    """
    workflow.dag.forcefiles.update(PROJECT.outdated(*outputs))
    return []


def shown(figure):
    """A figure with its caption for `snakemake --report`."""
    return report(
        f"{PROJECT.folder}/{figure}.png",
        category="Figures",
        labels=lambda wildcards: PROJECT.labels(
            figure.format(**dict(wildcards.items()))
        ),
    )


#: A cell's file, in parts, so that the labels of `snakemake --dag` have short lines.
CELL = "{condition}/{arm}-{size}-{hash}"


def cell_of(wildcards):
    return CELL.format(**dict(wildcards.items()))


wildcard_constraints:
    # The general form of a cell's name: a pattern of thousands of names would take minutes to match.
    condition="[^/]+",
    arm="[^/]+?",
    # A long name is cut, perhaps before its learning rate.
    size="lr[^/]*|[^/-]+",
    hash="[0-9a-f]+-[0-9a-f]+",
    experiment="[A-Za-z][A-Za-z0-9_-]*",
    figure="[A-Za-z0-9_-]+",
