"""Properties of a third-party goal environment, from its interface and by trying it.

Relabelling needs the rewards of other goals, and which goals would have ended the episode.
`compute_reward` returns the former, `compute_terminated` the latter.  An environment without
`compute_terminated` is tried before training: its goal is moved to the agent.  If that finds
nothing, the key `terminates` must tell.  During training, every step is checked against the result.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Space, flatdim
from numpy.typing import NDArray

from hindsight.envs.gymnasium.endings import ending_of, tests_of
from hindsight.envs.gymnasium.goal_functions import (
    Constancy,
    OfGoals,
    ReadsState,
    SuccessTest,
    method_of,
    nearby,
)
from hindsight.envs.gymnasium.rest import REST, rest_depends, rest_in, wrappers_of
from hindsight.envs.gymnasium.trial import (
    DISTANCES,
    FIVE,
    Evidence,
    Tried,
    neutral,
    success_in,
    tried,
)
from hindsight.envs.gymnasium.trial import own_step_limit as own_step_limit  # for the specification
from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.specs.gymnasium import Facts, GymnasiumSpec, TheOnlyOne
from hindsight.specs.spaces import Actions, Array, policy_inputs, policy_outputs, row_of

#: Episodes that two environments must begin alike for the alarm.
ALIKE_STARTS = 10
#: Alarm of an environment whose copies draw the same numbers.
ALIKE = (
    "all of its copies begin alike, whatever the seed, so runs and environments would be the same: "
    "draw from self.np_random, which reset(seed=...) seeds"
)


@dataclass(frozen=True, kw_only=True)
class GoalFacts(Facts):
    """Properties of an environment, and its functions of goals."""

    rewards: OfGoals
    success_test: SuccessTest

    def of(self, env: gym.Env[Any, Any]) -> "GoalFacts":
        """The same, asking another instance."""
        test = self.success_test._replace(asks=self.success_test.asks.of(env))
        return replace(self, rewards=self.rewards.of(env), success_test=test, instance=env)

    def watch(self, env: gym.Env[Any, Any]) -> "Constancy":
        """Watches the functions that decide about goals in an instance that is about to step."""
        return Constancy(self.rewards, self.success_test, env)

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

    def ends_anyway(self, achieved: Array, pursued: Array, places: Iterable[Array]) -> bool:
        """Whether compute_terminated alone tells success, but would end other goals' episodes, too.

        Other goals are `places` [*goal] and, as some goals need only be passed, places as far
        behind `achieved` [*goal]; of both, those that are another goal than `pursued` [*goal].
        """
        if self.success_test.name != "compute_terminated" or self.success_test.best is not None:
            return False
        goals = np.stack([*places])
        if np.issubdtype(goals.dtype, np.floating):
            goals = np.concatenate([goals, 2 * achieved - goals])
        goals = np.unique(goals, axis=0)
        same, reached = (np.stack([goal] * len(goals)) for goal in (pursued, achieved))
        with suppress(EnvironmentFailure):  # goals that cannot be
            apart = ~(self.outcome(goals, same)[1] & self.outcome(same, goals)[1])
            return apart.sum() > 2 and bool(self.outcome(reached, goals)[1][apart].all())
        return False

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


def facts_of(spec: GymnasiumSpec) -> GoalFacts:
    """The properties of a specification's environment, which is made once per process."""
    facts = spec.facts
    assert isinstance(facts, GoalFacts)
    return facts


def find_facts(
    name: str,
    env: gym.Env[Any, Any],
    make: Callable[[], gym.Env[Any, Any]],
    terminates: str | None,
    rest: str,
) -> GoalFacts:
    """Inspect the spaces of an environment, and try it; `make` returns another one.

    Raises SpecError if it cannot be trained on, and EnvironmentFailure if it raised an exception.
    """
    wrappers = wrappers_of(name, env)
    first = _first_step(name, env)
    step = first.achieved, first.desired, first.info
    rewards = OfGoals(
        f"{name}: compute_reward", partial(method_of, name="compute_reward"), env, *step
    )
    goal = first.desired[None]
    best = float(rewards(goal, goal)[0]) + 0.0  # not -0
    known = tests_of(name, env, rewards, best, step)
    test, told = known[0], terminates
    if told is None and method_of(env, "compute_terminated") is not None:
        told = "goal" if test.name == "compute_terminated" else "never"
    if (
        terminates == "goal"
        and test.name == "compute_reward"
        and np.ptp(rewards(*nearby(first.achieved, first.desired))) > 0
    ):
        raise SpecError(
            f"{name}: compute_reward changes with every distance, so it does not tell which goals "
            "end an episode: write `def compute_terminated(self, achieved_goal, desired_goal, "
            "info): return ...` that returns True if a goal does"
        )
    distances = DISTANCES if told is None else DISTANCES[:1]
    found, watch, alike = _trial(name, make, env, first, rewards, test, best, distances)
    _must_survive_rounding(name, found)
    taken = Tried(first.achieved, first.desired, False, False, first.reward)
    steps = [taken, *([] if rewards.reads_info else found.steps)]
    beyond = rest_in(name, env, first.obs, wrappers, rewards, steps)
    if beyond and rest == "refuse":
        raise SpecError(f"{name}: {beyond}; with rest=refuse they must agree")
    ending = []
    if told is None:
        test, ends, line = ending_of(name, known, rewards, found)
        ending = [line]
    else:
        ends = told == "goal"
    lines = [f"{beyond}; {REST[rest]}"] if beyond else []
    lines += [*ending, *_notes(first, rewards, test, found, watch)]
    alarms = list(_alarms(first, alike, watch, rewards, found, rest))
    assert env.spec is not None
    limit = env.spec.max_episode_steps
    assert limit is not None
    notes, named = (tuple(f"{name}: {line}" for line in some) for some in (lines, alarms))
    return GoalFacts(
        spaces=first.spaces,
        action=first.action,
        step_limit=limit,
        achieved_reward=best,
        terminates_on_success=ends,
        notes=(*named, *notes),
        alarms=named,
        rewards=rewards,
        success_test=test,
        instance=env,
    )


class FirstStep(NamedTuple):
    """What an environment shows of itself in its first step, from `reset(seed=0)`."""

    spaces: dict[str, Space[Any]]  # that the policy observes
    left_out: list[str]  # parts of observations that it does not
    action: Actions
    obs: Mapping[str, Any]  # of the reset
    achieved: Array  # [*goal], after the step
    desired: Array  # [*goal]
    reward: float
    info: Mapping[str, Any]
    repeats: bool  # whether another `reset(seed=0)` shows the same


def _first_step(name: str, env: gym.Env[Any, Any]) -> FirstStep:
    """Inspect an environment's spaces, and take a neutral step; raises as `find_facts`."""
    spaces, left_out = policy_inputs(name, env.observation_space)
    action, goal = policy_outputs(name, env.action_space), spaces["achieved_goal"]
    if method_of(env, "compute_reward") is None:
        raise SpecError(f"{name} has no compute_reward, which returns the rewards of other goals")
    obs, next_obs, reward, info = _stepped(name, env, action)
    for method, seen in (("reset", obs), ("step", next_obs)):
        _must_be_whole(f"{name}: the observation of its first {method}", seen, spaces)
    row = finite_row(obs, spaces, name)
    try:
        again = finite_row(env.reset(seed=0)[0], spaces, name)
    except SpecError:
        raise
    except Exception as error:
        raise EnvironmentFailure.of(f"{name}: a reset within an episode failed", error) from error
    achieved, desired = (
        np.asarray(seen[key], goal.dtype).reshape(goal.shape or ())
        for seen, key in ((next_obs, "achieved_goal"), (obs, "desired_goal"))
    )
    repeats = np.allclose(row, again, rtol=1e-4, atol=1e-6)
    return FirstStep(spaces, left_out, action, obs, achieved, desired, reward, info, repeats)


def _trial(
    name: str,
    make: Callable[[], gym.Env[Any, Any]],
    env: gym.Env[Any, Any],
    first: FirstStep,
    rewards: OfGoals,
    test: SuccessTest,
    best: float,
    distances: Sequence[float],
) -> tuple[Evidence, Constancy, bool]:
    """Try another instance of an environment, or the only one.

    Returns what was found, by what its functions of goals were watched, and whether the
    environment's copies begin alike, whatever the seed.
    """
    with ExitStack() as stack:
        other = env
        with suppress(Exception):  # there may be a single simulator
            other = make()
        only = other is env or isinstance(other, TheOnlyOne)
        if other.unwrapped is env.unwrapped and not only:
            raise SpecError(
                f"{name}: the same environment is returned each time, so training and evaluation "
                "would play in it at once: pass the environment itself, or a function that creates "
                "a new one"
            )
        if other is not env:
            stack.enter_context(closing(other))
        alike = not (first.repeats or only) and _begin_alike(make, first.spaces)
        watch = Constancy(rewards, test, other)
        try:
            return tried(other, best, watch, distances), watch, alike
        except ReadsState as error:
            raise SpecError(f"{name}: {error}") from None


def _alarms(
    first: FirstStep,
    alike: bool,
    watch: Constancy,
    rewards: OfGoals,
    found: Evidence,
    rest: str,
) -> Iterator[str]:
    """Lines about what is probably wrong."""
    if first.left_out:
        yield f"{', '.join(first.left_out)} left out: images, or neither numbers nor choices"
    seen = first.spaces["observation"]
    pixels = isinstance(seen, Box) and seen.dtype == np.uint8 and seen.high.max() > 1
    if pixels and len(seen.shape or ()) > 1:
        yield (
            f"observation is an image, which networks see as one row of {flatdim(seen):,} numbers: "
            "put features there instead"
        )
    if alike:
        yield ALIKE
    if rest == "keep" and not rewards.reads_info and rest_depends(rewards, found):
        yield (
            "what a step pays beyond compute_reward depends on the goal, but is kept under every "
            "goal, so rewards of relabelled goals are wrong: let compute_reward return all of it"
        )
    if watch.of_state:
        yield (
            f"compute_reward reads the environment's own state ({watch.of_state:+g} in a step): "
            "that is kept under every goal, so it must have nothing to do with the goal, as a "
            "distance or a progress has"
        )


def _stepped(
    name: str, env: gym.Env[Any, Any], action: Actions
) -> tuple[Mapping[str, Any], Mapping[str, Any], float, Mapping[str, Any]]:
    """The observations around a neutral step, its reward and its info; raises as `find_facts`.

    Observations are copied, because an environment may return arrays that its next step changes.
    """
    try:
        begun: Any = env.reset(seed=0)
        if not isinstance(begun, tuple) or len(begun) != 2:
            raise SpecError(f"{name}: reset must return two values, the observation and its info")
        obs = deepcopy(begun[0])
        stepped: Any = env.step(neutral(action))
        if not isinstance(stepped, tuple) or len(stepped) != 5:
            raise SpecError(f"{name}: {FIVE}")
        next_obs, reward, terminated, truncated, info = stepped
        for at, told in (("reset", begun[1]), ("step", info)):
            if not isinstance(told, Mapping | None):
                kind = type(told).__name__
                raise SpecError(f"{name}: the info of its first {at} is a {kind}, not a dictionary")
        single = {"reward": reward, "terminated": terminated, "truncated": truncated}
        for what, value in single.items():
            if np.ndim(value):
                raise SpecError(
                    f"{name}: its first step returned a {what} of shape {np.shape(value)}; it must "
                    "be a single value"
                )
        return obs, deepcopy(next_obs), float(reward), info
    except SpecError:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1].filename
        if "to unpack" in str(error) and Path(gym.__file__).parent in Path(place).parents:
            raise SpecError(f"{name}: {FIVE}") from error  # gymnasium's wrappers found out
        raise EnvironmentFailure.of(f"{name}: its first step failed", error) from error


def _begin_alike(make: Callable[[], gym.Env[Any, Any]], spaces: Mapping[str, Space[Any]]) -> bool:
    """Whether two environments begin several episodes alike, though with other seeds."""
    found: list[Array] = []
    for first in (1, 100):
        with suppress(Exception), closing(make()) as env:  # there may be no room for another
            starts = [env.reset(seed=first + i)[0] for i in range(ALIKE_STARTS)]
            found.append(np.stack([finite_row(obs, spaces) for obs in starts]))
    if len(found) < 2:
        return False
    one, other = found
    return np.array_equal(one, other) and bool(np.ptp(one, axis=0).any())


def _notes(
    first: FirstStep, rewards: OfGoals, test: SuccessTest, found: Evidence, watch: Constancy
) -> Iterator[str]:
    """Lines about its functions, observations, goals and episodes."""
    if rewards.one_at_a_time:
        yield (
            "compute_reward takes one goal at a time, so 1,000 relabelled steps take "
            f"{1e3 * rewards.seconds:.2g} s; training is faster if it accepts arrays of goals"
        )
    if rewards.reads_info:
        yield (
            "compute_reward reads info: its effect on a step's reward is kept under every goal, so "
            "it must not depend on the goal"
        )
    if not first.repeats:
        yield (
            "reset(seed=0) does not repeat itself, so no evaluation can be repeated: seed what it "
            "really draws from, such as numpy.random.seed(seed) in its reset"
        )
    if more := list(first.spaces)[3:]:
        yield f"the policy also observes {', '.join(more)}"
    if found.steps and not watch.depends:
        yield (
            "in a trial, compute_reward returned the same for every desired goal; if that is so "
            "everywhere, hindsight teaches nothing"
        )
    met = [*(each for each, _ in found.starts), *(each.achieved for each in found.steps)]
    if len(found.starts) > 1 and all(np.array_equal(each, met[0]) for each in met):
        yield (
            "achieved_goal was the same at every step of a trial, whatever the start; if that "
            "is so everywhere, hindsight teaches nothing"
        )
    if found.starts:
        begun, wanted = (np.stack(each) for each in zip(*found.starts, strict=True))
        if (share := test(rewards(begun, wanted), begun, wanted)).any():
            yield (
                f"{share.sum()} of {len(share)} trial episodes began at their goal, where doing "
                "nothing may count as success"
            )
    if found.moves_on:
        yield (
            "an episode went on after its success with another goal; success is that of its last "
            "step (success=any: of any step)"
        )


def _must_be_whole(what: str, obs: Any, spaces: Mapping[str, Space[Any]]) -> None:
    """Raise SpecError if an observation lacks a part of its space, or one has another size."""
    for key, space in spaces.items():
        if not isinstance(obs, Mapping) or key not in obs:
            raise SpecError(f"{what} has no {key!r}, which its observation space has")
        if np.size(obs[key]) != np.prod(space.shape or (), dtype=int):
            raise SpecError(
                f"{what} has a {key!r} of shape {np.shape(obs[key])}; its space has {space.shape}"
            )


def finite_row(
    obs: Mapping[str, Any], spaces: Mapping[str, Space[Any]], name: str = ""
) -> NDArray[np.float32]:
    """An observation as a row [obs]; raises SpecError for NaN or infinity in it."""
    row = row_of(obs, spaces)
    if np.isfinite(row).all():
        return row
    key = next(x for x in spaces if not np.isfinite(np.asarray(obs[x]).astype(np.float32)).all())
    mask = "; to say which parts of a goal count, add zeros and ones to it" if "goal" in key else ""
    raise SpecError(
        f"{name and f'{name}: '}{key} is not finite: {obs[key]}; NaN and infinity are not allowed "
        f"in observations{mask}"
    )


def _must_survive_rounding(name: str, found: Evidence) -> None:
    """Raise SpecError if goals, which are stored as float32, would lose what steps do to them.

    A number that only trembles loses nothing: its rounding is small compared with the way to goals.
    """
    starts = found.starts or [(step.achieved, step.desired) for step in found.steps]
    if not starts:
        return
    begun, wanted = (np.array(each, float) for each in zip(*starts, strict=True))
    matters = (found.change > 0) & (found.rounding > 1e-5 * np.abs(begun - wanted).max())
    lost = matters & (found.rounding > found.change / 10)
    if lost.any():
        i = int(lost.argmax())
        raise SpecError(
            f"{name}: a number of its goals, such as {begun[0].ravel()[i]}, changes by at most "
            f"{found.change[i]:g} within a step, but float32, in which goals are stored, rounds it "
            f"by up to {found.rounding[i]:.2g}; subtract a constant from it, such as the middle of "
            "the map"
        )
