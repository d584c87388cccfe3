"""`her.HindsightReplayBuffer` under the names of Stable-Baselines3's `HerReplayBuffer`.

Stable-Baselines3's own algorithms take it: `replay_buffer_class=HerReplayBuffer`.  From the same
state of NumPy's generator it samples what theirs samples, in the same order.  What differs: where
the environment has a `compute_terminated`, terminations are recomputed for the new goal unless
`fidelity="released"`; of several environments some episodes leave a buffer that is full a little
earlier; `save` writes no pickle.  Priorities and the strategy `random` are `her`'s.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from gymnasium.spaces import Dict, Discrete, Space

from hindsight.replay.buffer import check_choice, check_count
from hindsight.replay.episodes import Array, Rows, truth
from hindsight.replay.her import HindsightReplayBuffer, OfGoals, Sample, method_of
from hindsight.specs.base import GOAL_KEYS, Fidelity
from hindsight.specs.replay import EpisodeStrategy


class ReplaySamples(NamedTuple):
    """A batch; NumPy arrays, or tensors where the buffer has a device."""

    observations: dict[str, Any]
    actions: Any  # [sample, action]
    next_observations: dict[str, Any]
    dones: Any  # [sample, 1]: terminated, not cut by a time limit
    rewards: Any  # [sample, 1]
    discounts: Any = None  # of n-step returns, which are not made here


class HerReplayBuffer:
    """Hindsight replay with several environments that step together.

    Arrays such as `dones` are laid out as there: a row for each step of all environments, 0 where
    nothing is stored (any more).  They are made when asked for, since here an episode lies in one
    piece.  After `load` they begin with what was going on.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: Space[Any],
        action_space: Space[Any],
        env: Any,
        device: torch.device | str | None = None,
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_sampled_goal: int = 4,
        goal_selection_strategy: Any = "future",
        copy_info_dict: bool = False,
        *,
        fidelity: Fidelity | None = None,
        compute_terminated: OfGoals | None = None,
        seed: int | None = None,
    ) -> None:
        """Room for `buffer_size` transitions of all environments together.

        Args:
            env: a (vector) environment, for its `compute_reward` and `compute_terminated`; the
                algorithms pass theirs.
            device: of the tensors that `sample` returns; None: it returns NumPy arrays.
            handle_timeout_termination: False takes a time limit for a termination.
            goal_selection_strategy: "future", "final", "episode", or Stable-Baselines3's constants.
            copy_info_dict: keep the infos, and hand them to `compute_reward`.
            compute_terminated: see `her.HindsightReplayBuffer`.
            fidelity: "described" recomputes terminations, "released" does not, as there; None:
                described where there is a compute_terminated.
            seed: of the buffer's own generator; None: it draws from NumPy's global generator, as
                theirs does, which an algorithm's `seed` decides.

        Raises:
            ValueError: one sentence with the key, the value and what is allowed.
        """
        if optimize_memory_usage:
            raise ValueError(
                f"optimize_memory_usage: {optimize_memory_usage!r} is not allowed; both "
                "observations are stored"
            )
        if not isinstance(observation_space, Dict):
            raise ValueError(f"observation_space: {observation_space} is not allowed; it is a Dict")
        strategy = str(getattr(goal_selection_strategy, "name", goal_selection_strategy)).lower()
        check_choice("goal_selection_strategy", strategy, get_args(EpisodeStrategy))
        check_count("n_sampled_goal", n_sampled_goal, 0)
        check_count("n_envs", n_envs, 1)
        self.n_envs, self.n_sampled_goal = n_envs, n_sampled_goal
        self.goal_selection_strategy = strategy
        self.handle_timeout_termination = handle_timeout_termination
        self.device = None if device is None else _device(device)
        self._seed = seed
        self._discrete = [key for key, s in observation_space.items() if isinstance(s, Discrete)]
        self.buffer = HindsightReplayBuffer(
            buffer_size,
            _seen(env, observation_space, action_space, n_envs),
            strategy=strategy,  # type: ignore[arg-type]
            k=n_sampled_goal,
            fidelity=fidelity,
            compute_terminated=compute_terminated,
            copy_infos=copy_info_dict,
            rest="drop",
            seed=seed,
        )
        self.copy_info_dict = copy_info_dict
        #: Rows of the arrays to look at.
        self.buffer_size = max(buffer_size // n_envs, 1)
        self._begin()

    def _begin(self) -> None:
        """Count steps from here; what is going on has begun already."""
        n_open, ring = self.buffer.episodes.n_open, self.buffer.episodes.buffer
        self._steps = max(n_open)
        self._begins = [self._steps - n for n in n_open]
        shape = self.buffer_size, self.n_envs
        #: Of the finished episode that a step [row, env] is of: its first step, counted as `_steps`
        #: is, that one's position in the ring, and the episode's steps; -1 where it is of none.
        self._first, self._position = np.full(shape, -1), np.full(shape, -1)
        self._length = np.full(shape, -1, np.int32)
        #: Where in the ring the step itself lies.
        self._slot = np.full(shape, -1, np.int32)
        #: Positions in the ring of what was loaded, of which nobody knows where it stood there.
        self._loaded = ring.position - len(self.buffer), ring.position
        self._can_be_sampled: Array | None = None

    def set_env(self, env: Any) -> None:
        """Give it an environment, which it lacks after it was pickled; see the argument `env`.

        Raises:
            ValueError: one that is none, or has no such methods.
        """
        spaces = self.buffer.observation_space, self.buffer.action_space
        self.buffer.set_env(_seen(env, *spaces, self.n_envs))

    @property
    def pos(self) -> int:
        """The row of the arrays that the next step will take."""
        return self._steps % self.buffer_size

    @property
    def full(self) -> bool:
        """Whether every row of the arrays has been taken once."""
        return self._steps >= self.buffer_size

    def add(
        self,
        obs: Mapping[str, Any],
        next_obs: Mapping[str, Any],
        action: Any,
        reward: Any,
        done: Any,
        infos: Sequence[Mapping[str, Any]],
    ) -> None:
        """A step of every environment, arrays with a leading axis [env].

        Where `done`, `next_obs` is the episode's last observation, and the environment's info says
        "TimeLimit.truncated" if a time limit cut the episode.

        Raises:
            ValueError: other shapes, no numbers, numbers that are not finite.
        """
        if len(infos) != self.n_envs:
            raise ValueError(f"infos: {len(infos)} are not allowed; it takes {self.n_envs}")
        over = truth("done", done, (self.n_envs,))
        cut = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        terminated = over & ~cut if self.handle_timeout_termination else over
        obs, next_obs = self._of_env(obs), self._of_env(next_obs)
        action = np.asarray(action).reshape(self.n_envs, *self.buffer.action_space.shape)
        info: Any = infos if self.copy_info_dict else {}
        position = self.buffer.episodes.buffer.position
        self.buffer.add(obs, action, reward, next_obs, terminated, over, info)
        # A step that takes the place of an episode's first one takes the whole episode away.
        if (self._first[self.pos] == self._steps - self.buffer_size).any():
            self._can_be_sampled = None
        self._steps += 1
        self._note_ends(np.flatnonzero(over), position)

    def sample(self, batch_size: int, env: Any = None) -> ReplaySamples:
        """A batch.

        Args:
            env: a VecNormalize that normalises what is sampled.

        Raises:
            ValueError: no episode is finished yet.
        """
        batch = self._drawn(batch_size)
        obs, next_obs, rewards = self._out(batch.obs), self._out(batch.next_obs), batch.rewards
        if env is not None:
            obs, next_obs = env.normalize_obs(obs), env.normalize_obs(next_obs)
            rewards = env.normalize_reward(rewards).astype(np.float32)
        return ReplaySamples(
            {key: self._to(value) for key, value in obs.items()},
            self._to(_single(batch.actions.reshape(batch_size, -1))),
            {key: self._to(value) for key, value in next_obs.items()},
            self._to(batch.terminated.astype(np.float32)[:, None]),
            self._to(rewards[:, None]),
        )

    def _drawn(self, batch_size: int) -> Sample:
        """What theirs draws from the same generator: transitions, of which a share gets the goals
        that are drawn next, and stands behind the others.
        """
        check_count("batch_size", batch_size, 1)
        episodes = self.buffer.episodes
        draw: Any = np.random
        if self._seed is not None:  # of the same state as the buffer's own, which is saved with it
            draw = np.random.RandomState(episodes.rng.bit_generator)
        places = self._sampled_from()
        index = places[draw.randint(0, len(places), batch_size)]  # as its `choice`, but quicker
        share = 1 - 1 / (self.n_sampled_goal + 1)
        relabelled, others = np.split(index, [int(share * batch_size)])
        uniform = np.zeros((batch_size, 2))
        uniform[: len(others), 0] = 1.0  # never relabelled
        count = episodes.candidates(relabelled)
        if self.goal_selection_strategy != "final":
            uniform[len(others) :, 1] = (draw.randint(0, count) + 0.5) / count
        return self.buffer.sample_at(np.concatenate([others, relabelled]), uniform)

    def _sampled_from(self) -> Array:
        """The places in the ring of what can be sampled, in the order of theirs."""
        if self._can_be_sampled is None:
            ring = self.buffer.episodes.buffer
            first, end = self._loaded
            loaded = np.arange(max(first, ring.position - len(self.buffer)), end) % ring.n_slots
            slots = self._slots()
            self._can_be_sampled = np.concatenate([loaded, slots[slots >= 0]])
        if not len(self._can_be_sampled):
            raise ValueError(
                "there is nothing to sample: no episode is finished; learning starts "
                "(learning_starts) after more steps than an episode has"
            )
        return self._can_be_sampled

    def _slots(self) -> Array:
        """Where in the ring the transition of each step lies [row, env]; -1: nowhere (any more)."""
        oldest = self.buffer.episodes.buffer.position - len(self.buffer)
        there = (self._first >= self._steps - self.buffer_size) & (self._position >= oldest)
        return np.where(there, self._slot, -1)

    def _note_ends(self, envs: Iterable[int], position: int) -> None:
        """The episodes of these environments lie in the ring, from `position` on."""
        for env in map(int, envs):
            first, steps = self._begins[env], self._steps - self._begins[env]
            if steps:
                places = self._places(first)
                gone = steps - len(places)  # of an episode that is longer than the arrays
                self._first[places, env] = first + gone
                self._position[places, env] = position + gone
                self._length[places, env] = len(places)
                slots = position + np.arange(gone, steps)
                self._slot[places, env] = slots % self.buffer.episodes.buffer.n_slots
                position += steps
                self._can_be_sampled = None
            self._begins[env] = self._steps

    @property
    def observations(self) -> dict[str, Array]:
        """What was observed, by key [row, env, ...]."""
        return self._all(0)

    @property
    def next_observations(self) -> dict[str, Array]:
        """What the steps led to, by key [row, env, ...]."""
        return self._all(self.buffer.episodes.row.next_obs.start)

    @property
    def actions(self) -> Array:
        """Actions [row, env, action]."""
        rows, field = self._rows(), self.buffer.episodes.fields["action"]
        flat = field.read(rows.reshape(-1, rows.shape[-1]))
        return _single(flat.reshape(*rows.shape[:2], -1))

    @property
    def rewards(self) -> Array:
        """Rewards [row, env], as they were paid."""
        return self._rows()[..., self.buffer.episodes.row.reward]

    @property
    def dones(self) -> Array:
        """Whether an episode ended there [row, env], as 0 and 1."""
        last = (self._position + self._length - 1) % self.buffer.episodes.buffer.n_slots
        return (self._slots() == last).astype(np.float32)

    @property
    def timeouts(self) -> Array:
        """Whether a time limit, or `truncate_last_trajectory`, ended it [row, env], as 0 and 1."""
        return self.dones * (self._rows()[..., self.buffer.episodes.row.terminated] == 0)

    @property
    def ep_length(self) -> Array:
        """Steps of the finished episode that a step is of [row, env]; 0 where it is of none."""
        return np.where(self._slots() >= 0, self._length, 0)

    @property
    def _current_ep_start(self) -> Array:
        """The rows in which the episodes that are going on began [env]."""
        return np.array(self._begins, np.int64) % self.buffer_size

    def _places(self, first: int) -> Array:
        """Rows of the arrays that the steps from this one on have, without those written over."""
        return np.arange(max(first, self._steps - self.buffer_size), self._steps) % self.buffer_size

    def _rows(self) -> Rows:
        """Everything that is stored, [row, env, width]."""
        episodes, slots = self.buffer.episodes, self._slots()
        rows = np.zeros((self.buffer_size, self.n_envs, episodes.row.width), np.float32)
        there = slots >= 0
        rows[there] = episodes.buffer.gather(slots[there]).numpy()
        for env, first in enumerate(self._begins):
            places, stored = self._places(first), episodes.open_rows(env)
            rows[places, env] = stored[len(stored) - len(places) :]
        return rows

    def _all(self, first: int) -> dict[str, Array]:
        rows = self._rows()
        flat = rows[..., first:].reshape(rows.shape[0] * rows.shape[1], -1)
        fields = self.buffer.episodes.fields
        read = self._out({key: fields[key].read(flat) for key in GOAL_KEYS})
        return {key: o.reshape(*rows.shape[:2], *o.shape[1:]) for key, o in read.items()}

    def truncate_last_trajectory(self) -> None:
        """End the episodes that are going on, with a warning, as if a time limit had."""
        if any(self.buffer.episodes.n_open):
            warnings.warn(
                "The last trajectory in the replay buffer will be truncated: the open episodes end "
                "here",
                stacklevel=2,
            )
        position = self.buffer.episodes.buffer.position
        self.buffer.truncate_last_trajectory()
        self._note_ends(range(self.n_envs), position)

    def size(self) -> int:
        """Transitions that can be sampled."""
        return len(self.buffer)

    def reset(self) -> None:
        """Forget every transition."""
        self.buffer.clear()
        self._begin()

    def save(self, path: str | Path) -> None:
        """Write everything but the functions; raises files.FileError."""
        self.buffer.save(path)

    def load(self, path: str | Path) -> None:
        """Continue where `save` was called; raises files.FileError and then changes nothing."""
        self.buffer.load(path)
        self._begin()

    def _of_env(self, obs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Observations of discrete spaces as [env], however they were shaped."""
        if not self._discrete:
            return obs
        return {**obs, **{key: np.asarray(obs[key]).reshape(-1) for key in self._discrete}}

    def _out(self, obs: dict[str, Array]) -> dict[str, Array]:
        """Observations of discrete spaces as [sample, 1], as Stable-Baselines3 has them."""
        return {key: o[:, None] if key in self._discrete else o for key, o in obs.items()}

    def _to(self, array: Array) -> Any:
        return array if self.device is None else torch.as_tensor(array, device=self.device)


def _single(actions: Array) -> Array:
    """Actions of float64 as float32, which is what networks give and take."""
    return actions.astype(np.float32) if actions.dtype == np.float64 else actions


def _seen(env: Any, observations: Space[Any], actions: Space[Any], n_envs: int) -> SimpleNamespace:
    """What the buffer asks of a vector environment with these spaces; ValueError for None."""
    if env is None:
        raise ValueError("env: None is not allowed; it is an environment, for its compute_reward")
    return SimpleNamespace(
        single_observation_space=observations,
        single_action_space=actions,
        num_envs=n_envs,
        compute_reward=method_of(env, "compute_reward"),
        compute_terminated=method_of(env, "compute_terminated"),
        metadata=getattr(env, "metadata", None),
    )


def _device(device: torch.device | str) -> torch.device:
    """ "auto" is a GPU where there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


try:
    from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as _Theirs
except ImportError:
    pass  # It is no requirement.
else:
    # Its algorithms pass their environment to a buffer that is one of these, and give it back when
    # they load it.
    _Theirs.register(HerReplayBuffer)
