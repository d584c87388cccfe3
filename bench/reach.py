r"""SAC with hindsight beside Stable-Baselines3's: steps until 95% of the test episodes succeed.

    python bench/reach.py                                                # FetchReach
    python bench/reach.py --env PandaReach-v3 --steps 10000 --seeds 4    # pip install panda-gym
    python bench/reach.py --env highway_env:parking-v0 --steps 10000 --seeds 2 --limit 100 \
        --terminates goal

Both have the same setting and are tested at the same steps, by the same episodes, with the mean
action.  parking-v0 (pip install highway-env) has crashes, which cost 5 and which no goal explains:
ours keeps that reward beside the relabelled one, Stable-Baselines3's relabelling computes every
reward anew.  The authors' learning rate of 3e-4, with networks of 2 x 64, reaches nothing in 15,000
steps, ours or Stable-Baselines3's: the temperature begins at 1 and falls too slowly.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from harness import print_machine

from hindsight import SAC

SETTING = {"gamma": 0.95, "tau": 0.05, "batch_size": 256, "learning_rate": 1e-3}
HIDDEN, EVERY, ENOUGH, SB3 = [256, 256], 1000, 0.95, "Stable-Baselines3"
Act = Callable[[dict[str, Any]], Any]


def tested(act: Act, given: argparse.Namespace) -> dict[str, float]:
    """Shares of episodes that end in success, and in a crash."""
    env = gym.make(given.env, max_episode_steps=given.limit)
    ends = []
    for episode in range(given.episodes):
        obs, _ = env.reset(seed=episode)
        over = False
        while not over:
            obs, _, *over_by, info = env.step(act(obs)[0])
            over = any(over_by)
        ends.append((float(info["is_success"]), float(info.get("crashed", 0))))
    return dict(zip(("success", "crashed"), np.mean(ends, axis=0).tolist(), strict=True))


def ours(given: argparse.Namespace) -> tuple[list[list[dict[str, float]]], float]:
    """Every test of each seed, and the processor seconds of a seed's training."""
    model = SAC(
        given.env, her="future", k=4, seeds=given.seeds, max_episode_steps=given.limit,
        terminates=given.terminates,
        evaluate_every=given.steps, hidden=HIDDEN, log_interval=EVERY,
        learning_starts=given.warm_up, **SETTING,
    )  # fmt: skip
    tests: list[list[dict[str, float]]] = [[] for _ in range(given.seeds)]
    for _ in range(given.steps // EVERY):
        model.learn(EVERY)
        for seed, own in enumerate(tests):
            act = partial(model.predict, run=seed, which="last")
            own.append(tested(act, given))
    curves = model.curves()
    return tests, float(curves[curves.phase == "train"].groupby("seed").cpu_seconds.max().mean())


def theirs(given: argparse.Namespace) -> tuple[list[list[dict[str, float]]], float]:
    """The same of Stable-Baselines3, one seed after the other."""
    tests, seconds = [], 0.0
    for seed in range(given.seeds):
        model = stable_baselines3.SAC(
            "MultiInputPolicy", gym.make(given.env, max_episode_steps=given.limit),
            replay_buffer_class=stable_baselines3.HerReplayBuffer,
            replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
            policy_kwargs={"net_arch": HIDDEN}, seed=seed, device="cpu",
            learning_starts=given.warm_up, **SETTING,
        )  # fmt: skip
        tests.append([])
        for _ in range(given.steps // EVERY):
            began = time.process_time()
            model.learn(EVERY, reset_num_timesteps=False)
            seconds += time.process_time() - began
            tests[-1].append(tested(partial(model.predict, deterministic=True), given))
    return tests, seconds / given.seeds


def needed(tests: list[dict[str, float]]) -> float:
    """Steps before the first test that is good enough."""
    good = [i for i, test in enumerate(tests, 1) if test["success"] >= ENOUGH - 1e-6]
    return good[0] * EVERY if good else float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="FetchReach-v4")
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=20, help="of each test")
    parser.add_argument("--limit", type=int, help="steps of an episode, if none is registered")
    parser.add_argument("--terminates", help="goal or never, if a trial does not find out")
    parser.add_argument("--warm-up", type=int, default=100, help="random steps before learning")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = {"ours": ours(given), SB3: theirs(given)}  # ours registers the environment
    for name, (tests, seconds) in found.items():
        steps = statistics.median(map(needed, tests))
        success, crashed = (np.mean([own[-1][key] for own in tests]) for key in tests[0][0])
        print(
            f"{name}: {seconds:.0f} CPU seconds a seed, {steps:,.0f} steps to {ENOUGH:.0%}, "
            f"{success:.0%} at the end, crashed {crashed:.0%}"
        )
    print_machine()


if __name__ == "__main__":
    main()
