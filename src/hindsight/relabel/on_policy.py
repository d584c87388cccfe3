"""Hindsight for on-policy learning: copies of a rollout that strive for goals it did achieve.

PPO-HER section 3: after each rollout, each episode is copied with another goal, values and
log-probabilities are recomputed on the copies, and PPO trains on both.  `released` follows the
authors' code quirk for quirk, `described` the papers' text (docs/deviations.md).

Every random draw is an argument, uniform in [0, 1), so that these are functions of their arguments.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hindsight.relabel import goals
from hindsight.relabel.task import Task
from hindsight.replay.rollout import (
    Cuts,
    Rollout,
    Trajectories,
    at_step,
    segment_ends,
    segment_starts,
)
from hindsight.specs.hindsight import HindsightSpec
from hindsight.streams import Purpose, stream

#: An achieved goal has moved if it is further than this from its first value in the segment.
MOVED = 0.01


def with_goal(obs: Tensor, goal: Tensor) -> Tensor:
    """Observations [..., obs] with the desired goal replaced by `goal` [..., goal]."""
    g = goal.shape[-1]
    return torch.cat([obs[..., :g], goal, obs[..., 2 * g :]], dim=-1)


class Draws:
    """Numbers uniform in [0, 1), one after the other; each run's come from its own stream."""

    def __init__(self, seeds: Sequence[int], iteration: int, device: torch.device) -> None:
        self._streams = [stream(seed, Purpose.RELABEL, iteration) for seed in seeds]
        self._device = device

    def __call__(self, *size: int) -> Tensor:
        """The next numbers, [run, *size]."""
        numbers = np.stack([stream.random(size, np.float32) for stream in self._streams])
        return torch.from_numpy(numbers).to(self._device)


def relabel(rollout: Rollout, spec: HindsightSpec, task: Task, uniform: Tensor) -> Trajectories:
    """The relabelled copies of a rollout; `uniform` [run, env, step, k].

    They keep of their rewards what goals do not explain.
    """
    copies = RELABEL[spec.fidelity](rollout, spec, task, uniform)
    if rollout.rest is None:
        return copies
    _, paths, steps = rollout.rest.shape
    # Copies of a step stand side by side along the step, or are paths of their own.
    beside = copies.rewards.shape[1] // paths, copies.rewards.shape[2] // steps
    rest = rollout.rest.repeat_interleave(beside[0], 1).repeat_interleave(beside[1], 2)
    return replace(copies, rewards=copies.rewards + rest)


def _away(achieved: Tensor, observed: Tensor, first: Tensor) -> Tensor:
    """Whether `achieved` [..., step, goal] is not where a segment's first `observed` was."""
    distance = torch.linalg.vector_norm(achieved - at_step(observed, first), dim=-1)
    return distance > MOVED


def _so_far(flags: Tensor, first: Tensor) -> Tensor:
    """How many steps of its segment up to and including each have the flag [..., step]."""
    count = flags.long().cumsum(-1)
    return count - (count - flags.long()).gather(-1, first)


def _one_of(flags: Tensor, first: Tensor, last: Tensor, uniform: Tensor) -> Tensor:
    """A step drawn uniformly from those of its segment with the flag; the last, where none has."""
    n = _so_far(flags, first).gather(-1, last)
    nth = 1 + (uniform * n).long().clamp(max=n - 1)
    count = flags.long().cumsum(-1)
    before = (count - flags.long()).gather(-1, first)
    return torch.where(n > 0, torch.searchsorted(count, before + nth), last)


def released(rollout: Rollout, spec: HindsightSpec, task: Task, uniform: Tensor) -> Trajectories:
    """Copies as the authors' code makes them; one path of k x steps per environment.

    Goals and rewards come from the achieved goal *observed at* a step, before its action; a copy is
    not cut at its first success and never fails; segments cut by the rollout are copied too; each
    step has its own goals, and its k copies stand side by side in the one list over which
    advantages run.  Under the trajectory filter the segment cut at the rollout's end is left out.

    The authors trained where nothing is truncated.  Where a time limit truncates, their code would
    ask the environment for the copies' rewards anew, and so lose the value that Stable-Baselines3
    adds at a truncation: here, too, a copy ends there as if it had terminated.
    """
    runs, envs, steps = rollout.rewards.shape
    step = torch.arange(steps, device=uniform.device).expand(runs, envs, steps)
    first, last = segment_starts(rollout.starts), segment_ends(rollout.ends)
    # The k goals of a step stand side by side.
    of_each = (x.repeat_interleave(spec.k, dim=2) for x in (step, step - first, last - step + 1))
    chosen = goals.drawn(goals.STRATEGIES[spec.strategy](*of_each), uniform.flatten(2))
    copies = released_copies(rollout, task, at_step(rollout.achieved, chosen))
    copied = torch.ones_like(rollout.success)
    if spec.copies == "failed":
        copied = copied & ~rollout.success.gather(-1, last)
    if spec.only_if_moved:
        away = _away(rollout.achieved, rollout.achieved, first)
        copied = copied & (_so_far(away, first).gather(-1, last) > 0) & (last < steps - 1)
    return replace(copies, valid=copied.repeat_interleave(spec.k, dim=2))


def released_copies(rollout: Rollout, task: Task, goal: Tensor) -> Trajectories:
    """Copies towards goals [run, env, k x step, goal], the k of a step side by side."""
    g, steps = goal.shape[-1], rollout.rewards.shape[-1]
    k = goal.shape[2] // steps

    def interleaved(x: Tensor) -> Tensor:  # [run, env, step, ...] -> [run, env, step * k, ...]
        return x.repeat_interleave(k, dim=2)

    obs = with_goal(interleaved(rollout.obs), goal)
    never = torch.zeros(goal.shape[:-1], dtype=torch.bool, device=goal.device)
    rewards, success = task.reward(obs[..., :g], goal, never)
    # A list entry ends its trajectory where the next entry is a copy of a segment's first step; the
    # list's last entry, where it succeeds, else it is followed by its own value.
    begins = interleaved(rollout.first_steps)
    ends = torch.cat([begins[..., 1:], success[..., -1:]], dim=-1)
    actions = interleaved(rollout.actions)
    valid = torch.ones_like(success)
    return Trajectories(obs, actions, rewards, success, ends, obs[..., -1, :], valid)


def described(rollout: Rollout, spec: HindsightSpec, task: Task, uniform: Tensor) -> Trajectories:
    """Copies as the papers describe them; k paths per environment.

    Only episodes that lie in the rollout whole are copied.  A copy has one goal, achieved *after*
    an action of the episode: after its last (`final`), or after one drawn for the copy (`episode`).
    It is what the environment would have shown under that goal.  Where success terminates (or with
    `cut_at_success`), it ends, terminated, at its first success; where it does not, it goes on to
    the time limit, rewarded wherever the goal is achieved, and what follows has the value of its
    last observation.
    """
    k, steps = spec.k, rollout.rewards.shape[-1]
    first, last = segment_starts(rollout.starts), segment_ends(rollout.ends)
    learned = rollout.whole
    if spec.copies == "failed":
        learned = learned & ~rollout.success.gather(-1, last)
    away = _away(rollout.next_achieved, rollout.achieved, first)
    if spec.only_if_moved:
        learned = learned & (_so_far(away, first).gather(-1, last) > 0)
    if spec.after_contact:
        learned = learned & (_so_far(away, first) > 0)

    def copied(x: Tensor) -> Tensor:  # [run, env, step, ...] -> [run, env * k, step, ...]
        return x.repeat_interleave(k, dim=1)

    first, last, valid, away = copied(first), copied(last), copied(learned), copied(away)
    # One number per episode and copy: that of the episode's first step.
    number = uniform.movedim(-1, 2).flatten(1, 2).gather(-1, first)
    if spec.moved_goals and spec.strategy != "final":
        chosen = _one_of(away, first, last, number)
    else:
        # One goal for all of the episode: it is chosen as its first step would choose.
        seen_from_first = goals.STRATEGIES[spec.strategy](first, 0 * first, last - first + 1)
        chosen = goals.drawn(seen_from_first, number)
    if spec.moved_goals:
        valid = valid & away.gather(-1, chosen)
    next_achieved = copied(rollout.next_achieved)
    goal = at_step(next_achieved, chosen)
    if spec.inside is not None:
        valid = valid & task.contains(goal / spec.inside)
    never = torch.zeros_like(chosen, dtype=torch.bool)
    rewards, success = task.reward(next_achieved, goal, never)
    ends = torch.arange(steps, device=chosen.device) == last
    cuts = None
    if rollout.cuts is not None:
        # What ended an episode, but not by its goal, ends it under another one.
        failed = copied(rollout.terminated & ~rollout.success)
        cuts = Cuts(ends & ~failed, with_goal(copied(rollout.cuts.next_obs), goal))
    if task.terminates_on_success or spec.cut_at_success:
        reached_before = _so_far(success, first) - success.long() > 0
        valid = valid & ~reached_before
        ends = success | ends
        cuts = cuts and cuts._replace(truncated=cuts.truncated & ~success)
    return Trajectories(
        with_goal(copied(rollout.obs), goal),
        copied(rollout.actions),
        rewards,
        success,
        ends,
        copied(rollout.last_obs),
        valid,
        cuts,
    )


RELABEL = {"released": released, "described": described}
