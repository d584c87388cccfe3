"""DQN's compiled engine: acting and updates of one run at a time.

Read `algorithms.dqn` beside the papers; it also runs on GPUs.  Tests compare the two.
"""

from typing import Any, NamedTuple

import numpy as np

from hindsight.algorithms.critics_compiled import Engine, follow
from hindsight.algorithms.dqn import Diagnostics, TrainState
from hindsight.nn import compiled as net
from hindsight.nn.compiled import Numbers
from hindsight.nn.numba_cache import compiled, first_class
from hindsight.replay.transitions import Transitions
from hindsight.specs.algorithms.dqn import DQNSpec


class Learner(NamedTuple):
    online: net.Optimised
    target: Numbers
    sizes: net.Sizes
    gamma: float
    tau: float
    max_grad_norm: float
    epsilon: float
    double: bool
    target_update_interval: int


@compiled
def _q(row: Numbers, sizes: net.Sizes, obs: Numbers, layers: Numbers) -> Numbers:
    """Q-values of all actions, [sample, choice]; `layers` keeps what `backward` needs."""
    net.copy(obs.reshape(-1), layers)
    return net.forward(row, sizes, len(obs), layers, len(obs), True)


@first_class()
def act(learner: Learner, obs: Numbers, noise: Numbers, action: Numbers) -> None:
    """Write an epsilon-greedy action; see `dqn.act`."""
    layers = np.empty(learner.sizes.sum(), np.float32)
    values = _q(learner.online.row, learner.sizes, obs.reshape(1, -1), layers)[0]
    random = noise[0] < np.float32(learner.epsilon)
    action[0] = int(noise[1] * len(values)) if random else np.argmax(values)


@first_class()
def learn(
    learner: Learner, batch: Transitions, noise: Numbers, results: Any, td_error: Numbers
) -> None:
    """Update theta by one gradient step, then the target network; see `dqn.update`."""
    online, sizes, result, n = learner.online, learner.sizes, results[0], len(batch.obs)
    layers, others = np.empty(n * sizes.sum(), np.float32), np.empty(n * sizes.sum(), np.float32)
    delta = np.empty((2, n * sizes.max()), np.float32)
    # y = r + gamma Q(s', a'; theta^-), or y = r if s' is terminal
    next_q = _q(learner.target, sizes, batch.next_obs, layers)
    chosen_by = next_q
    if learner.double:
        chosen_by = _q(online.row, sizes, batch.next_obs, others)
    y = np.empty(n, np.float32)
    for k in range(n):
        value = 0.0 if batch.terminated[k] else next_q[k, np.argmax(chosen_by[k])]
        y[k] = batch.rewards[k] + learner.gamma * value
    q = _q(online.row, sizes, batch.obs, layers)
    d_q = delta[0, : n * sizes[-1]].reshape(n, sizes[-1])
    for k in range(n):
        chosen = int(batch.actions[k, 0])
        error = y[k] - q[k, chosen]
        weight = batch.weight[k] if len(batch.weight) else np.float32(1)
        size = abs(error)
        loss = 0.5 * error * error if size <= 1 else size - 0.5
        result.loss += weight * loss / n
        result.q_mean += q[k, chosen] / n
        td_error[k] = size
        d_q[k] = 0
        d_q[k, chosen] = -weight * min(max(error, np.float32(-1)), np.float32(1)) / n
    grad = np.empty(len(online.row), np.float32)
    net.backward(online.row, sizes, n, layers, n, True, delta, grad)
    result.gradient_norm = net.descend(online, grad, learner.max_grad_norm)
    if online.steps[0] % learner.target_update_interval == 0:
        follow(learner.target, online.row, learner.tau)


def learner_of(state: TrainState, run: int, spec: DQNSpec) -> Learner:
    return Learner(
        net.optimised_of(state.online, run), state.target[run].numpy(),
        np.array(state.agent.q.sizes), spec.gamma, spec.tau, net.limit_of(spec.max_grad_norm),
        spec.epsilon, spec.double, spec.target_update_interval,
    )  # fmt: skip


ENGINE = Engine(act, learn, learner_of, Diagnostics)
