"""The same where SLURM keeps accounts, of which Snakemake asks what became of a job."""

import pytest

from .conftest import assert_same_as_local, bash, smoke

pytestmark = pytest.mark.slurm
ACCOUNTING = True

FEW = {
    "learning_rate": {
        "spawns": ["random"],
        "preys": ["static"],
        "fidelities": ["released"],
        "levels": {"learning_rate": [3e-3]},
    }
}


def test_part_of_the_smoke_preset(make_project, local):
    project = make_project(smoke(FEW))
    cells = project.cells()
    assert len(cells) == 2
    project.wait(project.train(*cells, options=("--slurm-status-command", "sacct")))
    assert_same_as_local(project, local)
    accounts = bash("sacct -n -X -P -o JobName,State").splitlines()
    assert len(accounts) == len(cells)
    assert all(job.startswith("hindsight_") for job in accounts)
    assert all(job.endswith("|COMPLETED") for job in accounts)
