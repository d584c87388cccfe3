"""Hindsight for on-policy learning: copies of a rollout with goals that it did achieve.

PPO-HER section 3: after each rollout, each episode is copied with another goal, values and
log-probabilities are recomputed for the copies, and PPO trains on both.  `released` follows the
authors' code quirk for quirk, `described` the papers' text (docs/deviations.md).

All functions are pure: random numbers, uniform in [0, 1), are arguments.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hindsight.envs.environment import Environment
from hindsight.envs.rollout import Cuts, Rollout, Trajectories, at_step
from hindsight.relabel import goals
from hindsight.specs.hindsight import HindsightSpec
from hindsight.streams import Purpose, stream

#: An achieved goal has moved if its distance from the segment's first one exceeds this.
MOVED = 0.01


def with_goal(obs: Tensor, goal: Tensor) -> Tensor:
    """Replace the desired goal of observations [..., obs] by `goal` [..., goal]."""
    g = goal.shape[-1]
    return torch.cat([obs[..., :g], goal, obs[..., 2 * g :]], dim=-1)


class Draws:
    """A source of numbers uniform in [0, 1), with a random stream for each run."""

    def __init__(self, seeds: Sequence[int], iteration: int, device: torch.device) -> None:
        self._streams = [stream(seed, Purpose.RELABEL, iteration) for seed in seeds]
        self._device = device

    def __call__(self, *size: int) -> Tensor:
        """The next numbers, [run, *size]."""
        numbers = np.stack([stream.random(size, np.float32) for stream in self._streams])
        return torch.from_numpy(numbers).to(self._device)


def _away(achieved: Tensor, observed: Tensor, first: Tensor) -> Tensor:
    """Whether `achieved` [..., step, goal] has moved away from the segment's first `observed`."""
    distance: Tensor = torch.linalg.vector_norm(achieved - at_step(observed, first), dim=-1)
    return distance > MOVED


def _so_far(flags: Tensor, first: Tensor) -> Tensor:
    """Number of flagged steps [..., step] in the segment up to and including each step."""
    count = flags.long().cumsum(-1)
    return count - (count - flags.long()).gather(-1, first)


def _one_of(flags: Tensor, first: Tensor, last: Tensor, uniform: Tensor) -> Tensor:
    """A uniform draw from the flagged steps of each segment; its last step if none is flagged."""
    n = _so_far(flags, first).gather(-1, last)
    nth = 1 + (uniform * n).long().clamp(max=n - 1)
    count = flags.long().cumsum(-1)
    before = (count - flags.long()).gather(-1, first)
    return torch.where(n > 0, torch.searchsorted(count, before + nth), last)


def episode_success(rollout: Rollout, task: Environment) -> Tensor:
    """Whether each step's segment succeeds, [run, env, step] bool."""
    if task.any_success:
        return _so_far(rollout.success, rollout.first).gather(-1, rollout.last) > 0
    return rollout.success.gather(-1, rollout.last)


def released(
    rollout: Rollout, spec: HindsightSpec, task: Environment, uniform: Tensor
) -> Trajectories:
    """Copies as in the authors' code; one path of k x steps per environment.

    - Goals and rewards use the achieved goal *observed at* a step, before its action.
    - A copy is not cut at its first success and never fails.
    - Segments cut by the rollout are copied, too, except that `only_if_moved` leaves out the one
      cut at the rollout's end.
    - Each step has its own goals, and its k copies are consecutive in the list over which
      advantages are computed.

    The authors' environment never truncates.  With a time limit, their code would recompute the
    copies' rewards and lose the value that Stable-Baselines3 adds at a truncation; accordingly, a
    copy here ends at a truncation as if it had terminated.
    """
    runs, envs, steps = rollout.rewards.shape
    step = torch.arange(steps, device=uniform.device).expand(runs, envs, steps)
    first, last = rollout.first, rollout.last
    # The k goals of a step are consecutive.
    each, before, left = (
        x.repeat_interleave(spec.k, dim=2) for x in (step, step - first, last - step + 1)
    )
    chosen = goals.choose_on(spec.strategy, each, before, left, uniform.flatten(2))
    copies = released_copies(rollout, task, at_step(rollout.achieved, chosen))
    copied = torch.ones_like(rollout.success)
    if spec.copies == "failed":
        copied = copied & ~episode_success(rollout, task)
    if spec.only_if_moved:
        away = _away(rollout.achieved, rollout.achieved, first)
        copied = copied & (_so_far(away, first).gather(-1, last) > 0) & (last < steps - 1)
    return replace(copies, valid=copied.repeat_interleave(spec.k, dim=2))


def released_copies(rollout: Rollout, task: Environment, goal: Tensor) -> Trajectories:
    """Copies with the goals [run, env, k x step, goal], those of a step being consecutive.

    Their rewards include the part of the original rewards that goals do not explain (`rest`).
    """
    g, steps = goal.shape[-1], rollout.rewards.shape[-1]
    k = goal.shape[2] // steps

    def interleaved(x: Tensor) -> Tensor:  # [run, env, step, ...] -> [run, env, step * k, ...]
        return x.repeat_interleave(k, dim=2)

    obs = with_goal(interleaved(rollout.obs), goal)
    never = torch.zeros(goal.shape[:-1], dtype=torch.bool, device=goal.device)
    rewards, success = task.reward(obs[..., :g], goal, never)
    if rollout.rest is not None:
        rewards = rewards + interleaved(rollout.rest)
    # An entry ends its trajectory if the next entry copies a segment's first step.  The last entry
    # ends it if it succeeds; otherwise the value of its own observation follows.
    begins = interleaved(rollout.first_steps)
    ends = torch.cat([begins[..., 1:], success[..., -1:]], dim=-1)
    actions = interleaved(rollout.actions)
    valid = torch.ones_like(success)
    return Trajectories(obs, actions, rewards, success, ends, obs[..., -1, :], valid)


def described(
    rollout: Rollout, spec: HindsightSpec, task: Environment, uniform: Tensor
) -> Trajectories:
    """Copies as the papers describe them; k paths per environment.

    Only episodes that lie entirely in the rollout are copied.  A copy has one goal, achieved
    *after* an action of the episode: the last one (`final`) or a random one (`episode`).  It is
    what the environment would have returned under that goal.  If success terminates episodes, or
    with `cut_at_success`, the copy terminates at its first success.  Otherwise it continues to the
    time limit, is rewarded at every step that achieves the goal, and is bootstrapped from its last
    observation.
    """
    if spec.k > 1:
        rollout = rollout.map(lambda x: x.repeat_interleave(spec.k, dim=1))  # [run, env * k, ...]
    first, last, valid = rollout.first, rollout.last, rollout.whole
    if spec.copies == "failed":
        valid = valid & ~episode_success(rollout, task)
    away = _away(rollout.next_achieved, rollout.achieved, first)
    if spec.only_if_moved:
        valid = valid & (_so_far(away, first).gather(-1, last) > 0)
    if spec.after_contact:
        valid = valid & (_so_far(away, first) > 0)
    # One random number per episode and copy: that of the episode's first step.
    number = uniform.movedim(-1, 2).flatten(1, 2).gather(-1, first)
    if spec.moved_goals and spec.strategy != "final":
        chosen = _one_of(away, first, last, number)
    else:
        # The whole episode has one goal, chosen from the candidates of its first step.
        chosen = goals.choose_on(spec.strategy, first, 0 * first, last - first + 1, number)
    if spec.moved_goals:
        valid = valid & away.gather(-1, chosen)
    goal = at_step(rollout.next_achieved, chosen)
    if spec.inside is not None:
        valid = valid & task.contains(goal / spec.inside)
    return described_copies(rollout, task, goal, valid, spec.cut_at_success)


def described_copies(
    rollout: Rollout, task: Environment, goal: Tensor, valid: Tensor, cut_at_success: bool = False
) -> Trajectories:
    """A copy of each path with the goals [run, env, step, goal], the same throughout an episode.

    Their rewards include the part of the original rewards that goals do not explain (`rest`).

    valid: [run, env, step] bool, the steps to learn from if the copy has not ended before.
    """
    terminated = ends = rollout.over
    cuts = None
    if rollout.cuts is not None:
        terminated = rollout.terminated
        if task.terminates_on_success:
            # An episode that terminated without success terminates under any goal.  One that ended
            # early, at its own goal, would have continued under another one.
            terminated = terminated & ~rollout.success
        cuts = Cuts(ends & ~terminated, with_goal(rollout.cuts.next_obs, goal))
    rewards, success = task.reward(rollout.next_achieved, goal, terminated)
    if rollout.rest is not None:
        rewards = rewards + rollout.rest
    if task.terminates_on_success or cut_at_success:
        reached_before = _so_far(success, rollout.first) - success.long() > 0
        valid = valid & ~reached_before
        ends = success | ends
        cuts = cuts and cuts._replace(truncated=cuts.truncated & ~success)
    return Trajectories(
        with_goal(rollout.obs, goal),
        rollout.actions,
        rewards,
        success,
        ends,
        rollout.last_obs,
        valid,
        cuts,
    )


#: Functions of rollout, specification, task and uniform numbers [run, env, step, k].
RELABEL = {"released": released, "described": described}
