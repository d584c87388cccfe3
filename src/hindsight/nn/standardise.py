"""Running standardisation of observations, which can be folded into a network's first layer.

A robot arm observes positions that vary by centimetres and velocities of millimetres per step.
Networks learn faster from inputs of mean 0 and variance 1 (LeCun et al. 1998, section 4.3; for
Fetch, Plappert et al. 2018, appendix A).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hindsight.nn.mlp import Network

#: Lower bound of the standard deviation, because some components of an observation are constant.
LEAST = 0.01


class Standardiser:
    """Running mean and variance of each component of the observations, separately for each run."""

    def __init__(self, runs: int, size: int, device: torch.device | str) -> None:
        self.count = 0
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
        obs = obs.double()
        n, mean = obs.shape[1], obs.mean(1, keepdim=True)
        delta, total = mean - self.mean, self.count + obs.shape[1]
        self.squares += ((obs - mean) ** 2).sum(1, keepdim=True)
        self.squares += delta**2 * (self.count * n / total)
        self.mean += delta * (n / total)
        self.count = total
        self._prepare()

    def __call__(self, obs: Tensor) -> Tensor:
        """Standardise observations [run, n, size]."""
        return (obs - self.shift) / self.scale

    def fold(self, networks: Sequence[Network]) -> None:
        """Change networks in place, so that they take raw instead of standardised observations.

        A network's inputs begin with the observation.  A stack has several networks per run.
        """
        size = self.shift.shape[-1]
        for network in networks:
            weight, bias = network.layers[0]
            each = len(weight) // len(self.shift)
            shift, scale = (x.repeat_interleave(each, 0) for x in (self.shift, self.scale))
            weight[..., :size] /= scale
            bias -= (weight[..., :size] * shift).sum(-1).reshape(bias.shape)

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices."""
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
