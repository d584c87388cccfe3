"""Adam on rows: every run has its own learning rate, step count and gradient norm."""

from copy import copy

import torch
from torch import Tensor


def clip_by_norm_(grad: Tensor, max_norm: float) -> Tensor:
    """Scale each run's gradient [run, parameter] to a norm of at most `max_norm`, in place.

    Returns the norms before, [run].
    """
    norm = torch.linalg.vector_norm(grad, dim=1)
    grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0)[:, None])
    return norm


class Adam:
    """Adam (Kingma & Ba 2015, Algorithm 1) on `rows` [run, parameter], in place.

    A run that is not active in a step keeps its parameters, moments and step count.
    """

    def __init__(
        self,
        rows: Tensor,
        learning_rate: Tensor,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
    ) -> None:
        """`learning_rate` [run]."""
        self.rows, self.learning_rate = rows, learning_rate
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.m, self.v = torch.zeros_like(rows), torch.zeros_like(rows)
        self.steps = torch.zeros(rows.shape[0], dtype=torch.float64, device=rows.device)

    def step(self, grad: Tensor, active: Tensor) -> None:
        """One update of the runs where `active` [run] holds; `grad` [run, parameter] is used up."""
        self.steps += active
        correction1 = 1 - self.beta1**self.steps
        correction2 = 1 - self.beta2**self.steps
        one = active.to(grad.dtype)[:, None]
        self.m.lerp_(grad, (1 - self.beta1) * one)
        self.v.lerp_(grad.square_(), (1 - self.beta2) * one)
        # lr (m / c1) / (sqrt(v / c2) + eps) as m / (a sqrt(v) + b): fewest passes over the rows.
        a = correction1 / (self.learning_rate * correction2.sqrt())
        b = self.eps * correction1 / self.learning_rate
        # An infinite denominator leaves the row as it is of a run that is inactive or learns at 0.
        moves = active & (self.learning_rate > 0)
        a = torch.where(moves, a, 0.0).to(grad.dtype)[:, None]
        b = torch.where(moves, b, torch.inf).to(grad.dtype)[:, None]
        denominator = torch.sqrt(self.v, out=grad).mul_(a).add_(b)
        self.rows.addcdiv_(self.m, denominator, value=-1.0)

    def take(self, runs: Tensor) -> "Adam":
        """A copy that holds the runs with these indices only."""
        part = copy(self)
        part.select(runs)
        return part

    def put(self, runs: Tensor, part: "Adam") -> None:
        """Take back what `take` gave out."""
        for name in ("rows", "m", "v", "steps"):
            getattr(self, name)[runs] = getattr(part, name)

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices."""
        for name in ("rows", "learning_rate", "m", "v", "steps"):
            setattr(self, name, getattr(self, name)[runs])

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps (the rows belong to the agent)."""
        return {"m": self.m, "v": self.v, "steps": self.steps}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""
        for name, value in saved.items():
            getattr(self, name).copy_(value)
