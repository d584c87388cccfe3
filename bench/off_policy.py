"""SAC beside Stable-Baselines3's and rejax's: environment steps per CPU second of one core.

One update per step, networks of 2 x 64, batches of 256; ours and Stable-Baselines3's with hindsight
(two goals per transition), rejax's without, on the same task written in JAX and with its seeds
under `vmap`.  The contenders take turns.  Where rejax is not installed, it is left out.

    taskset -c 0 python bench/off_policy.py       # pip install rejax==0.1.3
"""

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import gymnasium as gym
from rich.console import Console
from rich.table import Table
from stable_baselines3 import SAC, HerReplayBuffer

import hindsight.envs  # noqa: F401  (registers the environment)
from hindsight.specs.cell import CellSpec
from hindsight.training.cell import prepare_process
from hindsight.training.runs import runs_of

STEPS = 500


def ours(runs: int) -> Callable[[], int]:
    """So many runs of ours on one axis; the result trains STEPS of each and returns all steps."""
    spec = CellSpec(
        algorithm={"name": "sac", "log_interval": STEPS},
        replay={"strategy": "final", "k": 2},
        seeds=runs,
        steps=200_000,
        early_end=None,
    )
    training = runs_of(spec, list(range(runs)), "cpu")

    def train() -> int:
        training.iterate()
        return STEPS * runs

    return train


def theirs() -> Callable[[], int]:
    """Stable-Baselines3 with the same setting, through the gymnasium wrapper."""
    model = SAC(
        "MultiInputPolicy",
        gym.make("PredatorPrey-v0"),
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 2, "goal_selection_strategy": "final"},
        policy_kwargs={"net_arch": [64, 64]},
        gamma=0.95,
        tau=0.05,
        seed=0,
        device="cpu",
    )

    def train() -> int:
        model.learn(STEPS, reset_num_timesteps=False)
        return STEPS

    return train


def in_jax(runs: int) -> Callable[[], int]:
    """So many seeds of rejax's SAC under `vmap`, all compiled."""
    import jax
    from ppo import chase
    from rejax import SAC as JaxSAC

    env = chase()
    algorithm = JaxSAC.create(
        env=env, env_params=env.default_params, num_envs=1, num_epochs=1, batch_size=256,
        buffer_size=131_072, fill_buffer=100, learning_rate=3e-4, gamma=0.95, polyak=0.95,
        agent_kwargs={"hidden_layer_sizes": (64, 64)},
    )  # fmt: skip

    def steps(state: Any) -> Any:
        return jax.lax.fori_loop(0, STEPS, lambda _, s: algorithm.train_iteration(s), state)

    seed = jax.random.PRNGKey(0)
    if runs == 1:  # under vmap each step would copy the buffer
        state, iterate = jax.jit(algorithm.init_state)(seed), jax.jit(steps, donate_argnums=0)
    else:
        state = jax.jit(jax.vmap(algorithm.init_state))(jax.random.split(seed, runs))
        iterate = jax.jit(jax.vmap(steps), donate_argnums=0)

    def train() -> int:
        nonlocal state
        state = jax.block_until_ready(iterate(state))
        return STEPS * runs

    return train


PEER = "Stable-Baselines3 SAC + HER"
RUNS = (1, 8, 16)
CONTENDERS = {
    PEER: theirs,
    **{f"ours SAC-HER, {runs} runs": partial(ours, runs) for runs in RUNS},
    **{f"rejax SAC, {runs} runs": partial(in_jax, runs) for runs in RUNS},
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    repeats = parser.parse_args().repeats
    prepare_process("cpu")
    there = importlib.util.find_spec("rejax") is not None
    if not there:
        print("rejax is not installed, and left out: pip install rejax")
    makers = {n: make for n, make in CONTENDERS.items() if there or not n.startswith("rejax")}
    trainers = {name: make() for name, make in makers.items()}
    for train in trainers.values():
        train()  # warm-up: the first steps are random and without updates
    rates: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(repeats):
        for name, train in trainers.items():
            start = time.process_time()
            rates[name].append(train() / (time.process_time() - start))
    table = Table(title=f"environment steps per second of one core, {repeats} repeats")
    for column in ("", "median", "least", "most"):
        table.add_column(column, justify="right" if column else "left")
    for name, values in rates.items():
        row = (statistics.median(values), min(values), max(values))
        table.add_row(name, *(f"{value:,.0f}" for value in row))
    Console(width=110).print(table)
    for runs in RUNS:
        for peer in (PEER, f"rejax SAC, {runs} runs"):
            if peer in rates:
                own = rates[f"ours SAC-HER, {runs} runs"]
                ratio = statistics.median(a / b for a, b in zip(own, rates[peer], strict=True))
                print(f"{ratio:5.2f} x  ours, {runs} runs / {peer}")


if __name__ == "__main__":
    main()
