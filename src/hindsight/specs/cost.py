"""What a cell costs on one core, by a rule fitted to measurements.

PPO and SAC: bench/training.py, one core of an AMD EPYC of 2025; other off-policy algorithms: cells
trained on one of an Intel Xeon of 2023.  Good to some tens of per cent there, three times too low
on older cores: meant for planning, not for claims.
"""

import heapq
from collections.abc import Sequence

from hindsight.specs.cell import CellSpec

#: Of one run: a step of a rollout, and a minibatch, fixed and per weight.
COLLECT_MS, UPDATE_MS, UPDATE_WEIGHT_MS = 0.003, 0.012, 6.5e-6
#: An off-policy update: fixed, and per run and sample for each weight and each hidden unit; a step
#: and its storage (SAC and DQN of 64, DDPG of 2 x 256).
OFF_POLICY_UPDATE_MS, OFF_POLICY_STEP_MS = 1.0, 0.25
OFF_POLICY_WEIGHT_MS, OFF_POLICY_UNIT_MS = 2.0e-7, 7.4e-6
#: A step of one foreign environment: a robot arm's, on one core.
FOREIGN_STEP_MS = 1.0
#: Memory of one, in megabytes.
FOREIGN_MB = 15


#: A process until it trains: Python, torch and all that is imported.
START_SECONDS = 4.0
#: A job on a cluster before and after its training: the queue, two Snakemakes, their look at it.
#: Assumed for an idle node; on two cores that eight processes shared it was seen to take 46 s.
JOB_SECONDS = 24.0
#: Bytes of a cell's curves: fixed, and per row (measured: the published cells, 50 to 80 a row).
FILE_BYTES, ROW_BYTES = 15_000, 60


def evaluation_seconds(spec: CellSpec) -> float:
    """Seconds that evaluations take on one core, if all episodes are as long as can be."""
    tests = spec.evaluation.points * spec.evaluation.episodes * spec.environment.step_limit
    return spec.seeds * tests * (FOREIGN_STEP_MS if spec.environment.foreign else COLLECT_MS) / 1e3


def seconds(spec: CellSpec) -> float:
    """Seconds on one core, if no run ends early."""
    how, total = spec.algorithm, START_SECONDS
    if spec.environment.foreign:
        total += spec.seeds * spec.steps * FOREIGN_STEP_MS / 1e3 + evaluation_seconds(spec)
    # Of each environment, in whole iterations.
    steps = spec.steps // spec.iteration_steps * how.iteration_steps
    updates = how.updates(steps, _copies(spec))
    if how.on_policy:
        of_run = steps * how.n_envs * COLLECT_MS
        of_run += updates * (UPDATE_MS + UPDATE_WEIGHT_MS * spec.n_weights)
        return total + spec.seeds * of_run / 1e3
    sample = spec.n_weights * OFF_POLICY_WEIGHT_MS + sum(how.hidden) * OFF_POLICY_UNIT_MS
    update = OFF_POLICY_UPDATE_MS + spec.seeds * how.batch_size * how.passes * sample
    return total + (steps * OFF_POLICY_STEP_MS + updates * update) / 1e3


def _copies(spec: CellSpec) -> int:
    return spec.hindsight.k if spec.hindsight is not None else 0


def megabytes(spec: CellSpec) -> int:
    """Memory to ask for: the interpreter with torch and, once on a machine, a compiler (660 MB; 480
    without), a rollout with its copies or the replay.
    """
    runs, how = spec.seeds, spec.algorithm
    obs, widest = spec.environment.observation_size, max(how.hidden)
    of_each = 3 * obs + (20 + 3 * widest if how.on_policy else 8)
    numbers = runs * how.most_stored(spec.steps // how.n_envs, _copies(spec)) * of_each
    # Those of the training, and of the evaluation.
    places = runs * (how.n_envs + 4) if spec.environment.foreign else 0
    numbers += 12 * runs * spec.n_weights
    return 700 + 4 * numbers // 1_000_000 + places * FOREIGN_MB


def file_bytes(spec: CellSpec) -> int:
    """Bytes of a cell's files if no run ends early: curves, policies (policy and value network)."""
    rows = spec.seeds * (spec.steps // spec.iteration_steps + spec.evaluation.points)
    return FILE_BYTES + ROW_BYTES * rows + 4 * spec.seeds * 2 * spec.n_weights


def wall_seconds(jobs: Sequence[float], slots: int, job_seconds: float = JOB_SECONDS) -> float:
    """When the last job ends, if each of `slots` takes the next as soon as it is free.

    Each takes `job_seconds` longer than its training.  What users of a cluster wait for others is
    not in it.
    """
    free = [0.0] * min(slots, len(jobs))
    for length in jobs:
        heapq.heapreplace(free, free[0] + length + job_seconds)
    return max(free, default=0.0)
