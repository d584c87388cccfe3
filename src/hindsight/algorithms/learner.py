"""What the off-policy algorithms share: the parameters of all runs, with optimisers and targets."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from hindsight.nn.adam import Adam


class Learner(ABC):
    """Parameters that Adam optimises and target parameters that follow them, [run, parameter].

    A row holds them in the order of `optimised`, then `targets`; their lengths are `agent.sizes`.
    """

    optimised: ClassVar[tuple[str, ...]]  # attributes of type Adam
    targets: ClassVar[tuple[str, ...]]  # attributes that are tensors [run, parameter]

    def __init__(
        self,
        agent: Any,
        rows: Tensor,
        learning_rate: Tensor | float | Callable[[str], float],
        weight_decay: float = 0.0,
    ) -> None:
        """`rows` [run, parameter], laid out as in `agent.initial_row`; the others as in `Adam`.

        `learning_rate` may be a function of the part's name in `optimised`.
        """
        self.agent = agent
        parts = (part.clone() for part in rows.split(agent.sizes, dim=1))
        for name in self.optimised:
            rate = learning_rate(name) if callable(learning_rate) else learning_rate
            setattr(self, name, Adam(next(parts), rate, weight_decay=weight_decay))
        for name in self.targets:
            setattr(self, name, next(parts))
        self._split()

    @abstractmethod
    def _split(self) -> None:
        """Set up the networks as views of the parameters."""

    @property
    def rows(self) -> Tensor:
        online = [getattr(self, name).rows for name in self.optimised]
        return torch.cat([*online, *(getattr(self, name) for name in self.targets)], dim=1)

    def select(self, runs: Tensor) -> None:
        for name in self.optimised:
            getattr(self, name).select(runs)
        for name in self.targets:
            setattr(self, name, getattr(self, name)[runs])
        self._split()

    def state_dict(self) -> dict[str, Any]:
        saved = {name: getattr(self, name).state_dict() for name in self.optimised}
        return saved | {name: getattr(self, name) for name in self.targets}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        for name in self.optimised:
            getattr(self, name).load_state_dict(saved[name])
        for name in self.targets:
            getattr(self, name).copy_(saved[name])
