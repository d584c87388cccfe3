"""The compiled engine of TD3, and of DDPG: acting and updates of one run at a time.

Read `algorithms.td3` and `algorithms.ddpg` beside the papers; they also run on GPUs.  DDPG has one
critic, no delay, and no noise at s'.  Tests compare the engine with both.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from hindsight.algorithms.critics_compiled import Engine, fit, follow, q_values, targets
from hindsight.algorithms.td3 import Diagnostics, TrainState
from hindsight.envs.step import within
from hindsight.nn import compiled as net
from hindsight.nn.compiled import Numbers
from hindsight.nn.numba_cache import compiled, first_class
from hindsight.replay.transitions import Transitions
from hindsight.specs.algorithms.td3 import TD3Spec
from hindsight.specs.off_policy import DeterministicSpec

#: From here on a float32's tanh is 1; `tanh`, an approximation, ends just below it.
SATURATED = np.float32(9.02)


class Learner(NamedTuple):
    critics: net.Optimised  # [n_critics critic]
    actor: net.Optimised
    target_critics: Numbers
    target_actor: Numbers
    n_critics: int
    critic_sizes: net.Sizes
    actor_sizes: net.Sizes
    gamma: float
    tau: float
    max_grad_norm: float
    exploration_noise: float
    target_noise: float
    target_noise_clip: float
    policy_delay: int


@compiled
def _policy(
    row: Numbers, sizes: net.Sizes, obs: Numbers, layers: Numbers, actions: Numbers
) -> None:
    """Write pi(s) [sample, action]; `layers` keeps what `backward` needs."""
    n, n_actions = len(obs), actions.shape[1]
    net.copy(obs.reshape(-1), layers)
    head = net.forward(row, sizes, n, layers, n, True)
    for k in range(n):
        for j in range(n_actions):
            u = head[k, j]
            actions[k, j] = net.tanh(u)
            if abs(u) > SATURATED:  # there PyTorch's has no slope, and nothing is learned
                actions[k, j] = np.float32(1) if u > 0 else np.float32(-1)


@first_class()
def act(learner: Learner, obs: Numbers, noise: Numbers, action: Numbers) -> None:
    """Write pi(s) plus Gaussian noise; see `td3.act`."""
    layers = np.empty(learner.actor_sizes.sum(), np.float32)
    _policy(
        learner.actor.row, learner.actor_sizes, obs.reshape(1, -1), layers, action.reshape(1, -1)
    )
    for j in range(len(action)):
        action[j] = within(action[j] + noise[j] * np.float32(learner.exploration_noise), 1.0)


@first_class()
def learn(
    learner: Learner, batch: Transitions, noise: Numbers, results: Any, td_error: Numbers
) -> None:
    """Update the critics, and every `policy_delay` updates the rest; see `td3.update`."""
    critics, actor, result = learner.critics, learner.actor, results[0]
    critic_sizes, actor_sizes = learner.critic_sizes, learner.actor_sizes
    (n, n_obs), n_actions, n_critics = batch.obs.shape, actor_sizes[-1], learner.n_critics
    policy_layers = np.empty(n * actor_sizes.sum(), np.float32)
    layers = np.empty(n * critic_sizes.sum(), np.float32)
    delta = np.empty((2, n * max(critic_sizes.max(), actor_sizes.max())), np.float32)
    actions, y = np.empty((n, n_actions), np.float32), np.empty(n, np.float32)
    nothing = np.empty(0, np.float32)

    # y = r + gamma min_i Q_theta'_i(s', a~), a~ = pi(s') + clipped noise
    _policy(learner.target_actor, actor_sizes, batch.next_obs, policy_layers, actions)
    if learner.target_noise > 0:
        for k in range(n):
            for j in range(n_actions):
                epsilon = noise[k, j] * np.float32(learner.target_noise)
                actions[k, j] = within(
                    actions[k, j] + within(epsilon, learner.target_noise_clip), 1.0
                )
    target_critics = learner.target_critics.reshape(n_critics, -1)
    targets(target_critics, critic_sizes, batch, actions, nothing, learner.gamma, layers, y)
    # Critics: the mean of (y - Q_theta_i(s, a))^2, summed over them
    fit(
        critics, n_critics, critic_sizes, batch, y, 1.0, learner.max_grad_norm, layers, delta,
        result, td_error,
    )  # fmt: skip
    if critics.steps[0] % learner.policy_delay != 0:
        result.actor_loss = result.actor_gradient_norm = math.nan
        return
    # Policy gradient: the mean of grad_a Q_theta_1(s, a) at a = pi(s), times grad_phi pi(s)
    _policy(actor.row, actor_sizes, batch.obs, policy_layers, actions)
    first = critics.row.reshape(n_critics, -1)[0]
    value = q_values(first, critic_sizes, batch.obs, actions, layers)
    for k in range(n):
        result.actor_loss -= value[k, 0] / n
        delta[0, k] = np.float32(-1) / n
    d_inputs = net.backward(first, critic_sizes, n, layers, n, True, delta, nothing)
    d_actions = np.empty((n, n_actions), np.float32)
    for k in range(n):
        for j in range(n_actions):
            d_actions[k, j] = d_inputs[k, n_obs + j] * (1 - actions[k, j] * actions[k, j])
    net.copy(d_actions.reshape(-1), delta[0])
    grad = np.empty(len(actor.row), np.float32)
    net.backward(actor.row, actor_sizes, n, policy_layers, n, True, delta, grad)
    result.actor_gradient_norm = net.descend(actor, grad, learner.max_grad_norm)
    # theta' <- tau theta + (1 - tau) theta', and phi' likewise
    follow(learner.target_critics, critics.row, learner.tau)
    follow(learner.target_actor, actor.row, learner.tau)


def learner_of(state: TrainState, run: int, spec: DeterministicSpec) -> Learner:
    agent = state.agent
    noise, clip, delay = 0.0, 0.0, 1
    if isinstance(spec, TD3Spec):
        noise, clip, delay = spec.target_policy_noise, spec.target_noise_clip, spec.policy_delay
    return Learner(
        net.optimised_of(state.critics, run), net.optimised_of(state.actor, run),
        state.target_critics[run].numpy(), state.target_actor[run].numpy(), agent.n_critics,
        np.array(agent.critic.sizes), np.array(agent.actor.sizes), spec.gamma, spec.tau,
        net.limit_of(spec.max_grad_norm), spec.exploration_noise, noise, clip, delay,
    )  # fmt: skip


ENGINE = Engine(act, learn, learner_of, Diagnostics)
