"""Proportional prioritised replay (Schaul et al. 2016) with a run axis, with or without hindsight.

Transition i is sampled with probability P(i) = p_i^alpha / sum_j p_j^alpha, p_i = |delta_i| + eps
(section 3.3), and its loss weighed by w_i = (N P(i))^-beta / max_j w_j, the maximum over the batch
(section 3.4, Algorithm 1).  Under hindsight, a priority belongs to the stored transition, whichever
goal it had when its TD error delta was measured.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hindsight.replay.buffer import Index, Numbers, Relabelling, ReplayBuffer, Reward, RowLayout
from hindsight.replay.transitions import Batch

#: The least priority^alpha: practically never drawn.
LEAST = 1e-200


def check_share(name: str, value: Any) -> None:
    """Raise ValueError for what is no number from 0 to 1."""
    try:
        fits = bool(0 <= value <= 1)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(f"{name}: {value!r} is not allowed; it lies in [0, 1]")


def annealed(beta: float, share: float) -> float:
    """Linearly from `beta` to 1 while `share` of the training goes from 0 to 1 (section 3.4).

    Raises:
        ValueError: a beta that is none.
    """
    check_share("beta", beta)
    return beta + (1 - beta) * min(max(share, 0.0), 1.0)


class SumTree:
    """Numbers >= 0 at [run, leaf], drawn in proportion to them; a node is the sum of its children.

    Few levels, since each costs a dozen calls: nodes have sixteen children, and the highest level
    is still so wide that its running sum takes as long as one level of children.
    """

    CHILDREN = 16
    HIGHEST = 4096
    #: Multiplied by it, children become their running sums: 4 us for 256 families, cumsum's 13.
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
        """[run, leaf], and zeros beyond the last one."""
        return self.levels[0]

    def total(self) -> NDArray[np.float64]:
        """[run]."""
        return self.levels[-1].sum(1)

    def set(self, run: Index, leaf: Index, value: ArrayLike) -> None:
        """Change the leaves (run, leaf), [n] each; of two values for one leaf, the later counts."""
        self.leaves[run, leaf] = value
        for below, level in itertools.pairwise(self.levels):
            leaf = leaf // self.CHILDREN
            family = run * (below.shape[1] // self.CHILDREN) + leaf
            level[run, leaf] = below.reshape(-1, self.CHILDREN).take(family, axis=0).sum(1)

    def draw(self, uniform: Numbers) -> Index:
        """Leaves [run, sample] in proportion to their values.

        Each comes from its own part of the total (appendix B.2.1), at `uniform` [run, sample] in
        it.  A leaf of value 0 is not drawn while its run has another.
        """
        runs, samples = uniform.shape
        run = np.repeat(np.arange(runs), samples)
        share = ((np.arange(samples) + uniform) / samples).ravel()
        highest, width = self.levels[-1].ravel(), self.levels[-1].shape[1]
        up_to = highest.cumsum()
        end = up_to[width - 1 :: width]
        begin = np.concatenate([[0.0], end[:-1]])
        # Rounding must not lead out of the run; nor, further down, out of the node.
        at = np.clip(begin[run] + share * (end - begin)[run], begin[run], np.nextafter(end, 0)[run])
        node = up_to.searchsorted(at, side="right")
        rest = at - (up_to.take(node) - highest.take(node))
        node -= run * width
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
    """Finished episodes' transitions in proportion to their priorities.

    New ones have the largest priority so far (Algorithm 1, line 6).
    """

    def __init__(
        self,
        n_runs: int,
        n_envs: int,
        size: int,
        row: RowLayout,
        relabelling: Relabelling,
        *,
        alpha: float = 0.6,
        eps: float = 1e-6,
        discrete_actions: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        """As `ReplayBuffer`; `alpha` from 0, uniform, to 1.

        Raises:
            ValueError: an alpha or eps that is none.
        """
        check_share("alpha", alpha)
        if not isinstance(eps, int | float | np.number) or not 0 <= eps < np.inf:
            raise ValueError(f"eps: {eps!r} is not allowed; it is a number from 0 on")
        super().__init__(
            n_runs,
            n_envs,
            size,
            row,
            relabelling,
            discrete_actions=discrete_actions,
            device=device,
        )
        self.alpha, self.eps = alpha, eps
        self.clear()

    @property
    def made_with(self) -> dict[str, Any]:
        """As `ReplayBuffer.made_with`."""
        return {**super().made_with, "alpha": self.alpha, "eps": self.eps}

    def clear(self) -> None:
        """As `ReplayBuffer.clear`; priorities begin anew."""
        super().clear()
        runs, envs, slots = self._left.shape
        self._tree = SumTree(runs, envs * slots)
        self.largest = np.ones(runs)  # priority^alpha so far
        # Leaves that wait to be changed together: run, leaf, value.
        self._waiting: list[tuple[Index, Index, NDArray[np.float64]]] = []

    def add_episodes(self, rows: Tensor) -> None:
        """As `ReplayBuffer.add_episodes`."""
        super().add_episodes(rows)
        for run, env in np.ndindex(*self.elapsed.shape):
            self._wait(
                run, env, self.position - rows.shape[2], rows.shape[2], float(self.largest[run])
            )

    def undo(self, steps: int) -> Callable[[], None]:
        """As `ReplayBuffer.undo`."""
        take_back, n_waiting = super().undo(steps), len(self._waiting)

        def take_back_priorities() -> None:
            take_back()
            del self._waiting[n_waiting:]

        return take_back_priorities

    def sample_prioritized(
        self, uniform: Numbers, reward: Reward, beta: float
    ) -> tuple[Batch, Index]:
        """A batch with importance weights, and where its transitions are: both [run, sample].

        Args:
            uniform: [run, sample, 3]: which transition, whether relabelled, which goal.
            reward: the environment's.
            beta: from 0, no correction, to 1.

        Raises:
            ValueError: a run has no finished episode.
        """
        index, weight = self.choose_prioritized(uniform[..., 0], beta)
        return self.sample_at(index, uniform[..., 1:], reward, weight), index

    def choose_prioritized(self, uniform: Numbers, beta: float) -> tuple[Index, Tensor]:
        """Transitions in proportion to their priorities, and their weights: both [run, sample]."""
        check_share("beta", beta)
        count = self._check_can_sample()
        self._catch_up()
        leaf = self._tree.draw(uniform)
        run = np.arange(len(leaf))[:, None]
        probability = self._tree.leaves[run, leaf] / self._tree.total()[:, None]
        weight = (count[:, None] * probability) ** -beta
        weight /= weight.max(1, keepdims=True)
        return leaf + run * self._slots_per_run, self._on_device(weight.astype(np.float32))

    def update_priorities(self, index: Index, td_errors: ArrayLike) -> None:
        """Give transitions the priorities that follow from their TD errors.

        What has left the buffer since it was sampled stays out; a transition that took its place
        and can be sampled gets its priority.

        Args:
            index: [run, sample], as it was sampled.
            td_errors: [run, sample], of either sign.

        Raises:
            ValueError: another shape, an index that is none, an error that is not finite.
        """
        index, errors = np.asarray(index), np.asarray(td_errors, np.float64)
        if errors.shape != index.shape or len(index) != len(self.largest):
            raise ValueError(
                f"priorities: shape {errors.shape} is not allowed; "
                f"it is that of the indices, {index.shape}, one row per run"
            )
        if (bad := errors[~np.isfinite(errors)]).size:
            raise ValueError(f"priorities: {bad[0]} is not allowed; they are finite numbers")
        run, leaf = np.divmod(index, self._slots_per_run)
        if (run != np.arange(len(index))[:, None]).any():
            raise ValueError("indexes: they are not allowed; each lies in its own run")
        self._catch_up()
        # A leaf of 0 is one that is not there.
        priority = np.maximum((np.abs(errors) + self.eps) ** self.alpha, LEAST)
        self.largest = np.maximum(self.largest, priority.max(1, initial=0))
        there = self._tree.leaves[run, leaf] > 0
        self._tree.set(run[there], leaf[there], priority[there])

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices; the others leave the axis."""
        self._catch_up()
        super().select(runs)
        kept = runs.cpu().numpy()
        self._tree.levels = [level[kept] for level in self._tree.levels]
        self.largest = self.largest[kept]

    def state_dict(self) -> dict[str, Any]:
        """As `ReplayBuffer.state_dict`, and the priorities."""
        self._catch_up()
        saved = {"priorities": self._tree.leaves.copy(), "largest": self.largest.copy()}
        return super().state_dict() | {k: torch.from_numpy(v) for k, v in saved.items()}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken, in a buffer of the same sizes."""
        super().load_state_dict(saved)
        self._waiting = []
        self.largest[:] = saved["largest"]
        run, leaf = np.indices(self._tree.leaves.shape).reshape(2, -1)
        self._tree.set(run, leaf, np.asarray(saved["priorities"]).ravel())

    @property
    def _slots_per_run(self) -> int:
        return self.n_envs * self.n_slots

    def _drop(self, run: int, env: int) -> None:
        position = int(self._oldest[run, env])
        super()._drop(run, env)
        self._wait(run, env, position, int(self._oldest[run, env]) - position, 0.0)

    def _finish(self, over: NDArray[np.bool_]) -> None:
        for run, env in zip(*over.nonzero(), strict=True):
            steps = int(self.elapsed[run, env])
            self._wait(run, env, self.position - steps, steps, self.largest[run])
        super()._finish(over)

    def _wait(self, run: int, env: int, position: int, steps: int, value: float) -> None:
        """The priorities of so many steps are to become `value`."""
        leaf = env * self.n_slots + np.arange(position, position + steps) % self.n_slots
        self._waiting.append((np.full(steps, run), leaf, np.full(steps, value)))

    def _catch_up(self) -> None:
        if self._waiting:
            run, leaf, value = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
            self._tree.set(run, leaf, value)
            self._waiting = []
