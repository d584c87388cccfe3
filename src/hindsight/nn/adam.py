"""Adam on the run axis: every run has its own learning rate, step count and gradient norm."""

from copy import copy

import torch
from torch import Tensor

#: With at least this many parameters per run, a step is bound by memory bandwidth.
LONG = 2**16


def clip_by_norm_(grad: Tensor, max_norm: float | None) -> Tensor:
    """Scale each run's gradient [run, parameter] to a norm of at most `max_norm`, in place.

    Returns the norms before clipping, [run]; None: do not clip.
    """
    norm: Tensor = torch.linalg.vector_norm(grad, dim=1)
    if max_norm is not None:
        grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0)[:, None])
    return norm


class Adam:
    """Adam (Kingma & Ba 2015, Algorithm 1) on `rows` [run, parameter], in place.

    Long rows use PyTorch's fused kernel, which makes one pass over memory instead of seven (on a
    CPU, 0.56 instead of 2.4 ms for 1,066,000 parameters).  It rounds differently, so short rows,
    where it saves little, keep the operations with which the published cells were trained.

    A run that is inactive in a step keeps its parameters, moments and step count.  Weight decay is
    added to the gradient, as in `torch.optim.Adam`; clip the gradient first.
    """

    def __init__(
        self,
        rows: Tensor,
        learning_rate: Tensor | float,
        *,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        """`learning_rate`: of all runs, or of each [run]."""
        self.rows, self.learning_rate = rows, rows.new_zeros(len(rows)) + learning_rate
        self.eps, self.weight_decay = eps, weight_decay
        #: The parameters that decay.
        self.decaying = slice(None)
        self.m, self.v = torch.zeros_like(rows), torch.zeros_like(rows)
        self.steps = torch.zeros(rows.shape[0], dtype=torch.float64, device=rows.device)
        betas = torch.tensor([[0.9], [0.999]], dtype=torch.float64, device=rows.device)
        self._log_betas, self._pace = betas.log(), (1 - betas).to(rows.dtype)
        # An infinite denominator leaves the row of an inactive run unchanged.
        self._never = torch.tensor([[0.0], [torch.inf]], dtype=torch.float64, device=rows.device)

    def step(self, grad: Tensor, active: Tensor | None = None) -> None:
        """Update the `active` [run] runs (None: all); overwrites `grad` [run, parameter]."""
        if self.weight_decay:
            decaying = self.rows[:, self.decaying]
            grad[:, self.decaying].add_(decaying, alpha=self.weight_decay)
        self.steps += 1 if active is None else active
        if self.rows.shape[1] >= LONG:
            self._in_one_pass(grad, active)
        else:
            self._in_seven_passes(grad, active)

    def _in_seven_passes(self, grad: Tensor, active: Tensor | None) -> None:
        pace = self._pace if active is None else self._pace * active
        pace1, pace2 = pace[..., None].unbind()
        self.m.lerp_(grad, pace1)
        self.v.lerp_(grad.square_(), pace2)
        # 1 - beta^t
        correction1, correction2 = -torch.expm1(self._log_betas * self.steps)
        # lr (m / c1) / (sqrt(v / c2) + eps), written as m / (a sqrt(v) + b) to save passes.
        b = correction1 / self.learning_rate
        ab = torch.stack([b * correction2.rsqrt(), b * self.eps])
        # With a learning rate of 0, the moments change, but not the parameters.
        moves = self.learning_rate > 0
        moves = moves if active is None else moves & active
        a, b = torch.where(moves, ab, self._never).to(grad.dtype)[..., None].unbind()
        denominator = torch.sqrt(self.v, out=grad).mul_(a).add_(b)
        self.rows.addcdiv_(self.m, denominator, value=-1.0)

    def _in_one_pass(self, grad: Tensor, active: Tensor | None) -> None:
        # The kernel's `found_inf`, for gradients that must not be used, leaves out inactive runs.
        out = torch.zeros_like(self.learning_rate) if active is None else (~active).float()
        rates, steps = self.learning_rate, self.steps.float()
        for run in range(len(rates)):
            row, m, v = self.rows[run], self.m[run], self.v[run]
            torch._fused_adam_(
                [row], [grad[run]], [m], [v], [], [steps[run]], lr=rates[run], beta1=0.9,
                beta2=0.999, weight_decay=0.0, eps=self.eps, amsgrad=False, maximize=False,
                found_inf=out[run],
            )  # fmt: skip

    def take(self, runs: Tensor) -> "Adam":
        """A copy with only the runs with these indices."""
        part = copy(self)
        part.select(runs)
        return part

    def put(self, runs: Tensor, part: "Adam") -> None:
        """Write back a part that `take` returned."""
        for name in ("rows", "m", "v", "steps"):
            getattr(self, name)[runs] = getattr(part, name)

    def select(self, runs: Tensor) -> None:
        for name in ("rows", "learning_rate", "m", "v", "steps"):
            setattr(self, name, getattr(self, name)[runs])

    def state_dict(self) -> dict[str, Tensor]:
        return {"rows": self.rows, "m": self.m, "v": self.v, "steps": self.steps}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        for name, value in saved.items():
            getattr(self, name).copy_(value)
