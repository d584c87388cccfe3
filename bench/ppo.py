"""Steps per second beside Stable-Baselines3 and rejax, in one run, on one core with one thread.

Each contender trains a few rollouts; the contenders take turns, so that a machine that slows down
slows all of them.  Times are of the processor, so that waiting for it does not count.  Prints a
table, writes bench/results/ppo.json.  A step is an environment step of one run, whatever is learned
from it.  rejax trains plain PPO on the same task written in JAX, its seeds under `vmap`; where it
is not installed, it is left out, and a line says so.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
# JAX reads it when it is imported: one thread for it, too.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import importlib.util
import itertools

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers import FlattenObservation
from rich.console import Console
from rich.table import Table
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer

import hindsight.envs  # noqa: F401  (registers the environment)
from hindsight.specs.cell import CellSpec
from hindsight.training.cell import prepare_process
from hindsight.training.on_policy import OnPolicyRuns
from hindsight.training.record import machine

ROLLOUT = 2048


def ours(runs: int, her: bool, hidden: tuple[int, ...], **keys: Any) -> Callable[[int], int]:
    """So many runs of ours; the result trains rollouts and returns the steps.

    keys: of the hindsight.
    """
    hindsight = {"strategy": "final", **keys} if her else None
    spec = CellSpec(algorithm={"hidden": hidden}, hindsight=hindsight, seeds=runs)
    training = OnPolicyRuns(spec, range(runs), "cpu")

    def train(rollouts: int) -> int:
        for _ in range(rollouts):
            training.iterate()
        return rollouts * ROLLOUT * runs

    return train


class PerStepHindsight(PPO):
    """Stable-Baselines3's PPO with `final` copies made one step at a time, as the authors do.

    The plain way: a forward pass of batch size one for every copied step.
    """

    def train(self) -> None:
        """Append the copies to the rollout, then train as ever."""
        buffer, n = self.rollout_buffer, self.observation_space.shape[0] // 3
        obs, actions = buffer.observations[:, 0], buffer.actions[:, 0]
        starts = buffer.episode_starts[:, 0]
        copies = RolloutBuffer(
            len(obs),
            self.observation_space,
            self.action_space,
            self.device,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
        )
        bounds = [*np.flatnonzero(starts), len(obs)]
        bounds = bounds if bounds[0] == 0 else [0, *bounds]
        for first, last in itertools.pairwise(bounds):
            for t in range(first, last):
                new = obs[t].copy()
                new[n : 2 * n] = obs[last - 1, :n]
                with torch.no_grad():
                    batch = torch.as_tensor(new[None]), torch.as_tensor(actions[t][None])
                    value, log_prob, _ = self.policy.evaluate_actions(*batch)
                reward = float(np.linalg.norm(new[:n] - new[n : 2 * n]) <= 1)
                begins = np.array([t == first])
                copies.add(new[None], actions[t][None], np.array([reward]), begins, value, log_prob)
        copies.compute_returns_and_advantage(value.flatten(), np.array([True]))
        for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
            both = np.concatenate([getattr(buffer, name), getattr(copies, name)])
            setattr(buffer, name, both)
        buffer.buffer_size = len(both)
        super().train()
        buffer.buffer_size = len(obs)
        buffer.reset()


def theirs(algorithm: type[PPO], hidden: tuple[int, ...]) -> Callable[[int], int]:
    """Stable-Baselines3 with its defaults, one environment, through the gymnasium wrapper."""
    env = FlattenObservation(gym.make("PredatorPrey-v0"))
    model = algorithm(
        "MlpPolicy",
        env,
        clip_range_vf=0.2,
        target_kl=0.05,
        policy_kwargs={"net_arch": list(hidden)},
        seed=0,
        device="cpu",
    )

    def train(rollouts: int) -> int:
        model.learn(rollouts * ROLLOUT)
        return rollouts * ROLLOUT

    return train


class Elsewhere:
    """A contender in a process of its own, as it comes; trains rollouts, returns the steps."""

    def __init__(self, name: str) -> None:
        self.seconds = 0.0  # of the processor, so far
        command = [sys.executable, __file__, "--serve", name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __call__(self, rollouts: int) -> int:
        """Train so many rollouts."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(rollouts, file=self._process.stdin)
        steps, seconds = self._process.stdout.readline().split()
        self.seconds += float(seconds)
        return int(steps)


def serve(name: str) -> None:
    """What `Elsewhere` starts."""
    prepare_process("cpu")
    train = CONTENDERS[name][0]()
    for line in sys.stdin:
        start = time.process_time()
        steps = train(int(line))
        print(steps, time.process_time() - start, flush=True)


def timed(train: Callable[[int], int], rollouts: int) -> float:
    """Steps per second of the processor."""
    before = train.seconds if isinstance(train, Elsewhere) else time.process_time()
    steps = train(rollouts)
    after = train.seconds if isinstance(train, Elsewhere) else time.process_time()
    return steps / (after - before)


def chase() -> Any:
    """Predator-prey with a prey that rests, as a gymnax environment."""
    import jax
    import jax.numpy as jnp
    from gymnax.environments import environment, spaces

    class Chase(environment.Environment):  # type: ignore[misc]
        """Predator-prey in three dimensions, half-width 10, a distance of 1, 21 steps."""

        @property
        def default_params(self) -> environment.EnvParams:
            return environment.EnvParams(max_steps_in_episode=21)

        def reset_env(self, key: Any, params: Any) -> Any:
            places = jax.random.uniform(key, (6,), minval=-10.0, maxval=10.0)
            state = (places, jnp.zeros((), jnp.int32))
            return self.get_obs(state), state

        def step(self, key: Any, state: Any, action: Any, params: Any = None) -> Any:
            # What rejax 0.1.3 asks for: five things, an episode that is over begun anew.
            places, t = state
            predator = jnp.clip(places[:3] + jnp.clip(action, -1, 1), -10, 10)
            caught = jnp.linalg.norm(predator - places[3:]) <= 1
            late = t + 1 > 20
            reward, over = jnp.where(caught, 1.0, jnp.where(late, -1.0, 0.0)), caught | late
            after = (jnp.concatenate([predator, places[3:]]), t + 1)
            _, begun = self.reset_env(key, params)
            after = jax.tree.map(lambda a, b: jnp.where(over, a, b), begun, after)
            return self.get_obs(after), after, reward, over, {}

        def get_obs(self, state: Any, params: Any = None, key: Any = None) -> Any:
            return jnp.concatenate([state[0], jnp.zeros(3)])

        def action_space(self, params: Any = None) -> Any:
            return spaces.Box(-1.0, 1.0, (3,))

        def observation_space(self, params: Any = None) -> Any:
            return spaces.Box(-10.0, 10.0, (9,))

    return Chase()


def in_jax(runs: int, hidden: tuple[int, ...]) -> Callable[[int], int]:
    """So many seeds of rejax's PPO under `vmap`, on predator-prey with a prey that rests.

    All compiled: an iteration is a rollout of 2048 steps and 10 epochs of 32 minibatches.
    """
    import jax
    from rejax import PPO as JaxPPO

    env = chase()
    algorithm = JaxPPO.create(
        env=env, env_params=env.default_params, num_envs=1, num_steps=ROLLOUT, num_epochs=10,
        num_minibatches=32, learning_rate=3e-4, gamma=0.99, gae_lambda=0.95, clip_eps=0.2,
        ent_coef=0.0, vf_coef=0.5, max_grad_norm=0.5, total_timesteps=ROLLOUT,
        agent_kwargs={"activation": "tanh", "hidden_layer_sizes": hidden},
    )  # fmt: skip
    seeds = jax.random.split(jax.random.PRNGKey(0), runs)
    state = jax.jit(jax.vmap(algorithm.init_state))(seeds)
    iterate = jax.jit(jax.vmap(algorithm.train_iteration))

    def train(rollouts: int) -> int:
        nonlocal state
        for _ in range(rollouts):
            state = iterate(state)
        jax.block_until_ready(state)
        return rollouts * ROLLOUT * runs

    return train


CONTENDERS: dict[str, tuple[Callable[[], Callable[[int], int]], int]] = {
    "Stable-Baselines3 PPO 2x64": (lambda: theirs(PPO, (64, 64)), 2),
    "ours PPO 2x64, 1 run": (lambda: ours(1, False, (64, 64)), 20),
    "ours PPO 2x64, 4 runs": (lambda: ours(4, False, (64, 64)), 6),
    "ours PPO 2x64, 16 runs": (lambda: ours(16, False, (64, 64)), 3),
    "ours PPO 2x64, 64 runs": (lambda: ours(64, False, (64, 64)), 1),
    "rejax PPO 2x64, 1 run": (lambda: in_jax(1, (64, 64)), 20),
    "rejax PPO 2x64, 4 runs": (lambda: in_jax(4, (64, 64)), 6),
    "rejax PPO 2x64, 16 runs": (lambda: in_jax(16, (64, 64)), 3),
    "rejax PPO 2x64, 64 runs": (lambda: in_jax(64, (64, 64)), 1),
    "per-step hindsight on Stable-Baselines3 2x64": (lambda: theirs(PerStepHindsight, (64, 64)), 2),
    "ours PPO-HER 2x64, 1 run": (lambda: ours(1, True, (64, 64)), 10),
    "ours PPO-HER 2x64, 16 runs": (lambda: ours(16, True, (64, 64)), 2),
    "ours PPO-HER 2x64, 64 runs": (lambda: ours(64, True, (64, 64)), 1),
    "Stable-Baselines3 PPO 3x512": (lambda: theirs(PPO, (512, 512, 512)), 1),
    "ours PPO 3x512, 1 run": (lambda: ours(1, False, (512, 512, 512)), 1),
    "rejax PPO 3x512, 1 run": (lambda: in_jax(1, (512, 512, 512)), 1),
    "per-step hindsight on Stable-Baselines3 3x512": (
        lambda: theirs(PerStepHindsight, (512, 512, 512)),
        1,
    ),
    "ours PPO-HER 3x512, 1 run": (lambda: ours(1, True, (512, 512, 512)), 1),
}
THEIRS, PER_STEP = "Stable-Baselines3 PPO", "per-step hindsight on Stable-Baselines3"
#: contender, its peer, the ratio that is asked of it
BARS = [
    *(
        (f"ours PPO 2x64, {n}", f"rejax PPO 2x64, {n}", 1.3)
        for n in ("1 run", "4 runs", "16 runs", "64 runs")
    ),
    *(
        bar
        for n in ("1 run", "16 runs", "64 runs")
        for bar in (
            (f"ours PPO 2x64, {n}", f"{THEIRS} 2x64", 60.0),
            (f"ours PPO-HER 2x64, {n}", f"{PER_STEP} 2x64", 45.0),
        )
    ),
    ("ours PPO 3x512, 1 run", "rejax PPO 3x512, 1 run", 1.0),
    ("ours PPO-HER 3x512, 1 run", f"{PER_STEP} 3x512", 2.0),
]


#: kind of cell: options of `hindsight train`, megabytes it may take
MEMORY = {
    "laptop cell (PPO-HER 2x64, 6 runs)": (["--seeds", "6", "hidden=64,64"], 1024),
    "paper cell (PPO-HER 3x512)": (
        ["--seeds", "1", "hidden=512,512,512"],
        4096,
    ),
}


def peak_megabytes(options: list[str]) -> float:
    """Peak memory of a process that trains such a cell for two rollouts."""
    # Not getrusage's, which begins with what the process that starts it takes.
    program = (
        "import sys; from hindsight.cli import main; sys.argv[0] = 'hindsight'\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "print(next(int(x.split()[1]) / 1024 for x in lines if x.startswith('VmHWM')))"
    )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", program, "train", "--her", "final", "--steps", "4096"]
        done = subprocess.run(
            [*command, *options, "--out", folder], capture_output=True, text=True, check=True
        )
    return float(done.stdout.split()[-1])


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    prepare_process("cpu")
    there = importlib.util.find_spec("rejax") is not None
    if not there:
        print("rejax is not installed, and left out: pip install rejax")
    trainers = {
        name: make() if name.startswith("ours") else Elsewhere(name)
        for name, (make, _) in CONTENDERS.items()
        if there or not name.startswith("rejax")
    }
    for train in trainers.values():
        train(1)  # warm-up
    rates: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(arguments.repeats):
        for name, train in trainers.items():
            rates[name].append(timed(train, CONTENDERS[name][1]))
    table = Table(title=f"environment steps per second, {arguments.repeats} repeats, one core")
    for column in ("", "median", "least", "most"):
        table.add_column(column, justify="right" if column else "left")
    for name, values in rates.items():
        row = (statistics.median(values), min(values), max(values))
        table.add_row(name, *(f"{value:,.0f}" for value in row))
    Console(width=110).print(table)
    ratios = {}
    for name, peer, bar in BARS:
        if peer not in rates:
            continue
        pairs = [a / b for a, b in zip(rates[name], rates[peer], strict=True)]
        ratios[f"{name} / {peer}"] = pairs
        ratio = statistics.median(pairs)
        verdict = "met" if ratio >= bar else "MISSED"
        print(f"{ratio:5.2f} x  (bar {bar:g}: {verdict})  {name} / {peer}")
    memory = {}
    for name, (options, bar) in MEMORY.items():
        memory[name] = peak_megabytes(options)
        verdict = "met" if memory[name] <= bar else "MISSED"
        print(f"{memory[name]:5.0f} MiB  (bar {bar}: {verdict})  {name}")
    out = Path(__file__).parent / "results" / "ppo.json"
    out.parent.mkdir(exist_ok=True)
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    measured = {"machine": machine(torch.device("cpu")), "versions": versions}
    measured |= {"repeats": arguments.repeats, "steps_per_second": rates, "ratios": ratios}
    measured |= {"peak_megabytes": memory}
    out.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
