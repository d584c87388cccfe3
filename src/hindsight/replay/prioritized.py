"""Proportional prioritised replay (Schaul et al. 2016) with a run axis, with or without hindsight.

Transition i is sampled with probability P(i) = p_i^alpha / sum_j p_j^alpha, p_i = |delta_i| + eps
(section 3.3).  Its loss has the weight w_i = (N P(i))^-beta / max_j w_j, the maximum being over the
batch (section 3.4, Algorithm 1).  Under hindsight, a priority belongs to the stored transition,
whatever goal it had when its TD error delta was measured.
"""

import itertools
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hindsight.replay.buffer import Index, Numbers, ReplayBuffer

#: The smallest priority^alpha; positive, because 0 marks a leaf that cannot be sampled.  And the
#: largest, since the sum of all must be finite.
LEAST, MOST = 1e-200, 1e100


def check_share(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a number from 0 to 1."""
    if not isinstance(value, int | float | np.number | np.bool_) or not 0 <= value <= 1:
        raise ValueError(f"{name}: {value!r} is not allowed; it must lie in [0, 1]")


def annealed(beta: float, share: float) -> float:
    """Anneal `beta`, in [0, 1], linearly to 1 as `share` of the training goes from 0 to 1 (3.4)."""
    check_share("beta", beta)
    return beta + (1 - beta) * min(max(share, 0.0), 1.0)


class SumTree:
    """Leaves [run, leaf] >= 0, drawn in proportion to their values; a node sums its children.

    Each level costs a dozen calls, so there are few: a node has sixteen children, and the top level
    is so wide that its running sum takes as long as one level of children.
    """

    CHILDREN = 16
    HIGHEST = 4096
    #: Children times this matrix are their running sums: 4 us for 256 families, `cumsum` takes 13.
    _UP_TO = np.triu(np.ones((CHILDREN, CHILDREN)))

    def __init__(self, n_runs: int, n_leaves: int) -> None:
        self.levels: list[NDArray[np.float64]] = []  # [run, node], the leaves first
        nodes = n_leaves
        while not self.levels or self.levels[-1].shape[1] > self.HIGHEST:
            parents = -(-nodes // self.CHILDREN)
            self.levels.append(np.zeros((n_runs, parents * self.CHILDREN)))
            nodes = parents

    @property
    def leaves(self) -> NDArray[np.float64]:
        """Values [run, leaf], padded with zeros."""
        return self.levels[0]

    def total(self) -> NDArray[np.float64]:
        """Sum of all leaves, [run]."""
        total: NDArray[np.float64] = self.levels[-1].sum(1)
        return total

    def set(self, run: Index | int, leaf: Index, value: ArrayLike) -> None:
        """Set the leaves (run, leaf), [n]; the last of several values for one leaf counts."""
        self.leaves[run, leaf] = value
        for below, level in itertools.pairwise(self.levels):
            leaf = leaf // self.CHILDREN
            family = run * (below.shape[1] // self.CHILDREN) + leaf
            level[run, leaf] = below.reshape(-1, self.CHILDREN).take(family, axis=0).sum(1)

    def draw(self, uniform: Numbers) -> Index:
        """Draw leaves [run, sample] in proportion to their values.

        The draws are stratified (appendix B.2.1): each comes from its own equal part of the total,
        at `uniform` [run, sample] within it.  Leaves of value 0 are never drawn unless all are 0.
        """
        runs, samples = uniform.shape
        run = np.repeat(np.arange(runs), samples)
        share = (np.arange(samples) + uniform) / samples
        highest = self.levels[-1]
        # A sum over all runs would round a run's priorities to the precision of the largest.
        up_to = highest.cumsum(1)
        end = up_to[:, -1:]
        # Below the end, so that rounding cannot leave the run; further down, nor the node.
        at = np.minimum(share * end, np.nextafter(end, 0))
        pairs = zip(up_to, at, strict=True)
        node = np.concatenate([own.searchsorted(x, side="right") for own, x in pairs])
        rest = at.ravel() - (up_to[run, node] - highest[run, node])
        place = np.arange(runs * samples) * self.CHILDREN
        for level in reversed(self.levels[:-1]):
            parents = level.shape[1] // self.CHILDREN
            family = level.reshape(-1, self.CHILDREN).take(run * parents + node, axis=0)
            up_to = family @ self._UP_TO
            rest = np.minimum(np.maximum(rest, 0), np.nextafter(up_to[:, -1], 0))
            child = (up_to <= rest[:, None]).argmin(1)  # the first that exceeds it
            rest -= up_to.take(place + child) - family.take(place + child)
            node = node * self.CHILDREN + child
        return node.reshape(runs, samples)


class PrioritizedReplayBuffer(ReplayBuffer):
    """Samples transitions of finished episodes in proportion to their priorities.

    New transitions get the largest priority so far (Algorithm 1, line 6).
    """

    def __init__(
        self, *arguments: Any, alpha: float = 0.6, eps: float = 1e-6, **options: Any
    ) -> None:
        """As `ReplayBuffer`, with priorities (|TD error| + eps)^alpha; alpha is in [0, 1]."""
        check_share("alpha", alpha)
        if not isinstance(eps, int | float | np.number) or not 0 <= eps < np.inf:
            raise ValueError(f"eps: {eps!r} is not allowed; it must be a number, 0 or more")
        super().__init__(*arguments, **options)
        self.alpha, self.eps = alpha, eps

    @property
    def made_with(self) -> dict[str, Any]:
        return {**super().made_with, "alpha": self.alpha, "eps": self.eps}

    def clear(self) -> None:
        super().clear()
        runs, envs, slots = self.left.shape
        self._tree = SumTree(runs, envs * slots)
        self.largest = np.ones(runs)  # the largest priority^alpha so far

    def draw(self, uniform: Numbers, beta: float = 0.4) -> tuple[Index, Tensor]:
        """Draw transitions by priority; returns indices and weights, both [run, sample]."""
        check_share("beta", beta)
        count = self.check_can_sample()
        leaf = self._tree.draw(uniform)
        run = np.arange(len(leaf))[:, None]
        probability = self._tree.leaves[run, leaf] / self._tree.total()[:, None]
        weight = (count[:, None] * probability) ** -float(beta)
        weight /= weight.max(1, keepdims=True)
        return leaf + run * self.left[0].size, self._on_device(weight.astype(np.float32))

    def update_priorities(self, index: Index, td_errors: ArrayLike) -> None:
        """Set the priorities of sampled transitions from their TD errors.

        A slot that no longer holds a finished transition is ignored; if another finished transition
        has taken it, that one gets the priority.

        ValueError if the shapes differ, an index is of another run, or an error is not finite.

        index, td_errors: [run, sample], as sampled; errors of either sign.
        """
        index, errors = np.asarray(index), np.asarray(td_errors, np.float64)
        if errors.shape != index.shape or len(index) != len(self.largest):
            raise ValueError(
                f"priorities: shape {errors.shape} is not allowed; it must be that of the indexes, "
                f"{index.shape}, with one row per run"
            )
        if (bad := errors[~np.isfinite(errors)]).size:
            raise ValueError(f"priorities: {bad[0]} is not allowed; every number must be finite")
        run, leaf = np.divmod(index, self.left[0].size)
        if (run != np.arange(len(index))[:, None]).any():
            raise ValueError("indexes: each row must hold indexes that were sampled for that run")
        priority = np.clip((np.abs(errors) + self.eps) ** self.alpha, LEAST, MOST)
        self.largest = np.maximum(self.largest, priority.max(1, initial=0))
        there = self._tree.leaves[run, leaf] > 0
        self._tree.set(run[there], leaf[there], priority[there])

    def select(self, runs: Tensor) -> None:
        super().select(runs)
        kept = runs.cpu().numpy()
        self._tree.levels = [level[kept] for level in self._tree.levels]
        self.largest = self.largest[kept]

    def state_dict(self) -> dict[str, Any]:
        saved = {"priorities": self._tree.leaves.copy(), "largest": self.largest.copy()}
        return super().state_dict() | {k: torch.from_numpy(v) for k, v in saved.items()}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        super().load_state_dict(saved)
        self.largest[:] = saved["largest"]
        run, leaf = np.indices(self._tree.leaves.shape).reshape(2, -1)
        self._tree.set(run, leaf, np.asarray(saved["priorities"]).ravel())

    def _mark(self, run: int, env: int, begin: int, end: int, *, finished: bool) -> None:
        leaf = env * self.n_slots + np.arange(begin, end) % self.n_slots
        self._tree.set(run, leaf, self.largest[run] if finished else 0.0)
