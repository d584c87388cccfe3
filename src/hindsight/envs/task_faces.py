"""The gymnasium faces of the point mass and of bit flipping.

`gymnasium.make("PointReach-v0", threshold=0.1)`, `gymnasium.make("BitFlipping-v0", n_bits=20)`;
`import hindsight.envs` makes gymnasium know them.  What a step does is `advance` of `point_reach`
and of `bit_flipping` with one run and one environment: there is no second implementation.
"""

from abc import abstractmethod
from typing import Any, Generic, TypeVar

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Space
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hindsight.envs import bit_flipping, point_reach
from hindsight.envs.gymnasium_faces import draws, known_mode, timed_out, truth
from hindsight.envs.render import PREDATOR, PREY, SHADOW, pixels_of
from hindsight.envs.step import Step
from hindsight.specs.errors import validated
from hindsight.specs.tasks import BitFlippingSpec, PointReachSpec

Array = NDArray[Any]
Observation = dict[str, Array]
TaskSpec = TypeVar("TaskSpec", bound=PointReachSpec | BitFlippingSpec)


class GoalTask(gymnasium.Env[Any, Any], Generic[TaskSpec]):
    """What the faces share: episodes, their options and their errors."""

    parameters: TaskSpec
    observation_space: Dict
    terminates_on_success: bool
    _state: Tensor = torch.empty(0)  # [1, 1, obs], of an episode
    _elapsed: Tensor  # [1, 1]
    _over = True

    @abstractmethod
    def _spawn(self) -> Array:
        """The achieved and the desired goal of an episode's beginning, [2, goal]."""

    @abstractmethod
    def _first(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """The state [obs] in which an episode with these goals begins."""

    @abstractmethod
    def _advance(self, action: Any) -> Step:
        """One step by an action of the caller; ValueError for one that is none."""

    @abstractmethod
    def _is_achieved(self, achieved: Tensor, desired: Tensor) -> Tensor:
        """Whether `achieved` [..., goal] counts as `desired`, [...] bool."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: of `np_random`, from which both goals are drawn.
            options: "achieved_goal" or "desired_goal", with which the episode is to begin instead
                of one that is drawn.

        Raises:
            ValueError: an option that is unknown or lies outside its space.
        """
        super().reset(seed=seed)
        goals = dict(zip(("achieved_goal", "desired_goal"), self._spawn(), strict=True))
        for key, value in (options or {}).items():
            if key not in goals:
                raise ValueError(
                    f"unknown option {key!r} of reset; there are {', '.join(sorted(goals))}"
                )
            goals[key] = _element(f"option {key!r} of reset", value, self.observation_space[key])
        self._state = self._first(*(torch.from_numpy(goal).float() for goal in goals.values()))
        self._state = self._state[None, None]
        self._elapsed = torch.zeros(1, 1, dtype=torch.int64)
        self._over = False
        return self._observation(), {"is_success": False, "timed_out": False}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One step; raises ValueError for an action outside of the action space.

        Raises gymnasium's ResetNeeded where no episode has begun, or the last one is over.
        """
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over or has not begun: call reset()")
        done = self._advance(action)
        self._state = done.next_obs
        self._elapsed = self._elapsed + 1
        terminated, truncated = bool(done.terminated), bool(done.truncated)
        self._over = terminated or truncated
        success = bool(done.success)
        reward = 0.0 if success else -1.0
        limit = int(self._elapsed) >= self.parameters.step_limit
        info = {"is_success": success, "timed_out": limit}
        return self._observation(), reward, terminated, truncated, info

    def compute_reward(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any
    ) -> float | NDArray[np.float32]:
        """The reward of goals [..., goal]: 0 where the desired goal is achieved, else -1.

        Args:
            achieved_goal: the goal achieved by the action (that of the next observation).
            desired_goal: the goal striven for.
            info: unused, part of the interface.

        Returns a float for goals [goal], else float32 [...].
        """
        reward = self._achieved(achieved_goal, desired_goal).astype(np.float32) - 1
        return reward if reward.ndim else float(reward)

    def compute_terminated(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any
    ) -> bool | NDArray[np.bool_]:
        """Whether the episode terminates, of goals [..., goal]: where success does that.

        Arguments as of `compute_reward`, under the names of gymnasium-robotics.  Returns a bool for
        goals [goal], else bool [...].
        """
        return truth(self._achieved(achieved_goal, desired_goal) & self.terminates_on_success)

    def compute_truncated(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any
    ) -> bool | NDArray[np.bool_]:
        """Whether the time limit cuts the episode, of goals [..., goal]: as `info` says.

        Args:
            achieved_goal, desired_goal: as of `compute_reward`.
            info: a dictionary, whose "timed_out" may be an array [...], or for a batch one
                dictionary per goal; where it says nothing, the limit is not reached.

        Returns a bool for goals [goal], else bool [...].
        """
        terminated = np.asarray(self.compute_terminated(achieved_goal, desired_goal, info))
        return truth(timed_out(info, terminated.shape) & ~terminated)

    def _achieved(self, achieved_goal: ArrayLike, desired_goal: ArrayLike) -> NDArray[np.bool_]:
        """Whether goals [..., goal] are achieved, [...]."""
        achieved, desired = (
            torch.as_tensor(np.asarray(goal, np.float32)) for goal in (achieved_goal, desired_goal)
        )
        return self._is_achieved(achieved, desired).numpy()

    def _observation(self) -> Observation:
        """The state in three arrays of its own."""
        row, space = self._state[0, 0].numpy(), self.observation_space
        g = space["achieved_goal"].shape[0]  # type: ignore[index]
        parts = {
            "achieved_goal": row[:g],
            "desired_goal": row[g : 2 * g],
            "observation": row[2 * g :],
        }
        return {name: part.astype(space[name].dtype) for name, part in parts.items()}


class PointReachEnv(GoalTask[PointReachSpec]):
    """A point mass in the square [-range, range]^2 is to reach a random target.

    Observations: `achieved_goal`, the position [2], `desired_goal`, the target [2], and
    `observation`, position and velocity [4]; float32 each.
    Actions: [-1, 1]^2, clipped, an acceleration in units of `action_scale`.
    Rewards: 0 within `threshold` of the target, else -1.  Nothing terminates an episode; it is
    truncated after `max_steps` steps.  `info["is_success"]` says whether the target is reached in
    this step, `info["timed_out"]` whether it is the last.
    """

    terminates_on_success = point_reach.Parameters.terminates_on_success

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012, as gymnasium's own

    def __init__(self, render_mode: str | None = None, **parameters: Any) -> None:
        """An environment with the parameters of `PointReachSpec`, and its defaults.

        Args:
            render_mode: "rgb_array", or None for no pictures.
            parameters: max_steps, dt, range, max_speed, threshold, action_scale.

        Raises:
            SpecError (a ValueError): one sentence that names the parameter.
        """
        self.render_mode = known_mode(render_mode)
        self.parameters = spec = validated(PointReachSpec, parameters)
        self._values = point_reach.Parameters.of([spec], torch.device("cpu"))
        position, target = (Box(-spec.range, spec.range, (2,), np.float32) for _ in range(2))
        bound = np.array([spec.range] * 2 + [spec.max_speed] * 2, np.float32)
        self.observation_space = Dict(
            {
                "achieved_goal": position,
                "desired_goal": target,
                "observation": Box(-bound, bound, dtype=np.float32),
            }
        )
        self.action_space = Box(-1, 1, (2,), np.float32)
        self._path: list[Array] = []  # positions of this episode, for the picture

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """As `GoalTask.reset`."""
        obs, info = super().reset(seed=seed, options=options)
        self._path = [obs["achieved_goal"]]
        return obs, info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """As `GoalTask.step`; an action is two finite numbers."""
        result = super().step(action)
        self._path.append(result[0]["achieved_goal"])
        return result

    def render(self) -> NDArray[np.uint8] | None:
        """The episode so far as an image [480, 480, 3]; None without a render mode."""
        if not draws(self.render_mode, "PointReach-v0", self._path):
            return None
        target = self._state[0, 0, 2:4].numpy()
        return draw_reach(np.stack(self._path), target, self.parameters)

    def _spawn(self) -> Array:
        return point_reach.spawn(self.parameters, (), self.np_random).reshape(2, 2)

    def _first(self, achieved: Tensor, desired: Tensor) -> Tensor:
        return point_reach.first_observation(achieved, desired)

    def _advance(self, action: Any) -> Step:
        numbers = torch.from_numpy(_numbers("action", action, 2))
        return point_reach.advance(self._state, self._elapsed, numbers[None, None], self._values)

    def _is_achieved(self, achieved: Tensor, desired: Tensor) -> Tensor:
        return point_reach.reached(achieved[None], desired[None], self._values.threshold)[0]


class BitFlippingEnv(GoalTask[BitFlippingSpec]):
    """n bits are to be made equal to a random goal.

    Observations: `achieved_goal` and `observation`, the bits, and `desired_goal`, the goal; int8
    [n] each.
    Actions: the bit to be flipped, 0 ... n - 1; where `continuous`, [-1, 1]^n, of which the
    positive numbers flip their bits.
    Rewards: 0 where the bits equal the goal, which terminates the episode, else -1.  It is
    truncated after `max_steps` steps, by default n.

    Bits and goal are drawn without regard for each other: one episode in 2^n begins with its bits
    equal to the goal.  It goes on like any other, since success is a matter of the bits after an
    action.  `info["is_success"]` says whether they are equal, `info["timed_out"]` whether
    `max_steps` steps are made.
    """

    terminates_on_success = bit_flipping.Parameters.terminates_on_success

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012, as gymnasium's own

    def __init__(self, render_mode: str | None = None, **parameters: Any) -> None:
        """An environment with the parameters of `BitFlippingSpec`, and its defaults.

        Args:
            render_mode: "rgb_array", or None for no pictures.
            parameters: n_bits, max_steps, continuous.

        Raises:
            SpecError (a ValueError): one sentence that names the parameter.
        """
        self.render_mode = known_mode(render_mode)
        self.parameters = spec = validated(BitFlippingSpec, parameters)
        n = spec.n_bits
        names = ("achieved_goal", "desired_goal", "observation")
        self.observation_space = Dict({name: MultiBinary(n) for name in names})
        self.action_space = Box(-1, 1, (n,), np.float32) if spec.continuous else Discrete(n)
        self._max_steps = torch.tensor([[spec.step_limit]])

    def render(self) -> NDArray[np.uint8] | None:
        """Bits and goal as an image [240, 480, 3]; None without a render mode."""
        if not draws(self.render_mode, "BitFlipping-v0", self._state):
            return None
        obs = self._observation()
        return draw_bits(obs["achieved_goal"], obs["desired_goal"], int(self._elapsed))

    def _spawn(self) -> Array:
        return bit_flipping.spawn(self.parameters, (), self.np_random).reshape(2, -1)

    def _first(self, achieved: Tensor, desired: Tensor) -> Tensor:
        return bit_flipping.first_observation(achieved, desired)

    def _advance(self, action: Any) -> Step:
        n, continuous = self.parameters.n_bits, self.parameters.continuous
        if continuous:
            chosen = torch.from_numpy(_numbers("action", action, n))
        elif self.action_space.contains(action):
            chosen = torch.tensor(int(action))
        else:
            raise ValueError(
                f"action: {action!r} is not allowed; it is the bit to be flipped, 0 to {n - 1}"
            )
        flips = bit_flipping.flips_of(chosen[None, None], n, continuous)
        return bit_flipping.advance(self._state, self._elapsed, flips, self._max_steps)

    def _is_achieved(self, achieved: Tensor, desired: Tensor) -> Tensor:
        return bit_flipping.equal(achieved, desired)


def _numbers(name: str, value: Any, n: int) -> NDArray[np.float32]:
    """`value` as float32 [n], or ValueError."""
    try:
        # A copy, since the caller's array may be read-only, which torch does not take.
        numbers = np.array(value, dtype=np.float32)
    except (TypeError, ValueError):
        numbers = np.empty(0, np.float32)
    if numbers.shape != (n,) or not np.isfinite(numbers).all():
        raise ValueError(f"{name}: {value!r} is not allowed; it takes {n} finite numbers")
    return numbers


def _element(name: str, value: Any, space: Space[Any]) -> NDArray[np.float32]:
    """`value` as an element of a space of vectors, or ValueError."""
    assert space.shape is not None
    numbers = _numbers(name, value, space.shape[0])
    element = numbers.astype(space.dtype)
    # An integer space would take 0.5 for 0.
    if not space.contains(element) or (element != numbers).any():
        raise ValueError(f"{name}: {value!r} is not allowed; it is an element of {space}")
    return numbers


def draw_reach(path: Array, target: Array, spec: PointReachSpec) -> NDArray[np.uint8]:
    """The way [T + 1, 2] to a target [2] as an image [480, 480, 3].

    The start is an open mark, the present a filled one; the disc is where the target is reached.
    """
    figure = Figure(figsize=(4.8, 4.8), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.115, 0.09, 0.8, 0.8))
    disc = Circle(tuple(target), spec.threshold, facecolor=PREY["color"], alpha=0.35, linewidth=0)
    axes.add_patch(disc)
    axes.plot(*target, color=PREY["color"], marker="+", markersize=8)
    axes.plot(*path.T, color=PREDATOR["color"], linewidth=PREDATOR["linewidth"])
    mark = {"color": PREDATOR["color"], "marker": "o", "linestyle": "none", "markersize": 6}
    axes.plot(*path[0], **mark, markerfacecolor="white")
    axes.plot(*path[-1], **mark)
    edge = spec.range
    axes.set_xlim(-edge, edge)
    axes.set_ylim(-edge, edge)
    axes.set_aspect("equal")
    ticks, names = [-edge, 0, edge], [f"−{edge:g}", "0", f"{edge:g}"]
    axes.set_xticks(ticks, names)
    axes.set_yticks(ticks, names)
    axes.spines[:].set_color(SHADOW)
    distance = float(np.linalg.norm(path[-1] - target))
    there = "reached" if distance <= spec.threshold else f"distance {distance:.2f}"
    axes.set_title(f"step {len(path) - 1}, {there}")
    return pixels_of(figure)


def draw_bits(bits: Array, goal: Array, steps: int) -> NDArray[np.uint8]:
    """Bits [n] above their goal [n] as an image [240, 480, 3]; a wrong bit has a frame."""
    figure = Figure(figsize=(4.8, 2.4), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.12, 0.08, 0.86, 0.72))
    wrong = np.flatnonzero(bits != goal)
    for height, row, look in ((1, bits, PREDATOR), (0, goal, PREY)):
        for i, bit in enumerate(row):
            filled = look["color"] if bit else "none"
            axes.add_patch(
                Rectangle((i + 0.1, height + 0.1), 0.8, 0.8, facecolor=filled, edgecolor=SHADOW)
            )
    for place in wrong:
        axes.add_patch(Rectangle((float(place), 0), 1, 2, facecolor="none", edgecolor="black"))
    axes.set_xlim(-0.1, len(bits) + 0.1)
    axes.set_ylim(-0.1, 2.1)
    axes.set_xticks([])
    axes.set_yticks([0.5, 1.5], ["goal", "bits"])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    there = f"{len(wrong)} of {len(bits)} wrong" if len(wrong) else "reached"
    axes.set_title(f"step {steps}, {there}")
    return pixels_of(figure)
