"""Compiled, faster versions of PPO's `collect` and `update`, which train one run at a time.

Read `algorithms.ppo` beside the paper; it also runs on GPUs.  The two functions here have the same
arguments and results.  Tests compare them: the same parameters, samples and order give the same
updated parameters to 1e-5.  Relabelling, advantages and bookkeeping are shared.  docs/speed.md
explains the speed.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.algorithms.ppo import ActorCritic, Diagnostics, Samples, rollout_of
from hindsight.envs.run_axis import Environments
from hindsight.envs.step import TERMINATED, TRUNCATED, Step
from hindsight.io.compiled import compiled, entry_point, for_each_run
from hindsight.nn.adam import Adam
from hindsight.nn.compiled import Numbers, Optimised, Sizes, adam, backward, copy, forward, tanh
from hindsight.replay.rollout import Rollout
from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.on_policy import Exploration

Flags = NDArray[np.bool_]
HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


# -- the rollout ----------------------------------------------------------------------------------


@compiled
def _act(transposed: Numbers, sizes: Sizes, x: Numbers, hidden: Numbers) -> Numbers:
    """Outputs of the policy network for one observation x [in].

    Args:
        transposed: its parameters with weights [in, out], so that the loop over outputs vectorises.
        hidden: [2, largest size], scratch space for the layers.
    """
    place, here = 0, 0
    for layer in range(len(sizes) - 1):
        n_in, n_out = sizes[layer], sizes[layer + 1]
        y = hidden[here, :n_out]
        copy(transposed[place : place + n_out], y)
        place += n_out
        for i in range(n_in):
            weight = transposed[place : place + n_out]
            place += n_out
            xi = x[i]
            for j in range(n_out):
                y[j] += xi * weight[j]
        if layer < len(sizes) - 2:
            for j in range(n_out):
                y[j] = tanh(y[j])
        x, here = y, 1 - here
    return x


@entry_point
def _rollout(
    step: Any,
    goal_policy: Any,
    parameters: NDArray[np.float64],
    network: Numbers,
    sizes: Sizes,
    log_std: Numbers,
    squashed: bool,
    discrete: bool,
    noise: Numbers,
    drawn: Numbers,
    beginnings: Numbers,
    state: Numbers,
    elapsed: NDArray[np.int64],
    episode: NDArray[np.int64],
    first: int,
    obs: Numbers,
    actions: Numbers,
    next_obs: Numbers,
    flags: NDArray[np.int64],
    starts: Flags,
) -> None:
    """Step one run's environments len(noise) times, from step `first` of the rollout on.

    Args:
        step, goal_policy, parameters: of the task; see `envs.step.STEP`.
        network, sizes: transposed parameters and layer sizes of the policy network, see `_act`.
        log_std: [action].
        noise: [step, env, output].  drawn: [rollout step, env, number].
        beginnings: [env, held, obs], first observations; episode e uses index e modulo `held`.
        state [env, obs], elapsed [env], episode [env]: environment state, updated in place.
        obs, actions, next_obs, flags, starts: [env, rollout step, ...], outputs.
    """
    envs, n_actions, held = len(state), actions.shape[2], beginnings.shape[1]
    hidden = np.empty((2, sizes.max()), np.float32)
    sigma, given = np.exp(log_std), np.empty(n_actions, np.float32)
    for i in range(len(noise)):
        t = first + i
        for env in range(envs):
            copy(state[env], obs[env, t])
            starts[env, t] = elapsed[env] == 0
            outputs = _act(network, sizes, state[env], hidden)
            if discrete:
                given[0] = np.argmax(outputs + noise[i, env])
                actions[env, t, 0] = given[0]
            else:
                for j in range(n_actions):
                    u = outputs[j] + sigma[j] * noise[i, env, j]
                    actions[env, t, j] = u
                    given[j] = math.tanh(u) if squashed else u
            found = step(
                goal_policy, parameters, state[env], elapsed[env], given, drawn[t, env],
                next_obs[env, t],
            )  # fmt: skip
            flags[env, t] = found
            elapsed[env] += 1
            copy(next_obs[env, t], state[env])
            if found & (TERMINATED | TRUNCATED):
                episode[env] += 1
                elapsed[env] = 0
                copy(beginnings[env, episode[env] % held], state[env])


@torch.no_grad()
def collect(
    env: Environments[Any],
    agent: ActorCritic,
    rows: Tensor,
    noise: Tensor,
    exploration: Exploration = "gaussian",
) -> Rollout:
    """Collect one rollout of a native environment; see `ppo.collect`."""
    n_steps, runs, envs, _ = noise.shape
    policy, _, log_std = agent.split(rows)
    transposed = []
    for bias, weight in agent.policy.layers(policy):
        transposed += [bias, weight.transpose(1, 2).flatten(1)]
    network, sigma = torch.cat(transposed, dim=1).numpy(), log_std.contiguous().numpy()
    by_run = noise.movedim(1, 0).contiguous().numpy()
    obs = np.empty((runs, envs, n_steps, env.observation_size), np.float32)
    next_obs, flags = np.empty_like(obs), np.empty((runs, envs, n_steps), np.int64)
    actions = np.empty((runs, envs, n_steps, env.action_size), np.float32)
    starts = np.empty(flags.shape, np.bool_)
    nothing = np.empty((runs, n_steps, envs, 0), np.float32)
    drawn = env.drawn if env.drawn.shape[-1] else nothing
    state, elapsed, episode = (x.numpy() for x in (env.state, env.elapsed, env.episode))
    sizes, beginnings = np.array(agent.policy.sizes), env.beginnings.numpy()

    def advance(run: int, first: int, last: int) -> None:
        _rollout(
            env.step_function.address, env.goal_policy.address, env.parameters,
            network[run], sizes, sigma[run], exploration == "squashed", agent.discrete,
            by_run[run, first:last], drawn[run], beginnings[run], state[run], elapsed[run],
            episode[run], first, obs[run], actions[run], next_obs[run], flags[run], starts[run],
        )  # fmt: skip

    for first in range(0, n_steps, env.block_size):
        last = min(first + env.block_size, n_steps)
        env.draw_beginnings()
        for_each_run(runs, lambda run: advance(run, first, last))  # noqa: B023
    step = Step.of(torch.from_numpy(next_obs), torch.from_numpy(flags), env.goal_size)
    step = step._replace(next_achieved=step.next_achieved.contiguous())
    seen, taken, first_of = (torch.from_numpy(x) for x in (obs, actions, starts))
    return rollout_of(env, seen, taken, first_of, step)


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


#: Indices of the hyperparameters in `numbers`; the first two are 0 if there is no limit.
TARGET_KL, CLIP_RANGE_VF, CLIP_RANGE, VF_COEF, ENT_COEF, MAX_GRAD_NORM, EPS, WEIGHT_DECAY = range(8)
#: Indices of `result`: sums over the minibatches seen.
POLICY_LOSS, VALUE_LOSS, KL, CLIPPED, NORM, SEEN, MOVES = range(7)


@compiled
def _policy_loss(
    samples: Numbers,
    n_obs: int,
    advantage: Numbers,
    outputs: Numbers,
    log_std: Numbers,
    discrete: bool,
    learns_sigma: bool,
    cloned: bool,
    numbers: NDArray[np.float64],
    d_outputs: Numbers,
    d_log_std: Numbers,
    result: NDArray[np.float64],
) -> float:
    """Policy loss of a minibatch: -L^CLIP (eq. 7) less the entropy bonus.  NaN propagates.

    Args:
        samples: [sample, column], rows of `_update`'s table.  advantage: [sample].
        outputs: [sample, output] of the policy network.
        cloned: use the mean log-likelihood of the actions instead of L^CLIP; see `ppo.step`.
        d_outputs, d_log_std: gradients of the loss, outputs.

    Returns Schulman's estimator of the KL divergence, E[(r - 1) - log r].
    """
    n, n_outputs = outputs.shape
    n_actions = samples.shape[1] - n_obs - 4
    clip, weight = numbers[CLIP_RANGE], numbers[ENT_COEF]
    log_p = np.empty(n_outputs, np.float32)
    d_log_std[:] = -weight if learns_sigma else 0.0
    kl = 0.0
    for i in range(n):
        action = samples[i, n_obs : n_obs + n_actions]
        chosen, entropy = int(action[0]), 0.0
        if discrete:
            entropy = _log_softmax(outputs[i], log_p)
            log_prob = np.float64(log_p[chosen])
        else:
            log_prob = _gaussian_log_prob(outputs[i], log_std, action)
        log_ratio = log_prob - samples[i, n_obs + n_actions]
        ratio, a = math.exp(log_ratio), np.float64(advantage[i])
        held = (a > 0 and ratio > 1 + clip) or (a < 0 and ratio < 1 - clip)
        bound = 1 + clip if a > 0 else 1 - clip
        slope = ratio * (0.0 if held else -a / n)  # d loss / d log pi
        loss = -(bound * a if held else ratio * a) / n
        if cloned:
            slope, loss = -1.0 / n, -log_prob / n
        for j in range(n_outputs):
            if discrete:
                p = math.exp(log_p[j])
                d = slope * ((1.0 if j == chosen else 0.0) - p)
                d_outputs[i, j] = d + weight / n * p * (log_p[j] + entropy)
            else:
                inverse = math.exp(-log_std[j])
                z = (action[j] - outputs[i, j]) * inverse
                d_outputs[i, j] = slope * z * inverse
                if learns_sigma:
                    d_log_std[j] += slope * (z * z - 1)
        kl += (ratio - 1 - log_ratio) / n
        result[POLICY_LOSS] += loss
        result[CLIPPED] += (1.0 if abs(ratio - 1) > clip else 0.0) / n
    return kl


@compiled
def _value_loss(
    samples: Numbers, values: Numbers, numbers: NDArray[np.float64], d_values: Numbers
) -> float:
    """The minibatch mean of (V - return)^2, with V clipped around its old value.

    Args:
        samples: [sample, column], rows of `_update`'s table.
        values: [sample, 1] of the value network.
        d_values: [sample], gradient of the loss times `vf_coef`, output.
    """
    n, last = len(samples), samples.shape[1] - 1
    clip, loss = numbers[CLIP_RANGE_VF], 0.0
    for i in range(n):
        old, target = np.float64(samples[i, last - 2]), np.float64(samples[i, last])
        new, passes = np.float64(values[i, 0]), 1.0
        if clip > 0 and new - old > clip:
            new, passes = old + clip, 0.0
        elif clip > 0 and new - old < -clip:
            new, passes = old - clip, 0.0
        loss += (new - target) ** 2 / n
        d_values[i] = numbers[VF_COEF] * 2 * (new - target) / n * passes
    return loss


@entry_point
def _update(
    optimised: Optimised,
    steps: float,
    learning_rate: float,
    sizes: tuple[Sizes, Sizes],
    n_policy: int,
    n_value: int,
    discrete: bool,
    learns_sigma: bool,
    cloned: bool,
    table: Numbers,
    order: NDArray[np.int64],
    batch_size: int,
    numbers: NDArray[np.float64],
    result: NDArray[np.float64],
) -> float:
    """Run PPO's epochs for one run; return Adam's step count.

    Args:
        sizes: layer sizes of the policy network and the value network; n_policy, n_value: how many
            parameters they have.
        table: [sample, column]: obs, actions, log-probability, value, advantage, return.
        order: [epoch, sample'].
        numbers, result: indexed by the constants above.
    """
    row, (policy_sizes, value_sizes) = optimised[0], sizes
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
    for epoch in range(len(order)):
        for begin in range(0, order.shape[1], batch_size):
            batch = order[epoch, begin : begin + batch_size]
            n = len(batch)
            samples, advantage = minibatch[:n], advantages[:n]
            for i in range(n):
                copy(table[batch[i]], samples[i])
                copy(samples[i, :n_obs], seen[i * n_obs :])
                copy(samples[i, :n_obs], valued[i * n_obs :])
                advantage[i] = samples[i, -2]
            _normalise(advantage)
            outputs = forward(policy, policy_sizes, n, seen, most, False)
            d_outputs = delta[0, : n * n_outputs].reshape(n, n_outputs)
            kl = _policy_loss(
                samples, n_obs, advantage, outputs, log_std, discrete, learns_sigma, cloned,
                numbers, d_outputs, d_log_std, result,
            )  # fmt: skip
            backward(policy, policy_sizes, n, seen, most, False, delta, d_policy)
            values = forward(value, value_sizes, n, valued, most, False)
            result[VALUE_LOSS] += _value_loss(samples, values, numbers, delta[0])
            backward(value, value_sizes, n, valued, most, False, delta, d_value)
            size = math.sqrt(np.dot(grad, grad))
            result[KL] += kl
            result[NORM] += size
            result[SEEN] += 1
            if numbers[TARGET_KL] > 0 and kl > 1.5 * numbers[TARGET_KL]:
                return steps
            result[MOVES] += 1
            steps += 1
            scale = min(numbers[MAX_GRAD_NORM] / (size + 1e-6), 1.0)
            decay = numbers[WEIGHT_DECAY]
            adam(optimised, grad, scale, steps, learning_rate, numbers[EPS], decay)
    return steps


@torch.no_grad()
def update(
    agent: ActorCritic, optimiser: Adam, samples: Samples, order: Tensor, spec: PPOSpec
) -> Diagnostics:
    """Run PPO's epochs of minibatch updates; see `ppo.update`."""
    scalars = samples.log_prob, samples.value, samples.advantage, samples.returns
    columns = torch.stack(scalars, dim=-1)
    table = torch.cat([samples.obs, samples.actions, columns], dim=-1).numpy()
    counts, orders = samples.valid.sum(1).tolist(), order.movedim(1, 0).contiguous().numpy()
    rows, m, v = optimiser.rows.numpy(), optimiser.m.numpy(), optimiser.v.numpy()
    steps = optimiser.steps.numpy()
    rates = optimiser.learning_rate.tolist()
    numbers = np.array(
        [
            spec.target_kl or 0.0, spec.clip_range_vf or 0.0, spec.clip_range,
            0.0 if samples.cloned else spec.vf_coef, spec.ent_coef, spec.max_grad_norm,
            optimiser.eps, optimiser.weight_decay,
        ]
    )  # fmt: skip
    sizes = np.array(agent.policy.sizes), np.array(agent.value.sizes)
    learns_sigma = not agent.discrete and spec.exploration != "annealed"
    results = np.zeros((len(rows), MOVES + 1))

    def learn(run: int) -> None:
        steps[run] = _update(
            (rows[run], m[run], v[run]), float(steps[run]), rates[run], sizes,
            agent.policy.n_parameters, agent.value.n_parameters, agent.discrete, learns_sigma,
            samples.cloned, table[run], np.ascontiguousarray(orders[run, :, : counts[run]]),
            spec.batch_size, numbers, results[run],
        )  # fmt: skip

    for_each_run(len(rows), learn)
    sums, (seen, moves) = np.split(results.T, [SEEN])
    means = sums / np.maximum(seen, 1)
    return Diagnostics(*torch.from_numpy(np.stack([*means, moves])).float())
