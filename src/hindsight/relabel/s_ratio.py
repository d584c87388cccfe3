"""Hindsight with a target share of successes: the S-ratio (MEHER sections 3 and 4).

The S-ratio is the share of successful episodes among those that are learned from.  Each episode is
copied either as a success, for the final achieved goal, or as a failure, for a goal that it never
reaches, and what is in surplus is dropped at random, so that the training buffer meets a target S.
`released` follows the authors' code quirk for quirk, `described` the paper (docs/deviations.md).

The target is a number per run, and every random number is asked of `draw(*size)`, which returns
numbers [run, *size], uniform in [0, 1), of the runs' own streams.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from hindsight.relabel import on_policy
from hindsight.relabel.on_policy import released_copies, with_goal
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

Draw = Callable[..., Tensor]
#: How often a goal for a failure is drawn anew before an episode counts as one that cannot fail.
TRIES = 100


class Quota(NamedTuple):
    """How many episodes of each kind are learned from, each [run]."""

    success_copies: Tensor  # of the copies, as successes; the others as failures
    successes: Tensor  # kept, real and copied
    failures: Tensor  # kept, real and copied


def quota(
    s_ratio: Tensor, successes: Tensor, failures: Tensor, copies: Tensor, can_fail: Tensor
) -> Quota:
    """The numbers that bring the share of successes nearest to `s_ratio` and drop the fewest.

    All are [run]: the target in [0, 1], real successes and failures, copies to be made, and how
    many of these can be failures.  A buffer without the kind that is wanted keeps what it has.
    """
    s = s_ratio.double()
    wanted = torch.round(s * (successes + failures + copies)).long()
    as_successes = (wanted - successes).clamp(min=copies - can_fail)
    as_successes = torch.minimum(as_successes, copies)
    all_successes, all_failures = successes + as_successes, failures + copies - as_successes
    # Too many even though every copy that can fails, or too few even though every copy succeeds.
    few = torch.round(s * all_failures / (1 - s).clamp(min=1e-12)).long()
    keep_successes = torch.where(
        (wanted < all_successes) & (all_failures > 0), few.clamp(max=all_successes), all_successes
    )
    few = torch.round((1 - s) * all_successes / s.clamp(min=1e-12)).long()
    keep_failures = torch.where(
        (wanted > all_successes) & (all_successes > 0), few.clamp(max=all_failures), all_failures
    )
    return Quota(as_successes, keep_successes, keep_failures)


def chosen(among: Tensor, count: Tensor, priority: Tensor) -> Tensor:
    """`count` [run] of the places `among` [run, n] bool: those of lowest `priority` [run, n]."""
    order = torch.where(among, priority, torch.inf).argsort(dim=1, stable=True)
    rank = torch.empty_like(order)
    rank.scatter_(1, order, torch.arange(order.shape[1], device=order.device).expand_as(order))
    return among & (rank < count[:, None])


def described(
    rollout: Rollout, spec: HindsightSpec, task: Task, s_ratio: Tensor, draw: Draw
) -> tuple[Trajectories, Trajectories]:
    """The rollout and its copies, with a share `s_ratio` [run] of successful episodes.

    Episodes that lie in the rollout whole are copied once each; segments that it cuts have no
    outcome: they are learned from as ever, and count as neither.
    """
    runs, envs, steps = rollout.rewards.shape
    first, last = segment_starts(rollout.starts), segment_ends(rollout.ends)
    final = torch.zeros(*rollout.rewards.shape, 1, device=first.device)
    success = on_policy.described(rollout, spec, task, final)
    # Drawn first: how many numbers the goals of failures take depends on who is on the axis.
    priority = draw(3, envs * steps)
    failure, can_fail = failures(rollout, spec, task, draw)

    episode = (rollout.whole & rollout.first_steps).flatten(1)  # one place each: its first step
    succeeded = rollout.success.gather(-1, last).flatten(1)
    real_success, real_failure = episode & succeeded, episode & ~succeeded
    failing = episode & can_fail.flatten(1)
    counts = (real_success.sum(1), real_failure.sum(1), episode.sum(1), failing.sum(1))
    kept = quota(s_ratio, *counts)
    # What cannot fail comes first where successes are wanted.
    as_success = chosen(episode, kept.success_copies, priority[:, 0] + failing)
    both = torch.cat([real_success, as_success], dim=1)
    keep = chosen(both, kept.successes, priority[:, 1:].flatten(1))
    both = torch.cat([real_failure, episode & ~as_success], dim=1)
    keep |= chosen(both, kept.failures, priority[:, 1:].flatten(1))

    def spread(flags: Tensor) -> Tensor:  # from first steps to all steps of an episode
        return flags.view(runs, envs, steps).gather(-1, first)

    keep_real, keep_copy = (spread(part) for part in keep.chunk(2, dim=1))
    copies = _either(spread(as_success), success, failure)
    real = Trajectories.real(rollout)
    return (
        replace(real, valid=real.valid & (keep_real | ~rollout.whole)),
        replace(copies, valid=copies.valid & keep_copy),
    )


def _either(condition: Tensor, one: Trajectories, other: Trajectories) -> Trajectories:
    """Of two copies of each step, by `condition` [run, env, step]."""

    def chosen(of_one: Tensor, of_other: Tensor) -> Tensor:
        more = (1,) * (of_one.dim() - condition.dim())
        return torch.where(condition.view(*condition.shape, *more), of_one, of_other)

    names = ("obs", "rewards", "success", "ends", "valid")
    either = {name: chosen(getattr(one, name), getattr(other, name)) for name in names}
    if one.cuts is None or other.cuts is None:
        return replace(one, **either, cuts=None)
    return replace(one, **either, cuts=Cuts(*map(chosen, one.cuts, other.cuts)))


def failures(
    rollout: Rollout, spec: HindsightSpec, task: Task, draw: Draw
) -> tuple[Trajectories, Tensor]:
    """Copies for goals never reached, and which episodes have one, [run, env, step] bool.

    Where a time limit truncates, a copy does not terminate with its last step: an episode that
    ended early, at the goal it had, would have gone on under another one.
    """
    first, last = segment_starts(rollout.starts), segment_ends(rollout.ends)
    begins = rollout.whole & rollout.first_steps
    run, env, start = begins.nonzero(as_tuple=True)
    goals, found = failure_goals(rollout, spec, task, draw, run, env, start)
    goal, can_fail = torch.zeros_like(rollout.next_achieved), torch.zeros_like(begins)
    goal[run, env, start], can_fail[run, env, start] = goals, found
    goal, can_fail = at_step(goal, first), can_fail.gather(-1, first)
    ends = torch.arange(first.shape[-1], device=first.device) == last
    rewards, success = task.reward(rollout.next_achieved, goal, ends)
    cuts = None
    if rollout.cuts is not None:
        cuts = Cuts(ends, with_goal(rollout.cuts.next_obs, goal))
    obs, actions = with_goal(rollout.obs, goal), rollout.actions
    copies = Trajectories(
        obs, actions, rewards, success, ends, rollout.last_obs, rollout.whole, cuts
    )
    return copies, can_fail


def failure_goals(
    rollout: Rollout,
    spec: HindsightSpec,
    task: Task,
    draw: Draw,
    run: Tensor,
    env: Tensor,
    start: Tensor,
) -> tuple[Tensor, Tensor]:
    """A goal [episode, goal] that each episode does not reach, and whether there is, [episode].

    untargeted: a goal uniform among all goals; targeted: `failure_distance` times the threshold
    away from where the episode ended, in a uniform direction.  The first of `TRIES` draws counts
    that is a goal at all and has no point of the episode, its first included, within the threshold.

    run, env, start: [episode], where the episodes begin, in the order of the runs.
    """
    g = rollout.next_achieved.shape[-1]
    last = segment_ends(rollout.ends)[run, env, start]
    longest = int((last - start).max()) + 1 if len(run) else 0
    steps = torch.minimum(start[:, None] + torch.arange(longest, device=run.device), last[:, None])
    points = torch.cat(
        [
            rollout.achieved[run, env, start][:, None],
            rollout.next_achieved[run[:, None], env[:, None], steps],
        ],
        dim=1,
    )  # [episode, point, goal]; a shorter episode repeats its end
    # The n-th episode of a run has the n-th row of its draws, whoever else is on the axis.
    each = torch.bincount(run, minlength=rollout.rewards.shape[0])
    nth = torch.arange(len(run), device=run.device) - (each.cumsum(0) - each)[run]
    uniform = draw(int(each.max()), TRIES, g)
    goals, found = points[:, -1].clone(), torch.zeros_like(run, dtype=torch.bool)
    threshold = torch.tensor(task.threshold, device=run.device)
    for tries in (slice(0, 8), slice(8, TRIES)):  # few episodes need more than some
        left = (~found).nonzero()[:, 0]
        numbers = uniform[run[left], nth[left], tries]
        if spec.failures == "targeted":
            away = spec.failure_distance * threshold * direction(numbers)
            drawn = points[left, -1:] + away
        else:
            drawn = task.goals(numbers)
        exact = "donot_use_mm_for_euclid_dist"
        apart = torch.cdist(drawn, points[left], compute_mode=exact).amin(-1)
        # A hair more than the threshold: the reward compares again, rounded in another order.
        fits = (apart > threshold * (1 + 1e-5)) & task.contains(drawn)
        first = fits.long().argmax(1)
        goals[left] = drawn[torch.arange(len(left), device=run.device), first]
        found[left] = fits.any(1)
    return goals, found


def direction(uniform: Tensor) -> Tensor:
    """Uniform directions [..., n], by normalising a Gaussian, from numbers uniform in [0, 1)."""
    # Half a float32 step away from -1 keeps the inverse of the error function finite.
    gaussian = torch.erfinv((2 * uniform - 1).clamp(-1 + 2**-24, 1 - 2**-24))
    return torch.nn.functional.normalize(gaussian, dim=-1)


def released(
    rollout: Rollout, spec: HindsightSpec, task: Task, s_ratio: Tensor, draw: Draw
) -> tuple[Trajectories, Trajectories]:
    """As the authors' code does it: a mixture of copies, then thinned.

    A segment's copy is for the final goal with probability clip(2 S - A, 0, 1), A the share of
    successes, as (mean terminal reward + 1) / 2, of the episodes that begin and end in the rollout
    before its last step.  The rollout and its copies then stand in one list, whose trajectories
    begin where episodes and copies begin; one counts as a success if its last reward is >= 0, which
    goes for every failure copy and for the rollout's cut end; the list's head, which continues an
    episode of the rollout before, and its last trajectory are not counted and never dropped.

    On tasks that reward with -1 and 0 it would do the same with their rewards (the environment's,
    without the value at a truncation): A is at most 1/2 there, and a failure copy is a failure.
    """
    real = Trajectories.real(rollout)
    first = segment_starts(rollout.starts)
    complete = _followed(rollout.starts) & rollout.starts.gather(-1, first)
    terminal = (rollout.rewards * complete).sum((1, 2)) / complete.sum((1, 2)).clamp(min=1)
    share = (2 * s_ratio - (terminal + 1) / 2).clamp(0, 1)
    copies = mixture(rollout, task, share, draw)

    starts = torch.cat([rollout.starts, rollout.first_steps], dim=-1)
    rewards = torch.cat([rollout.rewards, copies.rewards], dim=-1)
    followed = _followed(starts)
    counted = (followed & starts.gather(-1, segment_starts(starts))).flatten(1)
    success = counted & (rewards >= 0).flatten(1)
    failure = counted & ~success
    drop_successes, drop_failures = surplus(s_ratio, success.sum(1), failure.sum(1))
    priority = draw(counted.shape[1])
    dropped = chosen(success, drop_successes, priority) | chosen(failure, drop_failures, priority)
    last = segment_ends(followed)  # where a trajectory's mark is found
    keep = ~dropped.view(followed.shape).gather(-1, last)
    keep_real, keep_copies = keep.chunk(2, dim=-1)
    return replace(real, valid=keep_real), replace(copies, valid=keep_copies)


def _followed(starts: Tensor) -> Tensor:
    """[..., step] bool: the next step is a start."""
    return torch.cat([starts[..., 1:], torch.zeros_like(starts[..., :1])], dim=-1)


def surplus(s_ratio: Tensor, successes: Tensor, failures: Tensor) -> tuple[Tensor, Tensor]:
    """How many successes, or else failures, the authors' code drops, each [run].

    Its formula: int((d t + f - t) / (d - 1 + 1e-8)) successes, d the target, t all, f failures; if
    that is negative or d is 1, int((d t + f - t) / d) failures.
    """
    d = s_ratio.double()
    total = successes + failures
    excess = d * total + failures - total
    from_successes = torch.trunc(excess / (d - 1 + 1e-8)).long()
    from_failures = torch.trunc(excess / d.clamp(min=1e-12)).long()
    too_few = (from_successes < 0) | (d == 1)
    none = torch.zeros_like(total)
    return torch.where(too_few, none, from_successes), torch.where(too_few, from_failures, none)


def mixture(rollout: Rollout, task: Task, share: Tensor, draw: Draw) -> Trajectories:
    """Released copies: each segment's for its final goal with probability `share` [run], else for
    a uniform goal *drawn anew at every step*, never with predator-prey's reward for failing of -1.
    """
    runs, envs, steps = rollout.rewards.shape
    first, last = segment_starts(rollout.starts), segment_ends(rollout.ends)
    is_final = draw(envs, steps).gather(-1, first) < share.view(runs, 1, 1)
    anywhere = task.goals(draw(envs, steps, rollout.next_achieved.shape[-1]))
    final = at_step(rollout.achieved, last)
    return released_copies(rollout, task, torch.where(is_final[..., None], final, anywhere))


BALANCE = {"released": released, "described": described}
