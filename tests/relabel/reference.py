"""Relabelled trajectories by plain loops, written from the papers' description, not from the code.

Lists of entries are made one environment at a time.  Both sides receive the same uniform numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from hindsight.replay.rollout import Rollout
from hindsight.specs.hindsight import HindsightSpec

GAMMA, LAMBDA = 0.9, 0.8
Value = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Rules:
    """A task: how near a goal is achieved, the reward for it, and whether it ends the episode."""

    g: int  # numbers in a goal
    near: float
    rewards: tuple[float, float]  # for a step that does not achieve the goal, and one that does
    success_ends: bool

    def achieves(self, achieved: np.ndarray, goal: np.ndarray) -> bool:
        return math.dist(achieved, goal) <= self.near


@dataclass
class Entry:
    """One relabelled step."""

    obs: np.ndarray
    action: np.ndarray
    reward: float
    success: bool
    start: bool


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


def entry(
    rollout: Rollout,
    place: tuple[int, int, int],
    achieved: np.ndarray,
    goal: np.ndarray,
    rules: Rules,
) -> Entry:
    """The step at `place` (run, env, step) under another goal, judged by a goal achieved."""
    success = rules.achieves(achieved, goal)
    return Entry(
        with_desired(rollout.obs[place], goal),
        rollout.actions[place].numpy(),
        rules.rewards[success],
        success,
        bool(rollout.starts[place]) or place[2] == 0,
    )


def moves_away(goals: np.ndarray) -> bool:
    """Whether goals [step, goal] move away from the first one."""
    return any(math.dist(goal, goals[0]) > 0.01 for goal in goals)


def released_list(
    rollout: Rollout, run: int, env: int, spec: HindsightSpec, uniform: Tensor, rules: Rules
) -> tuple[list[Entry], list[int]]:
    """The list of copies of one environment, and the place in the rollout of each (t k + copy)."""
    achieved = rollout.obs[run, env, :, : rules.g].numpy()
    entries, places = [], []
    parts = segments(rollout, run, env)
    if spec.only_if_moved:
        parts = [part for part in parts[:-1] if moves_away(achieved[part[0] : part[1] + 1])]
    for a, b, _ in parts:
        for t in range(a, b + 1):
            for copy in range(spec.k):
                u = float(uniform[run, env, t, copy])
                lowest = {"final": b, "future": t, "episode": a}[spec.strategy]
                goal = achieved[lowest + math.floor(u * (b - lowest + 1))]
                entries.append(entry(rollout, (run, env, t), achieved[t], goal, rules))
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
    values = [*(value(e.obs) for e in entries), after]
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
        expected += advantages(part, value, value(part[-1].obs) if at_end else 0.0)
    return expected
