"""A goal environment of one whose observations name no goals."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, flatten, flatten_space
from numpy.typing import ArrayLike, NDArray

from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.errors import SpecError
from hindsight.specs.spaces import SUPPORTED_SPACES

Goals = NDArray[np.float64]
#: (environment, its observation, info) -> a goal [*goal]
Find = Callable[[Any, Any, Mapping[str, Any]], ArrayLike]


class GoalEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Gives any environment the interface of a goal environment.

        env = GoalEnvironment(
            gymnasium.make("pointmaze-medium-v0"),
            achieved=lambda env, obs, info: obs[:2],
            desired=lambda env, obs, info: info["goal"],
            tolerance=1.0,
        )

    Observations become dictionaries of `achieved_goal`, `desired_goal` and `observation`, the
    environment's own, flattened if it is a dictionary or a tuple.  The reward becomes one of goals,
    and `info["is_success"]` says whether a step achieved its goal.  An episode also ends where the
    environment ends it.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        achieved: Find,
        desired: Find,
        *,
        reward: Callable[[Goals, Goals], ArrayLike] | None = None,
        tolerance: ArrayLike | None = None,
        terminates: bool = True,
        seed: Callable[[Any, int], object] | None = None,
    ) -> None:
        """Wrap `env`, which is reset once to see the shape of its goals.

        Args:
            achieved: a function of the environment, its observation and info (a step's is added to
                the reset's), which returns the goal that is achieved, an array.
            desired: a function of the same, which returns the goal that is pursued, of that shape.
            reward: a function of achieved and desired goals [n, *goal] that returns rewards [n];
                None: 0 if the goal is achieved, else -1.
            tolerance: a goal is achieved within this Euclidean distance, or within these of each
                coordinate, [*goal].  None: where the reward is that of a goal that equals it.
            terminates: whether achieving the goal ends the episode.
            seed: called as `seed(env, seed)` before each reset with a seed, for environments that
                draw from elsewhere; `lambda env, seed: numpy.random.seed(seed)`.

        Raises SpecError if both reward and tolerance are None, or the tolerance is impossible.
        """
        super().__init__(env)
        if reward is None and tolerance is None:
            raise SpecError("GoalEnvironment needs a reward, a tolerance, or both")
        self._achieved, self._desired, self._reward = achieved, desired, reward
        self._tolerance, self._terminates, self._seed = tolerance, terminates, seed
        self._info: dict[str, Any] = {}
        self._flat = not isinstance(env.observation_space, SUPPORTED_SPACES)
        own = flatten_space(env.observation_space) if self._flat else env.observation_space
        obs, info = env.reset(seed=0)
        goals = []
        for name, find in (("achieved", achieved), ("desired", desired)):
            found: Any = find(env, obs, info)
            if found is None or np.asarray(found).dtype.kind not in "biuf":
                raise SpecError(f"{name}: returned {found!r}; it must return a goal, an array")
            goals.append(Box(-np.inf, np.inf, np.shape(found), np.float64))
        self._shape = goals[0].shape
        if tolerance is not None:
            try:
                given = np.asarray(tolerance, float)
                possible = given.shape in ((), self._shape) and bool((given >= 0).all())  # nor NaN
            except (TypeError, ValueError):
                possible = False
            if not possible:
                raise SpecError(
                    f"tolerance: {tolerance!r} is not allowed; it must be a number, 0 or more, or "
                    f"one for each number of a goal, of shape {self._shape}"
                )
        self.observation_space = Dict(dict(zip(GOAL_KEYS, (*goals, own), strict=True)))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None and self._seed is not None:
            self._seed(self.env, seed)
        obs, info = self.env.reset(seed=seed, options=options)
        self._info = dict(info or {})  # some environments return None
        return self._observe(obs), info

    def step(self, action: Any) -> Any:
        obs, _, terminated, truncated, info = self.env.step(action)
        self._info |= info or {}
        seen = self._observe(obs)
        goals = seen["achieved_goal"], seen["desired_goal"]
        success = bool(self._is_success(*goals))
        over = bool(terminated) or (success and self._terminates)
        reward = float(np.asarray(self.compute_reward(*goals, info)))
        return seen, reward, over, truncated, {**(info or {}), "is_success": success}

    def compute_reward(self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any) -> Any:
        """Rewards [...] for goals [..., *goal]."""
        goals = np.asarray(achieved_goal, float), np.asarray(desired_goal, float)
        if self._reward is None:
            return np.where(self._is_success(*goals), 0.0, -1.0)
        rows = [x.reshape(-1, *self._shape) for x in goals]
        found, n = np.asarray(self._reward(*rows)), len(rows[0])
        if found.size != n:
            raise SpecError(
                f"reward: returned shape {found.shape} for {n} goals of shape {self._shape}; it "
                "gets many goals, [n, *goal], and must return as many rewards, [n]"
            )
        return found.reshape(goals[0].shape[: goals[0].ndim - len(self._shape)])

    def compute_terminated(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any
    ) -> Any:
        """Whether these goals [..., *goal] end the episode, [...]."""
        return self._is_success(achieved_goal, desired_goal) & self._terminates

    def _is_success(self, achieved: ArrayLike, desired: ArrayLike) -> Any:
        """Whether goals [..., *goal] are achieved, [...]."""
        if self._tolerance is None:
            best = self.compute_reward(desired, desired, {})
            return self.compute_reward(achieved, desired, {}) >= best
        apart = np.abs(np.asarray(achieved, float) - desired)
        axes = tuple(range(-len(self._shape), 0))
        if np.ndim(self._tolerance):
            return (apart <= self._tolerance).all(axes)
        return np.sqrt(np.square(apart).sum(axes)) <= self._tolerance

    def _observe(self, obs: Any) -> dict[str, Any]:
        goals = [
            np.array(f(self.env, obs, self._info), float) for f in (self._achieved, self._desired)
        ]
        own = flatten(self.env.observation_space, obs) if self._flat else obs
        return dict(zip(GOAL_KEYS, (*goals, own), strict=True))
