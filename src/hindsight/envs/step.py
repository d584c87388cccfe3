"""One step of goal environments: its result, and the signatures of a task's functions."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numba import types
from numpy.typing import NDArray
from torch import Tensor

from hindsight.nn.numba_cache import compiled, first_class

#: A contiguous float32 array [...].
Numbers = NDArray[np.float32]
#: Its type for Numba, if it has one axis.
VECTOR = types.float32[::1]

#: How a goal moves: `(d, noise, described, velocity)` writes the velocity [n], given the line of
#: sight d [n] and the random numbers of the step.
GOAL_POLICY = types.FunctionType(types.void(VECTOR, VECTOR, types.boolean, VECTOR))

#: One step of one environment: `(goal_policy, parameters, state, elapsed, action, noise, after)`.
#:
#: It writes the successor of `state` [obs] into `after` [obs], which begins with the goal that the
#: action achieved, and returns a combination of the flags below.  `parameters` describe the task,
#: `elapsed` is the number of previous steps of the episode, `action` contains the numbers of the
#: action or one choice, and `noise` contains the random numbers of the step.
STEP = types.FunctionType(
    types.int64(GOAL_POLICY, types.float64[::1], VECTOR, types.int64, VECTOR, VECTOR, VECTOR)
)
TERMINATED, TRUNCATED, SUCCESS = 1, 2, 4

#: Whether a goal is achieved: `(parameters, achieved, desired)`, of goals [goal].
ACHIEVES = types.FunctionType(types.boolean(types.float64[::1], VECTOR, VECTOR))


class Pay(NamedTuple):
    """The reward of a step, by what it did."""

    success: float  # it achieved the desired goal
    failure: float  # it ended the episode without
    step: float  # neither

    def of(self, success: Tensor, terminated: Tensor) -> Tensor:
        """The rewards of steps [...], by whether each succeeded and whether it was terminated."""
        return torch.where(success, self.success, torch.where(terminated, self.failure, self.step))


@compiled
def is_near(parameters: NDArray[np.float64], achieved: Numbers, desired: Numbers) -> bool:
    """Whether two goals are at most `parameters[0]` apart, in float64."""
    squares = 0.0
    for i in range(len(achieved)):
        squares += (np.float64(achieved[i]) - np.float64(desired[i])) ** 2
    return math.sqrt(squares) <= parameters[0]


near = first_class(ACHIEVES)(is_near)


@compiled
def within(x: float, bound: float) -> float:
    """Clip x to [-bound, bound]; NaN propagates."""
    if x > bound:
        return bound
    return -bound if x < -bound else x


class Step(NamedTuple):
    """The result of one step of [run, env] environments.

    An episode is over if it is terminated or truncated, never both: an episode that terminates at
    the time limit is not truncated.
    """

    next_achieved: Tensor  # [run, env, goal], the goal achieved by the action
    terminated: Tensor  # [run, env] bool: the episode reached a terminal state
    truncated: Tensor  # [run, env] bool: the time limit cut the episode
    success: Tensor  # [run, env] bool: the step achieved the desired goal
    next_obs: Tensor  # [run, env, obs], of the same episode even if it is over
    reward: Tensor  # [run, env], as paid
    rest: Tensor | None = None  # [run, env], its part that goals do not explain; None: not reported

    @classmethod
    def of(cls, next_obs: Tensor, flags: Tensor, goal_size: int, pay: Pay) -> "Step":
        """Make a native step's result from its next observations and its flags."""
        outcomes = ((flags & flag) > 0 for flag in (TERMINATED, TRUNCATED, SUCCESS))
        terminated, truncated, success = outcomes
        reward = pay.of(success, terminated)
        return cls(next_obs[..., :goal_size], terminated, truncated, success, next_obs, reward)
