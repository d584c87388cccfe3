"""The workflow through a real SLURM, and what may happen to its jobs there.

Without accounting, as on many a small cluster: only the queue tells what became of a job.
"""

import contextlib
import os
import signal
import subprocess
import time

import pytest

from .conftest import HERE, PROFILE, QUICK, bash, started, trainers, until
from .same import assert_same_as_local

pytestmark = pytest.mark.slurm

# Every cell its own job, whatever its length; minutes that do for a machine with much else to do.
ALONE = ("--group-components", "train_1=1")
LONG = ("--set-resources", "train:runtime=30")


@pytest.fixture(scope="module", autouse=True)
def slurm():
    started(accounting=False)
    yield
    subprocess.run([HERE / "stop.sh"], check=True)


def arms(steps=1024, checkpoint_seconds=60.0, preys=("static",), **arms):
    """A configuration with a cell for each arm (and prey), of two small runs."""
    return {
        "preset": "tiny",
        "execution": {"checkpoint_seconds": checkpoint_seconds},
        "experiments": {
            "faults": {
                "title": "faults",
                "figures": "none",
                "arms": {name: {"keys": keys} for name, keys in arms.items()},
                "keys": {"early_end": None},
            }
        },
        "presets": {
            "tiny": {
                "hidden": [8],
                "n_steps": 256,
                "seeds": 2,
                "steps": steps,
                "evaluation": {"points": 2, "episodes": 5},
                "select": {"faults": {"spawns": ["random"], "preys": list(preys)}},
            }
        },
    }


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The smoke preset under way, while other tests mostly wait."""
    from .conftest import Project

    project = Project(tmp_path_factory.mktemp("smoke") / "project")
    command = ("hindsight", "replicate", "--", *PROFILE, *QUICK, "--config", "preset=smoke")
    head = project.start(*command)
    yield project, head
    head.kill()


def test_jobs_that_are_cancelled_preempted_too_large_or_too_long(smoke, make_project, tmp_path):
    """Each is tried again, and continues; what came out is what an undisturbed run gives."""
    project = make_project(
        **arms(
            steps=20_480,
            checkpoint_seconds=1,
            cancelled={"n_epochs": 30},
            preempted={"n_epochs": 40},
            long={"n_epochs": 500},
            large={"hidden": [1000], "n_steps": 20_480, "batch_size": 20_480, "n_epochs": 1},
        )
    )
    cells = {arm: project.cell(arm) for arm in ("cancelled", "preempted", "long", "large")}
    little = ("train:mem_mb=750*attempt*attempt", "train:runtime=1 if attempt == 1 else 30")
    head = project.train(*cells.values(), options=(*ALONE, "--set-resources", *little))

    jobs = {}
    for arm in ("cancelled", "preempted"):
        name = cells[arm]
        jobs[arm] = project.job_of(name, seconds=300)
        until(project.path(name, "checkpoints", ".pt").exists, 300, f"{arm} has a checkpoint")
        bash(f"scontrol requeue {jobs[arm]}" if arm == "preempted" else f"scancel {jobs[arm]}")

    status, told = project.wait(head, 1200)
    assert status == 0, told
    for arm in ("cancelled", "preempted", "long"):
        assert "continued at group 1" in project.log(cells[arm]), arm
    # What SLURM puts back into its queue itself is no failure.
    assert f"'{jobs['cancelled']}' failed, SLURM status is: 'CANCELLED'" in told
    assert f"'{jobs['preempted']}' failed" not in told
    assert "SLURM status is: 'TIMEOUT'" in told
    # Without cgroups a memory kill is a mere failure.
    assert "SLURM status is: 'FAILED'" in told or "SLURM status is: 'OUT_OF_MEMORY'" in told
    assert_same_as_local(project, cells.values(), tmp_path / "local")


def test_the_smoke_preset(smoke, tmp_path):
    """Every figure and verdict, from the numbers that this process computes."""
    project, head = smoke
    status, told = project.wait(head, 1200)
    assert status == 0, told
    plan = project.plan(preset="smoke")
    assert (project.folder / "figures/smoke/report.html").exists()
    assert_same_as_local(project, plan.cells, tmp_path / "local")
    # In no more jobs than cells of their length need.
    log = (project.folder / "results/logs/snakemake.log").read_text()
    assert log.count("has been submitted with SLURM jobid") <= -(-len(plan.cells) // 32) + 1
    assert not list((project.folder / "results/checkpoints").rglob("*.pt"))


def test_a_disk_that_is_full_for_one_cell_of_a_job(make_project, tmp_path):
    """It is named, the others of its job are trained, and none of them again afterwards."""
    project = make_project(**arms(plain={}, preys=("static", "repel", "attract")))
    (full,) = (name for name in project.plan().cells if "repel" in name)
    others = [name for name in project.plan().cells if name != full]
    disk = project.path(full).parent
    disk.mkdir(parents=True)
    try:
        # A file in it, because Snakemake removes folders that it finds empty.
        bash(f"mount -t tmpfs -o size=4k tmpfs '{disk}' && touch '{disk}/.here'")
    except subprocess.CalledProcessError:
        pytest.skip("no file system can be mounted here")
    try:
        head = project.train(*project.plan().cells, options=("--retries", "0"))
        status, told = project.wait(head)
    finally:
        bash(f"umount '{disk}'")
    assert status == 1
    assert told.count("has been submitted with SLURM jobid") == 1
    # The last words of the cell's log, which Snakemake shows.
    for said in (project.log(full).splitlines()[-1], told):
        assert f"{full}.parquet: cannot be written: " in said
        assert "No space left on device" in said

    status, told = project.wait(project.train(*project.plan().cells))
    assert status == 0, told
    for name in others:
        assert "was finished" in project.log(name)
    assert_same_as_local(project, project.plan().cells, tmp_path / "local")


def test_the_head_is_killed_and_started_again(make_project, tmp_path):
    """Its jobs run on without it; no cell is ever trained twice at a time, none from its start."""
    project = make_project(
        **arms(steps=20_480, checkpoint_seconds=1, one={"n_epochs": 40}, two={"n_epochs": 41})
    )
    cells = [project.cell("one"), project.cell("two")]
    head = project.train(*cells, options=(*ALONE, *LONG))
    for name in cells:
        checkpoint = project.path(name, "checkpoints", ".pt")
        until(checkpoint.exists, 300, f"{name} has a checkpoint")
    head.send_signal(signal.SIGKILL)
    head.wait()
    time.sleep(1)
    assert len(project.jobs()) == 2
    assert all(trainers(name) for name in cells)

    project.wait(project.start("snakemake", "--unlock"))
    head = project.train(*cells, options=(*ALONE, *LONG))
    at_once = 0
    while head.poll() is None:
        at_once = max(at_once, *(len(trainers(name)) for name in cells))
        time.sleep(0.2)
    status, told = project.wait(head)
    assert status == 0, told
    assert at_once == 1
    assert "cancelling 2 jobs that an earlier run left" in told
    for name in cells:
        assert "continued at group 1" in project.log(name)
    assert_same_as_local(project, cells, tmp_path / "local")


def test_the_node_daemon_is_killed(make_project, tmp_path):
    """The controller puts the job back into its queue, and it continues when the node is back."""
    project = make_project(**arms(steps=20_480, checkpoint_seconds=1, one={"n_epochs": 60}))
    name = project.cell("one")
    head = project.train(name, options=(*ALONE, *LONG))
    until(project.path(name, "checkpoints", ".pt").exists, 300, "a checkpoint")
    for process in (*node_processes(), *trainers(name)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    until(lambda: "down" in bash("sinfo -h -o %T"), 120, "the node is known to be lost")
    bash("slurmd -N localhost")
    status, told = project.wait(head)
    assert status == 0, told
    assert "continued at group 1" in project.log(name)
    assert_same_as_local(project, [name], tmp_path / "local")


def node_processes():
    """The node's daemon and those that watch its jobs."""
    return [int(line) for line in bash("pgrep -x 'slurmd|slurmstepd'").split()]
