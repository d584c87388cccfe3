"""What goal environments share on the run axis: episodes that follow each other.

The state of an environment is its observation, one row of numbers in the alphabetical order of the
goal dictionary: achieved goal, desired goal, observation.  A task says how a step changes it and
how an episode begins; `Environments` keeps [run, env] of them going.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.step import GOAL_POLICY, SUCCESS, TERMINATED, TRUNCATED, Numbers, Step
from hindsight.io.compiled import FirstClass, entry_point, first_class
from hindsight.relabel.task import Task
from hindsight.specs.base import GOAL_KEYS, Spec
from hindsight.streams import Purpose, stream

TaskSpec = TypeVar("TaskSpec", bound=Spec)


def per_run(values: Tensor, like: Tensor) -> Tensor:
    """`values`, one for each run, in a shape that broadcasts against `like` [run, ...]."""
    return values.view(-1, *[1] * (like.dim() - 1))


@first_class(GOAL_POLICY)
def at_rest(d: Numbers, drawn: Numbers, described: bool, velocity: Numbers) -> None:
    """The goal does not move by itself."""


@entry_point
def _advance(
    step: Any,
    goal_policy: Any,
    parameters: NDArray[np.float64],
    state: Numbers,
    elapsed: NDArray[np.int64],
    actions: Numbers,
    drawn: Numbers,
    t: int,
    after: Numbers,
    flags: NDArray[np.int64],
) -> None:
    """One step of runs whose goals move alike; all but the functions [run, ...] or [run, env, ...].

    drawn: [run, step of the rollout, env, number], of which step `t` is taken.
    """
    runs, envs = elapsed.shape
    for run in range(runs):
        for env in range(envs):
            flags[run, env] = step(
                goal_policy,
                parameters[run],
                state[run, env],
                elapsed[run, env],
                actions[run, env],
                drawn[run, t, env],
                after[run, env],
            )


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
    step_function: FirstClass  # one step of one environment (`envs.step.STEP`)
    parameters: NDArray[np.float64]  # [run, number], what that is told of each run
    #: [run, step, env, number], what is random in the steps of this rollout.
    drawn: Numbers
    _t: int  # the step of this rollout
    #: Runs that follow each other and whose goals move alike.
    _alike: list[tuple[FirstClass, slice]]
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
        self.beginnings = torch.zeros(size, device=self.device)
        self._prepare()
        self.draw_beginnings()
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

    def advance(self, actions: Tensor) -> Step:
        """One step from `state` and `elapsed`, which it leaves as they are."""
        t = self._t if self.drawn.shape[-1] else 0
        if t >= self.drawn.shape[1]:
            raise IndexError("prepare_rollout comes first, for as many steps as there are")
        self._t += 1
        state, elapsed = self.state.cpu().contiguous().numpy(), self.elapsed.cpu().numpy()
        chosen = actions.cpu().float().reshape(*elapsed.shape, self.action_size)
        numbers = chosen.contiguous().numpy()
        after, flags = np.empty_like(state), np.empty_like(elapsed)
        arrays = self.parameters, state, elapsed, numbers
        for policy, runs in self._alike:
            _advance(
                self.step_function.address, policy.address, *(x[runs] for x in arrays),
                self.drawn[runs], t, after[runs], flags[runs],
            )  # fmt: skip
        next_obs, found = (torch.from_numpy(x).to(self.device) for x in (after, flags))
        terminated, truncated, success = (
            (found & flag) > 0 for flag in (TERMINATED, TRUNCATED, SUCCESS)
        )
        achieved = next_obs[..., : self.goal_size]
        return Step(achieved, terminated, truncated, success, next_obs)

    def goal_policy(self, run: int) -> FirstClass:
        """How a run's goals move by themselves."""
        return at_rest

    @abstractmethod
    def numbers(self, spec: TaskSpec) -> list[float]:
        """What the task's step function is told of a run."""

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
        if self._steps_since_drawn == self.shortest_block:
            self.draw_beginnings()
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
        for name in ("state", "elapsed", "episode", "block", "_drawn", "beginnings"):
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
        self.draw_beginnings()
        self.state = self._beginning()

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps; everything else follows from the specification."""
        return {name: getattr(self, name).clone() for name in ("state", "elapsed", "episode")}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""
        for name, value in saved.items():
            getattr(self, name).copy_(value)
        self._drawn.copy_(self.episode.cpu() // self.block)
        self.draw_beginnings()

    def _prepare(self) -> None:
        """What follows from the runs on the axis, whenever they change."""
        runs, envs = self.elapsed.shape
        self._run = torch.arange(runs, device=self.device)[:, None]
        self._env = torch.arange(envs, device=self.device)[None, :]
        self._two_blocks = 2 * self.block.to(self.device)
        self.parameters = np.array([self.numbers(spec) for spec in self.specs], np.float64)
        self.drawn, self._t = np.empty((runs, 1, envs, 0), np.float32), 0
        policies = [self.goal_policy(run) for run in range(runs)]
        firsts = [run for run in range(runs) if run == 0 or policies[run] is not policies[run - 1]]
        bounds = pairwise([*firsts, runs])
        self._alike = [(policies[first], slice(first, end)) for first, end in bounds]
        self.shortest_block = int(self.block.min())
        self._set_parameters()

    def _beginning(self) -> Tensor:
        """The first observation of each environment's current episode, [run, env, obs]."""
        return self.beginnings[self._run, self._env, self.episode % self._two_blocks]

    def draw_beginnings(self) -> None:
        """Draw the blocks that come within reach: at least once in every `shortest_block` steps."""
        self._steps_since_drawn = 0
        wanted = self.episode.cpu() // self.block + 2
        while (behind := (self._drawn < wanted).nonzero()).numel():
            for run, env in behind.tolist():
                block, size = int(self._drawn[run, env]), int(self.block[run])
                # An environment's blocks lie 2**40 apart from the next one's.
                generator = stream(self.seeds[run], self._purpose, (env << 40) + block)
                half = slice((block % 2) * size, (block % 2 + 1) * size)
                drawn = self._draw(self.specs[run], size, generator)
                self.beginnings[run, env, half] = drawn.to(self.device)
                self._drawn[run, env] += 1
