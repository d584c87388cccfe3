"""The compiled off-policy loop: act, step, store, sample with hindsight, learn; a run at a time.

`off_policy.OffPolicyRuns` is the reference, which a test compares: the same random numbers in the
same order leave the same parameters, buffer and environments.  It works on the arrays of
`replay.buffer.ReplayBuffer`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.algorithms.critics_compiled import Engine
from hindsight.envs.run_axis import Copies, TaskFunctions, step_once
from hindsight.envs.step import SUCCESS, TERMINATED, TRUNCATED
from hindsight.nn.compiled import Numbers, copy
from hindsight.nn.numba_cache import compiled, entry_point, for_each_run
from hindsight.relabel import goals
from hindsight.replay.prioritized import LEAST, MOST, annealed, leaf_at, set_leaf
from hindsight.replay.transitions import Transitions


class Ring(NamedTuple):
    """One run's part of a `ReplayBuffer`, whose arrays are updated in place."""

    rows: Numbers  # [env, slot, width]
    before: NDArray[np.int32]  # [env, slot]
    left: NDArray[np.int32]  # [env, slot]
    elapsed: NDArray[np.int64]  # [env]
    oldest: NDArray[np.int64]  # [env]
    position: NDArray[np.int64]  # [1]
    longest: int
    n_obs: int
    n_goal: int
    n_action: int
    #: How transitions are relabelled (`Relabelling`).
    strategy: Any  # `relabel.goals.STRATEGY`
    is_random: bool  # a goal of any episode instead of the strategy's
    share: float  # of transitions that are relabelled
    described: bool
    time_limit_terminates: bool
    #: Priorities of the transitions, [env slot], as a tree (`prioritized.set_leaf`); without nodes,
    #: all are equally likely.
    sums: NDArray[np.float64]
    largest: NDArray[np.float64]  # [1], the largest priority so far
    alpha: float
    eps: float


@compiled
def _mark(ring: Ring, env: int, begin: int, steps: int, priority: float) -> None:
    """Set the priority of an environment's steps from `begin` on, if there are priorities."""
    n_slots = ring.rows.shape[1]
    if len(ring.sums):
        for i in range(begin, begin + steps):
            set_leaf(ring.sums, env * n_slots + i % n_slots, priority)


@compiled
def store(
    ring: Ring, env: int, obs: Numbers, action: Numbers, reward: float, after: Numbers, flags: int
) -> None:
    """Store a step of an environment; the position moves once those of all are stored."""
    n_obs, n_action = ring.n_obs, ring.n_action
    position, n_slots = ring.position[0], ring.rows.shape[1]
    while position + 1 - ring.oldest[env] > n_slots:  # drop the episode that is overwritten
        steps = int(ring.left[env, ring.oldest[env] % n_slots])
        _mark(ring, env, ring.oldest[env], steps, 0.0)
        ring.oldest[env] += steps
    slot = position % n_slots
    row = ring.rows[env, slot]
    copy(obs, row)
    copy(after, row[n_obs:])
    copy(action, row[2 * n_obs :])
    over = (flags & (TERMINATED | TRUNCATED)) > 0
    terminated = over if ring.time_limit_terminates else (flags & TERMINATED) > 0
    ends = row[2 * n_obs + n_action :]
    ends[0] = reward
    ends[1] = 1.0 if terminated else 0.0
    ends[2] = 1.0 if terminated and (flags & SUCCESS) == 0 else 0.0
    ring.before[env, slot] = ring.elapsed[env]
    ring.elapsed[env] += 1
    if over or ring.elapsed[env] >= ring.longest:
        steps = ring.elapsed[env]
        for i in range(steps):
            ring.left[env, (position - i) % n_slots] = i + 1
        _mark(ring, env, position + 1 - steps, steps, ring.largest[0])
        ring.elapsed[env] = 0


@compiled
def _place(ring: Ring, uniform: float) -> tuple[int, int]:
    """Environment and slot of a transition of a finished episode, all equally likely."""
    position, n_slots = ring.position[0], ring.rows.shape[1]
    total = 0
    for env in range(len(ring.oldest)):
        total += position - ring.elapsed[env] - ring.oldest[env]
    number, env = int(uniform * total), 0
    finished = position - ring.elapsed[0] - ring.oldest[0]
    while number >= finished and env + 1 < len(ring.oldest):
        number -= finished
        env += 1
        finished = position - ring.elapsed[env] - ring.oldest[env]
    return env, (number + ring.oldest[env]) % n_slots


@compiled
def _choose(
    ring: Ring, uniform: NDArray[np.float64], beta: float, weight: Numbers,
    index: NDArray[np.int64],
) -> None:  # fmt: skip
    """Choose transitions and, if there are priorities, their weights; see `sample`."""
    n, n_slots = len(index), ring.rows.shape[1]
    for k in range(n):
        if len(ring.sums):
            index[k] = leaf_at(ring.sums, (k + uniform[k, 0]) / n * ring.sums[1])
        else:
            env, slot = _place(ring, uniform[k, 0])
            index[k] = env * n_slots + slot
    if len(ring.sums):
        priorities = ring.sums[len(ring.sums) // 2 :]
        least = priorities[index[0]]
        for k in range(n):
            least = min(least, priorities[index[k]])
        for k in range(n):  # of the least probable, the largest weight is 1
            weight[k] = (priorities[index[k]] / least) ** -beta


@compiled
def _prioritise(ring: Ring, index: NDArray[np.int64], td_error: Numbers) -> None:
    """Set the priorities of a batch; see `PrioritizedReplayBuffer.update_priorities`."""
    for k in range(len(index)):
        # A run whose errors are no longer finite has diverged, and ends after this iteration.
        error = np.float64(td_error[k]) if np.isfinite(td_error[k]) else 0.0
        priority = min(max((error + ring.eps) ** ring.alpha, LEAST), MOST)
        ring.largest[0] = max(ring.largest[0], priority)
        set_leaf(ring.sums, index[k], priority)


@compiled
def sample(
    ring: Ring, task: TaskFunctions, uniform: NDArray[np.float64], beta: float, to: Transitions,
    index: NDArray[np.int64],
) -> None:  # fmt: skip
    """Sample a batch from finished episodes, partly relabelled, into `to`.

    Args:
        uniform: [sample, 3]: which transition, whether it is relabelled, and with which goal.
        beta: exponent of the weights, if there are priorities.
        index: [sample], output: where the transitions are, as env x slots + slot.
    """
    o, g, n_slots = ring.n_obs, ring.n_goal, ring.rows.shape[1]
    _choose(ring, uniform, beta, to.weight, index)
    for k in range(len(uniform)):
        env, slot = index[k] // n_slots, index[k] % n_slots
        row = ring.rows[env, slot]
        copy(row[:o], to.obs[k])
        copy(row[o : 2 * o], to.next_obs[k])
        copy(row[2 * o : 2 * o + ring.n_action], to.actions[k])
        ends = row[2 * o + ring.n_action :]
        to.rewards[k], to.terminated[k] = ends[0], ends[1] > 0
        if not uniform[k, 1] < ring.share:
            continue
        if ring.is_random:
            source_env, source = _place(ring, uniform[k, 2])
        else:
            before, left = np.int64(ring.before[env, slot]), np.int64(ring.left[env, slot])
            source_env = env
            source = int(ring.strategy(slot, before, left, uniform[k, 2])) % n_slots
        achieved = ring.rows[source_env, source, o : o + g]
        copy(achieved, to.obs[k, g:])
        copy(achieved, to.next_obs[k, g:])
        success = task.achieves(task.parameters, row[o : o + g], achieved)
        failed = ends[2] > 0
        if success:
            to.rewards[k] = task.pay.success
        else:
            to.rewards[k] = task.pay.failure if failed and ring.described else task.pay.step
        if task.terminates_on_success and ring.described:
            to.terminated[k] = failed or success


class Draws(NamedTuple):
    """One run's random numbers for a chunk of steps, and what was decided before it."""

    #: [env, step, number], the policy's noise, and uniformly random actions [env, step, action].
    noise: Numbers
    random_actions: Numbers
    at_random: NDArray[np.bool_]  # [env, step], whether the random action is taken
    due: NDArray[np.bool_]  # [step], whether updates follow
    batches: NDArray[np.float64]  # [update, sample, 3]; see `sample`
    betas: NDArray[np.float64]  # [step]; see `sample`
    updates: Numbers  # [update, number, action], the updates' noise


class Outcomes(NamedTuple):
    """What a run's chunk reports of each step, [env, step]; output."""

    rewards: Numbers
    ended: NDArray[np.bool_]
    succeeded: NDArray[np.bool_]


def loop(
    act: Any,
    learn: Any,
    learner: Any,
    task: TaskFunctions,
    copies: Copies,
    ring: Ring,
    draws: Draws,
    batch: Transitions,
    index: NDArray[np.int64],
    td_error: Numbers,
    results: Any,
    outcomes: Outcomes,
) -> None:
    """Take a chunk's steps in one run's environments, with the updates that are due.

    Args:
        act, learn, learner: of the algorithm (`algorithms.critics_compiled.Engine`).
        batch, index, td_error: space for a batch.
        results: [update], the updates' diagnostics; output.
    """
    n_envs, steps = outcomes.rewards.shape
    n_updates = len(results) // max(draws.due.sum(), 1)  # after each step where they are due
    obs, after = np.empty(ring.n_obs, np.float32), np.empty(ring.n_obs, np.float32)
    action, update = np.empty(ring.n_action, np.float32), 0
    for t in range(steps):
        for env in range(n_envs):
            copy(copies.state[env], obs)
            if draws.at_random[env, t]:
                copy(draws.random_actions[env, t], action)
            else:
                act(learner, obs, draws.noise[env, t], action)
            flags = step_once(task, copies, env, t, action, after)
            success = (flags & SUCCESS) > 0
            reward = task.pay.success if success else task.pay.step
            if not success and (flags & TERMINATED) > 0:
                reward = task.pay.failure
            store(ring, env, obs, action, reward, after, flags)
            outcomes.rewards[env, t], outcomes.succeeded[env, t] = reward, success
            outcomes.ended[env, t] = (flags & (TERMINATED | TRUNCATED)) > 0
        ring.position[0] += 1
        if draws.due[t]:
            for _ in range(n_updates):
                sample(ring, task, draws.batches[update], draws.betas[t], batch, index)
                learn(learner, batch, draws.updates[update], results[update : update + 1], td_error)
                if len(ring.sums):
                    _prioritise(ring, index, td_error)
                update += 1


@cache
def loop_of(engine: Engine) -> Callable[..., None]:
    """The loop of an algorithm, as an entry point: each has its own types."""
    return entry_point(loop)


def take(
    runs: Any, noise: Tensor, random_actions: Tensor, at_random: Tensor, due: NDArray[np.bool_],
    batches: NDArray[np.float64], updates: Tensor,
) -> tuple[Outcomes, dict[str, Tensor]]:  # fmt: skip
    """Take a chunk of steps of all runs (`OffPolicyRuns`), in place; arguments as in `Draws`.

    Returns outcomes [run, env, step] and the updates' diagnostics by name, [run, update].
    """
    env, buffer, engine, spec = runs.env, runs.buffer, runs.engine, runs.algorithm
    env.draw_beginnings()
    n_runs, n_envs, steps = at_random.shape
    n, sizes = batches.shape[2], (env.observation_size, env.action_size)
    random_actions = random_actions.float().view(n_runs, n_envs, steps, -1)
    given = [x.contiguous().numpy() for x in (noise, random_actions, at_random, updates)]
    shape, task = (n_runs, n_envs, steps), env.functions
    outcomes = Outcomes(np.empty(shape, np.float32), np.empty(shape, bool), np.empty(shape, bool))
    results = np.zeros(batches.shape[:2], engine.results).view(np.recarray)
    taken = (runs.steps + 1 + np.arange(steps)) * n_envs
    betas = np.array([annealed(runs.replay.beta, x / runs.spec.steps) for x in taken])

    def advance(run: int) -> None:
        learner = engine.learner(runs.state, run, spec)
        own = [x[run] for x in given]
        draws = Draws(own[0], own[1], own[2], due, batches[run], betas, own[3])
        states, next_states = np.empty((2, n, sizes[0]), np.float32)
        actions, rewards = np.empty((n, sizes[1]), np.float32), np.empty(n, np.float32)
        weight = np.empty(n if runs.replay.prioritized else 0, np.float32)
        batch = Transitions(states, actions, rewards, next_states, np.empty(n, np.bool_), weight)
        td_error, obs, action = (np.empty(size, np.float32) for size in (n, *sizes))
        loop_of(engine)(
            engine.act.of(learner, obs, draws.noise[0, 0], action),
            engine.learn.of(learner, batch, np.empty((0, 0), np.float32), results[run], td_error),
            learner, task, env.copies(run, steps), ring_of(runs, run), draws, batch,
            np.empty(n, np.int64), td_error, results[run], Outcomes(*(x[run] for x in outcomes)),
        )  # fmt: skip

    for_each_run(n_runs, advance)
    buffer.position += steps
    names = engine.results.names
    return outcomes, {x: torch.from_numpy(results[x].copy()).float() for x in names}


def ring_of(runs: Any, run: int) -> Ring:
    """A run's part of the buffer of `OffPolicyRuns`."""
    buffer, env, replay = runs.buffer, runs.env, runs.replay
    k, strategy = buffer.relabelling.k, buffer.relabelling.strategy
    sums, largest, alpha, eps = np.empty(0), np.ones(1), 0.0, 0.0
    if replay.prioritized:
        sums, largest = buffer.tree.sums[run], buffer.largest[run : run + 1]
        alpha, eps = buffer.alpha, buffer.eps
    return Ring(
        buffer.rows[run].numpy(), buffer.before[run], buffer.left[run], buffer.elapsed[run],
        buffer.oldest[run], np.array([buffer.position]), buffer.longest, env.observation_size,
        env.goal_size, env.action_size,
        goals.strategy_of("final" if strategy == "random" else strategy).address,
        strategy == "random", k / (k + 1), replay.fidelity == "described",
        replay.time_limit_terminates, sums, largest, alpha, eps,
    )  # fmt: skip
