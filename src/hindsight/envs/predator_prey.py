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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Space
from torch import Tensor

from hindsight.envs.prey import KEPT, POLICIES, n_draws, top_speed
from hindsight.envs.run_axis import Environments, per_run
from hindsight.envs.step import Step
from hindsight.specs.base import Fidelity
from hindsight.specs.environments.predator_prey import PredatorPreySpec, Prey
from hindsight.streams import Purpose, stream


@dataclass(frozen=True)
class Parameters:
    """What may differ between runs on one axis, as tensors that broadcast over [run, env, n]."""

    grid_size: Tensor  # [run, 1, 1] half-width of the box
    interception_distance: Tensor  # [run, 1]
    max_steps: Tensor  # [run, 1]
    preys: tuple[tuple[Prey, Fidelity], ...]  # per run
    pushes_object: bool  # of all runs: it changes shapes

    terminates_on_success: ClassVar[bool] = True

    @classmethod
    def of(cls, specs: Sequence[PredatorPreySpec], device: torch.device) -> "Parameters":
        """One row per specification."""

        def column(name: str) -> Tensor:
            return torch.tensor([[getattr(s, name)] for s in specs], device=device)

        return cls(
            column("grid_size").float()[..., None],
            column("interception_distance").float(),
            column("max_steps"),
            tuple((s.prey, s.fidelity) for s in specs),
            specs[0].pushes_object,
        )

    def select(self, runs: Tensor) -> "Parameters":
        """Those of the runs with these indices."""
        return Parameters(
            self.grid_size[runs],
            self.interception_distance[runs],
            self.max_steps[runs],
            tuple(self.preys[i] for i in runs.tolist()),
            self.pushes_object,
        )

    @property
    def threshold(self) -> Tensor:
        """[run]: the distance at which a goal counts as achieved."""
        return self.interception_distance[:, 0]

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
        distance = torch.linalg.vector_norm(next_achieved - desired, dim=-1)
        success = self.within(distance)
        return success.float() - (terminated & ~success).float(), success

    def within(self, distance: Tensor) -> Tensor:
        """Whether distances [run, ...] are interceptions."""
        return distance <= per_run(self.interception_distance, distance)

    def groups(self) -> list[tuple[Prey, Fidelity, Any]]:
        """Prey policy, fidelity, and the runs (an index) that have them."""
        distinct = sorted(set(self.preys))
        if len(distinct) == 1:
            return [(*distinct[0], slice(None))]  # all runs alike: a view, not a copy
        device = self.grid_size.device
        return [
            (*pair, torch.tensor([i for i, p in enumerate(self.preys) if p == pair], device=device))
            for pair in distinct
        ]


def prey_velocity(
    groups: list[tuple[Prey, Fidelity, Any]], d: Tensor, draws: Tensor, out: Tensor
) -> Tensor:
    """Every run's prey policy at the line of sight d [run, env, n], written into `out`."""
    for prey, fidelity, runs in groups:
        out[runs] = POLICIES[prey](d[runs], draws[runs], fidelity)
    return out


def advance(
    state: Tensor,
    elapsed: Tensor,
    actions: Tensor,
    draws: Tensor,
    parameters: Parameters,
    moving: list[tuple[Prey, Fidelity, Any]],
) -> Step:
    """One step of the physics (PAPERS: section 1); changes none of its arguments.

    Args:
        state: [run, env, 3 n or 4 n].
        elapsed: [run, env] integer steps of the episode before this one.
        actions: [run, env, n], clipped here to the action box [-1, 1].
        draws: [run, env, n_draws(n)] uniform numbers.
        parameters: box, interception distance, step limit of each run.
        moving: the groups of runs whose prey draws a new velocity in every step.
    """
    n = actions.shape[-1]
    achieved, prey, velocity = state[..., :n], state[..., n : 2 * n], state[..., 2 * n : 3 * n]
    box = parameters.grid_size
    predator = state[..., 3 * n :] if parameters.pushes_object else achieved
    moved = torch.clamp(predator + actions.clamp(-1, 1), -box, box)
    next_achieved = moved
    if parameters.pushes_object:
        apart = torch.linalg.vector_norm(predator - achieved, dim=-1)
        touched = (apart <= parameters.interception_distance)[..., None]
        next_achieved = torch.clamp(achieved + touched * (moved - predator), -box, box)
    distance = torch.linalg.vector_norm(next_achieved - prey, dim=-1)
    success = distance <= parameters.interception_distance
    terminated = success | (elapsed >= parameters.max_steps)
    prey = torch.clamp(prey + velocity, -box, box)
    if moving:
        velocity = prey_velocity(moving, moved - prey, draws, out=velocity.clone())
    after = [next_achieved, prey, velocity, *([moved] if parameters.pushes_object else [])]
    next_obs = torch.cat(after, dim=-1)
    return Step(next_achieved, terminated, torch.zeros_like(terminated), success, next_obs)


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
        self.moving = [group for group in self.task.groups() if group[0] not in KEPT]
        self._draws: Tensor | None = None
        limits = self.task.grid_size.flatten()[:, None].repeat(1, self.observation_size)
        limits[:, 2 * self.n : 3 * self.n] = top_speed(self.n)
        self.observation_limit = limits

    def _draw(self, spec: PredatorPreySpec, size: int, generator: np.random.Generator) -> Tensor:
        n = self.n
        draws = torch.from_numpy(generator.random((size, n_draws(n)), dtype=np.float32))
        positions = torch.from_numpy(spawn(spec, (size,), generator))
        goals, predator = positions[:, : 2 * n], positions[:, 2 * n :]
        seen = predator if spec.pushes_object else goals[:, :n]
        velocity = POLICIES[spec.prey](seen - goals[:, n:], draws, spec.fidelity)
        return torch.cat([goals, velocity, predator], dim=-1)

    @property
    def _bodies(self) -> tuple[str, ...]:
        """In the order of `spawn`."""
        return ("object", "prey", "predator") if self.task.pushes_object else ("predator", "prey")

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
            draws = torch.from_numpy(generator.random((1, n_draws(self.n)), dtype=np.float32))
            d = (places["predator"] - places["prey"])[None]
            velocity = POLICIES[self.specs[0].prey](d, draws, self.specs[0].fidelity)[0]
        first, *_ = places.values()
        pushing = [places["predator"]] if self.task.pushes_object else []
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
        self._t = 0
        size = (1, 1, 1, n_draws(self.n) if self.moving else 0)
        self._draws = torch.from_numpy(generator.random(size, dtype=np.float32))

    def prepare_rollout(self, iteration: int, n_steps: int) -> None:
        """Draw the prey's numbers for the `n_steps` steps of rollout number `iteration`."""
        self._t = 0
        if not self.moving:
            self._draws = torch.empty(n_steps, 0)  # such prey draw only when an episode begins
            return
        size = (n_steps, self.n_envs, n_draws(self.n))
        draws = np.stack(
            [stream(s, self._prey_purpose, iteration).random(size, np.float32) for s in self.seeds],
            axis=1,
        )
        self._draws = torch.from_numpy(draws).to(self.device)  # [step, run, env, draw]

    def advance(self, actions: Tensor) -> Step:
        assert self._draws is not None, "prepare_rollout comes first"
        draws = self._draws[self._t]
        self._t += 1
        return advance(self.state, self.elapsed, actions, draws, self.task, self.moving)
