"""Hindsight replay for any gymnasium goal environment: NumPy in, NumPy out.

`library.like_stable_baselines3` and `library.like_cpprb` offer the same replay with the interfaces
of those libraries.
"""

import copy
import pickle
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
from gymnasium import vector
from gymnasium.spaces import Space
from numpy.typing import NDArray

from hindsight.replay.buffer import Index, Numbers, Relabelling, RowLayout, check_choice, some
from hindsight.replay.fields import (
    FLOAT,
    Array,
    Field,
    FieldBuffer,
    Rows,
    check_function,
    laid_out,
    per_goal,
    truth,
    width_of,
)
from hindsight.specs.base import GOAL_KEYS, Fidelity
from hindsight.specs.errors import not_allowed
from hindsight.specs.replay import GoalStrategy
from hindsight.specs.spaces import SUPPORTED_SPACES, batch_for, policy_inputs

#: What happens to an observation that shares its memory with the next one.
OVERWRITTEN = (
    "the step has overwritten the observation before it, so both would be equal; make a vector "
    "environment with copy=True, or pass a copy of each observation"
)
#: A warning about a reset that the buffer was not told of.
JUMPED = (
    "the observation is not the one that the last step led to, so the open episode was cut there, "
    "as by a time limit; learn() resets the environment unless reset_num_timesteps=False"
)
#: The same of a buffer that does not know whether the environment was reset.
DIFFERS = (
    "the observation is not the one that the last step led to; if the environment was reset before "
    "its episode ended, call truncate_last_trajectory() first, or goals are taken from another "
    "episode"
)
#: A warning about an environment that resets by itself.
RESET = (
    "an episode begins exactly where the last one ended, as if the environment reset by itself; "
    "then rewards of relabelled goals can be wrong: pass the observation that ended the episode as "
    "next_obs, and leave out gymnasium.wrappers.Autoreset"
)
#: (achieved goals [n, ...], desired goals [n, ...], n dictionaries) -> [n]
OfGoals = Callable[[Array, Array, Any], Any]


class Sample(NamedTuple):
    """A batch of transitions; observations are dictionaries of arrays [sample, ...]."""

    obs: dict[str, Array]
    actions: Array  # [sample, ...]
    rewards: Array  # [sample] float32
    next_obs: dict[str, Array]
    terminated: Array  # [sample] bool: do not bootstrap; false where a time limit cut the episode
    weights: Array | None  # [sample] importance weights; None unless prioritised
    indexes: Array  # [sample], for `update_priorities`


class Elsewhere:
    """A method of an environment in another process, which an exception ends."""

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name, self.call = name, call

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self.call(*arguments)
        except Exception as error:
            many = "one goal" if isinstance(arguments[-1], Mapping) else "many goals at once"
            raise ValueError(
                f"{self.name}: failed for {many}, and ended the process of its environment "
                f"({type(error).__name__}); an environment in this process shows why: "
                "SyncVectorEnv, or Stable-Baselines3's DummyVecEnv"
            ) from error


class NotKept(dict[str, Any]):
    """The empty info of a step whose info was not kept, which notes that a function reads it."""

    __slots__ = ()  # a batch has hundreds
    #: Whether one has been read since this was last set.
    reads: ClassVar[bool] = False

    def __reduce__(self) -> Any:  # in another process, a plain one
        return dict, ()


def _noted(name: str) -> Callable[..., Any]:
    def read(info: NotKept, *arguments: Any) -> Any:
        NotKept.reads = True
        return getattr(dict, name)(info, *arguments)

    return read


for _name in ("__getitem__", "get", "__contains__", "__iter__", "items", "keys", "values"):
    setattr(NotKept, _name, _noted(_name))


class Unwritten(threading.local):
    """Empty infos that functions left empty: new ones would take as long as a fifth of a sample."""

    def __init__(self) -> None:
        self._infos: dict[type[dict[str, Any]], list[dict[str, Any]]] = {}

    def __call__(self, kind: type[dict[str, Any]], n: int) -> list[dict[str, Any]]:
        infos = self._infos.get(kind, [])
        if len(infos) != n or any(infos):
            infos = self._infos[kind] = [kind() for _ in range(n)]
        return infos.copy()


empty_infos = Unwritten()


def method_of(env: Any, name: str) -> Callable[..., Any] | None:
    """Find a method of an environment, or of a vector environment's first; None if it has none."""
    if hasattr(env, "env_method"):  # a vector environment of Stable-Baselines3
        if not env.has_attr(name):
            return None

        def method(*arguments: Any) -> Any:
            return env.env_method(name, *arguments, indices=[0])[0]

        return Elsewhere(name, method) if hasattr(env, "remotes") else method
    bare = getattr(env, "unwrapped", env)
    if hasattr(env, "num_envs") and hasattr(bare, "envs"):
        env = bare.envs[0]
    elif hasattr(env, "num_envs") and hasattr(bare, "call"):  # its environments are processes
        if not all(bare.call("has_wrapper_attr", name)):
            return None
        return Elsewhere(name, lambda *arguments: bare.call(name, *arguments)[0])
    if hasattr(env, "has_wrapper_attr"):
        return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    return getattr(env, name, None)


def takes_one(function: Callable[..., Any], goals: tuple[Array, Array, Sequence[Any]]) -> bool:
    """Whether a function is for one goal: as many of them as one or three fail, or differ.

    goals: achieved and desired goals [n, ...] and infos [n], n > 0.

    In another process, which a failure ends, termination is asked for one goal, as the environment
    does, and rewards for many, as long as these are as many.
    """
    n = batch_for(np.shape(goals[0])[1:])
    if isinstance(function, Elsewhere):
        first = (np.asarray(part)[[0] * n] for part in goals)
        return function.name == "compute_terminated" or np.size(function(*first)) != n
    some = [0, *[len(goals[0]) // 2] * (n - 2), -1]
    achieved, desired, infos = (np.asarray(part)[some] for part in goals)
    desired[-1] = achieved[-1]
    try:
        singly = zip(achieved.copy(), desired.copy(), infos, strict=True)
        each = [_of_one_goal(function, *one) for one in singly]
    except Exception:
        return False  # if it fails for many, too, that is reported
    try:
        alone = np.ravel(function(achieved[:1].copy(), desired[:1].copy(), [infos[0]]))
        if not np.allclose(alone, each[:1], equal_nan=True):
            return True
        together = np.asarray(function(achieved, desired, list(infos)))
        return together.size != len(each) or not np.allclose(together.ravel(), each, equal_nan=True)
    except Exception:
        return True


def _of_one_goal(function: Callable[..., Any], *arguments: Any) -> Any:
    *goals, info = arguments
    # A discrete goal is a Python number, as in the environment.
    return np.asarray(function(*(x if np.ndim(x) else x.item() for x in goals), info)).item()


class HindsightReplayBuffer(FieldBuffer):
    """Hindsight experience replay (Andrychowicz et al. 2017) for a goal environment.

        buffer = HindsightReplayBuffer(100_000, env, strategy="future", k=4, seed=0)
        buffer.add(obs, action, reward, next_obs, terminated, truncated, info)
        batch = buffer.sample(256)

    Only finished episodes are sampled.  A sampled transition is relabelled with probability
    k / (k + 1); see `buffer.Relabelling` for its new goal, reward and termination.  Numbers are
    stored and returned in the types of the environment's spaces.  An episode with more steps than
    the buffer has room for, in each of its environments, is stored in pieces of half of that, with
    a warning; so is any later one that is longer than these pieces, until `clear`.
    """

    #: What messages call the argument `copy_infos`, and what they advise instead of it.
    infos_name: ClassVar = "copy_infos"
    only_numbers: ClassVar = ", or keep only numbers with info_keys"
    #: Whether an open episode ends where an observation does not follow the last one.
    cuts_jumps = False
    #: Whether an episode that is cut counts as terminated, instead of as cut by a time limit.
    cuts_terminate = False
    #: Whether functions get discrete goals as [n, 1], as in Stable-Baselines3, instead of [n].
    goals_have_axis = False

    def __init__(
        self,
        size: int,
        env: Any,
        *,
        strategy: GoalStrategy = "future",
        k: int = 4,
        fidelity: Fidelity | None = "described",
        compute_reward: OfGoals | None = None,
        compute_terminated: OfGoals | None = None,
        info_keys: Sequence[str] = (),
        copy_infos: bool = False,
        rest: Literal["keep", "drop"] = "drop",
        prioritized: bool = False,
        alpha: float = 0.6,
        seed: int | None = None,
    ) -> None:
        """Create an empty buffer.

        Args:
            size: capacity in transitions, of all environments together.
            env: the environment, or a vector environment, of gymnasium or Stable-Baselines3.  Its
                observations are dictionaries with `achieved_goal`, `desired_goal`, `observation`
                and any other keys of numbers.  A gymnasium vector environment must not reset by
                itself (`autoreset_mode=AutoresetMode.DISABLED`).
            strategy: where new goals come from: "final", "future", "episode" or "random".
            k: additional goals per transition; 0 turns hindsight off.
            fidelity: "described" recomputes the termination of relabelled transitions, "released"
                keeps the stored one.  None: "described" if there is a `compute_terminated`.
            compute_reward: function of (achieved goals [n, ...], desired goals [n, ...], n infos)
                that returns rewards [n].  None: the environment's method of that name.  A function
                for one goal and its info is noticed, and called for one goal at a time.
            compute_terminated: function of the same arguments that returns whether these goals
                terminate an episode [n], as in gymnasium-robotics.  None: the environment's method
                of that name.  If success never terminates, it returns False for every goal.
            info_keys: names of numbers in a step's `info` that these functions read; each goal then
                comes with a dictionary of these numbers.
            copy_infos: keep every step's whole `info` and pass it to these functions instead.
            rest: what happens to the part of a reward that `compute_reward` does not explain, such
                as a penalty for a crash: "keep" pays it under every goal, "drop" only under the
                transition's own goal.
            prioritized: proportional prioritised replay (Schaul et al. 2016).
            alpha: exponent of the priorities, from 0 (uniform) to 1.
            seed: seed of the buffer's own random generator.  None: an arbitrary seed.

        Raises:
            ValueError: an argument is invalid; the message gives its name, its value and what is
                allowed.
        """
        spaces, action_space = (
            getattr(env, f"single_{name}", None) or getattr(env, name, None)
            for name in ("observation_space", "action_space")
        )
        if spaces is None or action_space is None:
            wanted = "it must be an environment, with observation_space and action_space"
            raise not_allowed("env", repr(env), wanted)
        n_envs = getattr(env, "num_envs", 1)
        check_choice("rest", rest, ("keep", "drop"))
        if fidelity is None:
            known = compute_terminated or method_of(env, "compute_terminated")
            fidelity = "released" if known is None else "described"
        self._recomputes = fidelity == "described" and k != 0
        #: Functions passed in, which go before the environment's methods of the same names.
        self._given = {"compute_reward": compute_reward, "compute_terminated": compute_terminated}
        self.set_env(env)
        if isinstance(info_keys, str):
            raise not_allowed("info_keys", repr(info_keys), "it must be a list of names")
        self._keys = tuple(info_keys)
        policy_inputs("observation_space", spaces)  # raises if goals cannot replace one another
        others = sorted(set(spaces.keys()) - set(GOAL_KEYS))
        #: Spaces of the parts of an observation, the goals first.
        self.parts = {key: spaces[key] for key in (*GOAL_KEYS, *others)}
        if copy_infos and self._keys:
            raise ValueError(
                "info_keys: not allowed together with copy_infos=True, which keeps every key"
            )
        self.observation_space, self.action_space = spaces, action_space
        super().__init__(
            size,
            n_envs,
            *goal_fields(self.parts, action_space, self._keys, rest == "keep" and k != 0),
            Relabelling(strategy, k, self._recomputes, fidelity),
            prioritized=prioritized,
            alpha=alpha,
            seed=seed,
        )
        self.ring.longest = self.ring.n_slots
        #: Parts of an observation by which a step follows the last one: a user may change goals.
        self._state = [key for key in self.parts if key != "desired_goal"]
        #: Columns of each part of an observation, and of the same part of the next one.
        self._columns = {
            key: (self.fields[key].columns, self.fields[f"next {key}"].columns)
            for key in self.parts
        }
        #: [env], whether an episode goes on that was cut into pieces, because it filled the buffer.
        self._in_pieces = np.zeros(n_envs, bool)
        #: Names of functions that read infos of which nothing is kept.
        self._readers: set[str] = set()
        #: Leading axes of a step's arrays: none, or [env].
        self._before = (n_envs,) if hasattr(env, "num_envs") else ()
        #: The infos of stored steps, [env, slot]; None: none are kept.
        self.infos: Array | None = None
        if copy_infos:
            self.infos = np.empty((n_envs, self.ring.n_slots), object)

    def set_env(self, env: Any) -> None:
        """Use this environment's `compute_reward` and `compute_terminated`, unless passed in.

        A pickled or copied buffer has no environment until this is called.  ValueError if the
        environment lacks these methods, or resets by itself.
        """
        mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
        if mode not in (None, vector.AutoresetMode.DISABLED):
            why = "an episode's last observation would be the first of the next episode"
            if mode == vector.AutoresetMode.NEXT_STEP:
                why = (
                    "the step after an episode's end is a reset, whose reward of 0 would count as "
                    "a success where rewards are -1 and 0"
                )
            raise ValueError(
                f"env: {mode} is not allowed, because {why}; make it with "
                "autoreset_mode=AutoresetMode.DISABLED and, if any episode is over, reset those: "
                'reset(options={"reset_mask": terminated | truncated})'
            )
        if getattr(getattr(env, "unwrapped", env), "copy", True) is False:
            raise ValueError(f"env: copy=False is not allowed, because {OVERWRITTEN}")
        found = {
            name: method_of(env, name) if function is None else function
            for name, function in self._given.items()
        }
        if found["compute_reward"] is None:
            raise ValueError(
                "compute_reward: None is not allowed, because the environment has no such method"
            )
        if self._recomputes and found["compute_terminated"] is None:
            raise ValueError(
                "compute_terminated: None is not allowed, because the environment has no such "
                "method; pass a function that tells which goals terminate an episode, or "
                "fidelity='released' to keep terminations as stored"
            )
        for name, function in found.items():
            check_function(name, function, "(achieved goals, desired goals, infos)", optional=True)
        self._functions = found
        #: Whether each function is for one goal; found when it is first called.
        self._takes_one: dict[str, bool] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the environment, but with the functions that were passed in."""
        # cloudpickle, because they may be lambdas.
        return vars(self) | {"_given": cloudpickle.dumps(self._given), "_functions": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._given = self._functions = pickle.loads(state["_given"])

    def add(
        self,
        obs: Mapping[str, Any],
        action: Any,
        reward: Any,
        next_obs: Mapping[str, Any],
        terminated: Any,
        truncated: Any,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        """Add one step; of a vector environment, one step of each, with a leading axis [env].

        `next_obs` is the observation after the action, even if the episode ends there; not the
        first observation after a reset.  ValueError if a shape or type is wrong, a number is not
        finite, or a key is missing; nothing is stored then, nor if a function of the user raises.
        """
        ends = truth("terminated", terminated, self._before)
        over = truth("truncated", truncated, self._before) | ends
        self._add(self._before, obs, action, reward, next_obs, ends, over, info)

    def add_episode(
        self,
        obs: Mapping[str, Any],
        actions: Any,
        rewards: Any,
        next_obs: Mapping[str, Any],
        terminated: bool,
        infos: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a whole episode, as arrays with a leading axis [step].

        Of a vector environment, add one episode of each, with leading axes [env, step].

        Args:
            terminated: whether the last step terminated the episode; if not, it was truncated.
            infos: arrays [step] of the `info_keys`; of one environment or with `copy_infos`, also
                one dictionary per step.

        Raises:
            ValueError: as `add`; or an episode is open, or longer than the buffer.
        """
        if self.ring.elapsed.any():
            raise ValueError("whole episodes cannot be added while another episode is open")
        steps, room = np.asarray(rewards).size // self.ring.n_envs, self.ring.n_slots
        if not 0 < steps <= room:
            raise ValueError(
                f"an episode of {steps} steps is not allowed; it must have 1 to {room}"
            )
        ends = np.zeros((*self._before, steps), bool)
        last = truth("terminated", terminated, self._before)
        ends[..., -1:] = last[..., None]
        over = np.ones_like(last)
        self._add(ends.shape, obs, actions, rewards, next_obs, ends, over, infos)

    def _add(
        self,
        shape: tuple[int, ...],
        obs: Mapping[str, Any],
        actions: Any,
        rewards: Any,
        next_obs: Mapping[str, Any],
        terminated: Array,
        over: Array,
        infos: Any,
    ) -> None:
        """Add steps with leading axes `shape`; `over`, [env] or []: they end an episode."""
        values: dict[str, Any] = {"action": actions, "reward": rewards, "terminated": terminated}
        for name, given, which in (("obs", obs, ""), ("next_obs", next_obs, "next ")):
            if not isinstance(given, Mapping):  # such as what `reset` returns, with the info
                kind = type(given).__name__
                raise not_allowed(name, f"a {kind}", "it must be a dictionary")
            for key in self.parts:
                if key not in given:
                    raise ValueError(
                        f"{which}{key}: missing from the observation, which has {sorted(given)}"
                    )
                values[which + key] = given[key]
        by_key = {} if infos is None else infos
        if not isinstance(by_key, Mapping):
            by_key = self._by_key(by_key)
        for key in self._keys:
            # Of a vector environment, values that are not there are 0, and another key says so.
            if key not in by_key or (shape and not np.all(by_key.get(f"_{key}", 1))):
                raise ValueError(f"info: {key!r} is missing, but info_keys names it")
            value = np.asarray(by_key[key])
            # gymnasium's vector environments keep NumPy's booleans as objects.
            values[key] = np.array(value.tolist()) if value.dtype == object else value
        ring, width = self.ring, self.row.width
        rows = self._written(shape, values).reshape(ring.n_envs, -1, width)
        kept = None if self.infos is None else _one_each(infos, shape)
        begins, first = ring.elapsed[0] == 0, rows[:, 0]
        jumps = ~begins
        if some(jumps):
            jumps &= ~self._follows(first, self._state)
        if some(jumps):
            moved = [key for key in self._state if some(jumps & ~self._follows(first, [key]))]
            if any(np.shares_memory(obs[key], next_obs[key]) for key in moved):
                raise ValueError(f"obs: shares its memory with next_obs: {OVERWRITTEN}")
            warnings.warn(JUMPED if self.cuts_jumps else DIFFERS, stacklevel=3)
        if (
            some(begins)
            and ring.position
            and some(begins & ~self._in_pieces & self._follows(first, self.parts))
        ):
            warnings.warn(RESET, stacklevel=3)
        self._complete(rows.reshape(-1, width), kept)
        if self.cuts_jumps and some(jumps):
            self._cut(jumps)
        if self.infos is not None and kept is not None:
            slots = np.arange(ring.position, ring.position + rows.shape[1]) % ring.n_slots
            self.infos[:, slots] = kept.reshape(ring.n_envs, -1)
        steps, longest = int(ring.elapsed.max()) + rows.shape[1], ring.longest
        ring.add_rows(rows[None], over.reshape(1, ring.n_envs))
        self._in_pieces = (ring.elapsed[0] == 0) & ~over.reshape(ring.n_envs)
        if ring.longest < longest:
            warnings.warn(
                f"an episode has {steps:,} steps or more, which is all that this buffer holds of "
                f"one environment: it is stored in pieces of {ring.longest:,}, as are later ones "
                "with more, and goals come from the same piece; a larger size keeps them whole",
                stacklevel=3,
            )

    def _by_key(self, infos: Iterable[Any]) -> dict[str, list[Any]]:
        """Values of the `info_keys` that all infos have, as of Stable-Baselines3's environments."""
        infos = [*infos]
        there = [key for key in self._keys if all(key in (info or {}) for info in infos)]
        return {key: [info[key] for info in infos] for key in there}

    def _follows(self, rows: Rows, keys: Iterable[str]) -> NDArray[np.bool_]:
        """Which steps [env, width] begin, in these parts, where the last ones led to, [env]."""
        ring = self.ring
        last = ring.numpy_rows[0, :, (ring.position - 1) % ring.n_slots]
        follows = np.ones(ring.n_envs, bool)
        for key in keys:
            here, there = self._columns[key]
            now, then = rows[:, here], last[:, there]
            if now.tobytes() != then.tobytes():  # rare in all parts
                follows &= (now.view(np.int32) == then.view(np.int32)).all(1)
                if not some(follows):
                    break
        return follows

    def sample(self, batch_size: int, beta: float = 0.4) -> Sample:
        """Sample `batch_size` transitions with replacement, partly relabelled.

        `beta` is the exponent of a prioritised buffer's importance weights; 1 corrects fully.
        ValueError if no episode is finished yet, or an argument is invalid.
        """
        return self._out(*self._drawn(batch_size, beta))

    def sample_at(self, indexes: Index, uniform: Numbers) -> Sample:
        """Return the batch of transitions `indexes` [sample]; see `ReplayBuffer.read`.

        ValueError for indexes at which no finished transition is stored, or numbers outside [0, 1).
        """
        index, numbers, ring = np.asarray(indexes), np.asarray(uniform), self.ring
        if index.ndim != 1 or index.dtype.kind not in "iu" or not ring.holds(index).all():
            raise ValueError("indexes: all must be of finished transitions that are stored")
        most = 1.0, np.nextafter(1.0, 0.0)  # 1 is never relabelled
        if numbers.shape != (len(index), 2) or not ((numbers >= 0) & (numbers <= most)).all():
            raise ValueError(f"uniform: numbers [{len(index)}, 2] in [0, 1) are needed")
        return self.read_at(index, numbers)

    def read_at(self, indexes: Index, uniform: Numbers) -> Sample:
        """`sample_at` without its checks, of arrays."""
        return self._out(self._read(indexes, uniform), None, indexes)

    def _out(self, rows: Rows, weights: Array | None, indexes: Index) -> Sample:
        fields = self.fields
        return Sample(
            {key: fields[key].read(rows) for key in self.parts},
            fields["action"].read(rows),
            rows[:, self.row.reward],
            {key: fields[f"next {key}"].read(rows) for key in self.parts},
            rows[:, self.row.terminated] > 0,
            weights,
            indexes,
        )

    def truncate_last_trajectory(self) -> None:
        """End the open episodes as if a time limit had cut them, for example after a restart."""
        self._cut(np.ones(self.ring.n_envs, bool))

    def _cut(self, which: NDArray[np.bool_]) -> None:
        ring = self.ring
        if self.cuts_terminate:
            last = ring.numpy_rows[0, :, (ring.position - 1) % ring.n_slots]
            for column in (self.row.terminated, self.row.failed):
                last[which & (ring.elapsed[0] > 0), column] = 1
        ring.end_episodes(which[None])

    def clear(self) -> None:
        super().clear()
        self.ring.longest = self.ring.n_slots
        if self.infos is not None:
            self.infos[:] = None

    def save(self, path: str | Path) -> None:
        """As `FieldBuffer.save`; ValueError if the buffer was made with `copy_infos=True`."""
        if self.infos is not None:
            raise ValueError(
                f"save: a buffer with {self.infos_name}=True cannot be saved, because an info may "
                f"hold any object; pickle the buffer{self.only_numbers}"
            )
        super().save(path)

    def load(self, path: str | Path) -> None:
        """As `FieldBuffer.load`."""
        super().load(path)
        # Whether an episode goes on in its next piece is not saved.
        self._in_pieces[:] = self.ring.longest < self.ring.n_slots

    def _settings(self) -> dict[str, Any]:
        own = {
            "infos": "none" if self.infos is None else "copies",
            "handle_timeout_termination": not self.cuts_terminate,
        }
        return super()._settings() | own

    def _complete(self, rows: Rows, infos: Array | None) -> None:
        """Fill in what of rows [n, width] depends on the environment's functions."""
        row, terminated = self.row, rows[:, self.row.terminated] > 0
        rows[:, row.failed] = terminated
        if row.rest is None and not (self._recomputes and some(terminated)):
            return
        reward, success = self._of_goals(rows, infos)
        rows[:, row.failed] = terminated & ~success
        if row.rest is not None:
            beyond = ~np.isclose(reward, rows[:, row.reward], rtol=1e-5, atol=1e-6)
            rows[:, row.rest] = np.where(beyond, rows[:, row.reward] - reward, 0)

    def _outcome(self, rows: Rows, index: Index) -> tuple[Array, Array]:
        return self._of_goals(rows, None if self.infos is None else self.infos.take(index))

    def _of_goals(self, rows: Rows, infos: Any) -> tuple[Array, Array]:
        """As `_outcome`; `infos` [n] are those of the steps, if they are kept."""
        reward, ends = self._functions.values()
        if reward is None or (self._recomputes and ends is None):
            raise ValueError(
                "the buffer was pickled or copied without its environment; call set_env(env)"
            )
        n = len(rows)
        if self._keys:
            columns = (rows[:, self.fields[key].columns.start].tolist() for key in self._keys)
            infos = [dict(zip(self._keys, v, strict=True)) for v in zip(*columns, strict=True)]
        rewards = self._asked("compute_reward", rows, infos)
        if not self._recomputes:
            return rewards, np.zeros(n, bool)
        return rewards, self._asked("compute_terminated", rows, infos).astype(bool)

    def _asked(self, name: str, rows: Rows, infos: Sequence[Any] | None) -> Rows:
        """What the function `name` returns for the goals of rows [n, width], float32 [n].

        `infos` None: those of the steps were not kept.
        """
        function: Any = self._functions[name]
        again = copy.copy if self.infos is None else copy.deepcopy

        def goals() -> tuple[Array, Array, Sequence[Any]]:
            """New copies, because a function may change what it is given."""
            names = "next achieved_goal", "desired_goal"
            achieved, desired = (self.fields[name].read(rows).copy() for name in names)
            if self.goals_have_axis and achieved.ndim == 1:
                achieved, desired = achieved[:, None], desired[:, None]
            if infos is None:
                return achieved, desired, empty_infos(kind, len(rows))
            return achieved, desired, [again(info) for info in infos]

        # With a part of the reward beyond, what infos pay is in that.
        known = name in self._readers or self.row.rest is not None
        kind: type[dict[str, Any]] = dict if known else NotKept
        NotKept.reads = False
        if name not in self._takes_one and len(rows):
            self._takes_one[name] = takes_one(function, goals())
        try:
            if not self._takes_one.get(name):
                return per_goal(name, function, goals(), len(rows))
            each = [_of_one_goal(function, *one) for one in zip(*goals(), strict=True)]
            return per_goal(name, np.array, [each], len(rows))
        finally:
            if NotKept.reads:
                self._readers.add(name)
                warnings.warn(
                    f"{name} reads infos, but gets empty ones in relabelling: keep them with "
                    f"{self.infos_name}=True{self.only_numbers}",
                    stacklevel=4,
                )


def _one_each(infos: Any, shape: tuple[int, ...]) -> Array:
    """Copies [n] of the infos of steps [*shape]; raise ValueError if there are more or fewer."""
    given: list[Any]
    n = prod(shape)
    if isinstance(infos, Mapping) and shape:
        given = [_of_one(infos, i) for i in range(n)]
    else:
        given = [infos] if isinstance(infos, Mapping) or infos is None else list(infos)
    if len(given) != n:
        raise ValueError(f"infos: {len(given)} dictionaries are not allowed; there must be {n}")
    kept = np.empty(n, object)
    kept[:] = [copy.deepcopy(dict(info or {})) for info in given]
    return kept


def _of_one(infos: Mapping[str, Any], i: int) -> dict[str, Any]:
    """The info of environment i of a gymnasium vector environment; `_key`: which have the key."""
    return {
        key: _of_one(value, i) if isinstance(value, Mapping) else value[i]
        for key, value in infos.items()
        if not key.startswith("_") and (f"_{key}" not in infos or infos[f"_{key}"][i])
    }


def goal_fields(
    spaces: Mapping[str, Space[Any]],
    action_space: Space[Any],
    info_keys: Sequence[str],
    has_rest: bool,
) -> tuple[dict[str, Field], RowLayout]:
    """The fields of a transition, and their row; ValueError if a space is not supported."""
    for name, space in (*spaces.items(), ("action", action_space)):
        if not isinstance(space, SUPPORTED_SPACES):
            wanted = "it must be a Box, Discrete, MultiBinary or MultiDiscrete"
            raise not_allowed(name, f"the space {space}", wanted)
    goal = np.result_type(*(spaces[key].dtype for key in GOAL_KEYS[:2]))
    own: list[Any] = [
        (key, space.shape, space.dtype, goal if key in GOAL_KEYS[:2] else space.dtype)
        for key, space in spaces.items()
    ]
    names = ("reward", "terminated", "failed", *(("rest",) if has_rest else ()), *info_keys)
    fields = laid_out(
        [
            *own,
            *((f"next {key}", *how) for key, *how in own),
            ("action", action_space.shape or (), action_space.dtype, action_space.dtype),
            *((name, (), FLOAT, FLOAT) for name in names),
        ]
    )
    columns = {name: field.columns for name, field in fields.items()}
    row = RowLayout(
        width=width_of(fields),
        obs=columns["observation"],
        next_obs=columns["next observation"],
        desired=(columns["desired_goal"], columns["next desired_goal"]),
        next_achieved=columns["next achieved_goal"],
        actions=columns["action"],
        reward=columns["reward"].start,
        terminated=columns["terminated"].start,
        failed=columns["failed"].start,
        rest=columns["rest"].start if has_rest else None,
    )
    return fields, row
