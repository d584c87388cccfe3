"""The gymnasium interface of the native environments: `gymnasium.make("PredatorPrey-v0")`.

`import hindsight.envs` registers them; `gymnasium.make("hindsight.envs:PredatorPrey-v0")` does so,
too.  The wrapper runs `run_axis.Environments` with one run and one environment.
"""

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Discrete, Space
from numpy.typing import ArrayLike, NDArray

from hindsight.envs.render import PICTURES
from hindsight.envs.run_axis import Environments
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import not_allowed, validated

Array = NDArray[Any]
Observation = dict[str, Array]


class GoalEnv(gymnasium.Env[Any, Any]):
    """A native environment; its task is described at its class in `hindsight.envs`.

    Actions: [-1, 1]^n, clipped, or discrete.
    `info["is_success"]`: whether the step achieved the goal.
    `info["timed_out"]`: whether the step reached the step limit.

    If goals move, the reward of a step refers to the goal before its move,
    `info["desired_goal_at_reward"]`; the observation shows the goal after its move.  The step's
    reward always equals `compute_reward` of the returned `achieved_goal`, that goal and `info`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012, as gymnasium's own

    def __init__(
        self,
        environment: str,
        render_mode: str | None = None,
        seed: int | None = None,
        **parameters: Any,
    ) -> None:
        """Make the environment with this ID; `parameters` are keys of its specification.

        `seed` is that of the first reset, if that has none.  Raises SpecError, a ValueError, which
        names the invalid parameter.
        """
        picture = PICTURES.get(environment)
        modes = ["rgb_array"] if picture is not None else []
        if render_mode not in (None, *modes):
            known = " or ".join([*map(repr, modes), "None"])
            raise not_allowed("render_mode", repr(render_mode), f"it is {known}")
        self.render_mode = render_mode
        self.metadata = {"render_modes": modes, "render_fps": picture.fps if picture else 5}
        self.parameters = validated(ENVIRONMENTS[environment], parameters)
        self.native: Environments[Any] = resolve_name(self.parameters.entry_point)(
            self.parameters, [0]
        )
        self.observation_space = self.native.observation_space
        self._spaces = self.native.observation_space.spaces
        self.action_space = self.native.action_space
        self._over, self._seed = True, seed
        self._states: list[Array] = []  # [obs], of this episode so far

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode.

        The option {"state": numbers} sets the initial state instead of drawing it: achieved goal,
        desired goal and observation, concatenated.  Raises ValueError if it is outside its space.
        """
        super().reset(seed=self._seed if seed is None else seed)
        self._seed = None
        self.native.state = self._first(options or {})[None, None]
        self.native.elapsed.zero_()
        self._over = False
        self._states = [self.native.state[0, 0].numpy()]
        return self._observation(self._states[-1]), {"is_success": False, "timed_out": False}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one step; raises ValueError for an invalid action."""
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over or has not begun: call reset()")
        native, chosen = self.native, _chosen(action, self.action_space)
        native.draw_step(self.np_random)
        done = native.advance(chosen[None, None])
        native.state, native.elapsed = done.next_obs, native.elapsed + 1
        terminated, truncated = bool(done.terminated), bool(done.truncated)
        self._over = terminated or truncated
        info: dict[str, Any] = {
            "is_success": bool(done.success),
            "timed_out": int(native.elapsed) >= self.parameters.step_limit,
        }
        if native.goals_move:
            info["desired_goal_at_reward"] = self._observation(self._states[-1])["desired_goal"]
        self._states.append(native.state[0, 0].numpy())
        return self._observation(self._states[-1]), float(done.reward), terminated, truncated, info

    def compute_reward(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any
    ) -> float | NDArray[np.float32]:
        """Rewards for the goals [..., goal] that actions achieved and pursued: a float or [...].

        `info` is a dictionary, whose "timed_out" may be an array [...], or one dictionary per goal;
        without "timed_out", the step limit is not reached.
        """
        return self._outcome(achieved_goal, desired_goal, info)[0]

    def compute_success(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike
    ) -> bool | NDArray[np.bool_]:
        """Whether the achieved goals [..., goal] reach the desired ones; a bool or [...]."""
        return self._outcome(achieved_goal, desired_goal, {})[2]

    def compute_terminated(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any
    ) -> bool | NDArray[np.bool_]:
        """Whether the episode terminates under these goals; arguments as in `compute_reward`."""
        return self._outcome(achieved_goal, desired_goal, info)[1]

    def render(self) -> NDArray[np.uint8] | None:
        """An image [height, width, 3] of the episode so far; None without a render mode."""
        name = self.parameters.id
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() draws nothing without a render mode: "
                f'gymnasium.make("{name}", render_mode="rgb_array")'
            )
            return None
        return PICTURES[name].draw(self.parameters, np.stack(self._states))

    def _outcome(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any
    ) -> tuple[Any, ...]:
        """Rewards, terminations and successes [...] for goals [..., goal]."""
        achieved, desired = (
            torch.from_numpy(np.array(goal, np.float32))[None]
            for goal in (achieved_goal, desired_goal)
        )
        native, fails = self.native, torch.zeros(achieved.shape[:-1], dtype=torch.bool)
        if not native.spec.truncates:  # then reaching the step limit is a failure that terminates
            fails |= torch.tensor(_timed_out(info, tuple(achieved.shape[1:-1])))
        reward, success = native.task.reward(achieved, desired, fails)
        terminated = success & native.task.terminates_on_success | fails
        found = (x[0].numpy() for x in (reward, terminated, success))
        return tuple(x if x.ndim else x.item() for x in found)

    def _first(self, options: Mapping[str, Any]) -> torch.Tensor:
        """The initial state [obs] of an episode; ValueError for invalid options."""
        for key in options.keys() - {"state"}:
            raise ValueError(f"unknown option {key!r} of reset; the only option is 'state'")
        if "state" not in options:
            return self.native.draw_first(self.np_random)
        name, value = "option 'state' of reset", options["state"]
        numbers = _numbers(name, value, self.native.observation_size)
        parts = self._observation(numbers)
        # Conversion to an integer space truncates 0.5 to 0.
        same = (np.concatenate(list(parts.values())) == numbers).all()
        if not same or not self.observation_space.contains(parts):
            space = ", ".join(f"{key} in {space}" for key, space in self._spaces.items())
            raise not_allowed(name, repr(value), f"it is {space}")
        return torch.from_numpy(numbers)

    def _observation(self, state: NDArray[np.float32]) -> Observation:
        g = self.native.goal_size
        named = zip(self._spaces.items(), np.split(state, [g, 2 * g]), strict=True)
        return {name: part.astype(space.dtype) for (name, space), part in named}


def _chosen(action: Any, space: Space[Any]) -> torch.Tensor:
    """The action as a tensor [n], or [] if it is discrete; ValueError for an invalid one."""
    if not isinstance(space, Discrete):
        assert space.shape is not None
        return torch.from_numpy(_numbers("action", action, space.shape[0]))
    if not space.contains(action):
        raise not_allowed("action", repr(action), f"it is a whole number from 0 to {space.n - 1}")
    return torch.tensor(int(action))


def _numbers(name: str, value: Any, n: int) -> NDArray[np.float32]:
    """`value` as a float32 array [n]; ValueError if that is impossible."""
    try:
        # A copy, because the caller's array may be read-only, which torch does not support.
        numbers = np.array(value, dtype=np.float32)
    except (TypeError, ValueError):
        numbers = np.empty(0, np.float32)
    if numbers.shape != (n,) or not np.isfinite(numbers).all():
        raise not_allowed(name, repr(value), f"it takes {n} finite numbers")
    return numbers


def _timed_out(info: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Whether the step limit is reached by `info` (see `compute_reward`), in the given shape."""
    if isinstance(info, Sequence | np.ndarray):
        said = np.reshape([one.get("timed_out", False) for one in np.ravel(np.array(info))], shape)
    else:
        said = np.asarray((info or {}).get("timed_out", False))
    return np.broadcast_to(said.astype(bool), shape)
