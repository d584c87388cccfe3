"""A replay buffer with a run axis that relabels transitions when it samples them.

Andrychowicz et al. (2017), Algorithm 1, store every transition k more times with other goals.  This
buffer stores it once and relabels a sampled one with probability k / (k + 1).  Batches have the
same distribution, and a transition gets a new goal every time it is sampled.

A transition is one row of float32 on the device (`RowLayout`), so a batch is a single gather.  The
bytes of other types fill columns as they are (`fields.Field` reads them).  The host keeps, as
integers, how many steps of its episode precede and follow each transition, so a later step's goal
takes integer arithmetic and one more gather; a GPU would need twenty kernel launches for it.

The caller passes the random numbers, uniform in [0, 1): a run samples the same batches whether it
trains alone or with others.
"""

import os
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.relabel import goals
from hindsight.replay.transitions import Batch
from hindsight.specs.base import FIDELITIES, Fidelity
from hindsight.specs.errors import SpecError, not_allowed
from hindsight.specs.replay import GOAL_STRATEGIES, GoalStrategy
from hindsight.streams import Purpose, stream

Numbers = NDArray[np.float64]
Index = NDArray[np.int64]


class NothingToSampleError(ValueError, RuntimeError):
    """No episode is finished; a RuntimeError, too, as in Stable-Baselines3."""


#: The parts of a step whose shapes `ReplayBuffer.add` checks.
STEP = ("obs", "next_obs", "actions", "rewards", "terminated", "truncated", "success", "rest")

#: (achieved goals after the actions [run, sample, goal], desired goals, whether the episode ends
#: there whatever its goal [run, sample]) -> (rewards [run, sample], successes [run, sample])
Reward = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
#: (rows [..., width], their transitions [...]) -> (rewards [...] of their actions under the rows'
#: goals, whether the actions achieve these goals [...] bool), as `ReplayBuffer.settle` takes them
Outcome = Callable[[Tensor, Index], tuple[Any, Any]]


def some(values: NDArray[np.bool_]) -> bool:
    """Whether any is true; of a few values, `any` takes several times as long to tell."""
    return bool(np.count_nonzero(values))


def check_choice(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise not_allowed(name, repr(value), f"choose from {', '.join(known)}")


def count_of(name: str, value: Any, least: int = 1) -> int:
    """Return a count, which may be a float such as 1e6; SpecError if not whole, or too small."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not least <= value < np.inf or value != int(value):
        raise not_allowed(name, repr(value), f"it must be a whole number, {least} or more")
    return int(value)


def check_memory(name: str, n: int, each: int) -> None:
    """Raise SpecError if `n` transitions of `each` bytes are more than this process's memory."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)  # of `ulimit -v`
    limited = 0 < limit < machine  # -1: no limit
    there, whose = (limit, "process may have") if limited else (machine, "machine has")
    if n * each > there:
        raise SpecError(
            f"{name}: {n:,} is not allowed; transitions of {each:,} bytes would take "
            f"{n * each / 1e9:,.1f} GB, but this {whose} {there / 1e9:,.1f} GB of memory: "
            f"at most {there // each:,} fit"
        )


@dataclass(frozen=True)
class RowLayout:
    width: int
    obs: slice
    next_obs: slice
    desired: tuple[slice, ...]  # every copy of the desired goal
    next_achieved: slice  # the goal achieved by the action
    actions: slice
    reward: int
    terminated: int  # 1 if the episode terminates here
    failed: int  # 1 if it terminates here without achieving the desired goal
    rest: int | None = None  # the part of the reward that no goal explains; None: there is none

    @classmethod
    def of(
        cls, observation_size: int, goal_size: int, action_size: int, has_rest: bool = False
    ) -> "RowLayout":
        """Lay out observation, next observation, action, reward and how the step ended.

        `observation_size` counts achieved goal, desired goal and observation, in this order.
        """
        o, g, reward = observation_size, goal_size, 2 * observation_size + action_size
        return cls(
            width=reward + 3 + has_rest,
            obs=slice(0, o),
            next_obs=slice(o, 2 * o),
            desired=(slice(g, 2 * g), slice(o + g, o + 2 * g)),
            next_achieved=slice(o, o + g),
            actions=slice(2 * o, reward),
            reward=reward,
            terminated=reward + 1,
            failed=reward + 2,
            rest=reward + 3 if has_rest else None,
        )


@dataclass(frozen=True)
class Relabelling:
    """How sampled transitions are relabelled.

    strategy: the steps whose achieved goals may replace the desired one: the last step of the
        episode (`final`), the transition itself and the steps after it (`future`), any step of the
        episode (`episode`) or of the buffer (`random`); see `relabel.goals`.
    k: additional goals per transition: it is relabelled with probability k / (k + 1).
    terminates_on_success: whether achieving the desired goal terminates an episode.
    fidelity: `described`: a relabelled transition is terminated if it achieves the new goal (in an
        environment that terminates on success) or if its episode failed there, but not because the
        episode achieved its original goal.  `released`: it keeps the termination that was stored,
        whatever its goal, and its reward ignores terminations, as in Stable-Baselines3 and cpprb.

    Under both, a transition that is not relabelled keeps its stored reward and termination.  A
    relabelled one keeps the part of its reward that no goal explains, if rows have that column.
    """

    strategy: GoalStrategy = "future"
    k: int = 4
    terminates_on_success: bool = False
    fidelity: Fidelity = "described"

    def __post_init__(self) -> None:
        check_choice("strategy", self.strategy, GOAL_STRATEGIES)
        check_choice("fidelity", self.fidelity, FIDELITIES)
        object.__setattr__(self, "k", count_of("k", self.k, 0))


def put(target: Any, where: Any, values: Any) -> None:
    """Overwrite `target` by `values` where `where` is true: all NumPy arrays, or all tensors."""
    if isinstance(target, np.ndarray):
        np.copyto(target, values, where=where)
    else:
        torch.where(where, values.to(target.dtype), target, out=target)


def draws(seeds: Sequence[int], index: int, size: tuple[int, ...]) -> Numbers:
    """Uniform numbers [run, *size]; each run draws from position `index` of its own stream.

    Creating a generator takes as long as drawing a thousand numbers: draw for many updates at once.
    """
    return np.stack([stream(seed, Purpose.MINIBATCH, index).random(size) for seed in seeds])


class ReplayBuffer:
    """Transitions [run, env, slot], of which only those of finished episodes are sampled.

    All environments of all runs add a step at the same time, step p in slot p % n_slots.  When the
    first slot of an episode is overwritten, the whole episode is dropped.  A longer episode than
    `longest` is stored in pieces of at most half of the slots, as if a time limit had cut it.

    rows [run, env, slot, width]: the transitions.
    before, left [run, env, slot]: steps of the episode before this one, and to its end, with it.
    oldest [run, env]: number of the first step that is still stored.
    """

    #: Bytes that a transition takes besides its row: `before` and `left`.
    besides: ClassVar[int] = 8

    def __init__(
        self,
        n_runs: int,
        n_envs: int,
        size: int,
        row: RowLayout,
        relabelling: Relabelling,
        *,
        longest: int | None = None,
        discrete_actions: bool = False,
        device: torch.device | str = "cpu",
        size_name: str = "size",
    ) -> None:
        """Allocate `size` transitions per run, `size // n_envs` for each environment.

        By default `longest` is half of an environment's slots: until a longer episode finishes,
        there might be nothing to sample.  ValueError if an environment has fewer than two slots,
        or the transitions of all runs would not fit into this machine's memory; its message calls
        `size` by `size_name`.
        """
        n_envs, size = count_of("n_envs", n_envs), count_of(size_name, size)
        self.n_slots = size // n_envs
        if self.n_slots < 2:
            least = f"it must be at least {2 * n_envs}, two transitions for each environment"
            raise not_allowed(size_name, size, least)
        check_memory(size_name, size, n_runs * (4 * row.width + self.besides))
        self.longest = self.n_slots // 2 if longest is None else longest
        self.n_envs, self.row, self.relabelling = n_envs, row, relabelling
        self.discrete_actions, self.device = discrete_actions, torch.device(device)
        slots = (n_runs, n_envs, self.n_slots)
        # Left uninitialised: the system provides memory only when a transition is written to it.
        self.rows = torch.empty(*slots, row.width, device=self.device)
        self.before = np.empty(slots, np.int32)
        self.left = np.empty(slots, np.int32)
        self.clear()
        self._prepare()

    def clear(self) -> None:
        """Forget every step."""
        shape = self.left.shape[:2]
        self.position = 0  # steps added so far
        self.elapsed = np.zeros(shape, np.int64)  # steps so far of the open episodes
        self.oldest = np.zeros(shape, np.int64)

    def _prepare(self) -> None:
        """Set what depends on the runs on the axis; call it whenever they change."""
        runs, envs, slots = self.left.shape
        self._first_slot = np.arange(runs * envs).reshape(runs, envs) * slots
        # Assigning to NumPy's view takes 1 us, to a tensor 18.
        self.numpy_rows: Any = self.rows.numpy() if self.device.type == "cpu" else self.rows
        self._flat_rows = self.rows.view(-1, self.row.width)
        self._flat_next_achieved = self._flat_rows[:, self.row.next_achieved]
        obs, actions = (part.stop - part.start for part in (self.row.obs, self.row.actions))
        singles = 4 + (self.row.rest is not None)
        wide = [*2 * [(runs, envs, obs)], (runs, envs, actions)]
        self._step_shapes = [*wide, *singles * [(runs, envs)]]

    @property
    def made_with(self) -> dict[str, Any]:
        """Constructor arguments of an empty buffer like this one."""
        runs, envs, slots = self.left.shape
        sizes = {"n_runs": runs, "n_envs": envs, "size": envs * slots, "row": self.row}
        kinds = {"discrete_actions": self.discrete_actions, "device": self.device}
        return {**sizes, "relabelling": self.relabelling, "longest": self.longest, **kinds}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy only the slots that have been written."""
        return partial(type(self), **self.made_with), (), self.state_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.load_state_dict(state)

    def __len__(self) -> int:
        """Steps stored for each environment, including those of its open episode."""
        return min(self.position, self.n_slots)

    def add(
        self,
        obs: Tensor,
        actions: Tensor,
        rewards: Tensor,
        next_obs: Tensor,
        terminated: Tensor,
        truncated: Tensor,
        success: Tensor,
        rest: Tensor | None = None,
    ) -> None:
        """Add one step of every environment.

        Args:
            obs: [run, env, obs].
            actions: [run, env, action], or [run, env] if an action is one number.
            rewards: [run, env].
            next_obs: [run, env, obs] after the action, even if the episode ends.
            terminated: [run, env] bool, the episode ends and nothing follows.
            truncated: [run, env] bool, the episode was cut; the next state still has a value.
            success: [run, env] bool, the action achieved the desired goal; distinguishes success
                from failure where an episode terminates.
            rest: [run, env], the part of the rewards that no goal explains, if rows have it.

        Raises:
            ValueError: an array has another shape, or `rest` is missing.  Nothing is stored then.
        """
        if actions.ndim == 2:
            actions = actions[..., None]
        # A narrower observation would shift every column after it.
        of_rest = [] if rest is None else [rest]
        given = obs, next_obs, actions, rewards, terminated, truncated, success, *of_rest
        if len(given) != len(self._step_shapes):
            raise ValueError("rest: it is needed where the rows have one, and only there")
        for name, tensor, shape in zip(STEP, given, self._step_shapes, strict=False):
            if tensor.shape != shape:
                raise not_allowed(name, f"shape {tuple(tensor.shape)}", f"it must be {shape}")
        ends = [rewards, terminated, terminated & ~success, *of_rest]
        row = torch.cat([obs, next_obs, actions, torch.stack(ends, dim=-1)], dim=-1)
        self.add_rows(row[:, :, None], (terminated | truncated).cpu().numpy())

    def add_rows(self, rows: Any, over: NDArray[np.bool_]) -> None:
        """Add steps of every environment, which continue its open episode.

        Args:
            rows: [run, env, step, width]; no episode may get more steps than there are slots.
            over: [run, env] whether the environment's episode ends with the last of these steps.
        """
        steps = rows.shape[2]
        self._make_room(steps)
        slots = self._slots(self.position, steps)
        self.numpy_rows[:, :, slots] = rows
        self.before[:, :, slots] = self.elapsed[..., None] + np.arange(steps)
        self.elapsed += steps
        self.position += steps
        if some(too_long := self.elapsed - over >= self.longest):
            self._cut(too_long)
        if some(over):
            self._finish(over & (self.elapsed > 0))

    def end_episodes(self, which: NDArray[np.bool_] | bool = True) -> None:
        """End the open episodes, or those `which` [run, env], as if a time limit had cut them."""
        self._finish((self.elapsed > 0) & which)

    def finished(self) -> Index:
        """Number of transitions that can be sampled, [run, env]."""
        return self.position - self.elapsed - self.oldest

    def check_can_sample(self) -> Index:
        """Number of transitions that can be sampled, [run]; raise ValueError if a run has none."""
        total: Index = self.finished().sum(1)
        if some(total == 0):
            which = f" of run {total.argmin()}" if len(total) > 1 else ""
            advice = "begin to sample (learning_starts) after more steps than an episode has"
            if self.position > self.n_slots:
                advice = (
                    "the open one has overwritten the others; a size of twice an episode's length, "
                    "for each environment, always leaves one"
                )
            raise NothingToSampleError(
                f"there is nothing to sample: no episode{which} is finished; {advice}"
            )
        return total

    def stored(self) -> Index:
        """Transitions that can be sampled, one environment after another, oldest first."""
        places = zip(
            self.oldest.ravel(), self.finished().ravel(), self._first_slot.ravel(), strict=True
        )
        return np.concatenate(
            [first + np.arange(oldest, oldest + n) % self.n_slots for oldest, n, first in places]
        )

    def choose(self, uniform: Numbers) -> Index:
        """Draw transitions of finished episodes uniformly within each run.

        Returns their indices [run, sample] into the slots of all environments of all runs;
        ValueError if a run has no finished episode.

        uniform: [run, sample] float64; a float32 cannot resolve millions of transitions.
        """
        total = self.check_can_sample()
        number = (uniform * total[:, None]).astype(np.int64)
        if self.n_envs == 1:
            return (number + self.oldest) % self.n_slots + self._first_slot
        count = self.finished()
        up_to = count.cumsum(1)
        env = (number[..., None] >= up_to[:, None, :-1]).sum(-1)
        number += np.take_along_axis(self.oldest - (up_to - count), env, axis=1)
        return number % self.n_slots + np.take_along_axis(self._first_slot, env, axis=1)

    def holds(self, index: Index) -> NDArray[np.bool_]:
        """Whether finished transitions of the first run are stored at `index` [sample]."""
        inside = (index >= 0) & (index < self.n_envs * self.n_slots)
        env, slot = np.divmod(np.where(inside, index, 0), self.n_slots)
        age = (slot - self.oldest[0][env]) % self.n_slots
        there: NDArray[np.bool_] = inside & (age < self.finished()[0][env])
        return there

    def gather(self, index: Index) -> Tensor:
        """Copy the rows [..., width] of the transitions `index` [...]."""
        if self.device.type == "cpu":  # in half the time of `index_select`
            return torch.from_numpy(self._native(self._flat_rows).take(index, axis=0))
        rows = self._flat_rows.index_select(0, self._on_device(index.ravel()))
        return rows.view(*index.shape, self.row.width)

    def read(self, index: Index, uniform: Numbers, outcome: Outcome) -> Tensor:
        """Copy the rows [..., width] of the transitions `index`, partly relabelled.

        Args:
            index: [run, sample]; a single run may omit its axis.
            uniform: [run, sample, 2]: whether a row is relabelled, and with which goal.
        """
        rows = self.gather(index)
        if not (k := self.relabelling.k):
            return rows
        relabelled = self._native(self._on_device(uniform[..., 0] < k / (k + 1)))
        source = self._on_device(self.goal_index(index, uniform[..., 1]).ravel())
        goal = self._flat_next_achieved.index_select(0, source).unflatten(0, index.shape)
        native, goal = self._native(rows), self._native(goal)
        for columns in self.row.desired:
            put(native[..., columns], relabelled[..., None], goal)
        self.settle(rows, relabelled, *outcome(rows, index))
        return rows

    def goal_index(self, index: Index, uniform: Numbers) -> Index:
        """Choose the transitions [run, sample] whose achieved goals replace the desired ones."""
        strategy = self.relabelling.strategy
        if strategy == "random":
            return self.choose(uniform.reshape(len(self.elapsed), -1)).reshape(index.shape)
        slot = index % self.n_slots
        before, left = self.before.take(index), self.left.take(index)
        chosen: Index = goals.choose(strategy, slot, before, left, uniform)
        return chosen % self.n_slots + (index - slot)

    def settle(self, rows: Tensor, relabelled: Any, reward: Any, success: Any) -> None:
        """Set rewards and terminations of the `relabelled` rows, in place (see `Relabelling`).

        Tensors on the buffer's device; on the CPU, all but the rows may be NumPy arrays.

        Args:
            rows: [run, sample, width].
            relabelled: [run, sample] bool.
            reward: [run, sample], of the goals that the rows have now.
            success: [run, sample] bool, whether they are achieved.
        """
        row, native = self.row, self._native(rows)
        if isinstance(reward, Tensor):  # NumPy lacks some of its types
            reward = reward.to(rows.dtype)
        relabelled, reward, success = map(self._native, (relabelled, reward, success))
        if row.rest is not None:
            reward = reward + native[..., row.rest]
        put(native[..., row.reward], relabelled, reward)
        if self.relabelling.terminates_on_success and self.relabelling.fidelity == "described":
            terminated = (native[..., row.failed] > 0) | success
            put(native[..., row.terminated], relabelled, terminated)

    def draw(self, uniform: Numbers, beta: float = 0.4) -> tuple[Index, Tensor | None]:
        """Draw transitions as `choose`; returns indices [run, sample] and no importance weights."""
        return self.choose(uniform), None

    def sample(self, uniform: Numbers, reward: Reward, beta: float = 0.4) -> Batch:
        """Sample a batch [run, sample] from finished episodes, partly relabelled; see `draw`.

        `uniform` [run, sample, 3]: which transition, whether relabelled, which goal.
        """
        index, weight = self.draw(uniform[..., 0], beta)
        return self.sample_at(index, uniform[..., 1:], reward, weight)

    def sample_at(
        self, index: Index, uniform: Numbers, reward: Reward, weight: Tensor | None = None
    ) -> Batch:
        """As `sample`, of given transitions `index` [run, sample]; `uniform` [run, sample, 2].

        The batch's tensors are views of one tensor of rows.
        """
        row = self.row

        def outcome(rows: Tensor, index: Index) -> tuple[Tensor, Tensor]:
            failed = rows[..., row.failed] > 0
            ends = torch.zeros_like(failed) if self.relabelling.fidelity == "released" else failed
            return reward(rows[..., row.next_achieved], rows[..., row.desired[0]], ends)

        rows = self.read(index, uniform, outcome)
        actions = rows[..., row.actions]
        return Batch(
            rows[..., row.obs],
            actions[..., 0].long() if self.discrete_actions else actions,
            rows[..., row.reward],
            rows[..., row.next_obs],
            rows[..., row.terminated] > 0,
            weight,
        )

    def select(self, runs: Tensor) -> None:
        """Keep only the runs with these indices."""
        self.rows = self.rows[runs.to(self.device)]
        for name in ("before", "left", "elapsed", "oldest"):
            setattr(self, name, getattr(self, name)[runs.cpu().numpy()])
        self._prepare()

    def state_dict(self) -> dict[str, Any]:
        """Everything a checkpoint needs: the slots written so far, including open episodes."""
        before, left = (x[:, :, : len(self)] for x in (self.before, self.left))
        host = {"elapsed": self.elapsed, "oldest": self.oldest, "before": before, "left": left}
        saved = {name: torch.from_numpy(values.copy()) for name, values in host.items()}
        rows = self.rows[:, :, : len(self)].clone()
        return saved | {"rows": rows, "position": self.position, "longest": self.longest}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore a `state_dict` of a buffer with the same sizes; ValueError if that fails."""
        most = max(self.n_slots, self.longest)
        self.position, self.longest = saved["position"], saved.get("longest", self.longest)
        if type(self.position) is not int or self.position < 0:
            raise ValueError(f"{self.position} steps are not possible")
        if type(self.longest) is not int or not 0 < self.longest <= most:
            raise ValueError(f"episodes of {self.longest} steps are not possible")
        n = len(self)
        places = {
            "rows": self.rows[:, :, :n], "elapsed": self.elapsed, "oldest": self.oldest,
            "before": self.before[:, :, :n], "left": self.left[:, :, :n],
        }  # fmt: skip
        for name, place in places.items():
            # Assignment silently broadcasts an array of size 1, and casts.
            ours, theirs = torch.as_tensor(place), saved[name]
            if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
                raise ValueError(f"its {name} have another shape or type")
            ours.copy_(theirs)
        there = max(self.position - self.n_slots, 0) <= self.oldest
        if not (there & (self.elapsed >= 0) & (self.finished() >= 0)).all():
            raise ValueError("it has steps that were never stored")
        if not all(self._has_whole_episodes(*place) for place in np.ndindex(self.oldest.shape)):
            raise ValueError("a step lies outside its episode")

    def _has_whole_episodes(self, run: int, env: int) -> bool:
        """Whether an environment's steps are numbered as episodes are, of which one may be open."""
        slots = np.arange(self.oldest[run, env], self.position) % self.n_slots
        before, left = self.before[run, env, slots], self.left[run, env, slots]
        number, n = np.arange(len(slots)), len(slots) - int(self.elapsed[run, env])
        starts = np.append(np.flatnonzero(before[:n] == 0), n)
        lengths = np.diff(starts)
        if starts[0] or (before[n:] != number[: len(slots) - n]).any():
            return False
        first, end = np.repeat(starts[:-1], lengths), np.repeat(starts[1:], lengths)
        whole = (before[:n] == number[:n] - first) & (left[:n] == end - number[:n])
        return bool(whole.all())

    def _native(self, values: Any) -> Any:
        """A tensor on the CPU as a NumPy array, whose calls take half as long; else the same."""
        on_cpu = isinstance(values, Tensor) and self.device.type == "cpu"
        return values.numpy() if on_cpu else values

    def _on_device(self, values: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(values)
        return tensor if self.device.type == "cpu" else tensor.to(self.device)

    def _slots(self, position: int, steps: int) -> Any:
        """Slots of `steps` steps from `position` on: a slice, which is faster, unless they wrap."""
        first = position % self.n_slots
        if first + steps <= self.n_slots:
            return slice(first, first + steps)
        return np.arange(first, first + steps) % self.n_slots

    def _make_room(self, steps: int) -> None:
        """Drop the episodes whose slots the next `steps` steps will overwrite."""
        first = self.position + steps - self.n_slots  # the first step that remains
        while first > 0 and some(taken := self.oldest < first):
            for run, env in zip(*taken.nonzero(), strict=True):
                begin = int(self.oldest[run, env])
                self.oldest[run, env] += self.left[run, env, begin % self.n_slots]
                self._mark(run, env, begin, int(self.oldest[run, env]), finished=False)

    def _cut(self, too_long: NDArray[np.bool_]) -> None:
        """Close the episodes `too_long` [run, env] in pieces of half of the slots; leave the rest.

        Had one all slots, the next step would drop it, and nothing could be sampled.
        """
        longest = self.longest = min(self.longest, self.n_slots // 2)  # others may be as long
        for run, env in zip(*too_long.nonzero(), strict=True):
            steps = int(self.elapsed[run, env])
            begin, self.elapsed[run, env] = self.position - steps, steps % longest
            self.before[run, env, self._slots(begin, steps)] = np.arange(steps) % longest
            for end in range(begin + longest, self.position + 1, longest):
                self._close(run, env, end - longest, end)

    def _finish(self, over: NDArray[np.bool_]) -> None:
        """Close the open episodes of the environments `over` [run, env]."""
        for run, env in zip(*over.nonzero(), strict=True):
            self._close(run, env, self.position - int(self.elapsed[run, env]), self.position)
        self.elapsed[over] = 0

    def _close(self, run: int, env: int, begin: int, end: int) -> None:
        """Make an episode of the steps `begin` to `end` - 1 of an environment."""
        self.left[run, env, self._slots(begin, end - begin)] = np.arange(end - begin, 0, -1)
        self._mark(run, env, begin, end, finished=True)

    def _mark(self, run: int, env: int, begin: int, end: int, *, finished: bool) -> None:
        """Called when the steps `begin` to `end` - 1 of an environment are finished or dropped."""
