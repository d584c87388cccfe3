"""A replay buffer with a run axis that relabels when it samples.

Andrychowicz et al. (2017), Algorithm 1, stores every transition again with k additional goals.
Here each is stored once, and a sampled one is relabelled with probability k / (k + 1): a batch has
the same distribution, and the goals of a transition are drawn anew whenever it is sampled.

A transition is one row of float32 on the device (`RowLayout`), so that a batch is one gather.
Where a transition stands, and how many steps of its episode came before it and follow it, are
integers on the host; hence the goal of a later step is arithmetic and one more gather, however many
transitions are stored, and a GPU is not asked to launch twenty kernels that each add a few
integers; it is waited for once a step, to learn which episodes are over.

Random numbers are arguments, uniform in [0, 1): a run samples the same alone and among others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.relabel import goals
from hindsight.replay.transitions import Batch
from hindsight.specs.base import FIDELITIES, Fidelity
from hindsight.specs.replay import GOAL_STRATEGIES, GoalStrategy
from hindsight.streams import Purpose, stream

Numbers = NDArray[np.float64]
Index = NDArray[np.int64]
#: A tensor, or the NumPy array that shares its memory (`ReplayBuffer._native`).
Native = Any

#: What a step of `ReplayBuffer` consists of.
STEP = ("obs", "next_obs", "actions", "rewards", "terminated", "truncated", "success")

#: Types of whole numbers; a truth value is one of Python's, too.
WHOLE = (int, np.integer)

#: (goals achieved by the actions [run, sample, goal], desired goals, whether the episode ends there
#: whatever its goal [run, sample]) -> (rewards [run, sample], successes [run, sample])
Reward = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def check_choice(name: str, value: Any, known: Sequence[str]) -> None:
    """Raise ValueError for a value that is not among the known ones."""
    if value not in known:
        raise ValueError(f"{name}: {value!r} is not allowed; there are {', '.join(known)}")


def check_count(name: str, value: Any, least: int) -> None:
    """Raise ValueError for what is no whole number, `least` or more."""
    if type(value) is bool or not isinstance(value, WHOLE) or value < least:
        raise ValueError(f"{name}: {value!r} is not allowed; it is a whole number from {least} on")


@dataclass(frozen=True)
class RowLayout:
    """Where a transition's numbers stand in its row."""

    width: int
    obs: slice
    next_obs: slice
    desired: tuple[slice, ...]  # wherever the desired goal stands
    next_achieved: slice  # the goal achieved by the action
    actions: slice
    reward: int
    terminated: int  # 1 where nothing follows
    failed: int  # 1 where nothing follows, and not because the desired goal was achieved
    extra: slice  # what travels along
    rest: int | None = None  # of the reward what goals do not explain; None: goals explain all

    @classmethod
    def of(
        cls,
        observation_size: int,
        goal_size: int,
        action_size: int,
        n_extra: int = 0,
        has_rest: bool = False,
    ) -> "RowLayout":
        """Observation and next observation, action, reward, how it ended, and what travels along.

        `observation_size` counts achieved goal, desired goal and observation, in this order.
        """
        o, g, reward = observation_size, goal_size, 2 * observation_size + action_size
        return cls(
            width=reward + 3 + has_rest + n_extra,
            obs=slice(0, o),
            next_obs=slice(o, 2 * o),
            desired=(slice(g, 2 * g), slice(o + g, o + 2 * g)),
            next_achieved=slice(o, o + g),
            actions=slice(2 * o, reward),
            reward=reward,
            terminated=reward + 1,
            failed=reward + 2,
            extra=slice(reward + 3 + has_rest, reward + 3 + has_rest + n_extra),
            rest=reward + 3 if has_rest else None,
        )


@dataclass(frozen=True)
class Relabelling:
    """How sampled transitions are relabelled.

    strategy: the new goal is one that was achieved by an action: the episode's last (`final`), one
        of the transition itself and those after it (`future`), any of the episode's (`episode`),
        any in the buffer (`random`); each is equally probable.  Where an episode has one step,
        the first three are that step's own.
    k: additional goals per transition: it is relabelled with probability k / (k + 1).
    terminates_on_success: whether an episode terminates where the desired goal is achieved.
    fidelity: `described`: a relabelled transition is terminated where it achieves the new goal, if
        the environment terminates on success, and where its episode terminated for another reason
        than its goal (a failure); never because the episode achieved the goal that it had.
        `released`: it is terminated where it was stored so, whatever its goal is now, and its
        reward knows of no termination: what Stable-Baselines3 and cpprb do.

    Under both, a transition that is not relabelled keeps the reward and the termination with which
    it was stored, and one that is keeps of its reward what goals do not explain, where rows have
    it.
    """

    strategy: GoalStrategy = "future"
    k: int = 4
    terminates_on_success: bool = False
    fidelity: Fidelity = "described"

    def __post_init__(self) -> None:
        check_choice("strategy", self.strategy, GOAL_STRATEGIES)
        check_choice("fidelity", self.fidelity, FIDELITIES)
        check_count("k", self.k, 0)

    @property
    def probability(self) -> float:
        """Of a transition being relabelled."""
        return self.k / (self.k + 1)


def put(target: Native, where: Native, values: Native) -> None:
    """Replace `target` by `values` where `where` holds, in place; all of NumPy or all tensors."""
    if isinstance(target, np.ndarray):
        np.copyto(target, values, where=where)
    else:
        torch.where(where, values, target, out=target)


def draws(seeds: Sequence[int], index: int, size: tuple[int, ...]) -> Numbers:
    """Uniform numbers [run, *size], each run's from position `index` of its own stream.

    A generator takes as long to make as a thousand numbers: draw for many updates at a time.
    """
    return np.stack([stream(seed, Purpose.MINIBATCH, index).random(size) for seed in seeds])


class ReplayBuffer:
    """Transitions [run, env, slot]; those of finished episodes are sampled, and relabelled.

    All environments of all runs add a step at the same time.  The slots of an environment are a
    ring: step number p of the buffer lies in slot p % n_slots.  An episode begins where the last
    one was over, and leaves the buffer as a whole when its first slot is written over.  One that
    is longer than half of the slots is stored in stretches of that length, as if a time limit had
    cut it: otherwise it would leave before it is finished.
    """

    def __init__(
        self,
        n_runs: int,
        n_envs: int,
        size: int,
        row: RowLayout,
        relabelling: Relabelling,
        *,
        discrete_actions: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        """Room for `size` transitions per run, `size // n_envs` of each environment.

        Raises:
            ValueError: a number that is none; less than two slots per environment.
        """
        check_count("n_envs", n_envs, 1)
        check_count("size", size, 1)
        self.n_slots = size // n_envs
        if self.n_slots < 2:
            raise ValueError(
                f"size: {size!r} is not allowed; it is at least {2 * n_envs}, "
                "two transitions per environment"
            )
        self.n_envs, self.row, self.relabelling = n_envs, row, relabelling
        self.discrete_actions, self.device = discrete_actions, torch.device(device)
        self._allocate(n_runs)
        self.clear()
        self._prepare()

    def _allocate(self, n_runs: int) -> None:
        slots = (n_runs, self.n_envs, self.n_slots)
        # None is set to zero: memory is taken when a transition is written to it.
        self._rows = torch.empty(*slots, self.row.width, device=self.device)
        self._before = np.empty(slots, np.int32)  # steps of the episode before this one
        self._left = np.empty(slots, np.int32)  # steps from this one to the end, itself included

    def clear(self) -> None:
        """Forget every step."""
        shape = self._left.shape[:2]
        self.position = 0  # steps so far
        self.elapsed = np.zeros(shape, np.int64)  # steps so far of the open episodes
        self._oldest = np.zeros(shape, np.int64)  # number of the first step that is there

    def _prepare(self) -> None:
        """What follows from the runs on the axis, whenever they change."""
        runs, envs, slots = self._left.shape
        self._first_slot = np.arange(runs * envs).reshape(runs, envs) * slots
        self._flat_rows = self._rows.view(-1, self.row.width)
        self._flat_next_achieved = self._flat_rows[:, self.row.next_achieved]
        self._flat_before, self._flat_left = self._before.reshape(-1), self._left.reshape(-1)
        obs, actions = (part.stop - part.start for part in (self.row.obs, self.row.actions))
        self._step_shapes = [*2 * [(runs, envs, obs)], (runs, envs, actions), *4 * [(runs, envs)]]

    @property
    def made_with(self) -> dict[str, Any]:
        """What makes a buffer like this one, with nothing in it."""
        runs, envs, slots = self._left.shape
        sizes = {"n_runs": runs, "n_envs": envs, "size": envs * slots, "row": self.row}
        kinds = {"discrete_actions": self.discrete_actions, "device": self.device}
        return {**sizes, "relabelling": self.relabelling, **kinds}

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copies: as much as has been written."""
        return partial(type(self), **self.made_with), (), self.state_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Beside `__reduce__`."""
        self.load_state_dict(state)

    def __len__(self) -> int:
        """Steps in the buffer of each environment, those of its open episode included."""
        return min(self.position, self.n_slots)

    def add(
        self,
        obs: Tensor,
        actions: Tensor,
        rewards: Tensor,
        next_obs: Tensor,
        terminated: Tensor,
        truncated: Tensor,
        success: Tensor | None = None,
        rest: Tensor | None = None,
    ) -> None:
        """One step of every environment.

        Args:
            obs: [run, env, obs] before the action.
            actions: [run, env, action], or [run, env] where an action is one number.
            rewards: [run, env].
            next_obs: [run, env, obs] after the action, also where the episode is over.
            terminated: [run, env] bool, nothing follows.
            truncated: [run, env] bool, the episode was cut, and what follows has a value.
            success: [run, env] bool, the desired goal is achieved after the action; tells
                terminations by success from others.  None where no success terminates.
            rest: [run, env] of the rewards what goals do not explain, where rows have it.

        Raises:
            ValueError: another shape; `success` is missing where success terminates.  Nothing is
                stored then.
        """
        if actions.ndim == 2:
            actions = actions[..., None]
        outcome = rewards, terminated, truncated, terminated if success is None else success
        shapes = [tensor.shape for tensor in (obs, next_obs, actions, *outcome)]
        # A narrower observation would move every column after it.
        if shapes != self._step_shapes:
            for name, given, wanted in zip(STEP, shapes, self._step_shapes, strict=True):
                if given != wanted:
                    raise ValueError(f"{name}: shape {tuple(given)} is not allowed; it is {wanted}")
        if success is None:
            if self.relabelling.terminates_on_success:
                raise ValueError("success: None is not allowed where success terminates")
            failed = terminated
        else:
            failed = terminated & ~success
        self._make_room(1)
        slot = self.position % self.n_slots
        ends = [rewards, terminated, failed, *([] if rest is None else [rest])]
        row = torch.cat([obs, next_obs, actions, torch.stack(ends, dim=-1)], dim=-1)
        self._rows[:, :, slot, : row.shape[-1]] = row
        self._before[:, :, slot] = self.elapsed
        self.elapsed += 1
        self.position += 1
        over = (terminated | truncated).cpu().numpy() | (self.elapsed >= self.n_slots // 2)
        if over.any():
            self._finish(over)

    def add_episodes(self, rows: Tensor) -> None:
        """A finished episode of every environment, all of the same length: [run, env, step, width].

        Raises:
            ValueError: another shape; an episode is open, or these are longer than there are slots.
        """
        shape, (runs, envs) = tuple(rows.shape), self.elapsed.shape
        if len(shape) != 4 or shape[:2] + shape[3:] != (runs, envs, self.row.width):
            raise ValueError(
                f"rows: shape {shape} is not allowed; it is "
                f"({runs}, {envs}, steps, {self.row.width})"
            )
        steps = shape[2]
        if not 0 < steps <= self.n_slots:
            raise ValueError(
                f"an episode of {steps} steps is not allowed; there is room for 1 to {self.n_slots}"
            )
        if self.elapsed.any():
            raise ValueError("whole episodes cannot be added while others are open")
        self._make_room(steps)
        done = 0
        for slots in self._slots(self.position, steps):
            part = slice(done, done + slots.stop - slots.start)
            self._rows[:, :, slots] = rows[:, :, part]
            self._before[:, :, slots] = np.arange(part.start, part.stop)
            self._left[:, :, slots] = np.arange(steps - part.start, steps - part.stop, -1)
            done = part.stop
        self.position += steps

    def undo(self, steps: int) -> Callable[[], None]:
        """What takes back whole episodes of up to so many steps that are added after this call."""
        kept = [
            (
                s,
                self._rows[:, :, s].clone(),
                self._before[:, :, s].copy(),
                self._left[:, :, s].copy(),
            )
            for s in self._slots(self.position, min(steps, self.n_slots))
        ]
        position, oldest = self.position, self._oldest.copy()

        def take_back() -> None:
            for slots, rows, before, left in kept:
                self._rows[:, :, slots] = rows
                self._before[:, :, slots], self._left[:, :, slots] = before, left
            self.position, self._oldest = position, oldest

        return take_back

    def finished(self) -> NDArray[np.int64]:
        """Transitions that can be sampled, [run, env]."""
        return self.position - self.elapsed - self._oldest

    def choose(self, uniform: Numbers) -> Index:
        """Transitions [run, sample] of finished episodes, all of a run's equally probable.

        They are indices into the slots of all environments of all runs.

        Args:
            uniform: [run, sample] float64, since a float32 is too coarse to tell a million apart.

        Raises:
            ValueError: a run has no finished episode.
        """
        total = self._check_can_sample()
        number = (uniform * total[:, None]).astype(np.int64)
        if self.n_envs == 1:
            return (number + self._oldest) % self.n_slots + self._first_slot
        count = self.finished()
        up_to = count.cumsum(1)
        env = (number[..., None] >= up_to[:, None, :-1]).sum(-1)
        number += np.take_along_axis(self._oldest - (up_to - count), env, axis=1)
        return number % self.n_slots + np.take_along_axis(self._first_slot, env, axis=1)

    def gather(self, index: Index) -> Tensor:
        """Copies of the rows [..., width] of transitions `index` [...]."""
        rows = self._flat_rows.index_select(0, self._on_device(index.ravel()))
        return rows.view(*index.shape, self.row.width)

    def relabel(self, rows: Tensor, index: Index, uniform: Numbers) -> Native:
        """Give some of the rows another goal, in place; `settle` makes the rest fit.

        Args:
            rows: [run, sample, width], what `gather` returned; a single run may lack its axis.
            index: [run, sample], where they are.
            uniform: [run, sample, 2]: whether a row is relabelled, and with which goal.

        Returns:
            Which are relabelled, [run, sample] bool, for `settle`.
        """
        relabelled = self._native(self._on_device(uniform[..., 0] < self.relabelling.probability))
        source = self._on_device(self.goal_index(index, uniform[..., 1]).ravel())
        goal = self._native(self._flat_next_achieved.index_select(0, source))
        goal, native = goal.reshape(*index.shape, goal.shape[-1]), self._native(rows)
        for columns in self.row.desired:
            put(native[..., columns], relabelled[..., None], goal)
        return relabelled

    def goal_index(self, index: Index, uniform: Numbers) -> Index:
        """The transitions whose achieved goals are to be desired, [run, sample] like `index`."""
        strategy = self.relabelling.strategy
        if strategy == "random":
            return self.choose(uniform.reshape(len(self.elapsed), -1)).reshape(index.shape)
        slot = index % self.n_slots
        before, left = self._flat_before.take(index), self._flat_left.take(index)
        chosen = goals.drawn(goals.STRATEGIES[strategy](slot, before, left), uniform)
        return chosen % self.n_slots + (index - slot)

    def settle(self, rows: Tensor, relabelled: Native, reward: Native, success: Native) -> None:
        """Give relabelled rows their rewards and terminations, in place (see `Relabelling`).

        `relabelled` is what `relabel` returned; `reward` and `success` [run, sample] say how well
        the rows' actions did by the rows' goals.
        """
        row, native = self.row, self._native(rows)
        reward, success = self._native(reward), self._native(success)
        if row.rest is not None:
            reward = reward + native[..., row.rest]
        put(native[..., row.reward], relabelled, reward)
        if self.relabelling.terminates_on_success and self.relabelling.fidelity == "described":
            terminated = (native[..., row.failed] > 0) | success
            put(native[..., row.terminated], relabelled, terminated)

    def ends_anyway(self, rows: Tensor) -> Tensor:
        """What a relabelled reward is to know of terminations, [run, sample] bool."""
        if self.relabelling.fidelity == "released":
            return torch.zeros(rows.shape[:-1], dtype=torch.bool, device=rows.device)
        return rows[..., self.row.failed] > 0

    def batch(self, rows: Tensor, weight: Tensor | None = None) -> Batch:
        """Rows [run, sample, width] as a batch, whose tensors are views of them."""
        actions = rows[..., self.row.actions]
        return Batch(
            rows[..., self.row.obs],
            actions[..., 0].long() if self.discrete_actions else actions,
            rows[..., self.row.reward],
            rows[..., self.row.next_obs],
            rows[..., self.row.terminated] > 0,
            weight,
        )

    def sample(self, uniform: Numbers, reward: Reward) -> Batch:
        """A batch [run, sample] of finished episodes' transitions, partly relabelled.

        Args:
            uniform: [run, sample, 3]: which transition, whether relabelled, which goal.
            reward: the environment's.

        Raises:
            ValueError: a run has no finished episode.
        """
        return self.sample_at(self.choose(uniform[..., 0]), uniform[..., 1:], reward)

    def sample_at(
        self, index: Index, uniform: Numbers, reward: Reward, weight: Tensor | None = None
    ) -> Batch:
        """The same of chosen transitions: `index` [run, sample], `uniform` [run, sample, 2]."""
        rows = self.gather(index)
        if self.relabelling.k:
            relabelled = self.relabel(rows, index, uniform)
            achieved, desired = rows[..., self.row.next_achieved], rows[..., self.row.desired[0]]
            self.settle(rows, relabelled, *reward(achieved, desired, self.ends_anyway(rows)))
        return self.batch(rows, weight)

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices; the others leave the axis."""
        self._rows = self._rows[runs.to(self.device)]
        for name in ("_before", "_left", "elapsed", "_oldest"):
            setattr(self, name, getattr(self, name)[runs.cpu().numpy()])
        self._prepare()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: as much as has been written, open episodes included."""
        before, left = (x[:, :, : len(self)] for x in (self._before, self._left))
        host = {"elapsed": self.elapsed, "oldest": self._oldest, "before": before, "left": left}
        saved = {name: torch.from_numpy(values.copy()) for name, values in host.items()}
        rows = self._rows[:, :, : len(self)].clone()
        return saved | {"rows": rows, "position": self.position}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken, in a buffer of the same sizes."""
        self.position = saved["position"]
        self._rows[:, :, : len(self)] = saved["rows"]
        self._before[:, :, : len(self)] = saved["before"]
        self._left[:, :, : len(self)] = saved["left"]
        self.elapsed[:], self._oldest[:] = saved["elapsed"], saved["oldest"]

    def _native(self, values: Native) -> Native:
        """What `put` takes: NumPy's view of a tensor on a CPU, where its calls are the shorter."""
        if self.device.type == "cpu" and isinstance(values, Tensor):
            return values.numpy()
        return values

    def _check_can_sample(self) -> NDArray[np.int64]:
        """Transitions that can be sampled, [run]; ValueError where there is none."""
        total: NDArray[np.int64] = self.finished().sum(1)
        if not total.all():
            which = f" of run {total.argmin()}" if len(total) > 1 else ""
            raise ValueError(
                f"there is nothing to sample: no episode{which} is finished; learning starts "
                "(learning_starts) after more steps than an episode has"
            )
        return total

    def _on_device(self, values: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(values)
        return tensor if self.device.type == "cpu" else tensor.to(self.device)

    def _slots(self, position: int, steps: int) -> list[slice]:
        """Where so many steps from a position on lie, in order: one stretch, or two."""
        first = position % self.n_slots
        if first + steps <= self.n_slots:
            return [slice(first, first + steps)]
        return [slice(first, self.n_slots), slice(0, first + steps - self.n_slots)]

    def _make_room(self, steps: int) -> None:
        """Let the episodes go whose slots are taken by so many steps more."""
        # The first step that remains.
        first = self.position + steps - self.n_slots
        while first > 0 and (taken := self._oldest < first).any():
            for run, env in zip(*taken.nonzero(), strict=True):
                self._drop(run, env)

    def _drop(self, run: int, env: int) -> None:
        """The oldest finished episode of an environment leaves."""
        self._oldest[run, env] += self._left[run, env, self._oldest[run, env] % self.n_slots]

    def _finish(self, over: NDArray[np.bool_]) -> None:
        """The open episodes of the environments `over` [run, env] are over."""
        for run, env in zip(*over.nonzero(), strict=True):
            left = int(self.elapsed[run, env])
            for slots in self._slots(self.position - left, left):
                n = slots.stop - slots.start
                self._left[run, env, slots] = np.arange(left, left - n, -1)
                left -= n
        self.elapsed[over] = 0
