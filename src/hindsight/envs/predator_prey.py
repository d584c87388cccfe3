"""Predator-prey on the run axis: one predator, the agent, is to intercept one prey in a box.

The state of an environment is its observation, one row of 3 n numbers in the alphabetical order of
the goal dictionary: achieved goal (the predator's position), desired goal (the prey's position),
observation (the velocity with which the prey will move in this step).

`advance` is the physics, and the only implementation of it: `PredatorPrey` below steps
[run, env] of them and begins a new episode wherever one has ended; `gymnasium_faces` steps one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hindsight.envs.prey import KEPT, POLICIES, n_draws
from hindsight.specs.cell import Fidelity, PredatorPreySpec, Prey
from hindsight.streams import Purpose, stream


class Step(NamedTuple):
    """What one step of [run, env] environments tells."""

    next_achieved: Tensor  # [run, env, n], the goal achieved by the action
    terminated: Tensor  # [run, env] bool: the episode is over, nothing follows
    success: Tensor  # [run, env] bool


@dataclass(frozen=True)
class Parameters:
    """What may differ between runs on one axis, as tensors that broadcast over [run, env, n]."""

    grid_size: Tensor  # [run, 1, 1] half-width of the box
    interception_distance: Tensor  # [run, 1]
    max_steps: Tensor  # [run, 1]
    preys: tuple[tuple[Prey, Fidelity], ...]  # per run

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
        )

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
        state: [run, env, 3 n], changed to the observation after the step.
        elapsed: [run, env] integer steps of the episode so far, one added.
        actions: [run, env, n], clipped here to the action box [-1, 1].
        draws: [run, env, n_draws(n)] uniform numbers.
        parameters: box, interception distance, step limit of each run.
        moving: the groups of runs whose prey draws a new velocity in every step.
    """
    n = actions.shape[-1]
    predator, prey, velocity = state[..., :n], state[..., n : 2 * n], state[..., 2 * n :]
    box = parameters.grid_size
    elapsed += 1
    next_achieved = torch.clamp(predator + actions.clamp(-1, 1), -box, box)
    predator.copy_(next_achieved)
    distance = torch.linalg.vector_norm(next_achieved - prey, dim=-1)
    success = distance <= parameters.interception_distance
    terminated = success | (elapsed > parameters.max_steps)
    prey.copy_(torch.clamp(prey + velocity, -box, box))
    if moving:
        prey_velocity(moving, next_achieved - prey, draws, out=velocity)
    return Step(next_achieved, terminated, success)


def spawn(
    spec: PredatorPreySpec, size: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    """Initial positions [*size, 2 n] of predator and prey, float32, more than r apart."""
    n, box = spec.n_dims, spec.grid_size
    if spec.spawn == "apart":
        positions = np.zeros((*size, 2 * n), dtype=np.float32)
        positions[..., -1] = box / 2
        return positions
    positions = generator.uniform(-box, box, (*size, 2 * n)).astype(np.float32)
    while True:
        distance = np.linalg.norm(positions[..., :n] - positions[..., n:], axis=-1)
        near = distance <= spec.interception_distance
        if not near.any():
            return positions
        positions[near] = generator.uniform(-box, box, (int(near.sum()), 2 * n))


class PredatorPrey:
    """[run, env] predator-prey environments; an episode that ends is followed by the next at once.

    Episode e of a run begins in the same state and step t of a run has the same prey draws in every
    algorithm that is trained with that seed: comparisons between algorithms are paired.
    """

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
        dims = {spec.n_dims for spec in specs}
        if len(dims) != 1:
            raise ValueError(f"runs on one axis share n_dims; got {sorted(dims)}")
        self.n = dims.pop()
        self.specs, self.seeds, self.n_envs = list(specs), list(seeds), n_envs
        self.device = torch.device(device)
        self.goal_size, self.observation_size, self.action_size = self.n, 3 * self.n, self.n
        self._spawn_purpose = Purpose.EVALUATION_SPAWN if evaluation else Purpose.SPAWN
        self._prey_purpose = Purpose.EVALUATION_PREY if evaluation else Purpose.PREY
        # An evaluation lasts one longest episode, so its blocks never move on and it can rewind.
        blocks = [1 + s.max_steps if evaluation else self.BLOCK for s in specs]
        self.block = torch.tensor(blocks)[:, None]  # [run, 1]
        shape = (len(self.specs), n_envs)
        self.state = torch.zeros(*shape, 3 * self.n, device=self.device)
        self.elapsed = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self.episode = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self._drawn = torch.zeros(shape, dtype=torch.int64)  # blocks drawn so far
        self._beginnings = torch.zeros(*shape, 2 * max(blocks), 3 * self.n, device=self.device)
        self._prepare()
        self._draw_beginnings()
        self.state.copy_(self._beginning())

    def _prepare(self) -> None:
        """What follows from the runs on the axis, whenever they change."""
        self.parameters = Parameters.of(self.specs, self.device)
        self.groups = self.parameters.groups()
        self.moving = [group for group in self.groups if group[0] not in KEPT]
        shape = self.elapsed.shape
        self._run = torch.arange(shape[0], device=self.device)[:, None]
        self._env = torch.arange(shape[1], device=self.device)[None, :]
        self._two_blocks = 2 * self.block.to(self.device)
        self._shortest_block = int(self.block.min())
        self._draws: Tensor | None = None

    def _beginning(self) -> Tensor:
        """The first observation of each environment's current episode, [run, env, 3 n]."""
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
        """First observations [size, 3 n] of the episodes of one block."""
        spec, n = self.specs[run], self.n
        index = (env << 40) + block
        generator = stream(self.seeds[run], self._spawn_purpose, index)
        draws = torch.from_numpy(generator.random((size, n_draws(n)), dtype=np.float32))
        positions = torch.from_numpy(spawn(spec, (size,), generator))
        d = positions[:, :n] - positions[:, n:]
        velocity = POLICIES[spec.prey](d, draws, spec.fidelity)
        return torch.cat([positions, velocity], dim=-1).to(self.device)

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
        step = advance(self.state, self.elapsed, actions, draws, self.parameters, self.moving)
        self.episode += step.terminated
        self.elapsed.masked_fill_(step.terminated, 0)
        torch.where(step.terminated[..., None], self._beginning(), self.state, out=self.state)
        return step

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Reward and success of steps [run, ...]: +1 within r, else -1 at the end, else 0."""
        distance = torch.linalg.vector_norm(next_achieved - desired, dim=-1)
        success = self.within(distance)
        return success.float() - (terminated & ~success).float(), success

    def within(self, distance: Tensor) -> Tensor:
        """Whether distances [run, ...] are interceptions."""
        r = self.parameters.interception_distance
        return distance <= r.view(-1, *[1] * (distance.dim() - 1))

    def rewind(self) -> None:
        """Every environment back to the beginning of its first episode (evaluation)."""
        self.elapsed.zero_()
        self.episode.zero_()
        self.state.copy_(self._beginning())

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices; the others leave the axis."""
        kept = runs.tolist()
        self.specs = [self.specs[i] for i in kept]
        self.seeds = [self.seeds[i] for i in kept]
        for name in ("state", "elapsed", "episode", "block", "_drawn", "_beginnings"):
            value = getattr(self, name)
            setattr(self, name, value[runs.to(value.device)])
        self._prepare()

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps; everything else follows from the specification."""
        return {name: getattr(self, name).clone() for name in ("state", "elapsed", "episode")}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""
        for name, value in saved.items():
            getattr(self, name).copy_(value)
        self._drawn.copy_(self.episode.cpu() // self.block)
        self._draw_beginnings()
