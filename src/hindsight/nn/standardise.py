"""Running standardisation of observations, which can be folded into a network's first layer.

A robot arm observes positions that vary by centimetres and velocities of millimetres per step.
Networks learn faster from inputs of mean 0 and variance 1 (LeCun et al. 1998, section 4.3; for
Fetch, Plappert et al. 2018, appendix A).

Hindsight makes achieved goals desired ones, so both share one mean and variance. If desired goals
had their own, a goal that is always the same would have no variance, and a relabelled goal one unit
away would enter the networks as 100.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hindsight.nn.mlp import Network

#: Lower bound of the standard deviation, because some components of an observation are constant.
LEAST = 0.01
#: Deviation of a component that never varies, by its mean: below the resolution of float32.
CONSTANT = 1e-8
#: Bound of the standardised observations.
CLIP = 5.0


class Standardiser:
    """Running mean and variance of each component of the observations, separately for each run.

    Observations begin with the achieved and the desired goal, which share theirs.
    """

    def __init__(self, runs: int, size: int, goal_size: int, device: torch.device | str) -> None:
        self.count, self.goal_size = 0, goal_size
        self.mean = torch.zeros(runs, 1, size, dtype=torch.float64, device=device)
        #: Sum of squared deviations from the mean.
        self.squares = torch.zeros_like(self.mean)
        self._prepare()

    def _prepare(self) -> None:
        deviation = (self.squares / max(self.count, 1)).sqrt().clamp(min=LEAST)
        self.shift = self.mean.float()
        self.scale = deviation.float() if self.count else torch.ones_like(self.shift)

    def update(self, obs: Tensor) -> None:
        """Add observations [run, n, size] (Chan et al. 1983, eq. 1.5)."""
        g = self.goal_size
        achieved, desired, others = obs.tensor_split([g, 2 * g], dim=-1)
        swapped = torch.cat([desired, achieved, others], dim=-1)
        obs = torch.cat([obs, swapped], dim=1).double()
        n, mean = obs.shape[1], obs.mean(1, keepdim=True)
        delta, total = mean - self.mean, self.count + obs.shape[1]
        self.squares += ((obs - mean) ** 2).sum(1, keepdim=True)
        self.squares += delta**2 * (self.count * n / total)
        self.mean += delta * (n / total)
        self.count = total
        self._prepare()

    def __call__(self, obs: Tensor) -> Tensor:
        """Standardise observations [run, n, size]; unchanged before the first update."""
        return ((obs - self.shift) / self.scale).clamp_(-CLIP, CLIP) if self.count else obs

    @property
    def bounds(self) -> Tensor:
        """Observations [run, 2 size] that are clipped: the lower bounds, then the upper ones."""
        at_most = CLIP * self.scale
        return torch.cat([self.shift - at_most, self.shift + at_most], dim=-1)[:, 0]

    def fold(self, networks: Sequence[Network]) -> None:
        """Change networks in place, so that they take raw instead of standardised observations.

        They must be within `bounds`.  A network's inputs begin with the observation.  A stack has
        several networks per run.  What never varied was 0 to them, whatever its value: with a
        weight, a large value's rounding would drown everything else.
        """
        size = self.shift.shape[-1]
        deviation = (self.squares / max(self.count, 1)).sqrt()
        constant = deviation <= CONSTANT * self.mean.abs()
        for network in networks:
            weight, bias = network.layers[0]
            each = len(weight) // len(self.shift)
            shift, scale, none = (
                x.repeat_interleave(each, 0) for x in (self.shift, self.scale, constant)
            )
            weight[..., :size] = (weight[..., :size] / scale).masked_fill(none, 0)
            bias -= (weight[..., :size] * shift).sum(-1).reshape(bias.shape)

    def select(self, runs: Tensor) -> None:
        runs = runs.to(self.mean.device)
        self.mean, self.squares = self.mean[runs], self.squares[runs]
        self._prepare()

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "mean": self.mean.clone(), "squares": self.squares.clone()}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.count = saved["count"]
        self.mean.copy_(saved["mean"])
        self.squares.copy_(saved["squares"])
        self._prepare()
