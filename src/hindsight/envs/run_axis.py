"""Base class of the native goal environments: vectorised steps and automatic resets.

The state of an environment is its observation, one row of numbers in the alphabetical order of the
goal dictionary's keys: achieved goal, desired goal, observation.  A task defines one step and the
distribution of first observations; `Environments` runs [run, env] copies of it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.environment import Environment
from hindsight.envs.step import GOAL_POLICY, TERMINATED, TRUNCATED, Numbers, Pay, Step, near
from hindsight.nn.compiled import copy
from hindsight.nn.numba_cache import FirstClass, compiled, entry_point, first_class
from hindsight.specs.base import GOAL_KEYS, EnvironmentSpec
from hindsight.streams import Purpose, stream

TaskSpec = TypeVar("TaskSpec", bound=EnvironmentSpec)


@first_class(GOAL_POLICY)
def at_rest(d: Numbers, noise: Numbers, described: bool, velocity: Numbers) -> None:
    """The goal policy of tasks whose goals do not move."""


@entry_point
def _advance(
    step: Any,
    goal_policy: Any,
    parameters: NDArray[np.float64],
    state: Numbers,
    elapsed: NDArray[np.int64],
    actions: Numbers,
    noise: Numbers,
    t: int,
    after: Numbers,
    flags: NDArray[np.int64],
) -> None:
    """Step all environments; arrays are [run, env, ...], `after` and `flags` are outputs.

    parameters: [number], see `Environments.numbers`.
    noise: [run, rollout step, env, number], of which step `t` is used.
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
                noise[run, t, env],
                after[run, env],
            )


class TaskFunctions(NamedTuple):
    step: Any  # `envs.step.STEP`
    goal_policy: Any  # `envs.step.GOAL_POLICY`
    achieves: Any  # `envs.step.ACHIEVES`
    parameters: NDArray[np.float64]  # their `parameters` argument
    pay: Pay
    terminates_on_success: bool


class Copies(NamedTuple):
    """One run's environments for compiled loops, which update the first three in place."""

    state: Numbers  # [env, obs]
    elapsed: NDArray[np.int64]  # [env]
    episode: NDArray[np.int64]  # [env]
    beginnings: Numbers  # [env, held, obs], first observations; of episode e: index e modulo held
    noise: Numbers  # [rollout step, env, number], random numbers of the steps


@compiled
def step_once(
    task: TaskFunctions, copies: Copies, env: int, t: int, action: Numbers, after: Numbers
) -> int:
    """Take the rollout's step `t` in one environment; returns its flags (`envs.step`).

    `after` [obs] is the next observation, of the same episode even if that is over; then the next
    episode begins.
    """
    state, elapsed = copies.state[env], copies.elapsed[env]
    noise = copies.noise[t, env]
    flags = task.step(task.goal_policy, task.parameters, state, elapsed, action, noise, after)
    copies.elapsed[env] += 1
    copy(after, state)
    if flags & (TERMINATED | TRUNCATED):
        copies.episode[env] += 1
        copies.elapsed[env] = 0
        beginnings = copies.beginnings[env]
        copy(beginnings[copies.episode[env] % len(beginnings)], state)
    return int(flags)


@entry_point
def _compare(
    achieves: Any,
    parameters: NDArray[np.float64],
    achieved: Numbers,
    desired: Numbers,
    success: NDArray[np.bool_],
) -> None:
    """Write whether goals are achieved, [n], for achieved and desired goals [n, goal]."""
    for i in range(len(success)):
        success[i] = achieves(parameters, achieved[i], desired[i])


class Environments(Environment, Generic[TaskSpec]):
    """Native environments [run, env] of one task.

    With the same seed, episode e of a run starts in the same state under every algorithm, so that
    comparisons between algorithms are paired.
    """

    seeds: list[int]  # [run]
    episode: Tensor  # [run, env], number of the current episode
    step_function: FirstClass  # one step of one environment (`envs.step.STEP`)
    achieves: FirstClass = near  # whether a goal is achieved (`envs.step.ACHIEVES`)
    pay = Pay(success=0.0, failure=-1.0, step=-1.0)
    parameters: NDArray[np.float64]  # [number], the functions' `parameters` argument
    noise: Numbers  # [run, step, env, number], random numbers of this rollout's steps
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
        self.threshold = float(self.parameters[0])
        self.elapsed = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self.episode = self.elapsed.clone()
        self._drawn = torch.full((*shape, 2), -1)  # number of the block in each half
        size = (*shape, 2 * self.block_size, self.observation_size)
        self.beginnings = torch.zeros(size, device=self.device)
        self._prepare()
        self.draw_beginnings()
        self.state = self._beginning()

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rewards and successes [...], as the steps of the environments decide them."""
        goals = torch.broadcast_tensors(next_achieved, desired)
        rows = [x.float().cpu().reshape(-1, x.shape[-1]).contiguous().numpy() for x in goals]
        found = np.empty(len(rows[0]), np.bool_)
        _compare(self.achieves.address, self.parameters, *rows, found)
        success = torch.from_numpy(found).to(desired.device).view(goals[0].shape[:-1])
        return self.pay.of(success, terminated), success

    @property
    def _box(self) -> Tensor:
        """Largest absolute values of a goal, [goal]: the goal space, unless a task has another."""
        return torch.tensor(self.limits()[: self.goal_size], device=self.device)

    def goals(self, uniform: Tensor) -> Tensor:
        return (2 * uniform - 1) * self._box

    def contains(self, goals: Tensor) -> Tensor:
        return (goals.abs() <= self._box).all(-1)

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
        t = self._t if self.noise.shape[-1] else 0
        if t >= self.noise.shape[1]:
            raise IndexError("call prepare_rollout first, with at least as many steps")
        self._t += 1
        state, elapsed = self.state.cpu().contiguous().numpy(), self.elapsed.cpu().numpy()
        chosen = actions.cpu().float().reshape(*elapsed.shape, self.action_size)
        after, flags = np.empty_like(state), np.empty_like(elapsed)
        _advance(
            self.step_function.address, self.goal_policy.address, self.parameters, state,
            elapsed, chosen.contiguous().numpy(), self.noise, t, after, flags,
        )  # fmt: skip
        next_obs, found = (torch.from_numpy(x).to(self.device) for x in (after, flags))
        return Step.of(next_obs, found, self.goal_size, self.pay)

    @property
    def functions(self) -> TaskFunctions:
        """The task for compiled loops."""
        step, moves, achieves = (
            x.address for x in (self.step_function, self.goal_policy, self.achieves)
        )
        ends = self.terminates_on_success
        return TaskFunctions(step, moves, achieves, self.parameters, self.pay, ends)

    def copies(self, run: int, n_steps: int) -> Copies:
        """A run's environments for compiled loops, which take `n_steps` steps in all.

        Call `draw_beginnings` at least every `block_size` of them, and `prepare_rollout` before.
        """
        noise = self.noise[run]
        if not noise.shape[-1]:
            noise = np.empty((n_steps, *noise.shape[1:]), np.float32)
        parts = (self.state, self.elapsed, self.episode, self.beginnings)
        state, elapsed, episode, beginnings = (x[run].numpy() for x in parts)
        return Copies(state, elapsed, episode, beginnings, noise)

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
        """The numbers that describe the task to its functions; the first is a goal's threshold."""

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
        self.noise, self._t = np.empty((len(self.seeds), 1, self.n_envs, 0), np.float32), 0

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
