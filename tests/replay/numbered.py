"""Transitions that carry their number in every field, their environment, and plain lists of them.

A field's value is 10 x the transition's number + the field's number + the component / 8, so that a
test notices any misalignment.  No observation after an action equals the next one before an action.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict

from hindsight.replay.buffer import ReplayBuffer, RowLayout

GOAL, REST, ACTION = 2, 3, 2
OBS = 2 * GOAL + REST
ROW = RowLayout.of(OBS, GOAL, ACTION)
SIZES = {"achieved": GOAL, "desired": GOAL, "rest": REST}
SIZES |= {f"next {name}": size for name, size in SIZES.items()} | {"action": ACTION}


def numbers(transition: np.ndarray, name: str) -> np.ndarray:
    """A field of the transitions with these numbers [...], float32 [..., size]."""
    place = list(SIZES).index(name)
    component = np.arange(SIZES[name]) / 8
    return (10 * np.asarray(transition)[..., None] + place + component).astype(np.float32)


def observed(
    transition: np.ndarray, goal: np.ndarray | None = None, *, after: bool = False
) -> dict[str, np.ndarray]:
    """An observation, whose desired goal transition `goal` has achieved (-1: its own).

    after: the observation after the action.
    """
    names = {"achieved_goal": "achieved", "desired_goal": "desired", "observation": "rest"}
    prefix = "next " if after else ""
    parts = {key: numbers(transition, prefix + name) for key, name in names.items()}
    if goal is not None:
        own = np.asarray(goal)[..., None] < 0
        desired = numbers(goal, "next achieved")
        parts["desired_goal"] = np.where(own, parts["desired_goal"], desired)
    return parts


def observation(transition: np.ndarray, goal: np.ndarray | None = None, *, after: bool = False):
    """The same as one array [..., OBS]."""
    return np.concatenate([*observed(transition, goal, after=after).values()], axis=-1)


def add(buffer: ReplayBuffer, number: np.ndarray, *ends: np.ndarray) -> None:
    """A step [run, env] of transitions with these numbers: terminated, truncated, success."""
    step = observation(number), numbers(number, "action"), stored_reward(number)
    given = (*step, observation(number, after=True), *ends)
    buffer.add(*map(torch.from_numpy, given))


def stored_reward(transition: np.ndarray) -> np.ndarray:
    """The environment's rewards [...]."""
    return (0.5 + np.asarray(transition)).astype(np.float32)


def reward(achieved: torch.Tensor, desired: torch.Tensor, ends: torch.Tensor):
    """A reward that depends on both goals and the end of the episode; success if they are equal."""
    value = achieved[..., 0] - 2 * desired[..., 1] + 100_000 * ends
    return value, (achieved == desired).all(-1)


def box(n: int) -> Box:
    return Box(-1e6, 1e6, (n,), np.float32)


class Numbered(gymnasium.Env):
    """Spaces and functions for numbered transitions; it is never stepped.

    Every third transition achieves its own goal.
    """

    observation_space = Dict(
        {"achieved_goal": box(GOAL), "desired_goal": box(GOAL), "observation": box(REST)}
    )
    action_space = box(ACTION)

    def __init__(self, n_envs: int | None = None) -> None:
        if n_envs is not None:
            self.num_envs = n_envs

    def compute_reward(self, achieved, desired, infos):
        """Depends on both goals and on the info."""
        assert achieved.dtype == desired.dtype == np.float32
        extra = [info.get("extra", 0.0) for info in infos]
        return achieved[:, 0] - 2 * desired[:, 1] + 1e5 * np.array(extra)

    def compute_terminated(self, achieved, desired, infos):
        assert len(infos) == len(achieved)
        own = achieved[:, 0] - desired[:, 0] == numbers(0, "next achieved")[0] - 1
        return (achieved == desired).all(-1) | own & (achieved[:, 0] // 10 % 3 == 0)


@dataclass(frozen=True)
class Transition:
    """One step of an episode."""

    number: int
    terminated: bool
    success: bool


@dataclass
class Slots:
    """An environment's episodes as lists; one is dropped once its first step is overwritten."""

    size: int
    longest: int  # an episode is cut after so many steps
    steps: int = 0
    episodes: list[tuple[int, list[Transition]]] = field(default_factory=list)  # first step, steps
    open: list[Transition] = field(default_factory=list)

    def add(self, transition: Transition, over: bool) -> None:
        self.open.append(transition)
        self.steps += 1
        if over or len(self.open) == self.longest:
            self.episodes.append((self.steps - len(self.open), self.open))
            self.open = []
        self.episodes = [e for e in self.episodes if e[0] >= self.steps - self.size]

    def finished(self) -> list[list[Transition]]:
        return [steps for _, steps in self.episodes]


@dataclass(frozen=True)
class Expected:
    """A sampled transition as it is expected."""

    transition: Transition
    goal: int  # the number of the transition whose achieved goal is desired, or -1: its own goal


def candidates(
    episodes: Sequence[list[Transition]], episode: list[Transition], i: int, strategy: str
) -> list[Transition]:
    """Transitions whose goals may replace that of step i, equally likely (HER, section 4.5)."""
    if strategy == "final":
        return episode[-1:]
    if strategy == "future":
        return episode[i:]
    if strategy == "episode":
        return episode
    return [transition for episode in episodes for transition in episode]


def draw(
    environments: Sequence[Slots], uniform: Sequence[float], strategy: str, k: int
) -> Expected:
    """The transition of a run that three numbers in [0, 1) select."""
    episodes = [episode for slots in environments for episode in slots.finished()]
    places = [(episode, i) for episode in episodes for i in range(len(episode))]
    episode, i = places[int(uniform[0] * len(places))]
    goal = -1
    if uniform[1] < k / (k + 1):
        allowed = candidates(episodes, episode, i, strategy)
        goal = allowed[int(uniform[2] * len(allowed))].number
    return Expected(episode[i], goal)
