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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Space
from torch import Tensor

from hindsight.envs.prey import (
    KEPT,
    MIXED,
    POLICIES,
    Mixture,
    mixture_velocity,
    n_draws,
    random_velocity,
    straight_away_velocity,
    top_speed,
)
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

    def moving(self) -> list["Moving"]:
        """The runs whose prey takes a new velocity in every step, in groups that move alike."""
        alike: dict[tuple[str, Fidelity | None], list[int]] = {}
        for run, (prey, fidelity) in enumerate(self.preys):
            if prey in MIXED:  # attract and repel are one mixture, of other numbers
                alike.setdefault(("mixed", fidelity), []).append(run)
            elif prey not in KEPT:
                alike.setdefault((prey, None), []).append(run)
        return [self._moving(kind, fidelity, runs) for (kind, fidelity), runs in alike.items()]

    def _moving(self, kind: str, fidelity: Fidelity | None, runs: list[int]) -> "Moving":
        device = self.grid_size.device
        who = torch.tensor(runs, device=device)
        if fidelity is not None:
            ways, shares = zip(*(MIXED[self.preys[run][0]] for run in runs), strict=True)
            way = torch.tensor(ways, device=device)[:, None, None]
            least = torch.tensor(shares, dtype=torch.float64, device=device)[:, None, None]
            return Moving(
                who,
                lambda draws: Mixture.of(draws, least.to(draws.dtype), fidelity),
                lambda d, *drawn: mixture_velocity(way * d, Mixture(*drawn), fidelity),
            )
        if kind == "random":
            return Moving(
                who, lambda draws: (random_velocity(draws),), lambda d, velocity: velocity
            )
        return Moving(who, lambda draws: (), straight_away_velocity)


class Moving(NamedTuple):
    """Runs whose preys move alike: what their draws decide, and what the line of sight does."""

    runs: Tensor  # their numbers
    drawn: Callable[[Tensor], tuple[Tensor, ...]]  # of their draws [..., run, env, draw]
    velocity: Callable[..., Tensor]  # [run, env, n], of d [run, env, n] and what was drawn


def moved_on(
    velocity: Tensor, moving: list[Moving], d: Tensor, drawn: Sequence[tuple[Tensor, ...]]
) -> Tensor:
    """The preys' next velocities at the line of sight d, each [run, env, n]."""
    if len(moving) == 1 and len(moving[0].runs) == len(d):
        return moving[0].velocity(d, *drawn[0])
    velocity = velocity.clone()
    for group, numbers in zip(moving, drawn, strict=True):
        velocity.index_copy_(0, group.runs, group.velocity(d[group.runs], *numbers))
    return velocity


def advance(
    state: Tensor,
    elapsed: Tensor,
    actions: Tensor,
    drawn: Sequence[tuple[Tensor, ...]],
    parameters: Parameters,
    moving: list[Moving],
) -> Step:
    """One step of the physics (PAPERS: section 1); changes none of its arguments.

    Args:
        state: [run, env, 3 n or 4 n].
        elapsed: [run, env] integer steps of the episode before this one.
        actions: [run, env, n], clipped here to the action box [-1, 1].
        drawn: what each group of `moving` draws for this step.
        parameters: box, interception distance, step limit of each run.
        moving: the runs whose prey takes a new velocity in every step.
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
        velocity = moved_on(velocity, moving, moved - prey, drawn)
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
        self.moving = self.task.moving()
        self._drawn_steps: list[list[tuple[Tensor, ...]]] | None = None
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
        size = (1, 1, 1, n_draws(self.n) if self.moving else 0)
        self._make_ready(generator.random(size, dtype=np.float32))

    def prepare_rollout(self, iteration: int, n_steps: int) -> None:
        """Draw the prey's numbers for the `n_steps` steps of rollout number `iteration`."""
        # Preys that keep their velocity draw only when an episode begins.
        size = (n_steps, self.n_envs, n_draws(self.n) if self.moving else 0)
        streams = [stream(seed, self._prey_purpose, iteration) for seed in self.seeds]
        self._make_ready(np.stack([s.random(size, np.float32) for s in streams], axis=1))

    def _make_ready(self, draws: np.ndarray) -> None:
        """What uniform numbers [step, run, env, draw] decide of each step, for each group."""
        self._t = 0
        uniform = torch.from_numpy(draws).to(self.device)
        ready = [group.drawn(uniform[:, group.runs]) for group in self.moving]
        self._drawn_steps = [
            [tuple(numbers[t] for numbers in group) for group in ready] for t in range(len(draws))
        ]

    def advance(self, actions: Tensor) -> Step:
        assert self._drawn_steps is not None, "prepare_rollout comes first"
        drawn = self._drawn_steps[self._t]
        self._t += 1
        return advance(self.state, self.elapsed, actions, drawn, self.task, self.moving)
