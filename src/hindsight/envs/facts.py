"""What a gymnasium environment with goals does, found out by asking it and by trying it.

Relabelling must know what other goals would have paid, and which of them would have ended an
episode.  `compute_reward` says the one, `compute_terminated` the other.  Where an environment has
no `compute_terminated`, goals are put near the agent, and one looks on; or its own test of success
is made to say yes; or episodes of random actions come upon a goal.  While it trains, every step is
compared with what was found.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Space, Tuple
from numpy.typing import NDArray

from hindsight.envs.goal_functions import OfGoals, Rewards, nearby
from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.specs.spaces import KINDS, Array

#: (achieved goals [n, *goal], desired goals [n, *goal]) -> which are achieved, [n] bool
SuccessTest = Callable[[Array, Array], NDArray[np.bool_]]

#: Names under which environments keep their test of success, theirs or their task's.
SUCCESS = ("_is_success", "is_success")
#: Where a step's `info` says whether it is a success.
SUCCESS_KEYS = ("is_success", "success")
#: Episodes of random actions are looked at for so long.
SECONDS = 0.5
#: For so long an environment without a step limit is watched for one of its own.
LIMIT_SECONDS = 1.0
#: Steps after which a goal is put near where the agent stands.
FIRST_STEPS = 2
#: How near, in distances to the goal that there was.
DISTANCES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0)
#: What becomes of a reward that goals do not explain, in words.
REST = {
    "keep": "what goals do not explain is kept under every goal (rest=drop leaves it out)",
    "drop": "what goals do not explain is dropped",
}
#: What to do where nothing tells which goals end an episode.
WRITE = (
    "write `def compute_terminated(self, achieved_goal, desired_goal, info): return ...`, True "
    "where a goal ends the episode, or give terminates=never or terminates=goal"
)


# --- what is known of an environment --------------------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """What an environment says of itself, and what was found by trying it out."""

    name: str
    #: What a policy sees, in this order: the goal dictionary's keys, and others with numbers.
    spaces: Mapping[str, Space[Any]]
    action: Box | Discrete
    step_limit: int  # steps after which an episode is truncated
    rewards: Rewards
    achieved_reward: float  # where the achieved goal is the desired one
    terminates_on_success: bool
    #: Which goals are achieved; None: those with the reward of a goal that is achieved exactly.
    success_test: SuccessTest | None
    #: What a person should know before training, one sentence each.
    notes: tuple[str, ...]

    @property
    def goal(self) -> Space[Any]:
        """That of achieved goals, and of desired ones."""
        return self.spaces["achieved_goal"]

    def goal_of(self, obs: Mapping[str, Any], key: str) -> Array:
        """A goal [*goal] of an observation, as a copy."""
        return np.array(obs[key], self.goal.dtype).reshape(self.goal.shape or ())

    def outcome(
        self, achieved: Array, desired: Array
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Rewards [n] of goals [n, *goal], and which are achieved."""
        found = self.rewards(achieved, desired)
        if self.success_test is None:
            return found, found >= np.float32(self.achieved_reward)
        return found, self.success_test(achieved, desired)

    def is_success(self, desired: Array, obs: Mapping[str, Any], info: Mapping[str, Any]) -> bool:
        """Whether a step achieved the goal [*goal] that it pursued: `info` or the goals say so."""
        said = success_in(info)
        if said is None:
            achieved = self.goal_of(obs, "achieved_goal")
            return bool(self.outcome(achieved[None], desired[None])[1][0])
        return said

    def check_ending(
        self, achieved: Array, desired: Array, terminated: bool, truncated: bool, success: bool
    ) -> None:
        """ValueError where a step does not end as the goals' rule says, under other goals, too."""
        if not self.terminates_on_success:
            if terminated and success:
                raise ValueError(
                    "the episode terminated where its goal was achieved, but "
                    "compute_terminated does not say so, so that it is unknown where other goals "
                    "would have ended it"
                )
            return
        _, said = self.outcome(*nearby(achieved, desired))
        if said.all() and not (terminated or truncated):
            raise ValueError(
                "the episode went on where its goal was achieved, though goals end episodes here: "
                "write a compute_terminated that says when, or set terminates=never"
            )
        # Where goals nearby differ, rounding decides.
        if not said.any() and terminated and success:
            raise ValueError(
                "the episode terminated where its goal was achieved, but by what tells this of "
                "other goals it was not: write a compute_terminated that says when a goal ends one"
            )

    def rest_of(
        self, reward: float, achieved: Array, desired: Sequence[Array], info: Mapping[str, Any]
    ) -> float:
        """What a reward is beyond that of the goal pursued; 0 where any of `desired` explains it.

        A goal may change with the step that is rewarded; and rounding may decide whether one is
        achieved.

        Raises ValueError where what info adds depends on the goal.
        """

        def explains(found: NDArray[np.float32]) -> bool:
            return bool(np.isclose(found, reward, rtol=1e-4, atol=1e-6).any())

        # The goal pursued, and another one: that which was achieved.
        pair = np.stack([achieved, achieved]), np.stack([desired[0], achieved])
        expected = self.rewards(*pair)
        if self.rewards.reads_info:
            adds = self.rewards(*pair, info) - expected
            if not np.isclose(adds[0], adds[1], rtol=1e-4, atol=1e-5):
                raise ValueError(
                    f"compute_reward makes something else of info under another goal "
                    f"({adds[0]:+g} and {adds[1]:+g}), so that relabelled rewards are unknown: "
                    "HindsightReplayBuffer(copy_infos=True) gives it the infos of the steps, for "
                    "an agent of your own (docs/replay.md)"
                )
        if explains(expected[:1]):
            return 0.0
        if any(explains(self.rewards(*nearby(achieved, goal))) for goal in desired):
            return 0.0
        return reward - float(expected[0])


def facts_of(
    name: str, make: Callable[[], gym.Env[Any, Any]], terminates: str | None, rest: str
) -> Facts:
    """Make it, look at its spaces, and try it.

    Args:
        make: a new environment, under its step limit.
        terminates, rest: what a person has said, as in `specs.gymnasium.GymnasiumSpec`.

    Raises:
        SpecError: it cannot be trained on.
        EnvironmentFailure: it raised.
    """
    env = make()
    spaces, left_out = _seen(name, env)
    action, goal = _actions(name, env), spaces["achieved_goal"]
    compute_reward = _method(env, "compute_reward")
    if compute_reward is None:
        raise SpecError(f"{name} has no compute_reward, which says what other goals would have won")
    try:
        obs, _ = env.reset(seed=0)
        next_obs, reward, _, _, info = env.step(neutral(action))
    except Exception as error:
        raise EnvironmentFailure.of(f"{name}: its first step failed", error) from error
    achieved = np.asarray(next_obs["achieved_goal"], goal.dtype).reshape(goal.shape or ())
    desired = np.asarray(obs["desired_goal"], goal.dtype).reshape(goal.shape or ())
    rewards = Rewards(f"{name}: compute_reward", compute_reward, achieved, desired, info)
    lines = [f"compute_reward {line}" for line in rewards.notes]
    if more := list(spaces)[3:]:
        lines.append(f"observation also holds {', '.join(more)}")
    lines += [f"{', '.join(left_out)}: no numbers in a row, left out"] if left_out else []
    paid, best = rewards(np.stack([achieved, desired]), np.stack([desired, desired])).tolist()
    if not np.isclose(paid, float(reward), rtol=1e-4, atol=1e-6):
        line = f"a step's reward was {float(reward):g} where compute_reward says {paid:g}"
        if rest == "refuse":
            raise SpecError(f"{name}: {line}: rewards must follow from the two goals alone")
        lines.append(f"{line}; {REST[rest]}")
    test, ends, found = _ending(name, env, make, rewards, best + 0.0, achieved, desired, terminates)
    assert env.spec is not None and env.spec.max_episode_steps is not None
    notes = tuple(f"{name}: {line}" for line in [*lines, *found])
    limit = env.spec.max_episode_steps
    return Facts(name, spaces, action, limit, rewards, best + 0.0, ends, test, notes)


def success_in(info: Mapping[str, Any]) -> bool | None:
    """What a step's `info` says of success; None: nothing.

    Raises SpecError for what is neither true nor false: NaN or a word would count as a success.
    """
    key = next((key for key in SUCCESS_KEYS if key in info), None)
    if key is None:
        return None
    found = np.asarray(info[key])
    if found.size and found.dtype.kind in "biuf" and np.isin(found, (0, 1)).all():
        return bool(found.all())
    raise SpecError(f"info[{key!r}] was {info[key]!r}; success is True or False, or 1 or 0")


def own_step_limit(env: gym.Env[Any, Any]) -> int | None:
    """Steps after which an environment truncates its episodes by itself; None: not seen."""
    env.action_space.seed(0)
    began, steps = time.monotonic(), 0
    env.reset(seed=0)
    while time.monotonic() - began < LIMIT_SECONDS:
        steps += 1
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if truncated:
            return steps
        if terminated:
            env.reset()
            steps = 0
    return None


def neutral(action: Box | Discrete) -> Any:
    """The middle of a box, or the first choice."""
    if isinstance(action, Discrete):
        return action.start
    return ((action.low + action.high) / 2).astype(action.dtype)


def _method(env: gym.Env[Any, Any], name: str) -> Callable[..., Any] | None:
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


# --- spaces ---------------------------------------------------------------------------------------


def _seen(name: str, env: gym.Env[Any, Any]) -> tuple[dict[str, Space[Any]], list[str]]:
    """Spaces by key, of what a policy sees, and the keys that are left out.

    Beside the goal dictionary's own, the keys of boxes of real numbers and of choices belong to the
    observation, in alphabetical order; pictures and whatever else there is do not.

    Raises:
        SpecError: the goal dictionary's keys are not there, or not numbers or choices.
    """
    whole = env.observation_space
    spaces = dict(whole.spaces) if isinstance(whole, Dict) else {}
    if not set(spaces) >= set(GOAL_KEYS):
        what = ", ".join(spaces) or f"a {type(whole).__name__}"
        how = ""
        if isinstance(whole, Tuple):
            how = (
                ": gymnasium.wrappers.TransformObservation(env, lambda obs: "
                "dict(zip(KEYS, obs)), gymnasium.spaces.Dict(dict(zip(KEYS, env.observation_space))"
                f")) makes them dictionaries, with KEYS = {list(GOAL_KEYS)} in the order of the "
                "tuple"
            )
        raise SpecError(
            f"{name}: its observations must be dictionaries of {', '.join(GOAL_KEYS)}; "
            f"there is {what}{how}"
        )
    for key in GOAL_KEYS:
        if not isinstance(spaces[key], KINDS):
            raise SpecError(
                f"{name}: {key} is a {type(spaces[key]).__name__}, which has to be one array: "
                "gymnasium.wrappers.TransformObservation(env, lambda obs: {key: "
                "gymnasium.spaces.flatten(env.observation_space[key], obs[key]) for key in obs}, "
                "gymnasium.spaces.Dict({key: gymnasium.spaces.flatten_space(space) for key, space "
                "in env.observation_space.items()})) flattens it, and compute_reward has to take "
                "such goals"
            )
    achieved, desired = spaces["achieved_goal"], spaces["desired_goal"]
    if achieved.shape != desired.shape:
        raise SpecError(
            f"{name}: achieved_goal {achieved.shape} and desired_goal {desired.shape} must have "
            "one shape"
        )
    others = sorted(set(spaces) - set(GOAL_KEYS))
    more = [key for key in others if _has_numbers(spaces[key])]
    seen = {key: spaces[key] for key in (*GOAL_KEYS, *more)}
    return seen, [key for key in others if key not in more]


def _has_numbers(space: Space[Any]) -> bool:
    if isinstance(space, Box):
        return np.issubdtype(space.dtype, np.floating)
    return isinstance(space, KINDS)


def _actions(name: str, env: gym.Env[Any, Any]) -> Box | Discrete:
    """The action space; SpecError unless it is choices or a bounded box of real numbers."""
    space = env.action_space
    if isinstance(space, Discrete):
        return space
    if not isinstance(space, Box) or not np.issubdtype(space.dtype, np.floating):
        raise SpecError(f"{name}: its actions must be a Box of real numbers or Discrete: {space}")
    if not space.is_bounded("both"):
        raise SpecError(f"{name}: its actions must have bounds, to which [-1, 1] is scaled")
    return space


# --- which goals end an episode -------------------------------------------------------------------


class Tried(NamedTuple):
    """A step of an environment that was tried out."""

    achieved: Array  # [*goal]
    desired: Array  # [*goal]
    success: bool
    terminated: bool
    real: bool = True  # not only said to be a success


def _ending(
    name: str,
    env: gym.Env[Any, Any],
    make: Callable[[], gym.Env[Any, Any]],
    rewards: Rewards,
    best: float,
    achieved: Array,
    desired: Array,
    terminates: str | None,
) -> tuple[SuccessTest | None, bool, list[str]]:
    """Which goals are achieved (None: their reward tells), whether they end an episode, and how
    that was found, if a person should know.

    Raises:
        SpecError: goals end episodes, or may, and nothing tells which.
    """

    def by_reward(achieved: Array, desired: Array) -> NDArray[np.bool_]:
        return rewards(achieved, desired) >= np.float32(best)

    defined, known = _method(env, "compute_terminated"), dict[str, SuccessTest]()
    if defined is not None:
        test = _as_test(f"{name}: compute_terminated", defined, achieved, desired, {})
        known |= {} if test is None else {"compute_terminated": test}
    own = _own_success_test(env)
    if own is not None and not known:
        with suppress(Exception):  # a method of that name that is about something else
            test = _as_test(f"{name}: {own[1]}", getattr(*own), achieved, desired, None)
            known |= {} if test is None else {own[1]: test}
    known["compute_reward"] = by_reward
    who, says = next(iter(known.items()))
    chosen = None if says is by_reward else says
    if terminates is not None or defined is not None:
        return chosen, (terminates == "goal") if terminates else who == "compute_terminated", []

    def success(reward: Any, info: Any) -> bool:
        said = success_in(info)
        return bool(np.float32(reward) >= np.float32(best)) if said is None else said

    try:
        steps = _tried(make, success)
    except Exception as error:
        raise EnvironmentFailure.of(f"{name}: trying it out failed", error) from error
    if not steps:
        raise SpecError(
            f"{name} has no compute_terminated, and was not seen to achieve a goal, so that it is "
            f"unknown which goals end an episode: {WRITE}"
        )
    if not any(step.terminated for step in steps if step.success):
        return chosen, False, ["it goes on where its goal is achieved, and so under other goals"]
    real = [step for step in steps if step.real]
    goals = [
        np.array([getattr(step, key) for step in real], achieved.dtype).reshape(-1, *achieved.shape)
        for key in ("achieved", "desired")
    ]
    found = np.array([step.success for step in real], bool)
    agrees = [one for one, asks in known.items() if not real or np.array_equal(asks(*goals), found)]
    if not agrees:
        raise SpecError(
            f"{name} ends an episode where its goal is achieved, but nothing in it tells where "
            f"other goals would have: {WRITE}"
        )
    line = (
        f"it ends an episode where its goal is achieved; {agrees[0]} tells where other goals end "
        "one (terminates=never: none does)"
    )
    return chosen if agrees[0] == who else None, True, [line]


def _as_test(
    what: str,
    function: Callable[..., Any],
    achieved: Array,
    desired: Array,
    info: dict[str, Any] | None,
) -> SuccessTest | None:
    """A function as a test of success; None where it denies that a goal achieves itself."""
    asks = OfGoals(what, function, achieved, desired, info)
    if not asks(desired[None], desired[None])[0]:
        return None
    return lambda achieved, desired: asks(achieved, desired).astype(bool)


def _own_success_test(env: gym.Env[Any, Any]) -> tuple[Any, str] | None:
    """The object that has the environment's own test of success, and its name there."""
    for owner in (env.unwrapped, getattr(env.unwrapped, "task", None)):
        for name in SUCCESS:
            if callable(getattr(owner, name, None)):
                return owner, name
    return None


def _tried(
    make: Callable[[], gym.Env[Any, Any]], success: Callable[[Any, Any], bool]
) -> list[Tried]:
    """Steps of which at least one achieves its goal, by the first way that works; or none.

    Args:
        make: a new environment, which is spoiled and closed.
        success: whether a step achieved its goal, from its reward and its info.
    """
    for way in (_goals_put_near, _said_to_succeed, _random_episodes):
        env = make()
        try:
            steps = list(way(env, success))
        finally:
            with suppress(Exception):
                env.close()
        if any(step.success for step in steps):
            return steps
    return []


def _holders(env: gym.Env[Any, Any], desired: Array) -> list[tuple[Any, str]]:
    """Attributes of the environment, or of what it consists of, that are the desired goal."""
    bare, found = env.unwrapped, []
    parts = [bare, *(p for p in vars(bare).values() if hasattr(p, "__dict__"))]
    for part in parts:
        for name, value in list(vars(part).items()):
            same = isinstance(value, np.ndarray) and value.shape == desired.shape
            if same and np.allclose(value, desired, rtol=1e-5):
                found.append((part, name))
    return found


def _goals_put_near(env: Any, success: Any) -> Iterator[Tried]:
    idle = neutral(env.action_space)
    for seed, distance in enumerate(DISTANCES):
        obs, _ = env.reset(seed=seed)
        for _ in range(FIRST_STEPS):
            obs, _, terminated, truncated, _ = env.step(idle)
            if terminated or truncated:
                obs, _ = env.reset()
        here, before = np.array(obs["achieved_goal"]), np.array(obs["desired_goal"])
        goal = (here + distance * (before - here)).astype(here.dtype)
        for part, name in _holders(env, before):
            with suppress(AttributeError):  # of what cannot be changed
                setattr(part, name, goal.astype(getattr(part, name).dtype))
        obs, reward, terminated, _, info = env.step(idle)
        if np.allclose(obs["desired_goal"], goal, rtol=1e-5, atol=1e-6):
            achieved = np.array(obs["achieved_goal"])
            yield Tried(achieved, goal, success(reward, info), bool(terminated))


def _said_to_succeed(env: Any, success: Any) -> Iterator[Tried]:
    if (test := _own_success_test(env)) is None:
        return
    env.reset(seed=0)
    setattr(*test, lambda *arguments, **named: np.True_)
    obs, _, terminated, _, info = env.step(neutral(env.action_space))
    if success_in(info):  # so it is what decides
        goals = np.array(obs["achieved_goal"]), np.array(obs["desired_goal"])
        yield Tried(*goals, True, bool(terminated), real=False)


def _random_episodes(env: Any, success: Any) -> Iterator[Tried]:
    began, over = time.monotonic(), False
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    while time.monotonic() - began < SECONDS and not over:
        desired = np.array(obs["desired_goal"])
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        over = success(reward, info)
        yield Tried(np.array(obs["achieved_goal"]), desired, over, bool(terminated))
        if terminated or truncated:
            obs, _ = env.reset()
