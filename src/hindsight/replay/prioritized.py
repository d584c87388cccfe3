"""Proportional prioritised replay (Schaul et al. 2016) with a run axis, with or without hindsight.

Transition i is sampled with probability P(i) = p_i^alpha / sum_j p_j^alpha, p_i = |delta_i| + eps
(section 3.3).  Its loss has the weight w_i = (N P(i))^-beta / max_j w_j, the maximum being over the
batch (section 3.4, Algorithm 1).  Under hindsight, a priority belongs to the stored transition,
whatever goal it had when its TD error delta was measured.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hindsight.nn.numba_cache import compiled, entry_point
from hindsight.replay.buffer import Index, Numbers, ReplayBuffer
from hindsight.specs.errors import not_allowed

Sums = NDArray[np.float64]

#: The smallest priority^alpha; positive, because 0 marks a leaf that cannot be sampled.  And the
#: largest, since the sum of all must be finite.
LEAST, MOST = 1e-200, 1e100


def check_share(name: str, value: Any) -> None:
    if not isinstance(value, int | float | np.number | np.bool_) or not 0 <= value <= 1:
        raise not_allowed(name, repr(value), "it must lie in [0, 1]")


def annealed(beta: float, share: float) -> float:
    """Anneal `beta`, in [0, 1], linearly to 1 as `share` of the training goes from 0 to 1 (3.4)."""
    check_share("beta", beta)
    return beta + (1 - beta) * min(max(share, 0.0), 1.0)


@compiled
def set_leaf(sums: Sums, leaf: int, value: float) -> None:
    """Set a leaf, 0 or more, of a tree: node i sums nodes 2 i and 2 i + 1, and leaves come last."""
    i = len(sums) // 2 + leaf
    sums[i] = value
    while i > 1:
        i //= 2
        sums[i] = sums[2 * i] + sums[2 * i + 1]


@compiled
def leaf_at(sums: Sums, at: float) -> int:
    """The first leaf up to which all sum to more than `at`; never of value 0, unless all are."""
    i, width = 1, len(sums) // 2
    while i < width:
        i *= 2
        # Rounding cannot lead to a node of value 0.
        if at >= sums[i] and sums[i + 1] > 0:
            at -= sums[i]
            i += 1
    return i - width


@entry_point
def _set(sums: Sums, run: Index, leaf: Index, value: Numbers) -> None:
    for i in range(len(run)):
        set_leaf(sums[run[i]], leaf[i], value[i])


@entry_point
def _draw(sums: Sums, uniform: Numbers, leaves: Index) -> None:
    samples = uniform.shape[1]
    for run in range(len(sums)):
        for k in range(samples):
            leaves[run, k] = leaf_at(sums[run], (k + uniform[run, k]) / samples * sums[run, 1])


class SumTree:
    """Leaves [run, leaf] >= 0, drawn in proportion to their values.

    sums: [run, node], a binary tree for each run, so that none is rounded to another's precision.
    """

    def __init__(self, n_runs: int, n_leaves: int) -> None:
        width = 1 << (n_leaves - 1).bit_length()
        self.sums = np.zeros((n_runs, 2 * width))
        self._leaves = slice(width, width + n_leaves)

    @property
    def leaves(self) -> NDArray[np.float64]:
        return self.sums[:, self._leaves]

    def set(self, run: Index | int, leaf: Index, value: ArrayLike) -> None:
        """Set the leaves (run, leaf), [n]; the last of several values for one leaf counts."""
        given = np.broadcast_arrays(run, leaf, np.asarray(value, float))
        _set(self.sums, *map(np.array, given))  # copies, because views may be read-only

    def draw(self, uniform: Numbers) -> Index:
        """Draw leaves [run, sample] in proportion to their values.

        The draws are stratified (appendix B.2.1): each comes from its own equal part of the total,
        at `uniform` [run, sample] within it.  Leaves of value 0 are never drawn unless all are 0.
        """
        leaves = np.empty(uniform.shape, np.int64)
        _draw(self.sums, np.array(uniform, float), leaves)
        return leaves


class PrioritizedReplayBuffer(ReplayBuffer):
    """Samples transitions of finished episodes in proportion to their priorities.

    New transitions get the largest priority so far (Algorithm 1, line 6).
    """

    besides = ReplayBuffer.besides + 32  # up to four numbers of the tree

    def __init__(
        self, *arguments: Any, alpha: float = 0.6, eps: float = 1e-6, **options: Any
    ) -> None:
        """As `ReplayBuffer`, with priorities (|TD error| + eps)^alpha; alpha is in [0, 1]."""
        check_share("alpha", alpha)
        if not isinstance(eps, int | float | np.number) or not 0 <= eps < np.inf:
            raise not_allowed("eps", repr(eps), "it must be a number, 0 or more")
        super().__init__(*arguments, **options)
        self.alpha, self.eps = alpha, eps

    @property
    def made_with(self) -> dict[str, Any]:
        return {**super().made_with, "alpha": self.alpha, "eps": self.eps}

    def clear(self) -> None:
        super().clear()
        runs, envs, slots = self.left.shape
        self.tree = SumTree(runs, envs * slots)
        self.largest = np.ones(runs)  # the largest priority^alpha so far

    def draw(self, uniform: Numbers, beta: float = 0.4) -> tuple[Index, Tensor]:
        """Draw transitions by priority; returns indices and weights, both [run, sample]."""
        check_share("beta", beta)
        count = self.check_can_sample()
        leaf = self.tree.draw(uniform)
        run = np.arange(len(leaf))[:, None]
        probability = self.tree.leaves[run, leaf] / self.tree.sums[:, 1:2]
        weight = (count[:, None] * probability) ** -float(beta)
        weight /= weight.max(1, keepdims=True)
        return leaf + run * self.left[0].size, self._on_device(weight.astype(np.float32))

    def update_priorities(self, index: Index, td_errors: ArrayLike) -> None:
        """Set the priorities of sampled transitions from their TD errors.

        A slot that no longer holds a finished transition is ignored; if another finished transition
        has taken it, that one gets the priority.

        ValueError if the shapes differ, an index is of another run, or an error is not a finite
        real number.

        index, td_errors: [run, sample], as sampled; errors of either sign.
        """
        if np.iscomplexobj(td_errors):
            raise not_allowed("priorities", "a complex number", "every number must be real")
        index, errors = np.asarray(index), np.asarray(td_errors, np.float64)
        if errors.shape != index.shape or len(index) != len(self.largest):
            wanted = f"it must be that of the indexes, {index.shape}, with one row per run"
            raise not_allowed("priorities", f"shape {errors.shape}", wanted)
        if (bad := errors[~np.isfinite(errors)]).size:
            raise not_allowed("priorities", bad[0], "every number must be finite")
        run, leaf = np.divmod(index, self.left[0].size)
        if (run != np.arange(len(index))[:, None]).any():
            raise ValueError("indexes: each row must hold indexes that were sampled for that run")
        priority = np.clip((np.abs(errors) + self.eps) ** self.alpha, LEAST, MOST)
        self.largest = np.maximum(self.largest, priority.max(1, initial=0))
        there = self.tree.leaves[run, leaf] > 0
        self.tree.set(run[there], leaf[there], priority[there])

    def select(self, runs: Tensor) -> None:
        super().select(runs)
        kept = runs.cpu().numpy()
        self.tree.sums = self.tree.sums[kept]
        self.largest = self.largest[kept]

    def state_dict(self) -> dict[str, Any]:
        # Of the slots written so far, so that a larger buffer can go on with them.
        written = self.tree.leaves.reshape(self.left.shape)[:, :, : len(self)]
        saved = {"priorities": written.copy(), "largest": self.largest.copy()}
        return super().state_dict() | {k: torch.from_numpy(v) for k, v in saved.items()}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        super().load_state_dict(saved)
        written, largest = (np.asarray(saved[name]) for name in ("priorities", "largest"))
        shape = self.left.shape
        if written.ndim == 2:  # until December 2026, of all slots
            written = written.reshape(*shape[:2], -1)[:, :, : len(self)]
        if (written.shape, largest.shape) != ((*shape[:2], len(self)), self.largest.shape):
            raise ValueError("its priorities have another shape")
        priorities = np.zeros(shape)
        priorities[:, :, : len(self)] = written
        drawn = np.zeros(self.left.size, bool)
        drawn[self.stored()] = True  # the others have none
        each = np.append(priorities.ravel()[drawn], largest)
        if not ((each >= LEAST) & (each <= MOST)).all() or priorities.ravel()[~drawn].any():
            raise ValueError("its priorities are impossible")
        self.largest[:] = largest
        run, leaf = np.indices(self.tree.leaves.shape).reshape(2, -1)
        self.tree.set(run, leaf, priorities.ravel())

    def _mark(self, run: int, env: int, begin: int, end: int, *, finished: bool) -> None:
        leaf = env * self.n_slots + np.arange(begin, end) % self.n_slots
        self.tree.set(run, leaf, self.largest[run] if finished else 0.0)
