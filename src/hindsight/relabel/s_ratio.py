"""Hindsight with a target share of successes, the S-ratio (MEHER sections 3 and 4).

The S-ratio is the share of successful episodes among the training episodes.  Each episode is copied
either as a success, with its final achieved goal, or as a failure, with a goal that it never
reaches.  Surplus episodes are dropped at random, so that the training data meet a target S.
`released` follows the authors' code quirk for quirk, `described` the paper (docs/deviations.md).

Each run has its own target.  `draw(*size)` returns random numbers [run, *size], uniform in [0, 1),
from the runs' own streams.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from hindsight.envs.environment import Environment
from hindsight.envs.rollout import Rollout, Trajectories, at_step, segment_ends, segment_starts
from hindsight.relabel.on_policy import described_copies, episode_success, released_copies
from hindsight.specs.hindsight import HindsightSpec

Draw = Callable[..., Tensor]
#: Number of goals drawn for a failure before an episode counts as one that cannot fail.
TRIES = 100


def quota(
    s_ratio: Tensor, successes: Tensor, failures: Tensor, copies: Tensor, can_fail: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The numbers that bring the share of successes closest to `s_ratio` with the fewest drops.

    If there are no episodes of the kind that is needed, all are kept.

    Args:
        s_ratio: [run], the target in [0, 1].
        successes, failures: [run], real episodes.
        copies, can_fail: [run], copies to make, and how many of them can be failures.

    Returns the copies to make as successes, and the successes and failures to keep, real and
    copied, each [run].
    """
    s = s_ratio.double()
    wanted = torch.round(s * (successes + failures + copies)).long()
    as_successes = (wanted - successes).clamp(min=copies - can_fail)
    as_successes = torch.minimum(as_successes, copies)
    all_successes, all_failures = successes + as_successes, failures + copies - as_successes
    # Drop successes if there are too many even with all possible failures, and failures if there
    # are too few successes even with every copy a success.
    few = torch.round(s * all_failures / (1 - s).clamp(min=1e-12)).long()
    keep_successes = torch.where(
        (wanted < all_successes) & (all_failures > 0), few.clamp(max=all_successes), all_successes
    )
    few = torch.round((1 - s) * all_successes / s.clamp(min=1e-12)).long()
    keep_failures = torch.where(
        (wanted > all_successes) & (all_successes > 0), few.clamp(max=all_failures), all_failures
    )
    return as_successes, keep_successes, keep_failures


def chosen(among: Tensor, count: Tensor, priority: Tensor) -> Tensor:
    """The `count` [run] flags of `among` [run, n] bool with the lowest `priority` [run, n]."""
    order = torch.where(among, priority, torch.inf).argsort(dim=1, stable=True)
    lowest = torch.arange(order.shape[1], device=order.device) < count[:, None]
    return among & torch.empty_like(among).scatter(1, order, lowest)


def described(
    rollout: Rollout, spec: HindsightSpec, task: Environment, s_ratio: Tensor, draw: Draw
) -> tuple[Trajectories, Trajectories]:
    """The rollout and its copies, with a share `s_ratio` [run] of successful episodes.

    Each episode that lies entirely in the rollout is copied once.  Segments cut by the rollout have
    no outcome: they are kept for training and count neither as successes nor as failures.
    """
    runs, envs, steps = rollout.rewards.shape
    first, last = rollout.first, rollout.last
    # Drawn first, because `failure_goals` draws a number of goals that depends on all runs.
    priority = draw(3, envs * steps)
    unreached, can_fail = failure_goals(rollout, spec, task, draw)

    episode = (rollout.whole & rollout.starts).flatten(1)  # flags each episode's first step
    succeeded = episode_success(rollout, task).flatten(1)
    real_success, real_failure = episode & succeeded, episode & ~succeeded
    failing = episode & can_fail.flatten(1)
    counts = (real_success.sum(1), real_failure.sum(1), episode.sum(1), failing.sum(1))
    success_copies, keep_successes, keep_failures = quota(s_ratio, *counts)
    # Copies that cannot fail are the first to become successes.
    as_success = chosen(episode, success_copies, priority[:, 0] + failing)
    both = torch.cat([real_success, as_success], dim=1)
    keep = chosen(both, keep_successes, priority[:, 1:].flatten(1))
    both = torch.cat([real_failure, episode & ~as_success], dim=1)
    keep |= chosen(both, keep_failures, priority[:, 1:].flatten(1))

    def spread(flags: Tensor) -> Tensor:  # from an episode's first step to all its steps
        return flags.view(runs, envs, steps).gather(-1, first)

    keep_real, keep_copy = (spread(part) for part in keep.chunk(2, dim=1))
    final = at_step(rollout.next_achieved, last)
    goal = torch.where(spread(as_success)[..., None], final, at_step(unreached, first))
    real = replace(Trajectories.real(rollout), valid=keep_real | ~rollout.whole)
    return real, described_copies(
        rollout, task, goal, rollout.whole & keep_copy, spec.cut_at_success
    )


def failure_goals(
    rollout: Rollout, spec: HindsightSpec, task: Environment, draw: Draw
) -> tuple[Tensor, Tensor]:
    """Goals that the episodes do not reach, and whether one was found, at their first steps.

    Returns [run, env, step, goal] and [run, env, step] bool.

    untargeted: uniform in the goal space or, where that is unknown, one that the environment gave
    to a whole episode of the run; targeted: `failure_distance` times the threshold away from the
    final achieved goal, in a uniform direction.  Of `TRIES` draws, the first counts that lies in
    the goal space and that no achieved goal of the episode reaches.
    """
    g = rollout.next_achieved.shape[-1]
    begins = rollout.whole & rollout.starts
    run, env, start = begins.nonzero(as_tuple=True)  # [episode] each, sorted by run
    last = rollout.last[run, env, start]
    longest = int((last - start).max()) + 1 if len(run) else 0
    steps = torch.minimum(start[:, None] + torch.arange(longest, device=run.device), last[:, None])
    points = torch.cat(
        [
            rollout.achieved[run, env, start][:, None],
            rollout.next_achieved[run[:, None], env[:, None], steps],
        ],
        dim=1,
    )  # [episode, point, goal]; a shorter episode repeats its last point
    # The n-th episode of a run uses the n-th row of the run's draws, whatever the other runs do.
    each = torch.bincount(run, minlength=rollout.rewards.shape[0])
    before = (each.cumsum(0) - each)[run]  # episodes of the runs before
    nth = torch.arange(len(run), device=run.device) - before
    uniform = draw(int(each.max()), TRIES, g)
    goals, found = points[:, -1].clone(), torch.zeros_like(run, dtype=torch.bool)
    given = rollout.desired[run, env, start]  # [episode, goal]
    for tries in (slice(0, 8), slice(8, TRIES)):  # few episodes need more than eight
        left = (~found).nonzero()[:, 0]
        if not len(left):
            break  # an environment need not compute the rewards of no goals
        numbers = uniform[run[left], nth[left], tries]
        if task.spec.foreign:  # its goal space is unknown
            other = (numbers[..., 0] * each[run[left], None]).long()
            drawn = given[before[left, None] + other]
            # Its own goal would only copy a failure once more.
            fits = (drawn != given[left, None]).any(-1)
        else:
            drawn = task.goals(numbers)
            if spec.failures == "targeted":
                away = spec.failure_distance * task.threshold * direction(numbers)
                drawn = points[left, -1:] + away
            fits = task.contains(drawn)
        fits &= ~_reached(task, points[left], drawn)
        first = fits.long().argmax(1)
        goals[left] = drawn[torch.arange(len(left), device=run.device), first]
        found[left] = fits.any(1)
    at_start, can_fail = torch.zeros_like(rollout.next_achieved), torch.zeros_like(begins)
    at_start[run, env, start], can_fail[run, env, start] = goals, found
    return at_start, can_fail


def _reached(task: Environment, points: Tensor, goals: Tensor) -> Tensor:
    """Whether a point [episode, point, goal] achieves `goals` [episode, try, goal].

    Returns [episode, try].
    """
    shape = (*goals.shape[:2], *points.shape[1:])
    pair = points[:, None].expand(shape), goals[:, :, None].expand(shape)
    never = torch.zeros(shape[:-1], dtype=torch.bool, device=points.device)
    return task.reward(*pair, never)[1].any(-1)


def direction(uniform: Tensor) -> Tensor:
    """Uniform random unit vectors [..., n], from numbers [..., n] uniform in [0, 1)."""
    # Clamping half a float32 step away from -1 and 1 keeps the inverse error function finite.
    gaussian = torch.erfinv((2 * uniform - 1).clamp(-1 + 2**-24, 1 - 2**-24))
    return torch.nn.functional.normalize(gaussian, dim=-1)


def released(
    rollout: Rollout, spec: HindsightSpec, task: Environment, s_ratio: Tensor, draw: Draw
) -> tuple[Trajectories, Trajectories]:
    """As in the authors' code: mix success and failure copies, then drop the surplus.

    A segment's copy has the final goal with probability clip(2 S - A, 0, 1).  A is the share of
    successes, computed as (mean terminal reward + 1) / 2, of the episodes that begin and end in the
    rollout before its last step.  Rollout and copies then form one list, with a new trajectory at
    the beginning of each episode and copy.  A trajectory counts as a success if its last reward is
    >= 0, which is the case for every failure copy and for the segment cut at the rollout's end.
    The list's head, which continues an episode of the previous rollout, and its last trajectory
    are not counted and never dropped.

    On tasks with rewards of -1 and 0, the same rules apply to the environment's rewards, without
    the value added at a truncation: A is at most 1/2, and a failure copy counts as a failure.
    """
    real = Trajectories.real(rollout)
    complete = _followed(rollout.starts) & rollout.starts.gather(-1, rollout.first)
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
    last = segment_ends(followed)  # a trajectory's flag is at its last step
    keep = ~dropped.view(followed.shape).gather(-1, last)
    keep_real, keep_copies = keep.chunk(2, dim=-1)
    return replace(real, valid=keep_real), replace(copies, valid=keep_copies)


def _followed(starts: Tensor) -> Tensor:
    """Whether the next step starts a trajectory, [..., step] bool."""
    return pad(starts[..., 1:], (0, 1))


def surplus(s_ratio: Tensor, successes: Tensor, failures: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers of successes and of failures that the authors' code drops, each [run]; one is 0.

    With target d, f failures and t episodes, it drops int((d t + f - t) / (d - 1 + 1e-8))
    successes.  If that is negative or d is 1, it drops int((d t + f - t) / d) failures instead.
    """
    d = s_ratio.double()
    total = successes + failures
    excess = d * total + failures - total
    from_successes = torch.trunc(excess / (d - 1 + 1e-8)).long()
    from_failures = torch.trunc(excess / d.clamp(min=1e-12)).long()
    too_few = (from_successes < 0) | (d == 1)
    none = torch.zeros_like(total)
    return torch.where(too_few, none, from_successes), torch.where(too_few, from_failures, none)


def mixture(rollout: Rollout, task: Environment, share: Tensor, draw: Draw) -> Trajectories:
    """Released copies, which never get predator-prey's reward of -1 for failing.

    A segment's copy has its final goal with probability `share` [run], otherwise a uniform goal
    *drawn again at every step*.
    """
    runs, envs, steps = rollout.rewards.shape
    is_final = draw(envs, steps).gather(-1, rollout.first) < share.view(runs, 1, 1)
    anywhere = task.goals(draw(envs, steps, rollout.next_achieved.shape[-1]))
    final = at_step(rollout.achieved, rollout.last)
    return released_copies(rollout, task, torch.where(is_final[..., None], final, anywhere))


BALANCE = {"released": released, "described": described}
