"""One step of goal environments: what it tells, and what a task's own step function looks like."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hindsight.io.compiled import compiled, function_type

#: Numbers [...] in one piece.
Numbers = NDArray[np.float32]

#: How a goal moves by itself: `(d, drawn, described, velocity)`, which writes the velocity [n] at
#: the line of sight d [n] by the numbers drawn for the step.
GOAL_POLICY = function_type("void", "float32[:]", "float32[:]", "boolean", "float32[:]")

#: One step of one environment: `(goal_policy, parameters, state, elapsed, action, drawn, after)`.
#:
#: It writes into `after` [obs] what follows `state` [obs], which begins with the goal that the
#: action achieved, and returns which of the flags below hold.  `parameters` are the run's numbers,
#: `elapsed` the steps of the episode before this one, `action` the numbers of the action or one
#: choice, `drawn` the random numbers of the step.
STEP = function_type(
    "int64", GOAL_POLICY, "float64[:]", "float32[:]", "int64", "float32[:]", "float32[:]",
    "float32[:]",
)  # fmt: skip
TERMINATED, TRUNCATED, SUCCESS = 1, 2, 4


@compiled
def within(x: float, bound: float) -> float:
    """The nearest number in [-bound, bound]; NaN stays NaN."""
    if x > bound:
        return bound
    return -bound if x < -bound else x


class Step(NamedTuple):
    """One step of [run, env] environments; an episode is over where it is terminated or truncated.

    The two never hold at once: where an episode terminates in its last step, no time limit cut it.
    """

    next_achieved: Tensor  # [run, env, goal], the goal achieved by the action
    terminated: Tensor  # [run, env] bool: nothing follows
    truncated: Tensor  # [run, env] bool: the time limit cut what would have gone on
    success: Tensor  # [run, env] bool: the desired goal is achieved after this step
    next_obs: Tensor  # [run, env, obs], of the same episode, also where it is over
    #: [run, env], of the reward what goals do not explain; None: there is no such thing.
    rest: Tensor | None = None
