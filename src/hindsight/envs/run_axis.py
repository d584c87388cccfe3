"""Base class of the native goal environments: vectorised steps and automatic resets.

The state of an environment is its observation, one row of numbers in the alphabetical order of the
goal dictionary's keys: achieved goal, desired goal, observation.  A task defines one step and the
distribution of first observations; `Environments` runs [run, env] copies of it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.environment import Environment
from hindsight.envs.step import GOAL_POLICY, Numbers, Step
from hindsight.io.compiled import FirstClass, entry_point, first_class
from hindsight.specs.base import GOAL_KEYS, EnvironmentSpec
from hindsight.streams import Purpose, stream

TaskSpec = TypeVar("TaskSpec", bound=EnvironmentSpec)


@first_class(GOAL_POLICY)
def at_rest(d: Numbers, drawn: Numbers, described: bool, velocity: Numbers) -> None:
    """The goal policy of tasks whose goals do not move."""


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
    """Step all environments; arrays are [run, env, ...], `after` and `flags` are outputs.

    parameters: [number], see `Environments.numbers`.
    drawn: [run, rollout step, env, number], of which step `t` is used.
    """
    runs, envs = elapsed.shape
    for run in range(runs):
        for env in range(envs):
            flags[run, env] = step(
                goal_policy,
                parameters,
                state[run, env],
                elapsed[run, env],
                actions[run, env],
                drawn[run, t, env],
                after[run, env],
            )


class Environments(Environment, Generic[TaskSpec]):
    """Native environments [run, env] of one task.

    With the same seed, episode e of a run starts in the same state under every algorithm, so that
    comparisons between algorithms are paired.
    """

    seeds: list[int]  # [run]
    episode: Tensor  # [run, env], number of the current episode
    step_function: FirstClass  # one step of one environment (`envs.step.STEP`)
    parameters: NDArray[np.float64]  # [number], its `parameters` argument
    drawn: Numbers  # [run, step, env, number], random numbers of this rollout's steps
    _t: int  # index of the next step in this rollout
    goals_move = False  # whether desired goals move during an episode, after the reward

    def __init__(
        self,
        spec: TaskSpec,
        seeds: Sequence[int],
        n_envs: int = 1,
        *,
        device: torch.device | str = "cpu",
        evaluation: bool = False,
    ) -> None:
        self.spec, self.seeds, self.n_envs = spec, list(seeds), n_envs
        self.observation_size, self.action_size = spec.observation_size, spec.action_size
        self.n_choices = spec.n_choices
        self.device, self.evaluation = torch.device(device), evaluation
        self._purpose = Purpose.EVALUATION_SPAWN if evaluation else Purpose.SPAWN
        shape = (len(self.seeds), n_envs)
        self.parameters = np.array(self.numbers(), np.float64)
        self.elapsed = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self.episode = self.elapsed.clone()
        self._drawn = torch.full((*shape, 2), -1)  # number of the block in each half
        size = (*shape, 2 * self.block_size, self.observation_size)
        self.beginnings = torch.zeros(size, device=self.device)
        self._prepare()
        self.draw_beginnings()
        self.state = self._beginning()

    @property
    def observation_space(self) -> Dict:
        """The gymnasium space of a single environment's observations."""
        g = self.goal_size
        limits = np.split(np.array(self.limits(), np.float32), [g, 2 * g])
        boxes = {n: Box(-x, x, dtype=np.float32) for n, x in zip(GOAL_KEYS, limits, strict=True)}
        return Dict(dict[str, Space[Any]](boxes))

    @property
    def action_space(self) -> Box | Discrete:
        """The gymnasium space of a single environment's actions."""
        if self.n_choices is not None:
            return Discrete(self.n_choices)
        return Box(-1, 1, (self.action_size,), np.float32)

    def draw_first(self, generator: np.random.Generator) -> Tensor:
        """Draw a first observation [obs] for the gymnasium wrapper."""
        return self._draw(1, generator)[0]

    def draw_step(self, generator: np.random.Generator) -> None:
        """Draw the random numbers of the wrapper's next step; does nothing by default."""

    def advance(self, actions: Tensor) -> Step:
        """Compute one step from `state` and `elapsed` without changing them."""
        t = self._t if self.drawn.shape[-1] else 0
        if t >= self.drawn.shape[1]:
            raise IndexError("call prepare_rollout first, with at least as many steps")
        self._t += 1
        state, elapsed = self.state.cpu().contiguous().numpy(), self.elapsed.cpu().numpy()
        chosen = actions.cpu().float().reshape(*elapsed.shape, self.action_size)
        after, flags = np.empty_like(state), np.empty_like(elapsed)
        _advance(
            self.step_function.address, self.goal_policy.address, self.parameters, state,
            elapsed, chosen.contiguous().numpy(), self.drawn, t, after, flags,
        )  # fmt: skip
        next_obs, found = (torch.from_numpy(x).to(self.device) for x in (after, flags))
        return Step.of(next_obs, found, self.goal_size)

    @property
    def goal_policy(self) -> FirstClass:
        """How desired goals move, `envs.step.GOAL_POLICY`."""
        return at_rest

    @property
    def block_size(self) -> int:
        """First observations are drawn in blocks of this many episodes; two blocks are kept."""
        return 64

    @abstractmethod
    def numbers(self) -> list[float]:
        """The numbers that describe the task to its step function."""

    @abstractmethod
    def _draw(self, size: int, generator: np.random.Generator) -> Tensor:
        """Draw first observations [size, obs]."""

    def step(self, actions: Tensor) -> Step:
        if self._steps_since_drawn == self.block_size:
            self.draw_beginnings()
        self._steps_since_drawn += 1
        step = self.advance(actions)
        over = step.terminated | step.truncated
        self.episode += over
        self.elapsed += 1
        self.elapsed.masked_fill_(over, 0)
        self.state = torch.where(over[..., None], self._beginning(), step.next_obs)
        return step

    def select(self, runs: Tensor) -> None:
        self.seeds = [self.seeds[i] for i in runs.tolist()]
        for name in ("state", "elapsed", "episode", "_drawn", "beginnings"):
            value = getattr(self, name)
            setattr(self, name, value[runs.to(value.device)])
        self._prepare()

    def rewind(self, episode: int = 0) -> None:
        self.elapsed.zero_()
        self.episode.fill_(episode)
        self.draw_beginnings()
        self.state = self._beginning()

    def state_dict(self) -> dict[str, Tensor]:
        return {name: getattr(self, name).clone() for name in ("state", "elapsed", "episode")}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        for name, value in saved.items():
            getattr(self, name).copy_(value)
        self.draw_beginnings()

    def _prepare(self) -> None:
        """Start a rollout without random numbers, for the runs on the axis."""
        self.drawn, self._t = np.empty((len(self.seeds), 1, self.n_envs, 0), np.float32), 0

    def _beginning(self) -> Tensor:
        """The first observation of each environment's current episode, [run, env, obs]."""
        index = self.episode % (2 * self.block_size)
        return self.beginnings.take_along_dim(index[..., None, None], dim=2)[:, :, 0]

    def draw_beginnings(self) -> None:
        """Draw the blocks that may be needed soon; call this at least every `block_size` steps."""
        self._steps_since_drawn = 0
        size = self.block_size
        current = self.episode.cpu()[..., None] // size
        wanted = current + (current + torch.arange(2)) % 2  # even blocks are in the first half
        for run, env, half in (self._drawn != wanted).nonzero().tolist():
            # Stream numbers of consecutive environments are 2**40 apart.
            number = (env << 40) + int(wanted[run, env, half])
            first = self._draw(size, stream(self.seeds[run], self._purpose, number))
            self.beginnings[run, env, half * size : (half + 1) * size] = first.to(self.device)
        self._drawn = wanted
