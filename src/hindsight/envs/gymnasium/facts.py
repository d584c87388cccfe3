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
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from hindsight.envs.gymnasium.goal_functions import (
    Constancy,
    Find,
    OfGoals,
    ReadsState,
    SuccessTest,
    nearby,
)
from hindsight.envs.gymnasium.trial import (
    DISTANCES,
    FIVE,
    SECONDS,
    Evidence,
    Tried,
    driven,
    neutral,
    success_in,
    tried,
)
from hindsight.envs.gymnasium.trial import own_step_limit as own_step_limit  # for the specification
from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.specs.gymnasium import Facts, GymnasiumSpec, TheOnlyOne
from hindsight.specs.spaces import Actions, Array, policy_inputs, policy_outputs, row_of

#: Usual names of a success test, a method of the environment or of its task.
SUCCESS = ("_is_success", "is_success")
#: Advice if the environment does not reveal which goals end an episode.
WRITE = (
    "set terminates=goal or terminates=never, or write `def compute_terminated(self, "
    "achieved_goal, desired_goal, info): return ...` that returns True if a goal ends the episode"
)
#: Gymnasium's wrappers that cannot be trained with, and why.
NOT_ALLOWED = {
    "ClipAction": "it takes away the bounds of actions: leave it out, as actions keep within them",
    "NormalizeReward": "it divides rewards by a running number, and those of new goals by none",
    "DelayObservation": "a step's reward is not that of the goal that it then shows",
}
#: Episodes that two environments must begin alike for the alarm.
ALIKE_STARTS = 10
#: Alarm of an environment whose copies draw the same numbers.
ALIKE = (
    "all of its copies begin alike, whatever the seed, so runs and environments would be the same: "
    "draw from self.np_random, which reset(seed=...) seeds"
)
#: Steps by which an environment beneath its wrappers shows what it pays for.
STEPS_BENEATH = 20
#: Messages about the part of a reward that goals do not explain.
REST = {
    "keep": "the rest is kept under every goal, so it must not depend on the goal "
    "(rest=drop drops it)",
    "drop": "the rest is dropped",
}


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
        return Constancy(
            {"compute_reward": self.rewards, self.success_test.name: self.success_test.asks}, env
        )

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

    def beyond(
        self,
        reward: float,
        expected: NDArray[np.float32],
        achieved: Array,
        desired: Sequence[Array],
    ) -> float:
        """The part of a reward that neither goals, nor their rounding, nor a step's move, explain.

        `expected` [1] is the reward of the goal pursued, and `desired` holds the goals before and
        after the step.
        """

        def explains(found: NDArray[np.float32]) -> bool:
            apart = np.abs(found.astype(np.float64) - reward)
            return bool((apart <= 1e-6 + 1e-5 * abs(reward)).any())

        if explains(expected):
            return 0.0
        if any(explains(self.rewards(*nearby(achieved, goal))) for goal in desired):
            return 0.0
        return reward - float(expected[0])


def facts_of(spec: GymnasiumSpec) -> GoalFacts:
    """The properties of a specification's environment, which is made once per process."""
    facts = spec.facts
    assert isinstance(facts, GoalFacts)
    return facts


def find_facts(
    name: str, make: Callable[[], gym.Env[Any, Any]], terminates: str | None, rest: str
) -> GoalFacts:
    """Make an environment, inspect its spaces and try it.

    Args:
        make: returns a new environment with its step limit.
        terminates, rest: as in `specs.gymnasium.GymnasiumSpec`.

    Raises:
        SpecError: the environment cannot be trained on.
        EnvironmentFailure: the environment raised an exception.
    """
    env = make()
    changes, shows = _wrappers(name, env)
    spaces, left_out = policy_inputs(name, env.observation_space)
    action, goal = policy_outputs(name, env.action_space), spaces["achieved_goal"]
    if _method(env, "compute_reward") is None:
        raise SpecError(f"{name} has no compute_reward, which returns the rewards of other goals")
    obs, next_obs, reward, info = _first_step(name, env, action)
    for method, seen in (("reset", obs), ("step", next_obs)):
        _must_be_whole(f"{name}: the observation of its first {method}", seen, spaces)
    first = finite_row(obs, spaces, name)
    again = finite_row(env.reset(seed=0)[0], spaces, name)
    achieved = np.asarray(next_obs["achieved_goal"], goal.dtype).reshape(goal.shape or ())
    desired = np.asarray(obs["desired_goal"], goal.dtype).reshape(goal.shape or ())
    step = achieved, desired, info
    rewards = OfGoals(
        f"{name}: compute_reward", partial(_method, name="compute_reward"), env, *step
    )
    lines, alarms = [*_notes_on(rewards)], []
    if not (repeats := np.allclose(first, again, rtol=1e-4, atol=1e-6)):
        lines.append(
            "reset(seed=0) does not repeat itself, so no evaluation can be repeated: seed what it "
            "really draws from, such as numpy.random.seed(seed) in its reset"
        )
    if more := list(spaces)[3:]:
        lines.append(f"the policy also observes {', '.join(more)}")
    if left_out:
        alarms.append(f"{', '.join(left_out)} left out: images, or neither numbers nor choices")
    best = float(rewards(desired[None], desired[None])[0]) + 0.0  # not -0
    first_step = Tried(achieved, desired, False, False, reward)
    known = _tests(name, env, rewards, best, step)
    test, has_terminated = known[0], _method(env, "compute_terminated") is not None
    told_by_reward = terminates == "goal" and test.name == "compute_reward"
    if told_by_reward and np.ptp(rewards(*nearby(achieved, desired))) > 0:
        raise SpecError(
            f"{name}: compute_reward changes with every distance, so it does not tell which goals "
            "end an episode: write `def compute_terminated(self, achieved_goal, desired_goal, "
            "info): return ...` that returns True if a goal does"
        )
    told = terminates is not None or has_terminated
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
        if not (repeats or only) and _begin_alike(make, spaces):
            alarms.append(ALIKE)
        watch = Constancy({"compute_reward": rewards, test.name: test.asks}, other)
        try:
            found = tried(other, best, watch, DISTANCES[:1] if told else DISTANCES)
        except ReadsState as error:
            raise SpecError(f"{name}: {error}") from None
    _must_survive_rounding(name, found)
    steps = [first_step, *([] if rewards.reads_info else found.steps)]
    if line := _beyond(name, rewards, steps, changes):
        if shows and _pays_by_other_goals(env.unwrapped, obs):
            raise SpecError(
                f"{name}: {shows} changes goals, but compute_reward expects the environment's own, "
                "so relabelled goals would get wrong rewards: write a wrapper that changes both"
            )
        if rest == "refuse":
            raise SpecError(f"{name}: {line}; with rest=refuse they must agree")
        lines.append(f"{line}; {REST[rest]}")
    if rest == "keep" and not rewards.reads_info and _rest_depends(rewards, found):
        alarms.append(
            "what a step pays beyond compute_reward depends on the goal, but is kept under every "
            "goal, so rewards of relabelled goals are wrong: let compute_reward return all of it"
        )
    if watch.of_state:
        alarms.append(
            f"compute_reward reads the environment's own state ({watch.of_state:+g} in a step): "
            "that is kept under every goal, so it must have nothing to do with the goal, as a "
            "distance or a progress has"
        )
    if found.steps and not watch.depends:
        lines.append(
            "in a trial, compute_reward returned the same for every desired goal; if that is so "
            "everywhere, hindsight teaches nothing"
        )
    met = [*(each for each, _ in found.starts), *(each.achieved for each in found.steps)]
    if len(found.starts) > 1 and all(np.array_equal(each, met[0]) for each in met):
        lines.append(
            "achieved_goal was the same at every step of a trial, whatever the start; if that "
            "is so everywhere, hindsight teaches nothing"
        )
    if told:
        ends = terminates == "goal" if terminates else test.name == "compute_terminated"
    else:
        test, ends, line = _ending(name, known, rewards, found)
        lines.append(line)
    lines += _notes_on_episodes(found, rewards, test)
    assert env.spec is not None
    limit = env.spec.max_episode_steps
    assert limit is not None
    notes, named = (tuple(f"{name}: {line}" for line in some) for some in (lines, alarms))
    return GoalFacts(
        spaces=spaces,
        action=action,
        step_limit=limit,
        achieved_reward=best,
        terminates_on_success=ends,
        notes=(*named, *notes),
        alarms=named,
        rewards=rewards,
        success_test=test,
        instance=env,
    )


def _first_step(
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


def _notes_on(rewards: OfGoals) -> Iterator[str]:
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


def _notes_on_episodes(found: Evidence, rewards: OfGoals, test: SuccessTest) -> Iterator[str]:
    """Lines about where trial episodes began and went on."""
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


def _wrappers(name: str, env: Any) -> tuple[str, str]:
    """Names of the wrappers that change rewards, and goals, of which compute_reward may not know.

    Raises SpecError for one that cannot be trained with.
    """
    changes = shows = ""
    while isinstance(env, gym.Wrapper):
        kind = type(env).__name__
        if (why := NOT_ALLOWED.get(kind)) and type(env).__module__.startswith("gymnasium."):
            raise SpecError(f"{name}: {kind} is not allowed, because {why}")
        changes = kind if isinstance(env, gym.RewardWrapper) else changes
        observes = gym.ObservationWrapper | gym.wrappers.FrameStackObservation
        shows = kind if isinstance(env, observes) else shows
        env = env.env
    return changes, shows


def _pays_by_other_goals(env: Any, shown: Mapping[str, Any]) -> bool:
    """Whether an environment beneath its wrappers pays what compute_reward says of its own goals.

    shown: what the wrappers show after `reset(seed=0)`.
    """
    with suppress(Exception):
        own, _ = env.reset(seed=0)
        if all(np.array_equal(own[key], shown[key]) for key in GOAL_KEYS[:2]):
            return False
        for _, obs, (after, paid, _, _, info) in driven(env, STEPS_BENEATH):
            goals = np.array(after["achieved_goal"]), np.array(obs["desired_goal"])
            if not np.isclose(float(env.compute_reward(*goals, info)), paid, rtol=1e-5, atol=1e-6):
                return False
        return True
    return False


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


def _method(env: gym.Env[Any, Any], name: str) -> Callable[..., Any] | None:
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def _must_survive_rounding(name: str, found: Evidence) -> None:
    """Raise SpecError if goals, which are stored as float32, would lose what steps do to them."""
    achieved = np.array([step.achieved for step in found.steps])
    if achieved.dtype == np.float64:
        lost = np.abs(achieved - achieved.astype(np.float32)).max(initial=0)
        moved = np.abs(np.diff(achieved, axis=0)).max(initial=0)
        if lost > moved / 10 > 0:
            raise SpecError(
                f"{name}: its goals, such as {achieved[0]}, change by at most {moved:g} within a "
                f"step, but float32, in which they are stored, rounds them by up to {lost:.2g}; "
                "subtract a constant from them, such as the middle of the map"
            )


def _rest_depends(rewards: OfGoals, found: Evidence) -> bool:
    """Whether a step paid another rest once the goal was moved, beyond rounding."""
    for pair in found.moved:
        rests = [each.reward - rewards(*nearby(each.achieved, each.desired)) for each in pair]
        apart = np.abs(np.subtract.outer(*rests)).min()
        if apart > 1e-4 + 1e-4 * max(abs(each.reward) for each in pair):
            return True
    return False


def _beyond(name: str, rewards: OfGoals, steps: Sequence[Tried], changes: str) -> str:
    """A message if a step paid otherwise than compute_reward returns; empty if none did.

    Raises SpecError if all pay a multiple of it, as under a wrapper that scales rewards, or if
    there is one that `changes` rewards, another function of it than a constant more.
    """
    achieved, desired, _, _, paid = map(np.array, zip(*steps, strict=True))
    computed = rewards(achieved, desired)
    differ = ~np.isclose(computed, paid, rtol=1e-5, atol=1e-6)
    for i in differ.nonzero()[0]:  # goals within a rounding error may pay otherwise
        close = rewards(*nearby(achieved[i], desired[i]))
        differ[i] = not np.isclose(close, paid[i], rtol=1e-5, atol=1e-6).any()
    if not differ.any():
        return ""
    if np.ptp(computed) > 0:
        largest = int(np.abs(computed).argmax())
        factor = paid[largest] / computed[largest]
        several = np.count_nonzero(computed) > 1 and factor != 0
        if several and np.allclose(factor * computed, paid, rtol=1e-4, atol=1e-6):
            raise SpecError(
                f"{name}: its steps pay {factor:g} times what compute_reward returns, so rewards "
                "of relabelled goals would be of another size: scale compute_reward, too"
            )
    near = 1e-5 + 1e-4 * np.abs(paid).max()
    varies = np.ptp(paid - computed) > near
    # A penalty of some steps is no function of compute_reward.
    follows = all(np.ptp(paid[computed == value]) <= near for value in np.unique(computed))
    if changes and varies and follows:
        raise SpecError(
            f"{name}: {changes} changes rewards by more than a constant, and compute_reward does "
            "not, so rewards of relabelled goals would be others: write a wrapper that changes both"
        )
    first = int(differ.argmax())
    return f"a step's reward was {paid[first]:g}, but compute_reward returns {computed[first]:g}"


# --- which goals end an episode -------------------------------------------------------------------


def _tests(
    name: str,
    env: gym.Env[Any, Any],
    rewards: OfGoals,
    best: float,
    step: tuple[Array, Array, Mapping[str, Any]],
) -> list[SuccessTest]:
    """The success tests of an environment, the first one first.

    `step` has the goals achieved and pursued, and the info, of the first step.
    """

    def test_of(key: str, find: Find, least: float | None) -> list[SuccessTest]:
        """The function as a success test; none if by it a goal does not achieve itself."""
        asks = OfGoals(f"{name}: {key}", find, env, *step)
        goal = step[1][None]
        return [SuccessTest(key, asks, least)] if asks(goal, goal)[0] else []

    known = list[SuccessTest]()
    if _method(env, "compute_terminated") is not None:
        known = test_of("compute_terminated", partial(_method, name="compute_terminated"), best)
        goals = _between(*step[:2])
        for test in known:
            # A fall may end an episode without achieving its goal; but where goals that do pay
            # less than the goal itself, rewards tell nothing of that.
            ends = test.asks(*goals) != 0
            if (ends & (rewards(*goals) < np.float32(best))).any():
                known = [test._replace(best=None)]
    places = product(("", "task"), SUCCESS)
    found = next((place for place in places if _success_of(env, *place) is not None), None)
    if found is not None and not known:
        with suppress(Exception):  # a method of that name with another meaning
            known = test_of(found[1], lambda env: _success_of(env, *found), None)
    return [*known, SuccessTest("compute_reward", rewards, best)]


def _success_of(env: gym.Env[Any, Any], part: str, key: str) -> Callable[..., Any] | None:
    """The success test `key` of an environment or its part, with the info as an argument."""
    function = getattr(getattr(env.unwrapped, part, None) if part else env.unwrapped, key, None)
    if not callable(function):
        return None
    return lambda achieved, desired, info: function(achieved, desired)


def _between(achieved: Array, desired: Array) -> tuple[Array, Array]:
    """Goals [n, *goal] on the line between these [*goal], close to the desired one and further."""
    shares = np.append(0, np.geomspace(1e-6, 1, 25)).reshape(-1, *(1,) * achieved.ndim)
    between = desired + shares * (achieved.astype(np.float64) - desired)
    if not np.issubdtype(achieved.dtype, np.floating):
        between = between.round()
    return between.astype(achieved.dtype), np.stack([desired] * len(between))


def _ending(
    name: str, known: Sequence[SuccessTest], rewards: OfGoals, found: Evidence
) -> tuple[SuccessTest, bool, str]:
    """The success test, whether success ends an episode, and a message about it, from a trial.

    Raises SpecError if goals end episodes, or may, and it is unknown which.
    """
    if not found.in_time or not any(step.success for step in found.steps):
        if found.in_time and not found.terminates:
            line = (
                "a trial could not achieve a goal, and no episode was terminated, so goals are "
                "taken not to end episodes; if one does, training ends with an error (set "
                "terminates=goal if they do)"
            )
            return known[0], False, line
        why = "could not tell whether reaching the goal"
        if not found.in_time:
            why = f"of {SECONDS:g} s was too short to tell whether reaching the goal"
        raise SpecError(
            f"{name} has no compute_terminated, and a trial {why} ends an episode: {WRITE}"
        )
    reached, goals, successes, ended, _ = map(np.array, zip(*found.steps, strict=True))
    if not ended[successes].any():
        return known[0], False, "reaching a goal does not end an episode, whichever the goal"
    case = rewards(reached, goals), reached, goals
    agrees = [test for test in known if np.array_equal(test(*case), ended)]
    if not agrees:
        raise SpecError(
            f"{name} ends an episode when its goal is achieved, but it is unknown when other goals "
            f"would have ended it: {WRITE}"
        )
    line = (
        f"its episodes end at their goal; {agrees[0].name} decides when other goals end them "
        "(terminates=never: they do not)"
    )
    return agrees[0], True, line
