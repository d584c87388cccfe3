"""The workflow through a real SLURM, and what may happen to its jobs there.

Without accounting, as on many a small cluster: only the queue tells what became of a job.
"""

import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from .conftest import PROFILE, QUICK, assert_same_as_local, bash, smoke, until

pytestmark = pytest.mark.slurm
ACCOUNTING = False

# Minutes that do for a machine with much else to do.
LONG = ("--set-resources", "train:runtime=30")


def arms(*n_epochs, steps=256_000, preys=("static",), device="cpu"):
    """A configuration with a cell of two small runs for each number of epochs (and prey), which
    takes ten seconds; each is a job of its own.
    """
    faults = {"title": "faults", "figures": "none", "keys": {"early_end": None}}
    faults["arms"] = {f"{n} epochs": {"keys": {"n_epochs": n}} for n in n_epochs}
    tiny = {"hidden": [8], "n_steps": 256, "seeds": 2, "steps": steps}
    tiny["evaluation"] = {"points": 2, "episodes": 5}
    tiny["select"] = {"faults": {"spawns": ["random"], "preys": list(preys)}}
    return {
        "preset": "tiny",
        "execution": {"checkpoint_seconds": 0.3, "device": device},
        "experiments": {"faults": faults},
        "presets": {"tiny": tiny},
    }


#: Cells of PPO, SAC, TD3 and DDPG.
SOME = {
    "learning_rate": {"spawns": ["random"], "preys": ["static"], "fidelities": ["released"]},
    "fetch_off_policy": {"tasks": ["FetchReach"], "seeds": 1},
}


def jobs_that_end_early(make_project):
    """Cancelled, preempted, too long, killed, too large: each is tried again, and continues if it
    can.
    """
    epochs = range(40, 45)
    project = make_project(arms(*epochs))
    cancelled, preempted, long, killed, large = cells = [project.cell(n) for n in epochs]
    # Enough for Snakemake and too little for a trainer, at first.
    memory = f"train:mem_mb=(300 if attempt < 2 and wildcards.hash[:10] in '{large}' else 900)"
    head = project.train(*cells, options=(*LONG, memory))
    jobs = project.frozen(cancelled, preempted, long, killed)
    os.truncate(project.path(killed, "checkpoints", ".safetensors"), 1000)
    os.kill(*project.trainers(killed), signal.SIGKILL)
    bash(f"scancel {jobs[cancelled]}")
    bash(f"scontrol requeue {jobs[preempted]}")
    # The shortest time there is: the next look at the limits finds that it is over.
    bash(f"scontrol update jobid={jobs[long]} timelimit=1")
    told = project.wait(head)
    ended = dict(row.split("|") for row in bash("squeue -h --states=all -o '%i|%T'").split())
    for name in (cancelled, preempted, long):
        assert "continued at" in project.log(name), name
    assert "set aside" in project.log(killed)
    assert ended[jobs[cancelled]] == "CANCELLED"
    assert ended[jobs[long]] == "TIMEOUT"
    # What SLURM puts back into its queue itself is no failure, and needs no other job.
    assert ended[jobs[preempted]] == "COMPLETED"
    assert told.count("Trying to restart job") == 4
    # The cells are named, and why without cgroups a job is a mere failure.
    failed = told[: told.rindex("Trying to restart job")]
    for name in (cancelled, long, killed, large):
        assert f"output: results/cells/{name}.parquet" in failed
    assert "exceeded memory limit" in failed
    return project


def a_killed_head(make_project):
    """Two cells train when the head is killed, and the same command is given again: no cell is ever
    trained twice at a time, none from its start.
    """
    project = make_project(arms(40, 41))
    cells = [project.cell(40), project.cell(41)]
    head = project.train(*cells, options=LONG)
    project.frozen(*cells)
    head.send_signal(signal.SIGKILL)
    head.wait()
    # Its jobs run on without it.
    assert [state for _, state, _ in project.jobs()] == ["RUNNING", "RUNNING"]
    assert all(project.trainers(name) for name in cells)
    head = project.train(*cells, options=LONG)
    assert project.most_at_once(cells, head) == 1
    assert "cancelling 2 jobs that an earlier run left" in project.wait(head)
    for name in cells:
        assert "continued at" in project.log(name)
    return project


def a_full_disk(make_project):
    """For one of two cells: it is named, the other one is trained, and not again afterwards."""
    project = make_project(arms(1, steps=5120, preys=("static", "repel")))
    cells = list(project.cells())
    (full,) = (name for name in cells if "repel" in name)
    disk = project.path(full).parent
    disk.mkdir(parents=True)
    # A file in it, because Snakemake removes folders that it finds empty.
    mounted = f"mount -t tmpfs -o size=4k tmpfs '{disk}' && touch '{disk}/.here'"
    if subprocess.run(mounted, shell=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        told = project.wait(project.train(*cells, options=("--retries", "0")), status=1)
        said = project.log(full)
    finally:
        bash(f"umount '{disk}'")
    assert told.count("has been submitted with SLURM jobid") == 2
    # The last words of the cell's log, which Snakemake shows.
    for words in (said.splitlines()[-1], told):
        assert f"{full}.parquet: cannot be written: " in words
        assert "No space left on device" in words
    (kept,) = (name for name in cells if name != full)
    when = project.path(kept).stat().st_mtime_ns
    project.wait(project.train(*cells))
    assert project.path(kept).stat().st_mtime_ns == when
    return project


def the_smoke_preset(make_project):
    """Figures and verdicts, from the numbers that this process computes."""
    project = make_project(smoke(SOME))
    command = ("hindsight", "replicate", "--", *PROFILE, *QUICK)
    project.wait(project.start(*command), seconds=1800)
    assert (project.folder / "figures/smoke/report.html").exists()
    log = (project.folder / "results/logs/snakemake.log").read_text()
    assert log.count("has been submitted with SLURM jobid") == len(project.cells())
    assert not list((project.folder / "results/checkpoints").rglob("*.safetensors"))
    return project


def a_cell_on_a_gpu(make_project):
    """SLURM gives the job one; where torch finds none, the cell says so and nothing is trained."""
    project = make_project(arms(1, steps=5120, device="cuda"))
    (name,) = project.cells()
    there = torch.cuda.is_available()
    head = project.train(name, options=("--retries", "0"))
    told = project.wait(head, status=0 if there else 1)
    (job,) = re.findall(r"SLURM jobid (\d+)", told)
    assert re.search("TresPerJob=gres:gpu:1$", bash(f"scontrol show job {job}"), re.MULTILINE)
    if not there:
        assert "error: device cuda: torch" in project.log(name)
        assert f"output: results/cells/{name}.parquet" in told and "error: device cuda" in told


STORIES = (jobs_that_end_early, a_killed_head, a_full_disk, the_smoke_preset, a_cell_on_a_gpu)


@pytest.fixture(scope="module")
def stories(make_project):
    """All under way at once: most of it is waiting for SLURM."""
    with ThreadPoolExecutor() as pool:
        yield {story: pool.submit(story, make_project) for story in STORIES}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_what_comes_out_is_what_an_undisturbed_run_gives(stories, story, local):
    if (project := stories[story].result()) is not None:
        assert_same_as_local(project, local)


def test_the_node_daemon_is_killed(stories, make_project, local):
    """The controller puts the job back into its queue; it continues when the node is back."""
    for story in stories.values():
        story.exception()  # the node is theirs, too
    project = make_project(arms(40))
    name = project.cell(40)
    head = project.train(name, options=LONG)
    project.frozen(name)
    bash("kill -9 $(cat /var/lib/hindsight-slurm/run/slurmd.pid)")
    until(lambda: "down" in bash("sinfo -h -o %T"), 120, "the node is known to be lost")
    # The daemon is lost, its job's processes are not: nobody may train beside them.
    assert project.trainers(name)
    bash("slurmd -N localhost")
    assert project.most_at_once([name], head) == 1
    assert project.wait(head).count("has been submitted with SLURM jobid") == 1
    assert "continued at" in project.log(name)
    assert_same_as_local(project, local)
