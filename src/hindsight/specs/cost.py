"""What a cell costs on one core, by a rule fitted to measurements (bench/ppo.py; one core of an
AMD EPYC of 2025): good to some tens of per cent, meant for planning, not for claims.
"""

from itertools import pairwise

from hindsight.specs.cell import CellSpec

COLLECT_MS, COLLECT_RUN_MS = 0.049, 0.0007  # per step of a rollout: fixed, and per run
UPDATE_MS, UPDATE_RUN_MS = 0.57, 1.33e-5  # per minibatch: fixed, and per run and weight
#: Weights of a network above which fewer runs share an axis on a CPU (measured: bench/ppo.py).
LARGE_NETWORK = 100_000


def weights(spec: CellSpec) -> int:
    """Weights of the policy network, without biases."""
    widths = (spec.environment.observation_size, *spec.algorithm.hidden, spec.environment.n_dims)
    return sum(a * b for a, b in pairwise(widths))


def group_size(spec: CellSpec, device: str = "cpu") -> int:
    """How many of a cell's runs share an axis.

    A large network fills a CPU's cache and arithmetic units by itself: sharing gains nothing there.
    """
    return 1 if device.startswith("cpu") and weights(spec) > LARGE_NETWORK else spec.seeds


def seconds(spec: CellSpec, runs_per_axis: int | None = None) -> float:
    """Seconds on one core, if no run ends early."""
    runs = min(runs_per_axis or group_size(spec), spec.seeds)
    algorithm = spec.algorithm
    copies = spec.hindsight.k if spec.hindsight is not None else 0
    rollout = algorithm.n_steps * algorithm.n_envs
    minibatches = rollout * (1 + copies) / algorithm.batch_size * algorithm.n_epochs
    collect = algorithm.n_steps * (COLLECT_MS + COLLECT_RUN_MS * runs * algorithm.n_envs)
    update = minibatches * (UPDATE_MS + UPDATE_RUN_MS * runs * weights(spec))
    iterations = spec.steps // rollout
    groups = -(-spec.seeds // runs)
    return 4 + iterations * groups * (collect + update) / 1e3


def megabytes(spec: CellSpec) -> int:
    """Memory to ask for: the interpreter with torch, and a rollout with its copies."""
    runs = group_size(spec)
    copies = spec.hindsight.k if spec.hindsight is not None else 0
    samples = spec.algorithm.n_steps * spec.algorithm.n_envs * (1 + copies) * runs
    widest = max(spec.algorithm.hidden)
    numbers = samples * (
        3 * spec.environment.observation_size + 20 + 3 * widest
    ) + 12 * runs * weights(spec)
    return 500 + 4 * numbers // 1_000_000
