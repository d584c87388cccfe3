"""The same where SLURM keeps accounts, of which Snakemake asks what became of a job."""

import subprocess

import pytest

from .conftest import HERE, bash, started
from .same import assert_same_as_local

pytestmark = pytest.mark.slurm

FEW = {"algorithms": {"spawns": ["random"], "preys": ["static"], "fidelities": ["released"]}}


@pytest.fixture(scope="module", autouse=True)
def slurm():
    started(accounting=True)
    yield
    subprocess.run([HERE / "stop.sh"], check=True)


def test_part_of_the_smoke_preset(make_project, tmp_path):
    project = make_project()
    config = (project.folder / "config.yaml").read_text()
    config = config.replace("preset: laptop", "preset: smoke") + f"\nselect: {FEW}\n"
    (project.folder / "config.yaml").write_text(config)
    cells = project.plan().cells
    assert len(cells) == 2
    head = project.train(*cells, options=("--slurm-status-command", "sacct"))
    status, told = project.wait(head)
    assert status == 0, told
    assert_same_as_local(project, cells, tmp_path / "local")
    accounts = bash("sacct -n -X -P -o JobName,State").splitlines()
    assert len(accounts) == 1  # two short cells are one job
    assert accounts[0].startswith("hindsight_") and accounts[0].endswith("|COMPLETED")
