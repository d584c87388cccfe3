"""Predator-prey on the run axis: one predator, the agent, is to intercept one prey in a box.

The state of an environment is its observation, one row of 3 n numbers in the alphabetical order of
the goal dictionary: achieved goal (the predator's position), desired goal (the prey's position),
observation (the velocity with which the prey will move in this step).

In the variant `pushes_object` the achieved goal is the position of an object instead, which rests
until the predator touches it and then goes where the predator goes; the observation is the prey's
velocity and the predator's position, 4 n numbers in all.  An episode in which the object is never
touched holds nothing that hindsight could learn from (PAPERS: section 6, question 1).

Within a step the predator moves, then the reward is given, then the prey moves: the next
observation shows the prey after its move.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Space
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.prey import n_uniform, numbers_of, policy_of, top_speed, velocities
from hindsight.envs.run_axis import Environments, per_run
from hindsight.envs.step import STEP, SUCCESS, TERMINATED, Numbers, within
from hindsight.io.compiled import FirstClass, first_class
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.streams import Purpose, stream

#: A run's numbers in `step`.
BOX, R, MAX_STEPS, PUSHES_OBJECT, DESCRIBED, KEEPS_VELOCITY = range(6)


@first_class(STEP)
def step(
    goal_policy: Any,
    parameters: NDArray[np.float64],
    state: Numbers,
    elapsed: int,
    action: Numbers,
    drawn: Numbers,
    after: Numbers,
) -> int:
    """One step of the physics (PAPERS: section 1); `envs.step.STEP` says what the arguments are.

    state: [3 n or 4 n].  action: [n], clipped here to the action box [-1, 1].
    """
    n, box, r = len(action), parameters[BOX], parameters[R]
    pushes = parameters[PUSHES_OBJECT] > 0
    predator = 3 * n if pushes else 0  # where its position stands
    squares = 0.0
    for i in range(n):
        squares += (state[predator + i] - state[i]) ** 2
    moves = not pushes or math.sqrt(squares) <= r  # what is to meet the prey
    squares = 0.0
    for i in range(n):
        moved = within(state[predator + i] + within(action[i], 1), box)
        if moves and not pushes:
            after[i] = moved
        elif moves:
            after[i] = within(state[i] + (moved - state[predator + i]), box)
        else:
            after[i] = state[i]
        after[predator + i] = moved
        squares += (np.float64(after[i]) - np.float64(state[n + i])) ** 2
    success = math.sqrt(squares) <= r
    for i in range(n):
        after[n + i] = within(state[n + i] + state[2 * n + i], box)
    velocity = after[2 * n : 3 * n]
    if parameters[KEEPS_VELOCITY] > 0:
        velocity[:] = state[2 * n : 3 * n]
    else:
        d = after[predator : predator + n] - after[n : 2 * n]
        goal_policy(d, drawn, parameters[DESCRIBED] > 0, velocity)
    if success:
        return TERMINATED | SUCCESS
    return TERMINATED if elapsed >= parameters[MAX_STEPS] else 0


@dataclass(frozen=True)
class Parameters:
    """What may differ between runs on one axis, as tensors that broadcast over [run, env, n]."""

    grid_size: Tensor  # [run, 1, 1] half-width of the box
    interception_distance: Tensor  # [run] float64

    terminates_on_success: ClassVar[bool] = True

    @classmethod
    def of(cls, specs: Sequence[PredatorPreySpec], device: torch.device) -> "Parameters":
        """One row per specification."""

        sizes = torch.tensor([[[s.grid_size]] for s in specs], dtype=torch.float32, device=device)
        distances = [s.interception_distance for s in specs]
        return cls(sizes, torch.tensor(distances, dtype=torch.float64, device=device))

    def select(self, runs: Tensor) -> "Parameters":
        """Those of the runs with these indices."""
        return Parameters(self.grid_size[runs], self.interception_distance[runs])

    @property
    def threshold(self) -> Tensor:
        """[run]: the distance at which a goal counts as achieved."""
        return self.interception_distance.float()

    def goals(self, uniform: Tensor) -> Tensor:
        """Goals uniform in the box from numbers [run, ..., n] uniform in [0, 1)."""
        return (2 * uniform - 1) * per_run(self.grid_size, uniform)

    def contains(self, goals: Tensor) -> Tensor:
        """Whether goals [run, ..., n] lie in the box, [run, ...]."""
        return (goals.abs() <= per_run(self.grid_size, goals)).all(-1)

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Reward and success of steps [run, ...]: +1 within r, else -1 at the end, else 0."""
        # In float64, as `step` does it: in float32 an episode that is rewarded might not be over.
        distance = torch.linalg.vector_norm(next_achieved.double() - desired.double(), dim=-1)
        success = distance <= per_run(self.interception_distance, distance)
        return success.float() - (terminated & ~success).float(), success


def spawn(
    spec: PredatorPreySpec, size: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    """Initial positions [*size, 2 n] of predator and prey, float32, more than r apart.

    With an object [*size, 3 n]: object, prey, predator, the object more than r from both.
    """
    n, box, r = spec.n_dims, spec.grid_size, spec.interception_distance
    bodies = 3 if spec.pushes_object else 2
    if spec.spawn == "apart":
        positions = np.zeros((*size, bodies * n), dtype=np.float32)
        positions[..., 2 * n - 1] = box / 2
        if spec.pushes_object:
            positions[..., 0] = box / 2
        return positions
    positions = generator.uniform(-box, box, (*size, bodies * n)).astype(np.float32)
    while True:
        first = positions[..., :n]
        others = [positions[..., i * n : (i + 1) * n] for i in range(1, bodies)]
        distances = np.stack([np.linalg.norm(first - other, axis=-1) for other in others])
        near = (distances <= r).any(0)
        if not near.any():
            return positions
        positions[near] = generator.uniform(-box, box, (int(near.sum()), bodies * n))


class PredatorPrey(Environments[PredatorPreySpec]):
    """[run, env] predator-prey environments; observations [run, env, 3 n or 4 n].

    Actions [-1, 1]^n are added to the predator's position.  Rewards are +1 at interception, -1 when
    the step limit is exceeded, else 0; both of the former terminate the episode, as in the papers,
    and nothing is truncated.

    Step t of a run has the same prey draws in every algorithm that is trained with that seed, as
    its episodes have the same beginnings: comparisons between algorithms are paired.
    """

    step_function = step
    n_choices = None
    truncates = False
    goals_move = True
    keeps_rest = False
    BLOCK = 256

    def __init__(
        self,
        specs: Sequence[PredatorPreySpec],
        seeds: Sequence[int],
        n_envs: int = 1,
        *,
        device: torch.device | str = "cpu",
        evaluation: bool = False,
    ) -> None:
        shapes = {(spec.n_dims, spec.pushes_object) for spec in specs}
        if len(shapes) != 1:
            raise ValueError(f"runs on one axis share n_dims and pushes_object; got {shapes}")
        self.n = self.goal_size = self.action_size = specs[0].n_dims
        self.observation_size = specs[0].observation_size
        self._prey_purpose = Purpose.EVALUATION_PREY if evaluation else Purpose.PREY
        super().__init__(specs, seeds, n_envs, device=device, evaluation=evaluation)

    def _block_size(self, spec: PredatorPreySpec) -> int:
        # An evaluation lasts one longest episode: one block holds all that can begin.
        return 1 + spec.max_steps if self.evaluation else self.BLOCK

    def _set_parameters(self) -> None:
        self.task: Parameters = Parameters.of(self.specs, self.device)
        limits = self.task.grid_size.flatten()[:, None].repeat(1, self.observation_size)
        limits[:, 2 * self.n : 3 * self.n] = top_speed(self.n)
        self.observation_limit = limits

    def _draw(self, spec: PredatorPreySpec, size: int, generator: np.random.Generator) -> Tensor:
        n = self.n
        uniform = generator.random((size, n_uniform(n)), dtype=np.float32)
        positions = spawn(spec, (size,), generator)
        goals, predator = positions[:, : 2 * n], positions[:, 2 * n :]
        seen = predator if spec.pushes_object else goals[:, :n]
        described = spec.fidelity == "described"
        velocity = velocities(spec.prey, seen - goals[:, n:], uniform, described)
        return torch.from_numpy(np.concatenate([goals, velocity, predator], axis=-1))

    def goal_policy(self, run: int) -> FirstClass:
        return policy_of(self.specs[run].prey).velocity

    def numbers(self, spec: PredatorPreySpec) -> list[float]:
        keeps, described = policy_of(spec.prey).keeps, spec.fidelity == "described"
        flags = (spec.pushes_object, described, keeps)
        return [spec.grid_size, spec.interception_distance, spec.max_steps, *flags]

    @property
    def _bodies(self) -> tuple[str, ...]:
        """In the order of `spawn`."""
        return (
            ("object", "prey", "predator") if self.specs[0].pushes_object else ("predator", "prey")
        )

    @property
    def observation_space(self) -> Dict:
        """Boxes; the observation is the prey's velocity, and with an object the predator's place.

        A velocity along an axis is v_max up to rounding, which must not leave the space.
        """
        spaces, n = super().observation_space, self.n
        bounds = self.observation_limit[0, 2 * n :].cpu().numpy().copy()
        bounds[:n] = top_speed(n) * (1 + 1e-6)
        return Dict({**spaces.spaces, "observation": Box(-bounds, bounds, dtype=np.float32)})

    @property
    def given_spaces(self) -> dict[str, Space[Any]]:
        """Places of the bodies, which may lie within r of each other, and the prey's velocity."""
        spaces = self.observation_space
        velocity = spaces["observation"].high[: self.n]  # type: ignore[attr-defined]
        return {
            **dict.fromkeys(self._bodies, spaces["achieved_goal"]),
            "prey_velocity": Box(-velocity, velocity, dtype=np.float32),
        }

    def begin(self, given: Mapping[str, np.ndarray], generator: np.random.Generator) -> Tensor:
        """What is given stays, what is drawn is more than r away from the first body."""
        places = self._places(given, generator)
        if "prey_velocity" in given:
            velocity = torch.from_numpy(given["prey_velocity"])
        else:
            uniform = generator.random((1, n_uniform(self.n)), dtype=np.float32)
            d = (places["predator"] - places["prey"])[None].numpy()
            spec = self.specs[0]
            drawn = velocities(spec.prey, d, uniform, spec.fidelity == "described")
            velocity = torch.from_numpy(drawn[0])
        first, *_ = places.values()
        pushing = [places["predator"]] if self.specs[0].pushes_object else []
        return torch.cat([first, places["prey"], velocity, *pushing])

    def _places(
        self, given: Mapping[str, np.ndarray], generator: np.random.Generator
    ) -> dict[str, Tensor]:
        """Positions [n] by body."""
        spec, bodies = self.specs[0], self._bodies
        while True:
            drawn = np.split(spawn(spec, (1,), generator)[0], len(bodies))
            places = {b: given.get(b, place) for b, place in zip(bodies, drawn, strict=True)}
            first, *others = places
            apart = all(
                np.linalg.norm(places[first] - places[other]) > spec.interception_distance
                for other in others
                if not {first, other} <= given.keys()
            )
            if apart or spec.spawn == "apart":
                return {name: torch.from_numpy(place) for name, place in places.items()}

    def draw_step(self, generator: np.random.Generator) -> None:
        """The prey's numbers of one step."""
        self._make_ready(generator.random((1, 1, 1, self._n_uniform), dtype=np.float32))

    def prepare_rollout(self, iteration: int, n_steps: int) -> None:
        """Draw the prey's numbers for the `n_steps` steps of rollout number `iteration`."""
        size = (n_steps, self.n_envs, self._n_uniform)
        streams = [stream(seed, self._prey_purpose, iteration) for seed in self.seeds]
        self._make_ready(np.stack([s.random(size, np.float32) for s in streams]))

    @property
    def _n_uniform(self) -> int:
        """Numbers of a step: none where all preys draw only when an episode begins."""
        moving = any(not policy_of(spec.prey).keeps for spec in self.specs)
        return n_uniform(self.n) if moving else 0

    def _make_ready(self, uniform: Numbers) -> None:
        """Take uniform numbers [run, step, env, number] for the steps that come."""
        self.drawn, self._t = numbers_of(uniform) if uniform.shape[-1] else uniform, 0
