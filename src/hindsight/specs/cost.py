"""Estimated cost of a cell on one core, by a formula fitted to measurements.

PPO was measured by bench/training.py on an AMD EPYC of 2025, everything else beside it.  Estimates
are off by tens of per cent there, and by a factor of three on older cores: use them for planning
only.
"""

import heapq
from collections.abc import Sequence
from typing import cast

from hindsight.specs.cell import CellSpec
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.off_policy import OffPolicySpec
from hindsight.specs.on_policy import OnPolicySpec

#: On-policy, per run: a rollout step; a minibatch update, fixed and per weight.
COLLECT_MS, UPDATE_MS, UPDATE_WEIGHT_MS = 0.003, 0.012, 6.5e-6
#: Off-policy: an update, fixed; a step including its storage; an update per run and sample, for
#: each weight and each hidden unit (fitted to SAC, TD3, DDPG and DQN with 2 x 64 and 2 x 256).
OFF_POLICY_UPDATE_MS, OFF_POLICY_STEP_MS = 0.9, 0.25
OFF_POLICY_WEIGHT_MS, OFF_POLICY_UNIT_MS = 9.0e-8, 2.0e-6
#: A third-party environment: a step of its own (of a robot arm), handing it over, the policy and
#: all else that is done once for the environments of all runs; and memory.
FOREIGN_STEP_MS, FOREIGN_ROW_MS, FOREIGN_CALL_MS, FOREIGN_MB = 1.0, 0.1, 0.2, 15
#: A replay buffer with its copy for a checkpoint, and what reading that again takes.
BUFFER_COPIES = 2.4
#: Startup of a process, mostly imports.
START_SECONDS = 4.0
#: Overhead of a cluster job on an idle node: queue, Snakemake's start and its status checks.
JOB_SECONDS = 24.0
#: Size of a cell's curves: fixed, and per row (50 to 80 bytes in the published cells).
FILE_BYTES, ROW_BYTES = 15_000, 60


def evaluations(spec: CellSpec) -> int:
    """How often a run is evaluated: at each point, but not twice in an iteration."""
    return min(spec.evaluation.points, spec.steps // spec.algorithm.iteration_steps)


def evaluation_seconds(spec: CellSpec, step_ms: float = FOREIGN_STEP_MS) -> float:
    """Seconds that evaluations take on one core if every episode has its maximum length.

    `step_ms`: milliseconds of a step of a third-party environment.
    """
    tests = evaluations(spec) * spec.evaluation.episodes * spec.environment.step_limit
    if not spec.environment.foreign:
        return spec.seeds * tests * COLLECT_MS / 1e3
    call_ms = FOREIGN_CALL_MS / GymnasiumSpec.parallel_episodes
    return tests * (spec.seeds * (step_ms + FOREIGN_ROW_MS) + call_ms) / 1e3


def seconds(spec: CellSpec, step_ms: float = FOREIGN_STEP_MS) -> float:
    """Seconds of training and evaluations on one core if no run ends early; `step_ms` as above."""
    how, total = spec.algorithm, START_SECONDS + evaluation_seconds(spec, step_ms)
    if spec.environment.foreign:
        each = spec.seeds * (step_ms + FOREIGN_ROW_MS) + FOREIGN_CALL_MS / how.n_envs
        total += spec.steps * each / 1e3
    # steps of each environment, in whole iterations
    steps = spec.steps // how.iteration_steps * how.iteration_steps // how.n_envs
    if isinstance(how, OnPolicySpec):
        updates = steps * how.n_envs * _samples(spec) / how.batch_size * how.n_epochs
        of_run = steps * how.n_envs * COLLECT_MS
        of_run += updates * (UPDATE_MS + UPDATE_WEIGHT_MS * spec.n_weights)
        return total + spec.seeds * of_run / 1e3
    how = cast(OffPolicySpec, how)
    updates = steps / how.train_freq * how.gradient_steps
    sample = spec.n_weights * OFF_POLICY_WEIGHT_MS + sum(how.hidden) * OFF_POLICY_UNIT_MS
    update = OFF_POLICY_UPDATE_MS + spec.seeds * how.batch_size * how.passes * sample
    return total + (steps * OFF_POLICY_STEP_MS + updates * update) / 1e3


def _samples(spec: CellSpec) -> int:
    """Samples per step of a rollout: the step itself and its relabelled copies."""
    return 1 + (spec.hindsight.k if spec.hindsight is not None else 0)


def megabytes(spec: CellSpec) -> int:
    """Memory to request for a cell.

    The interpreter with torch takes 480 MB, or 660 MB while it compiles; a rollout with its copies,
    or the replay buffer, takes the rest.
    """
    runs, how, obs = spec.seeds, spec.algorithm, spec.environment.observation_size
    if isinstance(how, OnPolicySpec):
        stored: float = (
            how.n_steps * how.n_envs * _samples(spec) * (3 * obs + 20 + 3 * max(how.hidden))
        )
    else:
        width = 2 * obs + spec.environment.action_size + 5
        stored = BUFFER_COPIES * min(cast(OffPolicySpec, how).buffer_size, spec.steps) * width
    numbers = int(runs * (stored + 12 * spec.n_weights))
    # training environments, and those for evaluation
    places = (
        runs * (how.n_envs + GymnasiumSpec.parallel_episodes) if spec.environment.foreign else 0
    )
    return 700 + 4 * numbers // 1_000_000 + places * FOREIGN_MB


def file_bytes(spec: CellSpec) -> int:
    """Bytes of a cell's curves and policies (policy and value network) if no run ends early."""
    rows = spec.seeds * (spec.steps // spec.algorithm.iteration_steps + evaluations(spec))
    return FILE_BYTES + ROW_BYTES * rows + 4 * spec.seeds * 2 * spec.n_weights


def wall_seconds(jobs: Sequence[float], slots: int, job_seconds: float = JOB_SECONDS) -> float:
    """Seconds until the last job ends, if `slots` jobs run at a time and start in this order.

    jobs: training seconds of each; a job takes `job_seconds` more, without waiting for other users.
    """
    free = [0.0] * min(slots, len(jobs))
    for length in jobs:
        heapq.heapreplace(free, free[0] + length + job_seconds)
    return max(free, default=0.0)
