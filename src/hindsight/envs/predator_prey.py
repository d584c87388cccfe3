"""Predator-prey on the run axis: one predator, the agent, is to intercept one prey in a box.

The state of an environment is its observation, one row of 3 n numbers in the alphabetical order of
the goal dictionary: achieved goal (the predator's position), desired goal (the prey's position),
observation (the velocity with which the prey will move in this step).

In the variant `pushes_object` the achieved goal is the position of an object instead, which rests
until the predator touches it and then goes where the predator goes; the observation is the prey's
velocity and the predator's position, 4 n numbers in all.  An episode in which the object is never
touched holds nothing that hindsight could learn from (PAPERS: section 6, question 1).

`advance` is the physics, and the only implementation of it: `PredatorPrey` below steps
[run, env] of them and begins a new episode wherever one has ended; `gymnasium_faces` steps one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from hindsight.envs.prey import KEPT, POLICIES, n_draws, top_speed
from hindsight.envs.run_axis import OnRunAxis
from hindsight.envs.step import Step
from hindsight.specs.cell import Fidelity, PredatorPreySpec, Prey
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
        return (2 * uniform - 1) * self.grid_size.view(-1, *[1] * (uniform.dim() - 1))

    def contains(self, goals: Tensor) -> Tensor:
        """Whether goals [run, ..., n] lie in the box, [run, ...]."""
        return (goals.abs() <= self.grid_size.view(-1, *[1] * (goals.dim() - 1))).all(-1)

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Reward and success of steps [run, ...]: +1 within r, else -1 at the end, else 0."""
        distance = torch.linalg.vector_norm(next_achieved - desired, dim=-1)
        success = self.within(distance)
        return success.float() - (terminated & ~success).float(), success

    def within(self, distance: Tensor) -> Tensor:
        """Whether distances [run, ...] are interceptions."""
        r = self.interception_distance
        return distance <= r.view(-1, *[1] * (distance.dim() - 1))

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
    """One step of the physics (PAPERS: section 1), in place.

    Args:
        state: [run, env, 3 n or 4 n], changed to the observation after the step.
        elapsed: [run, env] integer steps of the episode so far, one added.
        actions: [run, env, n], clipped here to the action box [-1, 1].
        draws: [run, env, n_draws(n)] uniform numbers.
        parameters: box, interception distance, step limit of each run.
        moving: the groups of runs whose prey draws a new velocity in every step.
    """
    n = actions.shape[-1]
    achieved, prey, velocity = state[..., :n], state[..., n : 2 * n], state[..., 2 * n : 3 * n]
    box = parameters.grid_size
    elapsed += 1
    predator = state[..., 3 * n :] if parameters.pushes_object else achieved
    moved = torch.clamp(predator + actions.clamp(-1, 1), -box, box)
    next_achieved = moved
    if parameters.pushes_object:
        apart = torch.linalg.vector_norm(predator - achieved, dim=-1)
        touched = (apart <= parameters.interception_distance)[..., None]
        next_achieved = torch.clamp(achieved + touched * (moved - predator), -box, box)
        achieved.copy_(next_achieved)
    predator.copy_(moved)
    distance = torch.linalg.vector_norm(next_achieved - prey, dim=-1)
    success = distance <= parameters.interception_distance
    terminated = success | (elapsed > parameters.max_steps)
    prey.copy_(torch.clamp(prey + velocity, -box, box))
    if moving:
        prey_velocity(moving, moved - prey, draws, out=velocity)
    return Step(next_achieved, terminated, torch.zeros_like(terminated), success, state)


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


class PredatorPrey(OnRunAxis):
    """[run, env] predator-prey environments; an episode that ends is followed by the next at once.

    Its time limit terminates an episode with a failure, as in the papers; nothing is truncated.

    Episode e of a run begins in the same state and step t of a run has the same prey draws in every
    algorithm that is trained with that seed: comparisons between algorithms are paired.
    """

    n_choices = None
    truncates = False

    ROWS = ("block", "_drawn", "_beginnings")
    #: Episodes' beginnings are drawn in blocks, two of which are held: the current and the next.
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
        self.n = specs[0].n_dims
        self.specs, self.seeds, self.n_envs = list(specs), list(seeds), n_envs
        self.device = torch.device(device)
        self.goal_size, self.action_size = self.n, self.n
        self.observation_size = specs[0].observation_size
        g, v = specs[0].grid_size, top_speed(self.n)
        limits = [g] * (2 * self.n) + [v] * self.n + [g] * (self.observation_size - 3 * self.n)
        #: [obs], largest absolute values of an observation (of the first run's box).
        self.observation_limit = torch.tensor(limits, device=self.device)
        self._spawn_purpose = Purpose.EVALUATION_SPAWN if evaluation else Purpose.SPAWN
        self._prey_purpose = Purpose.EVALUATION_PREY if evaluation else Purpose.PREY
        # An evaluation lasts one longest episode, so its blocks never move on and it can rewind.
        blocks = [1 + s.max_steps if evaluation else self.BLOCK for s in specs]
        self.block = torch.tensor(blocks)[:, None]  # [run, 1]
        shape = (len(self.specs), n_envs)
        self.state = torch.zeros(*shape, self.observation_size, device=self.device)
        self.elapsed = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self.episode = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self._drawn = torch.zeros(shape, dtype=torch.int64)  # blocks drawn so far
        size = (*shape, 2 * max(blocks), self.observation_size)
        self._beginnings = torch.zeros(size, device=self.device)
        self._prepare()
        self._draw_beginnings()
        self.state.copy_(self._beginning())

    def _prepare(self) -> None:
        """What follows from the runs on the axis, whenever they change."""
        self.task = Parameters.of(self.specs, self.device)
        self.groups = self.task.groups()
        self.moving = [group for group in self.groups if group[0] not in KEPT]
        shape = self.elapsed.shape
        self._run = torch.arange(shape[0], device=self.device)[:, None]
        self._env = torch.arange(shape[1], device=self.device)[None, :]
        self._two_blocks = 2 * self.block.to(self.device)
        self._shortest_block = int(self.block.min())
        self._draws: Tensor | None = None

    def _beginning(self) -> Tensor:
        """The first observation of each environment's current episode, [run, env, obs]."""
        return self._beginnings[self._run, self._env, self.episode % self._two_blocks]

    def _draw_beginnings(self) -> None:
        """Draw the blocks that come within reach: called at least once in `block` steps."""
        wanted = self.episode.cpu() // self.block + 2
        while (behind := (self._drawn < wanted).nonzero()).numel():
            for run, env in behind.tolist():
                block = int(self._drawn[run, env])
                size = int(self.block[run])
                half = slice((block % 2) * size, (block % 2 + 1) * size)
                self._beginnings[run, env, half] = self._draw_block(run, env, block, size)
                self._drawn[run, env] += 1

    def _draw_block(self, run: int, env: int, block: int, size: int) -> Tensor:
        """First observations [size, obs] of the episodes of one block."""
        spec, n = self.specs[run], self.n
        index = (env << 40) + block
        generator = stream(self.seeds[run], self._spawn_purpose, index)
        draws = torch.from_numpy(generator.random((size, n_draws(n)), dtype=np.float32))
        positions = torch.from_numpy(spawn(spec, (size,), generator))
        goals, predator = positions[:, : 2 * n], positions[:, 2 * n :]
        seen = predator if spec.pushes_object else goals[:, :n]
        velocity = POLICIES[spec.prey](seen - goals[:, n:], draws, spec.fidelity)
        return torch.cat([goals, velocity, predator], dim=-1).to(self.device)

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

    def step(self, actions: Tensor) -> Step:
        """One step of every environment; `state` afterwards holds the next observations.

        Where an episode has ended, these are the first of the next episode.
        """
        assert self._draws is not None, "prepare_rollout comes first"
        if self._t % self._shortest_block == 0:
            self._draw_beginnings()
        draws = self._draws[self._t]
        self._t += 1
        step = advance(self.state, self.elapsed, actions, draws, self.task, self.moving)
        self.episode += step.terminated
        self.elapsed.masked_fill_(step.terminated, 0)
        # Another tensor: the one that `step` holds keeps what followed in the same episode.
        self.state = torch.where(step.terminated[..., None], self._beginning(), self.state)
        return step

    def rewind(self) -> None:
        """Every environment back to the beginning of its first episode (evaluation)."""
        self.elapsed.zero_()
        self.episode.zero_()
        self.state.copy_(self._beginning())

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""
        for name, value in saved.items():
            getattr(self, name).copy_(value)
        self._drawn.copy_(self.episode.cpu() // self.block)
        self._draw_beginnings()
