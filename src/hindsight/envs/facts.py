"""Properties of a third-party goal environment, from its interface and by trying it.

Relabelling needs the rewards of other goals, and which goals would have ended the episode.
`compute_reward` returns the former, `compute_terminated` the latter.  An environment without
`compute_terminated` is tried before training: its goal is moved to the agent.  If that finds
nothing, the key `terminates` must tell.  During training, every step is checked against the result.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.specs.spaces import Array, policy_inputs, policy_outputs, row_of

#: (rewards [n], achieved goals [n, *goal], desired goals [n, *goal]) -> which are achieved, [n]
SuccessTest = Callable[[Array, Array, Array], NDArray[np.bool_]]

#: A larger absolute reward counts as an error of the environment.
LARGEST_REWARD = 1e8
#: Usual names of a success test, a method of the environment or of its task.
SUCCESS = ("_is_success", "is_success")
#: Keys of a step's `info` that report success.
SUCCESS_KEYS = ("is_success", "success")
#: How an environment's own step limit is found: so many truncated episodes of one length, within
#: so many random steps.
LIMIT_EPISODES, LIMIT_STEPS = 3, 10_000
#: Distances of the goals moved towards the agent, relative to the distance of the original goal.
DISTANCES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0)
#: Messages about the part of a reward that goals do not explain.
REST = {
    "keep": "the part that goals do not explain is kept under every goal (rest=drop drops it)",
    "drop": "the part that goals do not explain is dropped",
}
#: Advice if the environment does not reveal which goals end an episode.
WRITE = (
    "set terminates=goal or terminates=never, or write `def compute_terminated(self, "
    "achieved_goal, desired_goal, info): return ...` that returns True if a goal ends the episode"
)


# --- an environment's functions of goals ----------------------------------------------------------


class Watched(dict[str, Any]):
    """A step's info that records whether it was read."""

    was_read = False

    def __getitem__(self, key: str) -> Any:
        self.was_read = True
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.was_read = True
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.was_read = True
        return super().get(key, default)


class OfGoals:
    """An environment's function of goals, called for many goals at once.

    It is tried with a batch of three goals and with each of them.  If the batch fails or has
    another shape or other values, the function is called for one goal at a time from then on.
    """

    def __init__(
        self, what: str, function: Callable[..., Any], achieved: Array, desired: Array,
        info: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Try `function`, called `what` in messages, on a step's goals [*goal] and its `info`.

        Raises EnvironmentFailure if it does not return a number per goal, in a batch or singly.
        """
        self.what, self._function = what, function
        watched = Watched(info or {})  # some environments return None
        goals = np.stack([achieved, desired, achieved]), np.stack([desired, desired, achieved])
        together = self._tried(self._batch, *goals, watched)
        began = time.perf_counter()
        each = self._tried(self._singles, *goals, watched)
        self.seconds = (time.perf_counter() - began) / 3  # per goal
        if isinstance(together, Exception):
            if isinstance(each, Exception):
                raise EnvironmentFailure.of(f"{what} of 3 goals failed", together) from together
            self.one_at_a_time = True
        elif isinstance(each, Exception):
            self.one_at_a_time = False
        else:
            self.one_at_a_time = not np.allclose(together, each, equal_nan=True)
        self.reads_info = watched.was_read
        #: The default for `info`.
        self._info: Mapping[str, Any] = dict(watched) if self.reads_info else {}

    def __call__(
        self, achieved: Array, desired: Array, info: Mapping[str, Any] | None = None
    ) -> NDArray[np.float32]:
        """The values [n] for goals [n, *goal] with one `info`; None: that of the first step.

        Raises EnvironmentFailure if the function raises, or returns no number.
        """
        call = self._singles if self.one_at_a_time else self._batch
        try:
            found = call(achieved, desired, self._info if info is None else info)
            values = found.astype(np.float32)
            valid = np.abs(values) <= LARGEST_REWARD  # False for NaN
            if not valid.all():
                raise SpecError(
                    f"it returned {values[~valid][0]}, not a number within ±{LARGEST_REWARD:g}"
                )
        except Exception as error:
            what = f"{self.what} of {len(achieved)} goals failed"
            raise EnvironmentFailure.of(what, error) from error
        return values

    def _batch(self, achieved: Array, desired: Array, info: Mapping[str, Any]) -> Array:
        n = len(achieved)  # copies, because the function may change its arguments
        found = np.asarray(self._function(achieved.copy(), desired.copy(), [info] * n))
        if found.size != n:
            raise SpecError(f"it must return {n} numbers, shape ({n},), not {found.shape}")
        return found.reshape(n)

    def _singles(self, achieved: Array, desired: Array, info: Mapping[str, Any]) -> Array:
        found = []
        for pair in zip(achieved, desired, strict=True):
            # A discrete goal is a Python number, as in the environment.
            goals = [goal if goal.ndim else goal.item() for goal in map(np.array, pair)]
            found.append(np.asarray(self._function(*goals, info)).item())
        return np.array(found)

    @staticmethod
    def _tried(call: Callable[..., Array], *arguments: Any) -> Array | Exception:
        try:
            return call(*arguments)
        except Exception as error:
            return error


def nearby(achieved: Array, desired: Array) -> tuple[Array, Array]:
    """Goals [*goal] as given, and moved closer or further apart by a rounding error, [n, *goal]."""
    if not np.issubdtype(achieved.dtype, np.floating):
        return achieved[None], desired[None]
    gap = desired - achieved
    far, large = float(np.linalg.norm(gap)), float(max(np.abs(achieved).max(), 1e-9))
    by = 1e-5 + 1e-6 * large / max(far, 1e-9)
    moved = np.stack([achieved, achieved + by * gap, achieved - by * gap])
    return moved.astype(achieved.dtype), np.stack([desired] * 3)


# --- what is known of an environment --------------------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """Properties of an environment, from its interface and from trying it."""

    #: The policy's inputs, in this order: the three goal keys, then other keys with numbers.
    spaces: Mapping[str, Space[Any]]
    action: Box | Discrete
    step_limit: int  # steps after which an episode is truncated
    rewards: OfGoals
    achieved_reward: float  # the reward if achieved and desired goal are equal
    terminates_on_success: bool
    success_test: SuccessTest
    #: Messages for the user before training, one sentence each.
    notes: tuple[str, ...]

    @property
    def goal(self) -> Space[Any]:
        return self.spaces["achieved_goal"]

    def goal_of(self, obs: Mapping[str, Any], key: str) -> Array:
        """A copy of the goal [*goal] under `key` of an observation."""
        return np.array(obs[key], self.goal.dtype).reshape(self.goal.shape or ())

    def outcome(
        self, achieved: Array, desired: Array
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Rewards [n] for goals [n, *goal], and which goals are achieved, [n]."""
        found = self.rewards(achieved, desired)
        return found, self.success_test(found, achieved, desired)

    def is_success(self, desired: Array, obs: Mapping[str, Any], info: Mapping[str, Any]) -> bool:
        """Whether a step achieved its goal `desired` [*goal], by `info` or else by the goals."""
        said = success_in(info)
        if said is None:
            achieved = self.goal_of(obs, "achieved_goal")
            return bool(self.outcome(achieved[None], desired[None])[1][0])
        return said

    def check_ending(
        self,
        achieved: Array,
        desired: Sequence[Array],
        terminated: bool,
        truncated: bool,
        success: bool,
    ) -> None:
        """Raise ValueError if a step contradicts the rule by which goals end episodes.

        `desired` holds the goals before and after the step, either of which may decide.
        """
        said = np.zeros(1, bool)
        if self.terminates_on_success:
            each = (self.outcome(*nearby(achieved, goal))[1] for goal in desired)
            said = np.concatenate(list(each))
        # If goals within rounding error disagree, either outcome is accepted.
        if said.all() and not (terminated or truncated):
            raise ValueError(
                "the episode went on although its goal was achieved, but goals end episodes here: "
                "write a compute_terminated that returns when they do, or set terminates=never"
            )
        if not said.any() and terminated and success:
            raise ValueError(
                "the episode terminated when its goal was achieved, but compute_terminated, or the "
                "test used in its place, does not say so: correct it, or set terminates=goal if "
                "achieved goals end episodes, terminates=never if this one ended for another reason"
            )

    def beyond(
        self, reward: float, achieved: Array, desired: Sequence[Array], info: Mapping[str, Any]
    ) -> tuple[float, float]:
        """What a reward is beyond that of the goal pursued: what no goal explains, and what the
        move of the goal by the step explains.

        `desired` holds the goals before and after the step.  Rounding errors of the goals are
        tolerated.

        Raises ValueError if the contribution of `info` depends on the goal.
        """

        def explains(found: NDArray[np.float32]) -> bool:
            return bool(np.isclose(found, reward, rtol=1e-4, atol=1e-6).any())

        # The rewards of the goal pursued and, for comparison, of the goal achieved.
        pair = np.stack([achieved, achieved]), np.stack([desired[0], achieved])
        expected = self.rewards(*pair)
        if self.rewards.reads_info:
            adds = self.rewards(*pair, info) - expected
            if not np.isclose(adds[0], adds[1], rtol=1e-4, atol=1e-5):
                raise ValueError(
                    f"in compute_reward, the contribution of info depends on the goal "
                    f"({adds[0]:+g} and {adds[1]:+g}), so relabelled rewards are unknown; for an "
                    "agent of your own, HindsightReplayBuffer(copy_infos=True) passes it the "
                    "steps' infos (docs/replay.md)"
                )
        pursued, moved = desired
        if explains(expected[:1]) or explains(self.rewards(*nearby(achieved, pursued))):
            return 0.0, 0.0
        more = reward - float(expected[0])
        if explains(self.rewards(*nearby(achieved, moved))):
            return 0.0, more
        return more, 0.0


def facts_of(
    name: str, make: Callable[[], gym.Env[Any, Any]], terminates: str | None, rest: str
) -> Facts:
    """Make an environment, inspect its spaces and try it.

    Args:
        make: returns a new environment with its step limit.
        terminates, rest: as in `specs.gymnasium.GymnasiumSpec`.

    Raises:
        SpecError: the environment cannot be trained on.
        EnvironmentFailure: the environment raised an exception.
    """
    env = make()
    spaces, left_out = policy_inputs(name, env.observation_space)
    action, goal = policy_outputs(name, env.action_space), spaces["achieved_goal"]
    compute_reward = _method(env, "compute_reward")
    if compute_reward is None:
        raise SpecError(f"{name} has no compute_reward, which returns the rewards of other goals")
    try:
        # Copied, because an environment may return arrays that its next step changes.
        obs = deepcopy(env.reset(seed=0)[0])
        next_obs, paid, _, _, info = env.step(neutral(action))
        next_obs, reward = deepcopy(next_obs), float(paid)
    except Exception as error:
        raise EnvironmentFailure.of(f"{name}: its first step failed", error) from error
    again, _ = env.reset(seed=0)
    achieved = np.asarray(next_obs["achieved_goal"], goal.dtype).reshape(goal.shape or ())
    desired = np.asarray(obs["desired_goal"], goal.dtype).reshape(goal.shape or ())
    rewards = OfGoals(f"{name}: compute_reward", compute_reward, achieved, desired, info)
    lines = []
    if rewards.one_at_a_time:
        lines.append(
            "compute_reward takes one goal at a time, so 1 000 relabelled steps take "
            f"{1e3 * rewards.seconds:.2g} s; training is faster if it accepts arrays of goals"
        )
    if rewards.reads_info:
        lines.append(
            "compute_reward reads info: its effect on a step's reward is kept under every goal"
        )
    if not np.allclose(row_of(obs, spaces), row_of(again, spaces), rtol=1e-4, atol=1e-6):
        lines.append("reset(seed=0) does not repeat itself, so no evaluation can be repeated")
    if more := list(spaces)[3:]:
        lines.append(f"the policy also observes {', '.join(more)}")
    lines += [f"{', '.join(left_out)} left out: neither floats nor discrete"] if left_out else []
    computed, best = rewards(np.stack([achieved, desired]), np.stack([desired, desired])).tolist()
    if not np.isclose(computed, reward, rtol=1e-4, atol=1e-6):
        line = f"a step's reward was {reward:g}, but compute_reward returns {computed:g}"
        if rest == "refuse":
            raise SpecError(f"{name}: {line}; with rest=refuse they must agree")
        lines.append(f"{line}; {REST[rest]}")
    test, ends, found = _ending(
        name, env, make, rewards, best + 0.0, achieved, desired, info, terminates
    )
    assert env.spec is not None and env.spec.max_episode_steps is not None
    notes = tuple(f"{name}: {line}" for line in [*lines, *found])
    limit = env.spec.max_episode_steps
    return Facts(spaces, action, limit, rewards, best + 0.0, ends, test, notes)


def success_in(info: Mapping[str, Any]) -> bool | None:
    """Success as reported by a step's `info`; None: not reported.

    Raises SpecError for anything but true or false: Python would count NaN or a word as true.
    """
    key = next((key for key in SUCCESS_KEYS if key in (info or ())), None)
    if key is None:
        return None
    found = np.asarray(info[key])
    if found.size and found.dtype.kind in "biuf" and np.isin(found, (0, 1)).all():
        return bool(found.all())
    raise SpecError(f"info[{key!r}] was {info[key]!r}; it must be True or False, or 1 or 0")


def own_step_limit(env: gym.Env[Any, Any]) -> int | None:
    """Steps after which an environment truncates all of its episodes itself; None: unknown."""
    env.action_space.seed(0)
    env.reset(seed=0)
    steps, lengths = 0, list[int]()
    for _ in range(LIMIT_STEPS):
        steps += 1
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        lengths += [steps] if truncated else []
        if len(set(lengths)) > 1:  # no limit: an agent may have left an arena
            return None
        if len(lengths) == LIMIT_EPISODES:
            return lengths[0]
        if terminated or truncated:
            env.reset()
            steps = 0
    return None


def neutral(action: Box | Discrete) -> Any:
    """The centre of a box, or the first choice."""
    if isinstance(action, Discrete):
        return action.start
    return ((action.low + action.high) / 2).astype(action.dtype)


def _method(env: gym.Env[Any, Any], name: str) -> Callable[..., Any] | None:
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


# --- which goals end an episode -------------------------------------------------------------------


def _ending(
    name: str,
    env: gym.Env[Any, Any],
    make: Callable[[], gym.Env[Any, Any]],
    rewards: OfGoals,
    best: float,
    achieved: Array,
    desired: Array,
    info: dict[str, Any],
    terminates: str | None,
) -> tuple[SuccessTest, bool, list[str]]:
    """The success test, whether success ends an episode, and messages about it.

    Raises:
        SpecError: goals end episodes, or may, and it is unknown which.
    """

    def by_reward(found: Array, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        return found >= np.float32(best)

    def test_of(key: str, function: Callable[..., Any]) -> dict[str, SuccessTest]:
        """The function as a success test; none if by it a goal does not achieve itself."""
        asks = OfGoals(f"{name}: {key}", function, achieved, desired, info)
        if not asks(desired[None], desired[None])[0]:
            return {}
        return {key: lambda found, achieved, desired: asks(achieved, desired) != 0}

    dense = np.ptp(rewards(*nearby(achieved, desired))) > 0
    defined, known = _method(env, "compute_terminated"), dict[str, SuccessTest]()
    if defined is not None:
        known = test_of("compute_terminated", defined)
        if known and not dense:  # a fall may end an episode without achieving its goal
            ends = known["compute_terminated"]
            known = {"compute_terminated": lambda *case: ends(*case) & by_reward(*case)}
    owners = env.unwrapped, getattr(env.unwrapped, "task", None)
    own = ((key, getattr(owner, key, None)) for owner in owners for key in SUCCESS)
    key, function = next((pair for pair in own if callable(pair[1])), ("", None))
    if function is not None and not known:
        with suppress(Exception):  # a method of that name with another meaning
            known = test_of(key, lambda achieved, desired, info: function(achieved, desired))
    known["compute_reward"] = by_reward
    first, test = next(iter(known.items()))
    if terminates == "goal" and test is by_reward and dense:
        raise SpecError(
            f"{name}: compute_reward changes with every distance, so it does not tell which goals "
            "end an episode: write `def compute_terminated(self, achieved_goal, desired_goal, "
            "info): return ...` that returns True if a goal does"
        )
    if terminates is not None or defined is not None:
        return test, (terminates == "goal") if terminates else first == "compute_terminated", []

    steps: list[tuple[Array, Array, bool, bool]] = []
    with suppress(Exception), closing(make()) as tried:  # which may not bear being changed
        steps += _with_goals_moved(tried, best)
    if not any(success for _, _, success, _ in steps):
        raise SpecError(
            f"{name} has no compute_terminated, and a trial could not achieve its goal to find out "
            f"whether that ends an episode: {WRITE}"
        )
    reached, goals, successes, ended = map(np.array, zip(*steps, strict=True))
    if not ended[successes].any():
        return test, False, ["reaching a goal does not end an episode, whichever the goal"]
    case = rewards(reached, goals), reached, goals
    agrees = [one for one, asks in known.items() if np.array_equal(asks(*case), ended)]
    if not agrees:
        raise SpecError(
            f"{name} ends an episode when its goal is achieved, but it is unknown when other goals "
            f"would have ended it: {WRITE}"
        )
    line = (
        f"its episodes end at their goal; {agrees[0]} decides when other goals end them "
        "(terminates=never: they do not)"
    )
    return known[agrees[0]], True, [line]


def _holders(env: gym.Env[Any, Any], desired: Array) -> list[tuple[Any, str]]:
    """Attributes of the environment or its parts that hold the desired goal."""
    bare, found = env.unwrapped, []
    own = (p for p in vars(bare).values() if hasattr(p, "__dict__") and not isinstance(p, Space))
    for part in (bare, *own):
        for name, value in list(vars(part).items()):
            if not isinstance(value, np.ndarray | list | tuple):
                continue
            with suppress(TypeError, ValueError):  # no numbers
                if np.shape(value) == desired.shape and np.allclose(value, desired, rtol=1e-5):
                    found.append((part, name))
    return found


def _with_goals_moved(env: Any, best: float) -> Iterator[tuple[Array, Array, bool, bool]]:
    """First steps with the goal moved to where they lead, or nearby; they must repeat themselves.

    Yields achieved and desired goal [*goal], and whether the step succeeded and terminated.  If
    info does not tell, a step succeeds whose reward is at least `best`.
    """
    action = neutral(env.action_space)
    for seed, distance in enumerate(DISTANCES):
        env.reset(seed=seed)
        here = np.array(env.step(action)[0]["achieved_goal"])
        obs, _ = env.reset(seed=seed)
        before = np.array(obs["desired_goal"])
        goal = (here + distance * (before - here)).astype(here.dtype)
        holders = [(part, name, getattr(part, name)) for part, name in _holders(env, before)]
        try:
            for part, name, old in holders:
                new = goal.astype(np.asarray(old).dtype)
                new = new if isinstance(old, np.ndarray) else type(old)(new.tolist())
                with suppress(AttributeError):  # read-only
                    setattr(part, name, new)
            obs, reward, terminated, _, info = env.step(action)
        finally:
            for part, name, old in holders:  # other environments may share the part
                with suppress(AttributeError):
                    setattr(part, name, old)
        if np.allclose(obs["desired_goal"], goal, rtol=1e-5, atol=1e-6):
            said, achieved = success_in(info), np.array(obs["achieved_goal"])
            success = np.float32(reward) >= np.float32(best) if said is None else said
            yield achieved, goal, bool(success), bool(terminated)
