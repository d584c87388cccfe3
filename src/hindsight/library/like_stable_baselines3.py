"""Hindsight replay with the interface of Stable-Baselines3's `HerReplayBuffer`.

Stable-Baselines3's algorithms accept it: `replay_buffer_class=HerReplayBuffer`.  With NumPy's
generator in the same state, it draws exactly the samples that theirs draws, in the same order.

docs/replay.md lists the differences, such as recomputed terminations and `save` without a pickle.
For priorities use `replay.her.HindsightReplayBuffer`.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.spaces import Discrete, Space

from hindsight.replay.buffer import check_choice, count_of
from hindsight.replay.fields import Array, truth
from hindsight.replay.her import HindsightReplayBuffer, OfGoals, Sample, method_of
from hindsight.specs.base import Fidelity
from hindsight.specs.errors import guess, not_allowed
from hindsight.specs.replay import GOAL_STRATEGIES, GoalStrategy

#: Arguments of earlier versions of Stable-Baselines3, and what they mean today.
FORMER = {
    "online_sampling": "new goals are always drawn when a batch is sampled",
    "max_episode_length": "an episode may have as many steps as the buffer has room for",
    "env_info": "copy_info_dict=True keeps every step's info for compute_reward",
    "wrapped_env": "`env` is the environment whose compute_reward is used, through its wrappers",
}


class ReplaySamples(NamedTuple):
    """A batch: tensors if the buffer has a device, otherwise NumPy arrays."""

    observations: dict[str, Any]
    actions: Any  # [sample, action]
    next_observations: dict[str, Any]
    dones: Any  # [sample, 1]: terminated, not cut by a time limit
    rewards: Any  # [sample, 1]
    discounts: Any = None  # for n-step returns, which this buffer does not compute


class _Inner(HindsightReplayBuffer):
    """The buffer inside, whose messages use the names of Stable-Baselines3's arguments."""

    size_name, infos_name, only_numbers = "buffer_size", "copy_info_dict", ""
    cuts_jumps = True  # a second `learn` resets the environment without telling the buffer
    goals_have_axis = True


class HerReplayBuffer:
    """Hindsight replay for Stable-Baselines3, with one or several environments.

        model = SAC("MultiInputPolicy", env, replay_buffer_class=HerReplayBuffer)

    Arrays such as `dones` have Stable-Baselines3's layout: one row per step of all environments, 0
    where nothing is stored.  They are assembled on access.
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
        **former: Any,
    ) -> None:
        """Create an empty buffer.

        Args:
            buffer_size: capacity in transitions, of all environments together.
            observation_space: a dictionary space with `achieved_goal`, `desired_goal` and
                `observation`.
            env: the (vector) environment, for its `compute_reward` and `compute_terminated`.  The
                algorithms pass their own.
            device: device of the tensors that `sample` returns.  None: it returns NumPy arrays.
            n_envs: number of environments that step together.
            optimize_memory_usage: must be False.
            handle_timeout_termination: False treats a time limit as a termination.
            n_sampled_goal: additional goals per transition.
            goal_selection_strategy: "future", "final", "episode", "random" (any step in the
                buffer), or one of Stable-Baselines3's constants.
            copy_info_dict: keep the infos and pass them to `compute_reward`.
            fidelity: "described" recomputes terminations, "released" keeps them.  None: "described"
                if there is a `compute_terminated`.
            compute_terminated: see `replay.her.HindsightReplayBuffer`.
            seed: seed of the buffer's own random generator.  None: it draws from NumPy's global
                generator, as Stable-Baselines3's does, which an algorithm's `seed` sets.
            **former: arguments that Stable-Baselines3's class had (`FORMER`); a warning says what
                holds instead.

        Raises:
            ValueError: an argument is invalid.
        """
        for name in former:
            if name not in FORMER:
                names = {*FORMER, *signature(HerReplayBuffer).parameters} - {"former"}
                raise TypeError(f"{name} is no argument of HerReplayBuffer{guess(name, names)}")
            warnings.warn(f"{name} has no effect: {FORMER[name]}", stacklevel=2)
        if optimize_memory_usage:
            why = "this buffer always stores both observations"
            raise not_allowed("optimize_memory_usage", repr(optimize_memory_usage), why)
        strategy: Any = getattr(goal_selection_strategy, "name", goal_selection_strategy)
        strategy = strategy.lower() if isinstance(strategy, str) else strategy
        check_choice("goal_selection_strategy", strategy, GOAL_STRATEGIES)
        self.n_envs = n_envs = count_of("n_envs", n_envs)
        self.n_sampled_goal = n_sampled_goal = count_of("n_sampled_goal", n_sampled_goal, 0)
        self.goal_selection_strategy: GoalStrategy = strategy
        self.handle_timeout_termination = handle_timeout_termination
        if device == "auto":  # as in Stable-Baselines3: a GPU if there is one
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = None if device is None else torch.device(device)
        self._seed, self.optimize_memory_usage = seed, optimize_memory_usage
        self.env, self.observation_space, self.action_space = env, observation_space, action_space
        #: The share of a batch that is relabelled.
        self.her_ratio = 1 - 1 / (n_sampled_goal + 1)
        # The buffer sees the functions of `env`, but the spaces that are passed here.
        seen = SimpleNamespace(
            single_observation_space=observation_space,
            single_action_space=action_space,
            num_envs=n_envs,
            compute_reward=method_of(env, "compute_reward"),
            compute_terminated=method_of(env, "compute_terminated"),
            metadata=getattr(env, "metadata", None),
        )
        self.buffer = _Inner(
            buffer_size,
            seen,
            strategy=strategy,
            k=n_sampled_goal,
            fidelity=fidelity,
            compute_terminated=compute_terminated,
            copy_infos=copy_info_dict,
            seed=seed,
        )
        self.buffer.cuts_terminate = not handle_timeout_termination  # as in `add`
        parts = self.buffer.parts.items()
        self._discrete = [key for key, space in parts if isinstance(space, Discrete)]
        self.obs_shape = {key: space.shape or (1,) for key, space in parts}
        self.action_dim = prod(self.buffer.action_space.shape)
        self.copy_info_dict = copy_info_dict
        self.buffer_size = self.buffer.ring.n_slots
        #: What can be sampled, in Stable-Baselines3's order, and the state of the ring it is of.
        self._order: tuple[bytes, Array] = (b"", np.zeros(0, int))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"env": None}

    def set_env(self, env: Any) -> None:
        """Set the environment, which a pickled buffer lacks; raises ValueError if it is unfit."""
        self.buffer.set_env(env)
        self.env = env

    @property
    def pos(self) -> int:
        """The row of the arrays that the next step will fill."""
        return self.buffer.ring.position % self.buffer_size

    @property
    def full(self) -> bool:
        """Whether every row of the arrays has been filled once."""
        return self.buffer.ring.position >= self.buffer_size

    def add(
        self,
        obs: Mapping[str, Any],
        next_obs: Mapping[str, Any],
        action: Any,
        reward: Any,
        done: Any,
        infos: Sequence[Mapping[str, Any]],
    ) -> None:
        """Add a step of every environment, as arrays with a leading axis [env].

        Where an episode ends, `done` is true, `next_obs` is its last observation, and the info's
        "TimeLimit.truncated" tells whether a time limit cut it.

        Raises:
            ValueError: a shape or type is wrong, or a number is not finite.
        """
        over = truth("done", done, (self.n_envs,))
        given = [*infos] if isinstance(infos, Iterable) else []
        if len(given) != self.n_envs or not all(isinstance(info, Mapping) for info in given):
            raise ValueError(
                f"infos: a list of {self.n_envs} is needed, a dictionary for each environment"
            )
        cut = np.array([bool(info.get("TimeLimit.truncated")) for info in given])
        terminated = over & ~cut if self.handle_timeout_termination else over
        obs, next_obs = self._of_env(obs), self._of_env(next_obs)
        action, shape = np.asarray(action), (self.n_envs, *self.buffer.action_space.shape)
        if action.size != prod(shape):
            raise not_allowed("action", f"shape {action.shape}", f"it must be {shape}")
        action = action.reshape(shape)
        info: Any = given if self.copy_info_dict else {}
        self.buffer.add(obs, action, reward, next_obs, terminated, over, info)

    def extend(self, *args: Any) -> None:
        """Add several steps, as arguments of `add` with a leading axis [step]."""
        for step in zip(*args, strict=True):
            self.add(*step)

    def sample(self, batch_size: int, env: Any = None) -> ReplaySamples:
        """Sample a batch, partly relabelled; raises RuntimeError if no episode is finished yet.

        env: a `VecNormalize` that normalises observations and rewards.  None: no normalisation.
        """
        batch_size = self.buffer.batch_of(batch_size, 0)
        batch = self._drawn(batch_size)
        obs, next_obs, rewards = self._out(batch.obs), self._out(batch.next_obs), batch.rewards
        if env is not None:
            obs, next_obs = env.normalize_obs(obs), env.normalize_obs(next_obs)
            rewards = env.normalize_reward(rewards).astype(np.float32)
        return ReplaySamples(
            {key: self._to(value) for key, value in obs.items()},
            self._to(_single(batch.actions.reshape(batch_size, self.action_dim))),
            {key: self._to(value) for key, value in next_obs.items()},
            self._to(batch.terminated.astype(np.float32)[:, None]),
            self._to(rewards[:, None]),
        )

    def _drawn(self, batch_size: int) -> Sample:
        """Draw the transitions and goals that Stable-Baselines3 would draw from the same generator.

        Relabelled transitions come last, and their goals are drawn after all transitions.
        """
        draw: Any = np.random
        if self._seed is not None:  # shares the state of the buffer's generator, which is saved
            draw = np.random.RandomState(self.buffer.rng.bit_generator)
        stored = self._stored()
        index = stored[draw.randint(0, len(stored), batch_size)]  # same as `choice`, but faster
        n = int(self.her_ratio * batch_size)
        relabelled, others = index[:n], index[n:]
        uniform = np.zeros((batch_size, 2))
        uniform[: len(others), 0] = 1.0  # never relabelled
        if self.goal_selection_strategy == "random":
            uniform[len(others) :, 1] = draw.random_sample(len(relabelled))
        elif self.goal_selection_strategy != "final":
            ring = self.buffer.ring
            count = ring.left.take(relabelled)
            if self.goal_selection_strategy == "episode":
                count = count + ring.before.take(relabelled)
            uniform[len(others) :, 1] = (draw.randint(0, count) + 0.5) / count
        return self.buffer.read_at(np.concatenate([others, relabelled]), uniform)

    def _stored(self) -> Array:
        """What can be sampled, as indices into the ring, in Stable-Baselines3's order."""
        ring = self.buffer.ring
        ring.check_can_sample()
        state = ring.oldest.tobytes() + ring.finished().tobytes()
        if self._order[0] != state:
            row, env = self._finished().nonzero()
            self._order = state, env * ring.n_slots + row
        return self._order[1]

    def _finished(self) -> Array:
        """Whether a step of a finished episode is stored there, [row, env] bool."""
        ring = self.buffer.ring
        there = np.zeros(ring.n_envs * ring.n_slots, bool)
        there[ring.stored()] = True
        return there.reshape(ring.n_envs, ring.n_slots).T

    @property
    def observations(self) -> dict[str, Array]:
        """Observations by key, [row, env, ...]."""
        return {key: self._array(key) for key in self.buffer.parts}

    @property
    def next_observations(self) -> dict[str, Array]:
        """Next observations by key, [row, env, ...]."""
        return {key: self._array(f"next {key}") for key in self.buffer.parts}

    @property
    def actions(self) -> Array:
        """Actions, [row, env, action]."""
        return _single(self._array("action").reshape(self.buffer_size, self.n_envs, -1))

    @property
    def rewards(self) -> Array:
        """Rewards as stored, [row, env]."""
        return self._array("reward")

    @property
    def dones(self) -> Array:
        """1 where an episode ended, else 0, [row, env]."""
        return (self._finished() & (self.buffer.ring.left[0].T == 1)).astype(np.float32)

    @property
    def timeouts(self) -> Array:
        """1 where a time limit, or `truncate_last_trajectory`, ended an episode, [row, env]."""
        return self.dones * (self._array("terminated") == 0)

    @property
    def ep_length(self) -> Array:
        """Length of the finished episode that a step belongs to, else 0, [row, env]."""
        ring = self.buffer.ring
        return np.where(self._finished(), (ring.before + ring.left)[0].T, 0)

    @property
    def ep_start(self) -> Array:
        """Row in which the episode of a step began, 0 where nothing is stored, [row, env]."""
        ring, row = self.buffer.ring, np.arange(self.buffer_size)[:, None]
        return np.where(row < len(ring), (row - ring.before[0].T) % self.buffer_size, 0)

    @property
    def infos(self) -> Array:
        """The steps' infos, empty without `copy_info_dict`, [row, env]."""
        found = np.empty((self.buffer_size, self.n_envs), object)
        for row, env in np.ndindex(found.shape):
            kept = None if self.buffer.infos is None else self.buffer.infos[env, row]
            found[row, env] = kept or {}
        return found

    @property
    def _current_ep_start(self) -> Array:
        """Rows in which the open episodes began, [env]."""
        return (self.buffer.ring.position - self.buffer.ring.elapsed[0]) % self.buffer_size

    def _array(self, name: str) -> Array:
        """A field as stored, [row, env, ...]; 0 in rows that have not been filled."""
        ring, field = self.buffer.ring, self.buffer.fields[name]
        values = field.read(ring.rows[0, :, : len(ring)].numpy()).swapaxes(0, 1)
        if name.removeprefix("next ") in self._discrete:
            values = values[..., None]
        array = np.zeros((self.buffer_size, *values.shape[1:]), values.dtype)
        array[: len(ring)] = values
        return array

    def truncate_last_trajectory(self) -> None:
        """End the open episodes as if a time limit had cut them, with a warning."""
        if self.buffer.ring.elapsed.any():
            warnings.warn(
                "The last trajectory in the replay buffer will be truncated: open episodes end now",
                stacklevel=2,
            )
        self.buffer.truncate_last_trajectory()

    def size(self) -> int:
        """Number of transitions that can be sampled."""
        return len(self.buffer)

    def reset(self) -> None:
        """Forget every transition."""
        self.buffer.clear()

    def save(self, path: str | Path) -> None:
        """Write the buffer to a file, as `replay.her.HindsightReplayBuffer.save`."""
        self.buffer.save(path)

    def load(self, path: str | Path) -> None:
        """Restore a file that `save` wrote, as `replay.her.HindsightReplayBuffer.load`."""
        self.buffer.load(path)

    def _of_env(self, obs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Reshape observations of discrete spaces to [env]; the buffer checks the rest."""
        if not isinstance(obs, Mapping):
            return obs
        there = [key for key in self._discrete if key in obs]
        return {**obs, **{key: np.asarray(obs[key]).reshape(-1) for key in there}}

    def _out(self, obs: dict[str, Array]) -> dict[str, Array]:
        """Reshape observations of discrete spaces to [sample, 1], as in Stable-Baselines3."""
        return {key: o[:, None] if key in self._discrete else o for key, o in obs.items()}

    @staticmethod
    def swap_and_flatten(arr: Array) -> Array:
        """Reshape an array [step, env, ...] to [env * step, ...], one environment after another."""
        arr = arr[..., None] if arr.ndim < 3 else arr
        return arr.swapaxes(0, 1).reshape(-1, *arr.shape[2:])

    def to_torch(self, array: Array, copy: bool = True) -> torch.Tensor:
        """Convert an array to a tensor on the buffer's device; `copy` is for a CPU."""
        made: torch.Tensor = (torch.tensor if copy else torch.as_tensor)(array, device=self.device)
        return made

    def _to(self, array: Array) -> Any:
        if self.device is None:
            return array
        tensor = torch.from_numpy(array)  # `as_tensor` takes seven times as long
        return tensor if self.device.type == "cpu" else tensor.to(self.device)


def _single(actions: Array) -> Array:
    """Convert actions of float64 to float32, the type of networks."""
    return actions.astype(np.float32) if actions.dtype == np.float64 else actions


try:
    from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as _Theirs
except ImportError:
    pass  # Stable-Baselines3 is optional.
else:
    # Its algorithms pass their environment only to subclasses of their own buffer, and set it again
    # after loading one.
    _Theirs.register(HerReplayBuffer)
