"""The workflow through a real SLURM, and what may happen to its jobs there.

Without accounting, as on many a small cluster: only the queue tells what became of a job.
"""

import os
import random
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import torch

from .conftest import HERE, PROFILE, QUICK, bash, smoke, started, until
from .same import assert_same_as_local

pytestmark = pytest.mark.slurm

# Minutes that do for a machine with much else to do.
LONG = ("--set-resources", "train:runtime=30")


@pytest.fixture(scope="module", autouse=True)
def slurm():
    started(accounting=False)
    yield
    subprocess.run([HERE / "stop.sh"], check=True)


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


@pytest.fixture(scope="module")
def stories(make_project):
    """What is told below, all under way at once: most of it is waiting for SLURM."""
    with ThreadPoolExecutor() as pool:
        yield {
            "jobs": pool.submit(jobs_that_end_early, make_project(arms(40, 41, 42, 43))),
            "head": pool.submit(a_killed_head, make_project(arms(40, 41))),
            "disk": pool.submit(
                a_full_disk,
                make_project(arms(1, steps=5120, preys=("static", "repel"))),
            ),
            "gpu": pool.submit(a_cell_on_a_gpu, make_project(arms(1, steps=5120, device="cuda"))),
            "smoke": pool.submit(the_smoke_preset, make_project(smoke(SOME))),
            "random": pool.submit(whatever_happens, make_project(arms(40, 41, steps=512_000))),
        }


def jobs_that_end_early(project):
    """Cancelled, preempted, too long, too large: each is tried again, and continues."""
    cancelled, preempted, long, large = cells = [project.cell(f"{n} epochs") for n in range(40, 44)]
    # Enough for Snakemake and too little for a trainer, at first.
    memory = f"train:mem_mb=(300 if attempt < 2 and '{large}' in wildcards.cell else 900)"
    head = project.train(*cells, options=(*LONG, memory))
    jobs = project.frozen(cancelled, preempted, long)
    bash(f"scancel {jobs[cancelled]}")
    bash(f"scontrol requeue {jobs[preempted]}")
    # The shortest time there is: the next look at the limits finds that it is over.
    bash(f"scontrol update jobid={jobs[long]} timelimit=1")
    status, told = project.wait(head)
    rows = bash("squeue -h --states=all -o '%i|%T'").split()
    return project, cells, jobs, dict(row.split("|") for row in rows), status, told


def test_jobs_that_are_cancelled_preempted_too_long_or_too_large(stories, local):
    """What came out is what an undisturbed run gives."""
    project, cells, jobs, ended, status, told = stories["jobs"].result()
    assert status == 0, told
    cancelled, preempted, long, large = cells
    for name in (cancelled, preempted, long):
        assert "continued at" in project.log(name), name
    assert ended[jobs[cancelled]] == "CANCELLED"
    assert ended[jobs[long]] == "TIMEOUT"
    # What SLURM puts back into its queue itself is no failure, and needs no other job.
    assert ended[jobs[preempted]] == "COMPLETED"
    assert told.count("Trying to restart job") == 3
    # The cells are named, and why without cgroups a job is a mere failure.
    failed = told[: told.rindex("Trying to restart job")]
    for name in (cancelled, long, large):
        assert f"output: results/cells/{name}.parquet" in failed
    assert "exceeded memory limit" in failed
    assert_same_as_local(project, cells, local)


def a_killed_head(project):
    """Two cells train when the head is killed; the same command is given again."""
    cells = [project.cell("40 epochs"), project.cell("41 epochs")]
    head = project.train(*cells, options=LONG)
    project.frozen(*cells)
    head.send_signal(signal.SIGKILL)
    head.wait()
    # Its jobs run on without it.
    assert [state for _, state, _ in project.jobs()] == ["RUNNING", "RUNNING"]
    assert all(project.trainers(name) for name in cells)
    head = project.train(*cells, options=LONG)
    return project, cells, project.most_at_once(cells, head), *project.wait(head)


def test_the_head_is_killed_and_started_again(stories, local):
    """No cell is ever trained twice at a time, none from its start."""
    project, cells, at_once, status, told = stories["head"].result()
    assert status == 0, told
    assert at_once == 1
    assert "cancelling 2 jobs that an earlier run left" in told
    for name in cells:
        assert "continued at" in project.log(name)
    assert_same_as_local(project, cells, local)


def a_full_disk(project):
    """For one of two cells, and no more when the same command comes again."""
    cells = list(project.cells())
    (full,) = (name for name in cells if "repel" in name)
    disk = project.path(full).parent
    disk.mkdir(parents=True)
    # A file in it, because Snakemake removes folders that it finds empty.
    mounted = f"mount -t tmpfs -o size=4k tmpfs '{disk}' && touch '{disk}/.here'"
    if subprocess.run(mounted, shell=True, check=False).returncode:
        return None
    try:
        first = project.wait(project.train(*cells, options=("--retries", "0")))
        said = project.log(full)
    finally:
        bash(f"umount '{disk}'")
    (kept,) = (name for name in cells if name != full)
    when = project.path(kept).stat().st_mtime_ns
    again = project.wait(project.train(*cells))
    return project, cells, full, said, first, again, project.path(kept).stat().st_mtime_ns == when


def test_a_disk_that_is_full_for_one_cell(stories, local):
    """It is named, the other one is trained, and not again afterwards."""
    if (found := stories["disk"].result()) is None:
        pytest.skip("no file system can be mounted here")
    project, cells, full, said, (status, told), (status_again, told_again), stayed = found
    assert status == 1
    assert told.count("has been submitted with SLURM jobid") == 2
    # The last words of the cell's log, which Snakemake shows.
    for words in (said.splitlines()[-1], told):
        assert f"{full}.parquet: cannot be written: " in words
        assert "No space left on device" in words
    assert status_again == 0, told_again
    assert stayed
    assert_same_as_local(project, cells, local)


def a_cell_on_a_gpu(project):
    (name,) = project.cells()
    ended = project.wait(project.train(name, options=("--retries", "0")))
    (job,) = re.findall(r"SLURM jobid (\d+)", ended[1])
    return project, name, bash(f"scontrol show job {job}"), *ended


def test_a_gpu_is_asked_for(stories):
    """SLURM gives the job one; where torch finds none, the cell says so and nothing is trained."""
    project, name, job, status, told = stories["gpu"].result()
    assert re.search("TresPerJob=gres:gpu:1$", job, re.MULTILINE), job
    if torch.cuda.is_available():
        assert status == 0, told
    else:
        assert status == 1
        assert "error: device cuda: torch" in project.log(name)
        assert f"output: results/cells/{name}.parquet" in told and "error: device cuda" in told


def the_smoke_preset(project):
    command = ("hindsight", "replicate", "--", *PROFILE, *QUICK)
    return project, *project.wait(project.start(*command), seconds=1800)


def test_the_smoke_preset(stories, local):
    """Figures and verdicts, from the numbers that this process computes."""
    project, status, told = stories["smoke"].result()
    assert status == 0, told
    cells = project.cells()
    assert (project.folder / "figures/smoke/report.html").exists()
    log = (project.folder / "results/logs/snakemake.log").read_text()
    assert log.count("has been submitted with SLURM jobid") == len(cells)
    assert not list((project.folder / "results/checkpoints").rglob("*.pt"))
    assert_same_as_local(project, cells, local)


def whatever_happens(project, faults=8):
    """Faults of every kind at random moments; where the head has given up, it is started again."""
    chance = random.Random(0)
    cells = list(project.cells())
    head, happened = project.train(*cells, options=LONG), []
    while len(happened) < faults:
        time.sleep(chance.uniform(1, 6))
        if head.poll() == 0:
            break
        if head.poll() is not None:
            head = project.train(*cells, options=LONG)
        running = [job for job, state, _ in project.jobs() if state == "RUNNING"]
        left = [project.path(name, "checkpoints", ".pt") for name in cells]
        trainers = [process for name in cells for process in project.trainers(name)]
        possible = {
            "trainer": trainers,
            "cancelled": running,
            "requeued": running,
            "checkpoint": [path for path in left if path.exists()],
            "head": [head] if trainers else [],
        }
        if not (kinds := [kind for kind, victims in possible.items() if victims]):
            continue
        victim = chance.choice(possible[kind := chance.choice(kinds)])
        # It may be gone by now, by itself.
        with suppress(OSError, subprocess.CalledProcessError):
            if kind == "trainer":
                os.kill(victim, signal.SIGKILL)
            elif kind == "cancelled":
                bash(f"scancel {victim}")
            elif kind == "requeued":
                bash(f"scontrol requeue {victim}")
            elif kind == "checkpoint":
                os.truncate(victim, victim.stat().st_size // 2)
            else:
                head.kill()
                head.wait()
            happened.append(kind)
    for _ in range(5):
        status, told = project.wait(head)
        if status == 0:
            break
        head = project.train(*cells, options=LONG)
    return project, cells, happened, status, told


def test_whatever_happens_the_results_are_the_same(stories, local):
    project, cells, happened, status, told = stories["random"].result()
    assert status == 0, f"{happened}: {told}"
    assert len(happened) >= 4 and len(set(happened)) >= 2, happened
    assert not [process for name in cells for process in project.trainers(name)]
    assert not project.jobs()
    assert_same_as_local(project, cells, local)


def test_the_node_daemon_is_killed(stories, make_project, local):
    """The controller puts the job back into its queue; it continues when the node is back."""
    for story in stories.values():
        story.exception()  # the node is theirs, too
    project = make_project(arms(40))
    name = project.cell("40 epochs")
    head = project.train(name, options=LONG)
    project.frozen(name)
    bash("kill -9 $(cat /var/lib/hindsight-slurm/run/slurmd.pid)")
    until(lambda: "down" in bash("sinfo -h -o %T"), 120, "the node is known to be lost")
    # The daemon is lost, its job's processes are not: nobody may train beside them.
    assert project.trainers(name)
    bash("slurmd -N localhost")
    assert project.most_at_once([name], head) == 1
    status, told = project.wait(head)
    assert status == 0, told
    assert told.count("has been submitted with SLURM jobid") == 1
    assert "continued at" in project.log(name)
    assert_same_as_local(project, [name], local)
