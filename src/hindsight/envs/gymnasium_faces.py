"""The gymnasium face of predator-prey: `gymnasium.make("PredatorPrey-v0", prey="attract")`.

`import hindsight.envs` makes gymnasium know it; `"hindsight.envs:PredatorPrey-v0"` is a name that
imports it.  The physics is `predator_prey.advance` with one run and one environment: there is no
second one.
"""

from collections.abc import Mapping, Sequence, Sized
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from numpy.typing import ArrayLike, NDArray

from hindsight.envs.episodes import Episode
from hindsight.envs.predator_prey import Parameters, advance, prey_velocity, spawn
from hindsight.envs.prey import KEPT, n_draws, top_speed
from hindsight.envs.render import draw_episode, figure_axes, pixels_of
from hindsight.specs.cell import PredatorPreySpec
from hindsight.specs.errors import validated

Array = NDArray[np.float32]
Observation = dict[str, Array]


class PredatorPreyEnv(gymnasium.Env[Any, Any]):
    """One predator, the agent, is to intercept one prey in the box [-G, G]^n.

    Observations: `achieved_goal`, the predator's position, `desired_goal`, the prey's, and
    `observation`, the velocity with which the prey will move in this step; float32 [n] each.
    With `pushes_object`, `achieved_goal` is the object's position, and `observation` holds the
    prey's velocity and then the predator's position, [2 n].
    Actions: [-1, 1]^n, clipped, added to the predator's position.
    Rewards: +1 at interception, -1 when the step limit is exceeded, else 0; both of the former
    terminate the episode, and nothing is ever truncated.

    Within a step the predator moves, then the reward is given, then the prey moves.  The
    observation that `step` returns shows the prey after its move; the prey for which the reward was
    given is `info["desired_goal_at_reward"]`.  So `compute_reward` of the returned `achieved_goal`,
    `info["desired_goal_at_reward"]` and `info` is always the step's reward, of the returned
    `desired_goal` only where the prey stands still.
    `info["is_success"]` and `info["timed_out"]` tell how an episode has ended.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012, as gymnasium's own

    def __init__(self, render_mode: str | None = None, **parameters: Any) -> None:
        """An environment with the parameters of `PredatorPreySpec`, and its defaults.

        Args:
            render_mode: "rgb_array", or None for no pictures.
            parameters: n_dims, grid_size (G), interception_distance (r), max_steps, prey, spawn,
                fidelity, pushes_object.

        Raises:
            SpecError (a ValueError): one sentence that names the parameter.
        """
        self.render_mode = known_mode(render_mode)
        self.parameters = validated(PredatorPreySpec, parameters)
        n, g = self.parameters.n_dims, self.parameters.grid_size
        # A velocity along an axis is v_max up to rounding, which must not leave the space.
        v = top_speed(n) * (1 + 1e-6)
        place, goal = Box(-g, g, (n,), np.float32), Box(-g, g, (n,), np.float32)
        velocity = Box(-v, v, (n,), np.float32)
        self._bodies: tuple[str, ...] = ("predator", "prey")
        observation = velocity
        if self.parameters.pushes_object:
            self._bodies = ("object", "prey", "predator")
            bounds = np.repeat(np.array([v, g], np.float32), n)
            observation = Box(-bounds, bounds, dtype=np.float32)
        self.observation_space = Dict(
            {"achieved_goal": place, "desired_goal": goal, "observation": observation}
        )
        self.action_space = Box(-1, 1, (n,), np.float32)
        self._options = {**dict.fromkeys(self._bodies, place), "prey_velocity": velocity}
        self._values = Parameters.of([self.parameters], torch.device("cpu"))
        self._moving = [group for group in self._values.groups() if group[0] not in KEPT]
        self._state = torch.zeros(1, 1, self.parameters.observation_size)
        self._elapsed = torch.zeros(1, 1, dtype=torch.int64)
        self._over = True
        self._seen: list[Observation] = []  # of this episode, for the picture

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: of `np_random`, from which positions and the prey's velocities are drawn.
            options: any of "predator", "prey", "object" (positions, the last where there is one)
                and "prey_velocity", each [n]; what is not given is drawn.  Given positions may lie
                within r of each other.

        Raises:
            ValueError: an option that is unknown, has another shape or lies outside its space.
        """
        super().reset(seed=seed)
        given = self._checked(options or {})
        n = self.parameters.n_dims
        places = self._positions(given)
        self._state[..., :n] = places[self._bodies[0]]
        self._state[..., n : 2 * n] = places["prey"]
        if self.parameters.pushes_object:
            self._state[..., 3 * n :] = places["predator"]
        velocity = self._state[..., 2 * n : 3 * n]
        if "prey_velocity" in given:
            velocity.copy_(torch.from_numpy(given["prey_velocity"]))
        else:
            d = (places["predator"] - places["prey"])[None, None]
            prey_velocity(self._values.groups(), d, self._draws(), out=velocity)
        self._elapsed.zero_()
        self._over = False
        self._seen = [self._observation()]
        return self._observation(), {"is_success": False, "timed_out": False}

    def step(self, action: Array) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One step; raises ValueError for an action that is not n finite numbers.

        Raises gymnasium's ResetNeeded where no episode has begun, or the last one is over.
        """
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over or has not begun: call reset()")
        chosen = self._numbers("action", action)
        desired = self._seen[-1]["desired_goal"].copy()
        draws = self._draws() if self._moving else torch.empty(0)
        done = advance(
            self._state,
            self._elapsed,
            torch.from_numpy(chosen)[None, None],
            draws,
            self._values,
            self._moving,
        )
        self._state = done.next_obs
        self._elapsed += 1
        success = bool(done.success)
        self._over = bool(done.terminated)
        timed_out = self._over and not success
        info = {
            "is_success": success,
            "timed_out": timed_out,
            "desired_goal_at_reward": desired,
        }
        self._seen.append(self._observation())
        return self._observation(), float(success) - float(timed_out), self._over, False, info

    def compute_reward(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any
    ) -> float | Array:
        """The reward of goals [..., n]: +1 within r, else -1 where `info` says timed out, else 0.

        Args:
            achieved_goal: the goal achieved by the action (that of the next observation).
            desired_goal: the goal striven for when the action was taken.
            info: a dictionary, whose "timed_out" may be an array [...], or for a batch one
                dictionary per goal; where it says nothing, no episode has timed out.

        Returns a float for goals [n], else float32 [...].
        """
        achieved = torch.as_tensor(np.asarray(achieved_goal, np.float32))
        desired = torch.as_tensor(np.asarray(desired_goal, np.float32))
        distance = torch.linalg.vector_norm(achieved - desired, dim=-1)
        success = (distance <= self._values.threshold[0]).numpy()
        failure = ~success & timed_out(info, success.shape)
        reward = success.astype(np.float32) - failure.astype(np.float32)
        return reward if reward.ndim else float(reward)

    def compute_terminated(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any
    ) -> bool | NDArray[np.bool_]:
        """Whether the episode ends, of goals [..., n]: within r, or where `info` says timed out.

        Arguments as of `compute_reward`, under the names of gymnasium-robotics.  Returns a bool for
        goals [n], else bool [...].
        """
        return truth(np.not_equal(self.compute_reward(achieved_goal, desired_goal, info), 0))

    def compute_truncated(
        self, achieved_goal: ArrayLike, desired_goal: ArrayLike, info: Any
    ) -> bool | NDArray[np.bool_]:
        """Nothing is truncated; arguments and result as of `compute_terminated`."""
        return truth(np.zeros(np.shape(achieved_goal)[:-1], bool))

    def render(self) -> NDArray[np.uint8] | None:
        """The episode so far as an image [480, 480, 3]; None without a render mode."""
        if not draws(self.render_mode, "PredatorPrey-v0", self._seen):
            return None
        spec, n = self.parameters, self.parameters.n_dims
        figure, axes = figure_axes(n, spec.pushes_object)
        achieved, prey, rest = (
            np.stack([seen[name] for seen in self._seen])
            for name in ("achieved_goal", "desired_goal", "observation")
        )
        predator = rest[:, n:] if spec.pushes_object else achieved
        pushed = achieved if spec.pushes_object else None
        size = (spec.grid_size, spec.interception_distance)
        draw_episode(axes, Episode(predator, prey, *size, pushed=pushed))
        return pixels_of(figure)

    def _observation(self) -> Observation:
        """The state in three arrays of its own."""
        n = self.parameters.n_dims
        parts = np.split(self._state[0, 0].numpy(), [n, 2 * n])
        names = ("achieved_goal", "desired_goal", "observation")
        return {name: part.copy() for name, part in zip(names, parts, strict=True)}

    def _draws(self) -> torch.Tensor:
        """The prey policy's uniform numbers for one step, [1, 1, draw]."""
        size = (1, 1, n_draws(self.parameters.n_dims))
        return torch.from_numpy(self.np_random.random(size, dtype=np.float32))

    def _positions(self, given: Mapping[str, Array]) -> dict[str, torch.Tensor]:
        """Positions [n] by body; what is given stays, what is drawn is more than r away."""
        spec = self.parameters
        while True:
            drawn = np.split(spawn(spec, (1,), self.np_random)[0], len(self._bodies))
            places = {
                name: given.get(name, place)
                for name, place in zip(self._bodies, drawn, strict=True)
            }
            first, *others = places
            apart = all(
                np.linalg.norm(places[first] - places[other]) > spec.interception_distance
                for other in others
                if not {first, other} <= given.keys()
            )
            if apart or spec.spawn == "apart":
                return {name: torch.from_numpy(place) for name, place in places.items()}

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Array]:
        """The options of `reset` as float32 [n], or ValueError."""
        checked: dict[str, Array] = {}
        for key, value in options.items():
            if key not in self._options:
                raise ValueError(
                    f"unknown option {key!r} of reset; there are {', '.join(self._options)}"
                )
            checked[key] = self._numbers(f"option {key!r} of reset", value)
            space = self._options[key]
            if not space.contains(checked[key]):
                bound = float(space.high[0])
                raise ValueError(
                    f"option {key!r} of reset: {checked[key].tolist()} is not allowed; "
                    f"every entry lies in [-{bound:g}, {bound:g}]"
                )
        return checked

    def _numbers(self, name: str, value: Any) -> Array:
        """`value` as float32 [n], or ValueError."""
        n = self.parameters.n_dims
        try:
            # A copy, since the caller's array may be read-only, which torch does not take.
            numbers = np.array(value, dtype=np.float32)
        except (TypeError, ValueError):
            numbers = np.empty(0, np.float32)
        if numbers.shape != (n,) or not np.isfinite(numbers).all():
            raise ValueError(f"{name}: {value!r} is not allowed; it takes {n} finite numbers")
        return numbers


def known_mode(render_mode: str | None) -> str | None:
    """The render mode, if it is one that these faces have; ValueError otherwise."""
    if render_mode not in (None, "rgb_array"):
        raise ValueError(f"render_mode: {render_mode!r} is not allowed; it is 'rgb_array' or None")
    return render_mode


def draws(render_mode: str | None, name: str, episode: Sized) -> bool:
    """Whether `render` draws: it warns without a mode, raises ResetNeeded without an episode."""
    if render_mode is None:
        gymnasium.logger.warn(
            "render() draws nothing without a render mode: "
            f'gymnasium.make("{name}", render_mode="rgb_array")'
        )
        return False
    if not len(episode):
        raise gymnasium.error.ResetNeeded("there is no episode to draw: call reset()")
    return True


def truth(flags: ArrayLike) -> bool | NDArray[np.bool_]:
    """Truth values [...] as they are, a single one as a bool."""
    flags = np.asarray(flags, bool)
    return flags if flags.ndim else bool(flags)


def timed_out(info: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """What `info` (see `compute_reward`) says about the step limit, of the given shape."""
    if isinstance(info, Sequence | np.ndarray):
        said = np.reshape([one.get("timed_out", False) for one in np.ravel(np.array(info))], shape)
    else:
        said = np.asarray((info or {}).get("timed_out", False))
    return np.broadcast_to(said.astype(bool), shape)
