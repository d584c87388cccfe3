"""Rollouts, which on-policy loops collect, and trajectories, which they learn from.

A *rollout* is a fixed number of steps of every environment of every run.  The part of an episode
inside a rollout is a *segment*; the first and the last segment of a rollout may be incomplete.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor


class Cuts(NamedTuple):
    """Where a time limit truncated episodes; leading dimensions [run, path, step]."""

    truncated: Tensor  # [run, path, step] bool; never where the step terminates the episode
    next_obs: Tensor  # [run, path, step, obs], of the same episode, even after its last step


@dataclass(frozen=True)
class Rollout:
    """Steps as collected; leading dimensions [run, env, step]."""

    obs: Tensor  # [run, env, step, obs]: achieved goal, desired goal, observation
    actions: Tensor  # [run, env, step, action], before clipping to the action box
    next_achieved: Tensor  # [run, env, step, goal], the goal achieved by the action
    rewards: Tensor  # [run, env, step]
    terminated: Tensor  # [run, env, step] bool
    success: Tensor  # [run, env, step] bool
    starts: Tensor  # [run, env, step] bool: the step begins an episode
    last_obs: Tensor  # [run, env, obs], the observation after the last step
    cuts: Cuts | None = None  # None: the environment never truncates
    rest: Tensor | None = None  # [run, env, step], the part of the rewards that no goal explains

    def map(self, change: Callable[[Tensor], Tensor]) -> "Rollout":
        """Return the rollout with every tensor [run, env, ...] changed, such as to fewer runs."""
        changed = {name: change(x) for name, x in vars(self).items() if isinstance(x, Tensor)}
        cuts = self.cuts and Cuts(*map(change, self.cuts))
        return replace(self, **changed, cuts=cuts)

    @property
    def over(self) -> Tensor:
        """[run, env, step] bool: the step terminates or truncates its episode."""
        return self.terminated if self.cuts is None else self.terminated | self.cuts.truncated

    @property
    def achieved(self) -> Tensor:
        """[run, env, step, goal]: the goal achieved before the action."""
        return self.obs[..., : self.next_achieved.shape[-1]]

    @property
    def desired(self) -> Tensor:
        """[run, env, step, goal]: the goal pursued by the action."""
        goal = self.next_achieved.shape[-1]
        return self.obs[..., goal : 2 * goal]

    @property
    def approach(self) -> Tensor:
        """[run, env, step]: by how much the step reduces the distance to the desired goal.

        The last step of an episode is measured to the desired goal as observed before it.
        """
        goal = self.next_achieved.shape[-1]
        following = self.last_obs[..., None, goal : 2 * goal]
        desired = torch.cat([self.desired, following], dim=2)
        next_desired = torch.where(self.over[..., None], self.desired, desired[:, :, 1:])
        before: Tensor = torch.linalg.vector_norm(self.achieved - self.desired, dim=-1)
        after: Tensor = torch.linalg.vector_norm(self.next_achieved - next_desired, dim=-1)
        return before - after

    @property
    def first(self) -> Tensor:
        """[run, env, step]: index of the first step of the step's segment."""
        return segment_starts(self.starts)

    @property
    def last(self) -> Tensor:
        """[run, env, step]: index of the last step of the step's segment."""
        return segment_ends(self.over)

    @property
    def first_steps(self) -> Tensor:
        """[run, env, step] bool: the first step of a segment."""
        first = self.starts.clone()
        first[..., 0] = True
        return first

    @property
    def whole(self) -> Tensor:
        """[run, env, step] bool: the step's episode begins and ends within the rollout."""
        return self.starts.gather(-1, self.first) & self.over.gather(-1, self.last)


@dataclass(frozen=True)
class Trajectories:
    """Steps to learn from, in order along each path; leading dimensions [run, path, step].

    Real and relabelled steps have the same form, so a policy-gradient method treats them alike.
    """

    obs: Tensor  # [run, path, step, obs]
    actions: Tensor  # [run, path, step, action]
    rewards: Tensor  # [run, path, step]
    success: Tensor  # [run, path, step] bool: goal achieved after (released: before) the step
    ends: Tensor  # [run, path, step] bool: neither value nor advantage reaches across this step
    last_obs: Tensor  # [run, path, obs], the observation after the last step of a path
    valid: Tensor  # [run, path, step] bool: the step is learned from
    cuts: Cuts | None = None  # ends after which to bootstrap; None: there are none

    @classmethod
    def real(cls, rollout: Rollout) -> "Trajectories":
        """Return the rollout itself as trajectories, one path per environment."""
        return cls(
            rollout.obs,
            rollout.actions,
            rollout.rewards,
            rollout.success,
            rollout.over,
            rollout.last_obs,
            torch.ones_like(rollout.terminated),
            rollout.cuts,
        )


def segment_starts(starts: Tensor) -> Tensor:
    """Index [..., step] of the first step of each step's segment, from its flags [..., step]."""
    step = torch.arange(starts.shape[-1], device=starts.device).expand(starts.shape)
    return torch.where(starts, step, 0).cummax(-1).values


def segment_ends(ends: Tensor) -> Tensor:
    """Index [..., step] of the last step of each step's segment, from its flags [..., step]."""
    last = ends.shape[-1] - 1
    step = torch.arange(last + 1, device=ends.device).expand(ends.shape)
    return torch.where(ends, step, last).flip(-1).cummin(-1).values.flip(-1)


def at_step(values: Tensor, index: Tensor) -> Tensor:
    """Gather values [..., step, x] at the steps index [..., step'], as [..., step', x]."""
    return values.gather(-2, index[..., None].expand(*index.shape, values.shape[-1]))
