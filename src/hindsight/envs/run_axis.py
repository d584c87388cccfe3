"""What goal environments share on the run axis: episodes that follow each other.

The state of an environment is its observation, one row of numbers in the alphabetical order of the
goal dictionary: achieved goal, desired goal, observation.  A task says how a step changes it and
how an episode begins; `Environments` keeps [run, env] of them going.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space
from torch import Tensor

from hindsight.envs.step import Step
from hindsight.relabel.task import Task
from hindsight.specs.base import GOAL_KEYS, Spec
from hindsight.streams import Purpose, stream

TaskSpec = TypeVar("TaskSpec", bound=Spec)


def per_run(values: Tensor, like: Tensor) -> Tensor:
    """`values`, one for each run, in a shape that broadcasts against `like` [run, ...]."""
    return values.view(-1, *[1] * (like.dim() - 1))


class Environments(ABC, Generic[TaskSpec]):
    """[run, env] environments of one task; an episode that is over is followed by the next at once.

    Episode e of a run begins in the same state in every algorithm that is trained with that seed:
    comparisons between algorithms are paired.
    """

    #: Episodes' beginnings are drawn in blocks, two of which are held: the current and the next.
    BLOCK = 64

    specs: list[TaskSpec]  # [run]
    seeds: list[int]  # [run]
    state: Tensor  # [run, env, obs], the current observations
    elapsed: Tensor  # [run, env], steps of the current episode
    episode: Tensor  # [run, env], its number
    goal_size: int
    observation_size: int  # of a whole row: both goals and the observation
    action_size: int  # numbers in an action; a choice is one number
    n_choices: int | None  # actions are 0 ... n_choices - 1; None: they are continuous
    truncates = True  # whether a time limit may cut an episode
    goals_move = False  # whether desired goals move within an episode, after the reward
    keeps_rest = False  # goals explain all rewards
    task: Task  # rewards, and what differs between the runs
    observation_limit: Tensor  # [run, obs], the observation's largest absolute values

    def __init__(
        self,
        specs: Sequence[TaskSpec],
        seeds: Sequence[int],
        n_envs: int = 1,
        *,
        device: torch.device | str = "cpu",
        evaluation: bool = False,
    ) -> None:
        self.specs, self.seeds, self.n_envs = list(specs), list(seeds), n_envs
        self.device, self.evaluation = torch.device(device), evaluation
        self._purpose = Purpose.EVALUATION_SPAWN if evaluation else Purpose.SPAWN
        shape = (len(self.specs), n_envs)
        blocks = [self._block_size(spec) for spec in self.specs]
        self.block = torch.tensor(blocks)[:, None]  # [run, 1] episodes
        self.elapsed = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self.episode = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self._drawn = torch.zeros(shape, dtype=torch.int64)  # blocks drawn so far
        size = (*shape, 2 * max(blocks), self.observation_size)
        self._beginnings = torch.zeros(size, device=self.device)
        self._prepare()
        self._draw_beginnings()
        self.state = self._beginning()

    @classmethod
    def of(
        cls,
        specs: Sequence[TaskSpec],
        seeds: Sequence[int],
        n_envs: int,
        *,
        device: torch.device | str = "cpu",
        evaluation: bool = False,
        workers: int | None = None,
    ) -> Self:
        """What training loops ask for; no other process is needed to step them."""
        return cls(specs, seeds, n_envs, device=device, evaluation=evaluation)

    @staticmethod
    def parallel_episodes(episodes: int) -> int:
        """How many of so many evaluation episodes are played at the same time: all."""
        return episodes

    @property
    def observation_space(self) -> Dict:
        """Of a single environment, as gymnasium has it."""
        g = self.goal_size
        limits = np.split(self.observation_limit[0].cpu().numpy(), [g, 2 * g])
        boxes = {n: Box(-x, x, dtype=np.float32) for n, x in zip(GOAL_KEYS, limits, strict=True)}
        return Dict(dict[str, Space[Any]](boxes))

    @property
    def action_space(self) -> Box | Discrete:
        """Of a single environment, as gymnasium has it."""
        if self.n_choices is not None:
            return Discrete(self.n_choices)
        return Box(-1, 1, (self.action_size,), np.float32)

    @property
    def given_spaces(self) -> dict[str, Space[Any]]:
        """What `begin` can be given, by name."""
        return {name: self.observation_space[name] for name in GOAL_KEYS[:2]}

    def begin(self, given: Mapping[str, np.ndarray], generator: np.random.Generator) -> Tensor:
        """A first observation [obs] of the first run, of what is `given` and of what is drawn."""
        drawn = self._draw(self.specs[0], 1, generator)[0]
        achieved, desired, rest = drawn.tensor_split([self.goal_size, 2 * self.goal_size])
        goals = {"achieved_goal": achieved, "desired_goal": desired}
        goals |= {name: torch.from_numpy(goal) for name, goal in given.items()}
        return self.first(goals["achieved_goal"], goals["desired_goal"], rest)

    def first(self, achieved: Tensor, desired: Tensor, rest: Tensor) -> Tensor:
        """A first observation [obs] with these goals; `rest` was drawn beside other ones."""
        return torch.cat([achieved, desired, rest])

    def draw_step(self, generator: np.random.Generator) -> None:
        """Draw what is random in the next step of a single environment: nothing."""

    @abstractmethod
    def advance(self, actions: Tensor) -> Step:
        """One step from `state` and `elapsed`, which it leaves as they are."""

    @abstractmethod
    def _draw(self, spec: TaskSpec, size: int, generator: np.random.Generator) -> Tensor:
        """First observations [size, obs] of as many episodes."""

    @abstractmethod
    def _set_parameters(self) -> None:
        """Make `task` from `specs`."""

    def _block_size(self, spec: TaskSpec) -> int:
        """Episodes in a block."""
        return self.BLOCK

    def prepare_rollout(self, iteration: int, n_steps: int) -> None:
        """Nothing: such a task draws only when an episode begins."""

    def step(self, actions: Tensor) -> Step:
        """One step of every environment; `state` afterwards holds the next observations.

        Where an episode is over, these are the first of the next episode.
        """
        if self._steps_since_drawn == self._shortest_block:
            self._draw_beginnings()
        self._steps_since_drawn += 1
        step = self.advance(actions)
        over = step.terminated | step.truncated if self.truncates else step.terminated
        self.episode += over
        self.elapsed += 1
        self.elapsed.masked_fill_(over, 0)
        self.state = torch.where(over[..., None], self._beginning(), step.next_obs)
        return step

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices; the others leave the axis."""
        kept = runs.tolist()
        self.specs = [self.specs[i] for i in kept]
        self.seeds = [self.seeds[i] for i in kept]
        for name in ("state", "elapsed", "episode", "block", "_drawn", "_beginnings"):
            value = getattr(self, name)
            setattr(self, name, value[runs.to(value.device)])
        self._prepare()

    def cpu_seconds(self) -> float:
        """Processor time of other processes: there are none."""
        return 0.0

    def rewind(self, episode: int = 0) -> None:
        """Every environment to the beginning of the episode with this number (evaluation)."""
        self.elapsed.zero_()
        self.episode.fill_(episode)
        first = (episode // self.block).expand_as(self._drawn)
        # Two blocks are held: what lies before the last two has been overwritten.
        self._drawn = torch.where(self._drawn > first + 2, first, self._drawn)
        self._draw_beginnings()
        self.state = self._beginning()

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps; everything else follows from the specification."""
        return {name: getattr(self, name).clone() for name in ("state", "elapsed", "episode")}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""
        for name, value in saved.items():
            getattr(self, name).copy_(value)
        self._drawn.copy_(self.episode.cpu() // self.block)
        self._draw_beginnings()

    def _prepare(self) -> None:
        """What follows from the runs on the axis, whenever they change."""
        runs, envs = self.elapsed.shape
        self._run = torch.arange(runs, device=self.device)[:, None]
        self._env = torch.arange(envs, device=self.device)[None, :]
        self._two_blocks = 2 * self.block.to(self.device)
        self._shortest_block = int(self.block.min())
        self._set_parameters()

    def _beginning(self) -> Tensor:
        """The first observation of each environment's current episode, [run, env, obs]."""
        return self._beginnings[self._run, self._env, self.episode % self._two_blocks]

    def _draw_beginnings(self) -> None:
        """Draw the blocks that come within reach: called at least once in a block's steps."""
        self._steps_since_drawn = 0
        wanted = self.episode.cpu() // self.block + 2
        while (behind := (self._drawn < wanted).nonzero()).numel():
            for run, env in behind.tolist():
                block, size = int(self._drawn[run, env]), int(self.block[run])
                # An environment's blocks lie 2**40 apart from the next one's.
                generator = stream(self.seeds[run], self._purpose, (env << 40) + block)
                half = slice((block % 2) * size, (block % 2 + 1) * size)
                drawn = self._draw(self.specs[run], size, generator)
                self._beginnings[run, env, half] = drawn.to(self.device)
                self._drawn[run, env] += 1
