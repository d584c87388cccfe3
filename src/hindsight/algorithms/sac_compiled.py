"""SAC's compiled engine: acting and updates of one run at a time.

Read `algorithms.sac` beside the paper; it also runs on GPUs.  Tests compare the two.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from hindsight.algorithms.critics_compiled import Engine, fit, follow, q_values, targets
from hindsight.algorithms.sac import Diagnostics, TrainState
from hindsight.nn import compiled as net
from hindsight.nn.compiled import Numbers
from hindsight.nn.numba_cache import compiled, first_class
from hindsight.nn.squashed import EPSILON, LOG_STD_MAX, LOG_STD_MIN
from hindsight.replay.transitions import Transitions
from hindsight.specs.algorithms.sac import SACSpec

HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class Learner(NamedTuple):
    critics: net.Optimised  # [2 critic]
    actor: net.Optimised  # [actor + 1]: the policy, then log alpha
    target: Numbers  # [2 critic]
    critic_sizes: net.Sizes
    actor_sizes: net.Sizes
    gamma: float
    tau: float
    target_entropy: float
    learns_temperature: bool
    max_grad_norm: float


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


@first_class()
def act(learner: Learner, obs: Numbers, noise: Numbers, action: Numbers) -> None:
    """Write a sampled action; see `sac.act`."""
    sizes = learner.actor_sizes
    layers = np.empty(sizes.sum(), np.float32)
    net.copy(obs, layers)
    head = net.forward(learner.actor.row[:-1], sizes, 1, layers, 1, True)
    _sample(head, noise.reshape(1, -1), action.reshape(1, -1), np.empty(1, np.float32))


@first_class()
def learn(
    learner: Learner, batch: Transitions, noise: Numbers, results: Any, td_error: Numbers
) -> None:
    """Update critics, policy and temperature, then the targets; see `sac.update`."""
    critics, actor, result = learner.critics, learner.actor, results[0]
    critic_sizes, actor_sizes = learner.critic_sizes, learner.actor_sizes
    (n, n_obs), n_actions, last = batch.obs.shape, noise.shape[1], len(actor.row) - 1
    decay, steps, rate = actor.weight_decay, actor.steps, actor.learning_rate
    policy = net.Optimised(
        actor.row[:last], actor.m[:last], actor.v[:last], steps, rate, actor.eps, decay
    )
    # The temperature is neither clipped nor decays.
    temperature = net.Optimised(
        actor.row[last:], actor.m[last:], actor.v[last:], steps, rate, actor.eps, 0.0
    )
    alpha = math.exp(temperature.row[0])
    policy_layers = np.empty(2 * n * actor_sizes.sum(), np.float32)
    layers = np.empty((2, n * critic_sizes.sum()), np.float32)
    delta = np.empty((2, n * max(critic_sizes.max(), actor_sizes.max())), np.float32)

    # Sample a at s, and a' at s'.
    net.copy(batch.obs.reshape(-1), policy_layers)
    net.copy(batch.next_obs.reshape(-1), policy_layers[n * n_obs :])
    head = net.forward(policy.row, actor_sizes, 2 * n, policy_layers, 2 * n, True)
    sampled, log_prob = np.empty((2 * n, n_actions), np.float32), np.empty(2 * n, np.float32)
    _sample(head, noise, sampled, log_prob)

    # y = r + gamma (min_i Q_i(s', a') - alpha log pi(a' | s'))
    y, bonus = np.empty(n, np.float32), np.empty(n, np.float32)
    for k in range(n):
        bonus[k] = -alpha * log_prob[n + k]
    both_targets = learner.target.reshape(2, -1)
    targets(both_targets, critic_sizes, batch, sampled[n:], bonus, learner.gamma, layers[0], y)
    # J_Q (eq. 5), the mean of 1/2 (Q_i(s, a) - y)^2, summed over critics
    fit(
        critics, 2, critic_sizes, batch, y, 0.5, learner.max_grad_norm, layers[0], delta, result,
        td_error,
    )  # fmt: skip

    # J_pi (eq. 9), the mean of alpha log pi(a | s) - min_i Q_i(s, a), with a = f(noise; s) and the
    # updated critics
    both, q_pi = critics.row.reshape(2, -1), np.empty((2, n), np.float32)
    for i in range(2):
        net.copy(q_values(both[i], critic_sizes, batch.obs, sampled[:n], layers[i])[:, 0], q_pi[i])
    for k in range(n):
        result.actor_loss -= min(q_pi[0, k], q_pi[1, k]) / n
    d_actions, nothing = np.zeros((n, n_actions), np.float32), np.empty(0, np.float32)
    for i in range(2):
        for k in range(n):
            # If both critics are equal, both get the gradient, as in `sac.update`.
            is_least = not q_pi[i, k] > q_pi[1 - i, k]
            delta[0, k] = np.float32(-1) / n if is_least else np.float32(0)
        d_inputs = net.backward(both[i], critic_sizes, n, layers[i], n, True, delta, nothing)
        for k in range(n):
            for j in range(n_actions):
                d_actions[k, j] += d_inputs[k, n_obs + j]
    d_head = delta[0, : n * 2 * n_actions].reshape(n, 2 * n_actions)
    _sample_gradient(head, noise, sampled[:n], d_actions, alpha / n, d_head)
    grad = np.empty(last, np.float32)
    net.backward(policy.row, actor_sizes, n, policy_layers, 2 * n, True, delta, grad)
    result.actor_gradient_norm = net.descend(policy, grad, learner.max_grad_norm)
    entropy = -log_prob[:n].mean()
    result.actor_loss -= alpha * entropy
    result.alpha, result.policy_entropy = alpha, entropy

    # J(alpha) (eq. 18), with respect to log alpha
    d_log_alpha = np.empty(1, np.float32)
    learns = 1.0 if learner.learns_temperature else 0.0
    d_log_alpha[0] = (entropy - learner.target_entropy) * learns
    net.adam(temperature, d_log_alpha, 1.0)
    follow(learner.target, critics.row, learner.tau)


def learner_of(state: TrainState, run: int, spec: SACSpec) -> Learner:
    agent, target = state.agent, state.target[run].numpy()
    n_actions = agent.actor.sizes[-1] // 2
    entropy = -n_actions if spec.target_entropy is None else spec.target_entropy
    return Learner(
        net.optimised_of(state.critics, run), net.optimised_of(state.actor, run), target,
        np.array(agent.critic.sizes), np.array(agent.actor.sizes), spec.gamma, spec.tau,
        float(entropy), spec.learns_temperature, net.limit_of(spec.max_grad_norm),
    )  # fmt: skip


ENGINE = Engine(act, learn, learner_of, Diagnostics)
