"""Relabelled trajectories by plain loops, written from the papers' description, not from the code.

Lists of entries are made one environment at a time.  Both sides receive the same uniform numbers.
The rollouts come from three environments and random policies.  In predator-prey, nothing truncates
and failing costs 1; the achieved goal may be an object that is never touched.  The episodes of a
point mass and of bits are truncated by a time limit; of a point mass, success may be a square.
Places are near each other and bits few, so that goals are achieved by chance.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from hindsight.algorithms import ppo
from hindsight.envs import point_reach
from hindsight.envs.bit_flipping import BitFlipping
from hindsight.envs.point_reach import PointReach
from hindsight.envs.predator_prey import PredatorPrey
from hindsight.envs.rollout import Rollout, Trajectories
from hindsight.envs.step import ACHIEVES, STEP, SUCCESS, TRUNCATED
from hindsight.nn.numba_cache import compiled, first_class
from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.environments.bit_flipping import BitFlippingSpec
from hindsight.specs.environments.point_reach import PointReachSpec
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.specs.hindsight import HindsightSpec
from tests.support.agents import agent as agent_for

GAMMA, LAMBDA = 0.9, 0.8
SPEC = PPOSpec(gamma=GAMMA, gae_lambda=LAMBDA)
CPU = torch.device("cpu")
KINDS = ("prey", "point", "bits")
Value = Callable[..., list[float]]  # of several observations


@dataclass(frozen=True)
class Rules:
    """A task: how near a goal is achieved, the reward for it, and whether it ends the episode."""

    near: float
    rewards: tuple[float, float]  # for a step that does not achieve the goal, and one that does
    success_ends: bool
    box: float | None  # the goals lie in it; None: they are bits
    distance: Callable[[Any, Any], float] = math.dist

    def achieves(self, achieved: np.ndarray, goal: np.ndarray) -> bool:
        return self.distance(achieved, goal) <= self.near

    def contains(self, goal: np.ndarray, share: float = 1.0) -> bool:
        """Whether a goal lies in this share of the space."""
        if self.box is None:
            return all(x / share in (0, 1) for x in goal)
        return max(map(abs, goal)) <= share * self.box

    def anywhere(self, numbers: np.ndarray) -> np.ndarray:
        """A uniform goal."""
        return numbers >= 0.5 if self.box is None else (2 * numbers - 1) * np.float32(self.box)


@compiled
def in_square(parameters: Any, achieved: Any, desired: Any) -> bool:
    far = max(abs(achieved[0] - desired[0]), abs(achieved[1] - desired[1]))
    return bool(far <= parameters[0])


moved = compiled(point_reach.step.function)


@first_class(STEP)
def step_in_square(
    goal_policy: Any, p: Any, state: Any, elapsed: int, action: Any, noise: Any, after: Any
) -> int:
    flags = moved(goal_policy, p, state, elapsed, action, noise, after) & TRUNCATED
    return flags | SUCCESS if in_square(p, after[:2], state[2:4]) else flags


class Squares(PointReach):
    """A task with its own test of success."""

    step_function = step_in_square
    achieves = first_class(ACHIEVES)(in_square)


def along_an_axis(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(np.subtract(a, b)).max())


@dataclass
class Entry:
    """One relabelled step."""

    obs: np.ndarray
    action: np.ndarray
    reward: float
    success: bool
    start: bool


# --- cases ----------------------------------------------------------------------------------------


@dataclass
class Case:
    """A rollout that may begin in the middle of episodes, its task, and the agent that acted."""

    rollout: Rollout
    task: Any
    rules: Rules
    agent: ppo.Agent
    rows: Tensor
    seeds: list[int]

    @property
    def g(self) -> int:
        return self.rollout.next_achieved.shape[-1]

    def segments(self) -> Iterator[tuple[int, int, int, int, bool]]:
        """Run and environment, first and last step, and whether it is a whole episode."""
        for run, env in np.ndindex(*self.rollout.rewards.shape[:2]):
            for segment in segments(self.rollout, run, env):
                yield run, env, *segment

    def value(self, run: int) -> Value:
        return partial(self._value, self.agent.split(self.rows[run : run + 1])[1])

    def _value(self, row: Tensor, *obs: np.ndarray) -> list[float]:
        return self.agent.value(row, torch.from_numpy(np.array(obs))[None])[0, :, 0].tolist()

    def estimated(self, paths: Trajectories) -> Tensor:
        """Advantages [run, path, step], rewards at truncations included."""
        samples = ppo.estimate(self.agent, self.rows, paths, SPEC)
        return samples.advantage.view(paths.rewards.shape)

    def points(self, run: int, env: int, a: int, b: int) -> list[np.ndarray]:
        """Where an episode was: its start, and where each action led."""
        after = self.rollout.next_achieved[run, env, a : b + 1].numpy()
        return [self.rollout.obs[run, env, a, : self.g].numpy(), *after]

    def copy_of(
        self, run: int, env: int, span: tuple[int, int], goal: np.ndarray, cut: bool = False
    ) -> tuple[list[Entry], float]:
        """An episode under another goal, and the value that follows it.

        cut: it ends with its success, whatever the task says.
        """
        rules = replace(self.rules, success_ends=self.rules.success_ends or cut)
        entries = described_copy(self.rollout, run, env, span, goal, rules)
        if entries[-1].success and rules.success_ends:
            return entries, 0.0
        if self.rollout.cuts is None:  # the limit of predator-prey is a failure
            entries[-1].reward = -1.0
            return entries, 0.0
        following = with_desired(self.rollout.cuts.next_obs[run, env, span[1]], goal)
        return entries, self.value(run)(following)[0]


def environment_of(draw: st.DrawFn, kind: str, seeds: list[int]) -> tuple[Any, Rules]:
    limit, envs = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    if kind == "prey":
        r, box = draw(st.sampled_from([0.5, 1.2])), draw(st.sampled_from([2.5, 10.0]))
        prey = PredatorPreySpec(
            n_dims=2,
            grid_size=box,
            interception_distance=r,
            max_steps=limit,
            prey=draw(st.sampled_from(["static", "attract"])),
            pushes_object=draw(st.booleans()),
        )
        rules = Rules(r, (0.0, 1.0), success_ends=True, box=box)
        return PredatorPrey(prey, seeds, envs), rules
    if kind == "point":
        # At most 0.15 per step; the threshold is a little more than half of that.
        spec = PointReachSpec(max_steps=limit, dt=0.15, threshold=0.11)
        rules = Rules(0.11, (-1.0, 0.0), success_ends=False, box=spec.range)
        if draw(st.booleans()):
            return Squares(spec, seeds, envs), replace(rules, distance=along_an_axis)
        return PointReach(spec, seeds, envs), rules
    bits = BitFlippingSpec(n_bits=draw(st.integers(2, 3)), max_steps=limit)
    return BitFlipping(bits, seeds, envs), Rules(0.0, (-1.0, 0.0), success_ends=True, box=None)


@st.composite
def cases(draw: st.DrawFn, kind: str, least_runs: int = 1) -> Case:
    runs, seed = draw(st.integers(least_runs, 3)), draw(st.integers(0, 2**16))
    seeds = list(range(seed, seed + runs))
    env, rules = environment_of(draw, kind, seeds)
    choices = env.spec.choices
    outputs = sum(choices) or env.action_size
    agent = agent_for(ppo.Agent, env.observation_size, outputs, (6,), choices)
    rows = torch.stack([agent.initial_row(seed, 1.0) for seed in seeds])
    rows += 0.3 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(seed))
    steps, before = draw(st.integers(1, 20)), draw(st.integers(0, 3))
    noise = np.random.default_rng(seed).gumbel(size=(3 + steps, *env.elapsed.shape, outputs))
    noise = torch.from_numpy(noise.astype(np.float32))
    env.prepare_rollout(1, before + steps)
    if before:
        ppo.collect(env, agent, rows, noise[:before])
    rollout = ppo.collect(env, agent, rows, noise[3:])
    return Case(rollout, env.task, rules, agent, rows, seeds)


def of_untrained_policies(noise: Tensor) -> tuple[PredatorPrey, Rollout]:
    """A rollout of untrained policies in the default environment; noise [step, run, 1, 3]."""
    seeds = list(range(noise.shape[1]))
    env = PredatorPrey(PredatorPreySpec(), seeds)
    agent = agent_for(ppo.Agent, env.observation_size, env.action_size, (8, 8))
    rows = torch.stack([agent.initial_row(seed, 1.0) for seed in seeds])
    env.prepare_rollout(1, len(noise))
    return env, ppo.collect(env, agent, rows, noise)


# --- copies ---------------------------------------------------------------------------------------


def segments(rollout: Rollout, run: int, env: int) -> list[tuple[int, int, bool]]:
    """First and last step of each segment of an environment, and whether it is a whole episode."""
    starts, over = rollout.starts[run, env].tolist(), rollout.over[run, env].tolist()
    firsts = [0, *(t for t in range(1, len(starts)) if starts[t])]
    lasts = [*(first - 1 for first in firsts[1:]), len(starts) - 1]
    return [(a, b, starts[a] and over[b]) for a, b in zip(firsts, lasts, strict=True)]


def with_desired(obs: Tensor, goal: np.ndarray) -> np.ndarray:
    """An observation [obs] with another desired goal."""
    changed, g = obs.numpy().copy(), len(goal)
    changed[g : 2 * g] = goal
    return changed


def entry(rollout: Rollout, place: Any, achieved: Any, goal: np.ndarray, rules: Rules) -> Entry:
    """The step at `place` (run, env, step) under another goal, judged by a goal achieved."""
    success = rules.achieves(achieved, goal)
    return Entry(
        with_desired(rollout.obs[place], goal),
        rollout.actions[place].numpy(),
        rules.rewards[success],
        success,
        bool(rollout.starts[place]) or place[2] == 0,
    )


def released_list(
    case: Case, run: int, env: int, spec: HindsightSpec, uniform: Tensor
) -> tuple[list[Entry], list[int]]:
    """The list of copies of one environment, and the place in the rollout of each (t k + copy)."""
    achieved = case.rollout.obs[run, env, :, : case.g].numpy()
    entries, places = [], []
    parts = segments(case.rollout, run, env)
    if spec.only_if_moved:
        parts = [
            (a, b, whole) for a, b, whole in parts[:-1]
            if any(math.dist(goal, achieved[a]) > 0.01 for goal in achieved[a : b + 1])
        ]  # fmt: skip
    for a, b, _ in parts:
        for t in range(a, b + 1):
            for copy in range(spec.k):
                u = float(uniform[run, env, t, copy])
                lowest = {"final": b, "future": t, "episode": a}[spec.strategy]
                goal = achieved[lowest + math.floor(u * (b - lowest + 1))]
                entries.append(entry(case.rollout, (run, env, t), achieved[t], goal, case.rules))
                places.append(t * spec.k + copy)
    return entries, places


def described_copy(
    rollout: Rollout, run: int, env: int, span: tuple[int, int], goal: np.ndarray, rules: Rules
) -> list[Entry]:
    """An episode, from its first to its last step, as the environment would have shown it."""
    entries = []
    for t in range(span[0], span[1] + 1):
        achieved = rollout.next_achieved[run, env, t].numpy()
        entries.append(entry(rollout, (run, env, t), achieved, goal, rules))
        if entries[-1].success and rules.success_ends:
            break
    return entries


def advantages(entries: list[Entry], value: Value, after: float) -> list[float]:
    """Generalised advantages of one trajectory, after which there is a value (0: it terminated)."""
    values = [*value(*(e.obs for e in entries)), after]
    result, running = [0.0] * len(entries), 0.0
    for t in reversed(range(len(entries))):
        delta = entries[t].reward + GAMMA * values[t + 1] - values[t]
        running = result[t] = delta + GAMMA * LAMBDA * running
    return result


def released_advantages(entries: list[Entry], value: Value) -> list[float]:
    """Each trajectory of the list terminates; the last one only if it ends with a success.

    Otherwise the value of its own last observation follows.
    """
    expected: list[float] = []
    while len(expected) < len(entries):
        first = len(expected)
        starts = (i for i in range(first + 1, len(entries)) if entries[i].start)
        part = entries[first : next(starts, len(entries))]
        at_end = first + len(part) == len(entries) and not part[-1].success
        expected += advantages(part, value, value(part[-1].obs)[0] if at_end else 0.0)
    return expected


def assert_copy(
    case: Case,
    paths: Trajectories,
    advantage: Tensor,
    where: tuple[int, int],
    span: tuple[int, int],
    expected: tuple[list[Entry], float],
    first: int | None = None,
) -> None:
    """The path holds exactly this trajectory between the first and the last step of an episode.

    first: what comes before this step is not learned from.
    """
    (run, path), (a, b), (entries, after) = where, span, expected
    skipped, n = 0 if first is None else first - a, len(entries)
    assert paths.valid[run, path, a : b + 1].tolist() == [
        skipped <= i < n for i in range(b + 1 - a)
    ]
    here = slice(a + skipped, a + n)
    kept = entries[skipped:]
    if not kept:
        return
    for found, wanted in (
        (paths.obs, [e.obs for e in kept]),
        (paths.actions, [e.action for e in kept]),
        (paths.rewards, [e.reward for e in kept]),
        (paths.success, [e.success for e in kept]),
        (paths.ends, [False] * (len(kept) - 1) + [True]),
    ):
        np.testing.assert_array_equal(found[run, path, here].numpy(), np.array(wanted))
    known = advantages(entries, case.value(run), after)[skipped:]
    np.testing.assert_allclose(advantage[run, path, here].numpy(), known, rtol=0, atol=1e-5)
