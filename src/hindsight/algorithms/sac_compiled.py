"""A compiled, faster version of SAC's `update`, which trains one run at a time.

Read `algorithms.sac` beside the paper; it also runs on GPUs.  `update` here has the same arguments
and results; a test compares them.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.algorithms.sac import Diagnostics, State
from hindsight.io.compiled import compiled, entry_point, for_each_run
from hindsight.nn.compiled import Numbers, Optimised, Sizes, adam, backward, copy, forward
from hindsight.nn.squashed import EPSILON, LOG_STD_MAX, LOG_STD_MIN
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.sac import SACSpec

HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
#: The parts of a `Batch` of one run, [sample, ...]; the weights may be empty.
Transitions = tuple[Numbers, Numbers, Numbers, Numbers, NDArray[np.bool_], Numbers]
#: Indices of the hyperparameters in `numbers`; the largest norm is infinite without clipping.
(
    GAMMA, TAU, TARGET_ENTROPY, LEARNS_ALPHA, MAX_GRAD_NORM, EPS, WEIGHT_DECAY, CRITIC_RATE,
    ACTOR_RATE,
) = range(9)  # fmt: skip
#: Indices of `result`, in the order of `sac.Diagnostics`.
CRITIC_LOSS, ACTOR_LOSS, CRITIC_NORM, ACTOR_NORM, Q_MEAN, ALPHA, ENTROPY = range(7)


@compiled
def _sample(head: Numbers, noise: Numbers, actions: Numbers, log_prob: Numbers) -> None:
    """Write squashed actions [sample, action] and log pi [sample]; see `nn.squashed.sample`."""
    n = noise.shape[1]
    for i in range(len(noise)):
        total = np.float32(0)
        for j in range(n):
            log_std = min(max(head[i, n + j], np.float32(LOG_STD_MIN)), np.float32(LOG_STD_MAX))
            # An exact tanh: near saturation, the logarithm below depends on its last digits.
            u = head[i, j] + np.exp(log_std) * noise[i, j]
            e = np.exp(np.float32(-2) * abs(u))
            a = math.copysign((np.float32(1) - e) / (np.float32(1) + e), u)
            actions[i, j] = a
            # 1 - tanh^2.  As 1 - a^2 it would cancel, and the compiler would add EPSILON to the 1.
            slope = np.float32(4) * e / ((np.float32(1) + e) * (np.float32(1) + e))
            total += np.log(slope + np.float32(EPSILON)) + log_std
            total += np.float32(0.5) * noise[i, j] * noise[i, j]
        log_prob[i] = -total - np.float32(HALF_LOG_2_PI * n)


@compiled
def _sample_gradient(
    head: Numbers,
    noise: Numbers,
    actions: Numbers,
    d_actions: Numbers,
    d_log_prob: float,
    d_head: Numbers,
) -> None:
    """Write the gradient with respect to `head` into `d_head`; see `nn.squashed.gradient`."""
    samples, n = actions.shape
    for i in range(samples):
        for j in range(n):
            a, log_std = actions[i, j], head[i, n + j]
            slope = 1 - a * a
            # d log pi / du = 2 a (1 - a^2) / (1 - a^2 + epsilon)
            d_u = (d_actions[i, j] + 2 * d_log_prob * a / (slope + EPSILON)) * slope
            inside = LOG_STD_MIN <= log_std <= LOG_STD_MAX
            bound = min(max(log_std, np.float32(LOG_STD_MIN)), np.float32(LOG_STD_MAX))
            deviation = np.exp(bound) * noise[i, j]
            d_head[i, j] = d_u
            d_head[i, n + j] = d_u * deviation - d_log_prob if inside else 0.0


@compiled
def _q(critic: Numbers, sizes: Sizes, obs: Numbers, actions: Numbers, layers: Numbers) -> Numbers:
    """Q(s, a) of one critic, [sample, 1]; `layers` keeps what `backward` needs."""
    n, n_obs, n_in = len(obs), obs.shape[1], sizes[0]
    inputs = layers[: n * n_in].reshape(n, n_in)
    for i in range(n):
        copy(obs[i], inputs[i])
        copy(actions[i], inputs[i, n_obs:])
    return forward(critic, sizes, n, layers, n, True)


@compiled
def _descend(
    optimised: Optimised, grad: Numbers, steps: float, rate: float, decay: float,
    numbers: NDArray[np.float64],
) -> float:  # fmt: skip
    """Clip the gradient by its norm and take Adam's step number `steps`; returns the norm."""
    size = math.sqrt(np.dot(grad, grad))
    scale = min(numbers[MAX_GRAD_NORM] / (size + 1e-6), 1.0)
    adam(optimised, grad, scale, steps, rate, numbers[EPS], decay)
    return size


@entry_point
def _update(
    critics: Optimised,
    actor: Optimised,
    target: Numbers,
    steps: float,
    sizes: tuple[Sizes, Sizes],
    batch: Transitions,
    noise: Numbers,
    numbers: NDArray[np.float64],
    result: NDArray[np.float64],
    td_error: Numbers,
) -> None:
    """Update one run by one gradient step, Adam's step number `steps`, as `sac.update` does.

    Args:
        critics [2 critic], actor [actor + 1]; target: [2 critic], updated in place.
        sizes: layer sizes of critic and policy network.
        noise: [2 sample, action].
        numbers, result: indexed by the constants above.  td_error: [sample], output.
    """
    obs, actions, rewards, next_obs, terminated, weight = batch
    (n, n_obs), (critic_sizes, actor_sizes) = obs.shape, sizes
    n_actions, last, decay = noise.shape[1], len(actor[0]) - 1, numbers[WEIGHT_DECAY]
    policy = actor[0][:last], actor[1][:last], actor[2][:last]
    temperature = actor[0][last:], actor[1][last:], actor[2][last:]
    alpha, gamma = math.exp(temperature[0][0]), numbers[GAMMA]
    seen = np.empty(2 * n * actor_sizes.sum(), np.float32)
    valued = np.empty((2, n * critic_sizes.sum()), np.float32)
    delta = np.empty((2, n * max(critic_sizes.max(), actor_sizes.max())), np.float32)

    # Sample a at s, and a' at s'.
    copy(obs.reshape(-1), seen)
    copy(next_obs.reshape(-1), seen[n * n_obs :])
    head = forward(policy[0], actor_sizes, 2 * n, seen, 2 * n, True)
    drawn, log_prob = np.empty((2 * n, n_actions), np.float32), np.empty(2 * n, np.float32)
    _sample(head, noise, drawn, log_prob)

    # y = r + gamma (min_i Q_i(s', a') - alpha log pi(a' | s'))
    both, both_targets = critics[0].reshape(2, -1), target.reshape(2, -1)
    y = np.empty(n, np.float32)
    for i in range(2):
        q = _q(both_targets[i], critic_sizes, next_obs, drawn[n:], valued[0])
        for k in range(n):
            y[k] = q[k, 0] if i == 0 else min(y[k], q[k, 0])
    for k in range(n):
        value = 0.0 if terminated[k] else y[k] - alpha * log_prob[n + k]
        y[k] = rewards[k] + gamma * value

    # J_Q (eq. 5), the mean of 1/2 (Q_i(s, a) - y)^2, summed over critics
    grad = np.empty(len(critics[0]), np.float32)
    td_error[:] = 0
    for i in range(2):
        q = _q(both[i], critic_sizes, obs, actions, valued[0])
        for k in range(n):
            error = q[k, 0] - y[k]
            weighted = error * weight[k] if len(weight) else error
            delta[0, k] = weighted / n
            result[CRITIC_LOSS] += 0.5 * weighted * error / n
            result[Q_MEAN] += q[k, 0] / (2 * n)
            td_error[k] += 0.5 * abs(error)
        d_critic = grad.reshape(2, -1)[i]
        backward(both[i], critic_sizes, n, valued[0], n, True, delta, d_critic)
    result[CRITIC_NORM] = _descend(critics, grad, steps, numbers[CRITIC_RATE], decay, numbers)

    # J_pi (eq. 9), the mean of alpha log pi(a | s) - min_i Q_i(s, a), with a = f(noise; s) and the
    # updated critics
    q_pi = np.empty((2, n), np.float32)
    for i in range(2):
        copy(_q(both[i], critic_sizes, obs, drawn[:n], valued[i])[:, 0], q_pi[i])
    for k in range(n):
        result[ACTOR_LOSS] -= min(q_pi[0, k], q_pi[1, k]) / n
    d_actions, nothing = np.zeros((n, n_actions), np.float32), np.empty(0, np.float32)
    for i in range(2):
        for k in range(n):
            # If both critics are equal, both get the gradient, as in `sac.update`.
            is_least = not q_pi[i, k] > q_pi[1 - i, k]
            delta[0, k] = np.float32(-1) / n if is_least else np.float32(0)
        d_inputs = backward(both[i], critic_sizes, n, valued[i], n, True, delta, nothing)
        for k in range(n):
            for j in range(n_actions):
                d_actions[k, j] += d_inputs[k, n_obs + j]
    d_head = delta[0, : n * 2 * n_actions].reshape(n, 2 * n_actions)
    _sample_gradient(head, noise, drawn[:n], d_actions, alpha / n, d_head)
    grad = np.empty(last, np.float32)
    backward(policy[0], actor_sizes, n, seen, 2 * n, True, delta, grad)
    result[ACTOR_NORM] = _descend(policy, grad, steps, numbers[ACTOR_RATE], decay, numbers)
    entropy = -log_prob[:n].mean()
    result[ACTOR_LOSS] -= alpha * entropy
    result[ALPHA], result[ENTROPY] = alpha, entropy

    # J(alpha) (eq. 18), with respect to log alpha, which is neither clipped nor decays
    d_log_alpha = np.empty(1, np.float32)
    d_log_alpha[0] = (entropy - numbers[TARGET_ENTROPY]) * numbers[LEARNS_ALPHA]
    adam(temperature, d_log_alpha, 1.0, steps, numbers[ACTOR_RATE], numbers[EPS], 0.0)
    tau = np.float32(numbers[TAU])
    for j in range(len(target)):
        target[j] += tau * (critics[0][j] - target[j])


@torch.no_grad()
def update(state: State, batch: Batch, noise: Tensor, spec: SACSpec) -> Diagnostics:
    """Update critics, policy, temperature and targets; see `sac.update`."""
    runs, n = batch.rewards.shape
    agent, critics, actor = state.agent, state.critics, state.actor
    columns_of = (batch.obs, batch.actions, batch.rewards, batch.next_obs, batch.terminated)
    weight = torch.empty(runs, 0) if batch.weight is None else batch.weight
    data = [x.contiguous().numpy() for x in (*columns_of, weight)]
    optimised = [[x.numpy() for x in (part.rows, part.m, part.v)] for part in (critics, actor)]
    target, drawn = state.target.numpy(), noise.contiguous().numpy()
    critics.steps += 1
    actor.steps += 1
    sizes = np.array(agent.critic.sizes), np.array(agent.actor.sizes)
    entropy = -noise.shape[-1] if spec.target_entropy is None else spec.target_entropy
    norm_limit = math.inf if spec.max_grad_norm is None else spec.max_grad_norm
    rates = [part.learning_rate.tolist() for part in (critics, actor)]
    steps = critics.steps.tolist()
    results, td_error = np.zeros((runs, ENTROPY + 1)), np.empty((runs, n), np.float32)

    def learn(run: int) -> None:
        numbers = np.array(
            [
                spec.gamma, spec.tau, entropy, spec.learns_temperature, norm_limit, critics.eps,
                spec.weight_decay, rates[0][run], rates[1][run],
            ]
        )  # fmt: skip
        _update(
            *(tuple(x[run] for x in part) for part in optimised), target[run], steps[run], sizes,
            tuple(x[run] for x in data), drawn[run], numbers, results[run], td_error[run],
        )  # fmt: skip

    for_each_run(runs, learn)
    columns = [*torch.from_numpy(results.T.copy()).float(), torch.from_numpy(td_error)]
    return Diagnostics(*columns)
