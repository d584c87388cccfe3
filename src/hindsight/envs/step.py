"""What one step of goal environments on the run axis tells."""

from typing import NamedTuple

from torch import Tensor


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
