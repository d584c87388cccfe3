"""Compiled, faster versions of PPO's `collect` and `update`, which train one run at a time.

Read `algorithms.ppo` beside the paper; it also runs on GPUs.  Tests compare the two, which have the
same arguments and results.  docs/speed.md explains the speed.
"""

import math
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.algorithms.ppo import Agent, Diagnostics, Samples, rollout_of
from hindsight.envs.rollout import Rollout
from hindsight.envs.run_axis import Copies, Environments, TaskFunctions, step_once
from hindsight.envs.step import Step
from hindsight.nn import compiled as net
from hindsight.nn.adam import Adam
from hindsight.nn.compiled import Numbers
from hindsight.nn.numba_cache import compiled, entry_point, for_each_run
from hindsight.specs.algorithms.ppo import PPOSpec

HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


# -- the rollout ----------------------------------------------------------------------------------


class Policy(NamedTuple):
    transposed: Numbers  # parameters of the network, with weights [in, out]
    sizes: net.Sizes  # of its layers
    sigma: Numbers  # [action]
    squashed: bool
    discrete: bool


class Path(NamedTuple):
    """What a run's rollout writes, [env, rollout step, ...]."""

    obs: Numbers
    actions: Numbers
    next_obs: Numbers
    flags: NDArray[np.int64]
    starts: NDArray[np.bool_]


@compiled
def _act(policy: Policy, x: Numbers, hidden: Numbers) -> Numbers:
    """Outputs of the policy network for one observation x [in].

    hidden: [2, largest size], space for the layers.
    """
    place, here, last = 0, 0, len(policy.sizes) - 2
    for layer in range(last + 1):
        n_in, n_out = policy.sizes[layer], policy.sizes[layer + 1]
        y = hidden[here, :n_out]
        net.copy(policy.transposed[place : place + n_out], y)
        place += n_out
        # With weights [in, out], the loop over outputs vectorises.
        for i in range(n_in):
            weight = policy.transposed[place : place + n_out]
            place += n_out
            xi = x[i]
            for j in range(n_out):
                y[j] += xi * weight[j]
        if layer < last:
            for j in range(n_out):
                y[j] = net.tanh(y[j])
        x, here = y, 1 - here
    return x


@entry_point
def _rollout(
    task: TaskFunctions, copies: Copies, policy: Policy, noise: Numbers, first: int, path: Path
) -> None:
    """Step one run's environments len(noise) times, from step `first` of the rollout on.

    noise: [step, env, output].
    """
    hidden = np.empty((2, policy.sizes.max()), np.float32)
    given = np.empty(path.actions.shape[2], np.float32)
    for i in range(len(noise)):
        t = first + i
        for env in range(len(copies.state)):
            state = copies.state[env]
            net.copy(state, path.obs[env, t])
            path.starts[env, t] = copies.elapsed[env] == 0
            outputs = _act(policy, state, hidden)
            if policy.discrete:
                given[0] = np.argmax(outputs + noise[i, env])
                path.actions[env, t, 0] = given[0]
            else:
                for j in range(len(given)):
                    u = outputs[j] + policy.sigma[j] * noise[i, env, j]
                    path.actions[env, t, j] = u
                    given[j] = math.tanh(u) if policy.squashed else u
            path.flags[env, t] = step_once(task, copies, env, t, given, path.next_obs[env, t])


@torch.no_grad()
def collect(env: Environments[Any], agent: Agent, rows: Tensor, noise: Tensor) -> Rollout:
    """Collect one rollout of a native environment; see `ppo.collect`."""
    n_steps, runs, envs, _ = noise.shape
    policy, _, log_std = agent.split(rows)
    transposed = []
    for bias, weight in agent.policy.layers(policy):
        transposed += [bias, weight.transpose(1, 2).flatten(1)]
    network, sigma = torch.cat(transposed, dim=1).numpy(), log_std.exp().contiguous().numpy()
    by_run = noise.movedim(1, 0).contiguous().numpy()
    obs = np.empty((runs, envs, n_steps, env.observation_size), np.float32)
    next_obs, flags = np.empty_like(obs), np.empty((runs, envs, n_steps), np.int64)
    actions = np.empty((runs, envs, n_steps, env.action_size), np.float32)
    path = Path(obs, actions, next_obs, flags, np.empty(flags.shape, np.bool_))
    sizes, task = np.array(agent.policy.sizes), env.functions
    squashed = agent.exploration == "squashed"

    def advance(run: int, first: int, last: int) -> None:
        own = Policy(network[run], sizes, sigma[run], squashed, agent.discrete)
        written = Path(*(x[run] for x in path))
        copies = env.copies(run, n_steps)
        _rollout(task, copies, own, by_run[run, first:last], first, written)

    for first in range(0, n_steps, env.block_size):
        last = min(first + env.block_size, n_steps)
        env.draw_beginnings()
        for_each_run(runs, lambda run: advance(run, first, last))  # noqa: B023
    step = Step.of(torch.from_numpy(next_obs), torch.from_numpy(flags), env.goal_size, env.pay)
    step = step._replace(next_achieved=step.next_achieved.contiguous())
    seen, taken, starts = (torch.from_numpy(x) for x in (obs, actions, path.starts))
    return rollout_of(env, seen, taken, starts, step)


# -- the update -----------------------------------------------------------------------------------


@compiled
def _normalise(advantage: Numbers) -> None:
    """Normalise to mean 0 and standard deviation 1, in place; a single number is left unchanged."""
    n = len(advantage)
    if n == 1:
        return
    mean = 0.0
    for a in advantage:
        mean += a
    mean /= n
    variance = 0.0
    for a in advantage:
        variance += (a - mean) ** 2
    std = math.sqrt(variance / (n - 1)) + 1e-8
    for i in range(n):
        advantage[i] = (advantage[i] - mean) / std


@compiled
def _gaussian_log_prob(mean: Numbers, log_std: Numbers, action: Numbers) -> float:
    """log N(action; mean, sigma) of one sample."""
    result = 0.0
    for j in range(len(action)):
        z = (action[j] - mean[j]) * math.exp(-log_std[j])
        result -= 0.5 * z * z + log_std[j] + HALF_LOG_2_PI
    return result


@compiled
def _log_softmax(logits: Numbers, log_p: Numbers) -> float:
    """Write the log-probabilities into `log_p` and return the entropy."""
    largest, total = logits.max(), 0.0
    for x in logits:
        total += math.exp(x - largest)
    entropy = 0.0
    for j in range(len(logits)):
        log_p[j] = logits[j] - largest - math.log(total)
        entropy -= math.exp(log_p[j]) * log_p[j]
    return entropy


class Hyper(NamedTuple):
    """What `_update` needs of the specification; limits are infinite where there are none."""

    target_kl: float
    clip_range: float
    clip_range_vf: float
    vf_coef: float
    ent_coef: float
    max_grad_norm: float
    batch_size: int
    discrete: bool
    learns_sigma: bool
    cloned: bool  # maximise the log-likelihood of the actions instead of L^CLIP; see `ppo.step`


#: Sums over the minibatches seen, and how many these were; `ppo.Diagnostics` are their means.
RESULT = np.dtype(
    [(field.name, np.float64) for field in fields(Diagnostics)] + [("seen", np.float64)]
)


@compiled
def _policy_loss(
    samples: Numbers,
    n_obs: int,
    advantage: Numbers,
    outputs: Numbers,
    log_std: Numbers,
    hyper: Hyper,
    d_outputs: Numbers,
    d_log_std: Numbers,
    result: Any,
) -> float:
    """Policy loss of a minibatch: -L^CLIP (eq. 7) less the entropy bonus.  NaN propagates.

    Args:
        samples: [sample, column], rows of `_update`'s table.  advantage: [sample].
        outputs: [sample, output] of the policy network.
        d_outputs, d_log_std: gradients of the loss, outputs.

    Returns Schulman's estimator of the KL divergence, E[(r - 1) - log r].
    """
    n, n_outputs = outputs.shape
    n_actions = samples.shape[1] - n_obs - 4
    clip, weight = hyper.clip_range, hyper.ent_coef
    log_p = np.empty(n_outputs, np.float32)
    d_log_std[:] = -weight if hyper.learns_sigma else 0.0
    kl = 0.0
    for i in range(n):
        action = samples[i, n_obs : n_obs + n_actions]
        chosen, entropy = int(action[0]), 0.0
        if hyper.discrete:
            entropy = _log_softmax(outputs[i], log_p)
            log_prob: float = np.float64(log_p[chosen])
        else:
            log_prob = _gaussian_log_prob(outputs[i], log_std, action)
        log_ratio = log_prob - samples[i, n_obs + n_actions]
        ratio, a = math.exp(log_ratio), np.float64(advantage[i])
        held = (a > 0 and ratio > 1 + clip) or (a < 0 and ratio < 1 - clip)
        bound = 1 + clip if a > 0 else 1 - clip
        slope = ratio * (0.0 if held else -a / n)  # d loss / d log pi
        loss = -(bound * a if held else ratio * a) / n
        if hyper.cloned:
            slope, loss = -1.0 / n, -log_prob / n
        for j in range(n_outputs):
            if hyper.discrete:
                p = math.exp(log_p[j])
                d = slope * ((1.0 if j == chosen else 0.0) - p)
                d_outputs[i, j] = d + weight / n * p * (log_p[j] + entropy)
            else:
                inverse = math.exp(-log_std[j])
                z = (action[j] - outputs[i, j]) * inverse
                d_outputs[i, j] = slope * z * inverse
                if hyper.learns_sigma:
                    d_log_std[j] += slope * (z * z - 1)
        kl += (ratio - 1 - log_ratio) / n
        result.policy_loss += loss
        result.clip_fraction += (1.0 if abs(ratio - 1) > clip else 0.0) / n
    return kl


@compiled
def _value_loss(samples: Numbers, values: Numbers, hyper: Hyper, d_values: Numbers) -> float:
    """The minibatch mean of (V - return)^2, with V clipped around its old value.

    Args:
        samples: [sample, column], rows of `_update`'s table.
        values: [sample, 1] of the value network.
        d_values: [sample], gradient of the loss times `vf_coef`, output.
    """
    n, last = len(samples), samples.shape[1] - 1
    clip, loss = hyper.clip_range_vf, 0.0
    for i in range(n):
        old, target = np.float64(samples[i, last - 2]), np.float64(samples[i, last])
        new, passes = np.float64(values[i, 0]), 1.0
        if new - old > clip:
            new, passes = old + clip, 0.0
        elif new - old < -clip:
            new, passes = old - clip, 0.0
        loss += (new - target) ** 2 / n
        d_values[i] = hyper.vf_coef * 2 * (new - target) / n * passes
    return loss


@entry_point
def _update(
    optimised: net.Optimised,
    sizes: tuple[net.Sizes, net.Sizes],
    lengths: tuple[int, int],
    table: Numbers,
    order: NDArray[np.int64],
    hyper: Hyper,
    results: Any,
) -> None:
    """Run PPO's epochs for one run.

    Args:
        sizes, lengths: layer sizes of the policy network and the value network; their parameters.
        table: [sample, column]: obs, actions, log-probability, value, advantage, return.
        order: [epoch, sample'].
        results: [1], output.
    """
    row, (policy_sizes, value_sizes), result = optimised.row, sizes, results[0]
    (n_policy, n_value), batch_size = lengths, hyper.batch_size
    n_obs, n_outputs = policy_sizes[0], policy_sizes[-1]
    most = min(batch_size, order.shape[1])
    minibatch = np.empty((most, table.shape[1]), np.float32)
    advantages = np.empty(most, np.float32)
    seen = np.empty(most * policy_sizes.sum(), np.float32)
    valued = np.empty(most * value_sizes.sum(), np.float32)
    delta = np.empty((2, most * max(policy_sizes.max(), value_sizes.max())), np.float32)
    grad = np.zeros(len(row), np.float32)
    policy, value = row[:n_policy], row[n_policy : n_policy + n_value]
    d_policy, d_value = grad[:n_policy], grad[n_policy : n_policy + n_value]
    log_std, d_log_std = row[n_policy + n_value :], grad[n_policy + n_value :]
    n_learned = len(row) if hyper.learns_sigma else n_policy + n_value
    learned = net.Optimised(
        row[:n_learned], optimised.m[:n_learned], optimised.v[:n_learned], optimised.steps,
        optimised.learning_rate, optimised.eps, optimised.weight_decay,
    )  # fmt: skip
    for epoch in range(len(order)):
        for begin in range(0, order.shape[1], batch_size):
            batch = order[epoch, begin : begin + batch_size]
            n = len(batch)
            samples, advantage = minibatch[:n], advantages[:n]
            for i in range(n):
                net.copy(table[batch[i]], samples[i])
                net.copy(samples[i, :n_obs], seen[i * n_obs :])
                net.copy(samples[i, :n_obs], valued[i * n_obs :])
                advantage[i] = samples[i, -2]
            _normalise(advantage)
            outputs = net.forward(policy, policy_sizes, n, seen, most, False)
            d_outputs = delta[0, : n * n_outputs].reshape(n, n_outputs)
            kl = _policy_loss(
                samples, n_obs, advantage, outputs, log_std, hyper, d_outputs, d_log_std, result
            )
            net.backward(policy, policy_sizes, n, seen, most, False, delta, d_policy)
            values = net.forward(value, value_sizes, n, valued, most, False)
            result.value_loss += _value_loss(samples, values, hyper, delta[0])
            net.backward(value, value_sizes, n, valued, most, False, delta, d_value)
            size = math.sqrt(np.dot(grad, grad))
            result.approx_kl += kl
            result.gradient_norm += size
            result.seen += 1
            if kl > 1.5 * hyper.target_kl:
                return
            result.updates += 1
            optimised.steps[0] += 1
            net.adam(learned, grad, min(hyper.max_grad_norm / (size + 1e-6), 1.0))


@torch.no_grad()
def update(
    agent: Agent, optimiser: Adam, samples: Samples, order: Tensor, spec: PPOSpec
) -> Diagnostics:
    """Run PPO's epochs of minibatch updates; see `ppo.update`."""
    scalars = samples.log_prob, samples.value, samples.advantage, samples.returns
    columns = torch.stack(scalars, dim=-1)
    table = torch.cat([samples.obs, samples.actions, columns], dim=-1).numpy()
    counts, orders = samples.valid.sum(1).tolist(), order.movedim(1, 0).contiguous().numpy()
    hyper = Hyper(
        net.limit_of(spec.target_kl), spec.clip_range, net.limit_of(spec.clip_range_vf),
        0.0 if samples.cloned else spec.vf_coef, spec.ent_coef, spec.max_grad_norm,
        spec.batch_size, agent.discrete,
        not agent.discrete and spec.exploration != "annealed", samples.cloned,
    )  # fmt: skip
    sizes = np.array(agent.policy.sizes), np.array(agent.value.sizes)
    results = np.zeros((len(counts), 1), RESULT).view(np.recarray)

    def learn(run: int) -> None:
        own = np.ascontiguousarray(orders[run, :, : counts[run]])
        learned = net.optimised_of(optimiser, run)
        _update(learned, sizes, agent.sizes[:2], table[run], own, hyper, results[run])

    for_each_run(len(counts), learn)
    seen = np.maximum(results["seen"], 1)
    found = {x.name: results[x.name] / seen for x in fields(Diagnostics)}
    found["updates"] = results["updates"]
    return Diagnostics(**{name: torch.from_numpy(x[:, 0]).float() for name, x in found.items()})
