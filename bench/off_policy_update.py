"""One gradient step of SAC, TD3 and DDPG beside Stable-Baselines3's `train(1)`, one core.

Both are given their batch (256 transitions, 9 observations, 3 actions; networks of 2 x 64, unless
others are asked for), so that only the update is measured.  The contenders take turns and CPU time
is counted, so that a machine that is shared or slows down does it to all.  Prints a table, writes
bench/results/off_policy_update.json.

python bench/off_policy_update.py
python bench/off_policy_update.py --hidden 256 256 --samples 2048 --products bf16
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import stable_baselines3
import torch
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.buffers import ReplayBufferSamples
from stable_baselines3.common.logger import configure

from hindsight.algorithms import ddpg, sac, td3
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.ddpg import DDPGSpec
from hindsight.specs.algorithms.sac import SACSpec
from hindsight.specs.algorithms.td3 import TD3Spec
from hindsight.training.cell import prepare_process
from hindsight.training.record import machine

N_OBS, N_ACTIONS = 9, 3
RUNS = (1, 16)
ALGORITHMS: dict[str, tuple[ModuleType, type[Any], dict[str, Any]]] = {
    "SAC": (sac, SACSpec, {}),
    "TD3": (td3, TD3Spec, {}),
    "DDPG": (ddpg, DDPGSpec, {"max_grad_norm": None}),
}


def transitions(runs: int, samples: int) -> Batch:
    """Random transitions, a twentieth of them terminated."""
    return Batch(
        torch.randn(runs, samples, N_OBS),
        torch.rand(runs, samples, N_ACTIONS) * 2 - 1,
        torch.randn(runs, samples),
        torch.randn(runs, samples, N_OBS),
        torch.rand(runs, samples) < 0.05,
    )


def ours(module: ModuleType, spec: Any, runs: int) -> Callable[[], object]:
    """An update of so many runs on one axis."""
    agent = module.Agent.of(N_OBS, N_ACTIONS, spec.hidden)
    rows = torch.stack([agent.initial_row(seed) for seed in range(runs)])
    state = module.State(agent, rows, torch.full((runs,), spec.learning_rate))
    samples = spec.batch_size
    batch = transitions(runs, samples)
    noise = torch.randn(runs, module.NOISES * samples, N_ACTIONS)
    return lambda: module.update(state, batch, noise, spec)


class Wrapper(gym.Env):
    """Spaces, and nothing that is ever stepped: what Stable-Baselines3 wants to see."""

    observation_space = gym.spaces.Box(-10, 10, (N_OBS,))
    action_space = gym.spaces.Box(-1, 1, (N_ACTIONS,))


def theirs(name: str, hidden: Sequence[int], samples: int) -> Callable[[], object]:
    """Stable-Baselines3's update of one run."""
    model = getattr(stable_baselines3, name)(
        "MlpPolicy",
        Wrapper(),
        policy_kwargs={"net_arch": list(hidden)},
        buffer_size=1,
        device="cpu",
    )
    model.set_logger(configure(None, []))
    batch = transitions(1, samples)
    data = ReplayBufferSamples(
        batch.obs[0],
        batch.actions[0],
        batch.next_obs[0],
        batch.terminated[0, :, None].float(),
        batch.rewards[0, :, None],
    )
    model.replay_buffer.sample = lambda *args, **kwargs: data
    return lambda: model.train(1, samples)


def milliseconds(updates: list[Callable[[], object]], repeats: int) -> list[list[float]]:
    """CPU time of each update, once per repeat, of calls that fill some 20 ms."""
    calls = []
    for update in updates:
        for _ in range(20):
            update()
        start = time.process_time()
        for _ in range(10):
            update()
        calls.append(max(1, round(0.2 / (time.process_time() - start))))
    times: list[list[float]] = [[] for _ in updates]
    for _ in range(repeats):
        for update, n, measured in zip(updates, calls, times, strict=True):
            start = time.process_time()
            for _ in range(n):
                update()
            measured.append((time.process_time() - start) / n * 1e3)
    return times


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 64])
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--products", choices=["ieee", "bf16"], default="ieee",
                        help="bf16: round what is multiplied, theirs too")  # fmt: skip
    arguments = parser.parse_args()
    hidden, samples = arguments.hidden, arguments.samples
    prepare_process("cpu")
    torch.backends.mkldnn.matmul.fp32_precision = arguments.products
    table = Table(title=f"CPU milliseconds per update of a run, {arguments.repeats} repeats")
    for column in ("", "median", "least", "updates per second, x Stable-Baselines3"):
        table.add_column(column, justify="right" if column else "left")
    results = {}
    for name, (module, kind, keys) in ALGORITHMS.items():
        spec = kind(hidden=hidden, batch_size=samples, **keys)
        updates = [theirs(name, hidden, samples), *(ours(module, spec, runs) for runs in RUNS)]
        reference, *measured = milliseconds(updates, arguments.repeats)
        rows = {f"Stable-Baselines3 {name}": reference}
        for runs, times in zip(RUNS, measured, strict=True):
            label = f"ours {name}, {runs} run" + "s" * (runs > 1)
            rows[label] = [ms / runs for ms in times]
        for label, values in rows.items():
            ratio = statistics.median(a / b for a, b in zip(reference, values, strict=True))
            median = statistics.median(values)
            table.add_row(label, f"{median:.3f}", f"{min(values):.3f}", f"{ratio:.1f}")
        results |= rows
    Console(width=110).print(table)
    out = Path(__file__).parent / "results" / "off_policy_update.json"
    out.parent.mkdir(exist_ok=True)
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    measured_on = {"machine": machine(torch.device("cpu")), "versions": versions}
    written = measured_on | vars(arguments) | {"milliseconds": results}
    out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
