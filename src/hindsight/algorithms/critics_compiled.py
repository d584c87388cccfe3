"""What the compiled updates of the off-policy algorithms share: batches, critics and descent.

One run at a time; the same symbols as in the references in PyTorch, which tests compare.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hindsight.nn.compiled import Numbers, Optimised, Sizes, backward, copy, descend, forward
from hindsight.nn.numba_cache import FirstClass, compiled, entry_point, for_each_run
from hindsight.replay.transitions import Batch, Transitions


@compiled
def q_values(
    critic: Numbers, sizes: Sizes, obs: Numbers, actions: Numbers, layers: Numbers
) -> Numbers:
    """Q(s, a) of one critic, [sample, 1]; `layers` keeps what `backward` needs."""
    n, n_obs, n_in = len(obs), obs.shape[1], sizes[0]
    inputs = layers[: n * n_in].reshape(n, n_in)
    for i in range(n):
        copy(obs[i], inputs[i])
        copy(actions[i], inputs[i, n_obs:])
    return forward(critic, sizes, n, layers, n, True)


@compiled
def targets(
    critics: Numbers,
    sizes: Sizes,
    batch: Transitions,
    next_actions: Numbers,
    bonus: Numbers,
    gamma: float,
    layers: Numbers,
    y: Numbers,
) -> None:
    """Write y = r + gamma (min_i Q_i(s', a') + bonus), or r where s' is terminal, [sample].

    Args:
        critics: [critic, parameter], the target critics.
        next_actions: [sample, action], a'.  bonus: [sample], or empty for none.
    """
    n = len(y)
    for i in range(len(critics)):
        q = q_values(critics[i], sizes, batch.next_obs, next_actions, layers)
        for k in range(n):
            y[k] = q[k, 0] if i == 0 else min(y[k], q[k, 0])
    for k in range(n):
        value = y[k] + bonus[k] if len(bonus) else y[k]
        y[k] = batch.rewards[k] + (0.0 if batch.terminated[k] else gamma * value)


@compiled
def fit(
    critics: Optimised,
    n_critics: int,
    sizes: Sizes,
    batch: Transitions,
    y: Numbers,
    share: float,
    max_norm: float,
    layers: Numbers,
    delta: Numbers,
    result: Any,
    td_error: Numbers,
) -> None:
    """One gradient step of the critics on the mean of share (Q_i(s, a) - y)^2, summed over i.

    Args:
        layers, delta: space for `forward` and `backward`.
        result: `critic_loss`, `critic_gradient_norm` and `q_mean` are outputs.
        td_error: [sample], the mean of |Q_i - y|, output.
    """
    n, each = len(y), len(critics.row) // n_critics
    grad = np.empty(len(critics.row), np.float32)
    td_error[:] = 0
    for i in range(n_critics):
        critic = critics.row[i * each : (i + 1) * each]
        q = q_values(critic, sizes, batch.obs, batch.actions, layers)
        for k in range(n):
            error = q[k, 0] - y[k]
            weighted = error * batch.weight[k] if len(batch.weight) else error
            delta[0, k] = 2 * share * weighted / n
            result.critic_loss += share * weighted * error / n
            result.q_mean += q[k, 0] / (n_critics * n)
            td_error[k] += abs(error) / n_critics
        d_critic = grad[i * each : (i + 1) * each]
        backward(critic, sizes, n, layers, n, True, delta, d_critic)
    result.critic_gradient_norm = descend(critics, grad, max_norm)


@compiled
def follow(target: Numbers, row: Numbers, tau: float) -> None:
    """Move the target parameters by the share `tau` towards `row`, both [parameter]."""
    pace = np.float32(tau)
    for j in range(len(target)):
        target[j] += pace * (row[j] - target[j])


# -- the way from PyTorch --------------------------------------------------------------------------


class Engine:
    def __init__(
        self,
        act: FirstClass,
        learn: FirstClass,
        learner: Callable[[Any, int, Any], Any],
        diagnostics: type,
    ) -> None:
        """Put an algorithm's functions together.

        Args:
            act: `(learner, obs [obs], noise [number], action [action])` writes an exploratory
                action.
            learn: `(learner, transitions, noise [number, action], results [1], td_error [sample])`
                is one update; the last two, at first zeros, are outputs.
            learner: of state, run and specification, the NamedTuple that both get.
            diagnostics: the algorithm's `Diagnostics`.
        """
        self.act, self.learn, self.learner, self.diagnostics = act, learn, learner, diagnostics
        names = [field.name for field in fields(diagnostics) if field.name != "td_error"]
        #: The type of an update's result: its diagnostics, but for the TD errors.
        self.results = np.dtype([(name, np.float64) for name in names])
        self._one_update = entry_point(_one_update)

    @torch.no_grad()
    def update(self, state: Any, batch: Batch, noise: Tensor, spec: Any, n: int) -> Any:
        """Take `n` updates of all runs; returns their diagnostics, [run, update].

        Args:
            batch: [run, n sample, ...], the batches of the updates, one after the other.
            noise: [run, n, number, action].
        """
        runs, size = len(batch.rewards), batch.rewards.shape[1] // n
        results = np.zeros((runs, n), self.results).view(np.recarray)
        td_error, drawn = np.empty((runs, n, size), np.float32), noise.contiguous().numpy()
        given: Any = _arrays(batch)

        def learn(run: int) -> None:
            learner = self.learner(state, run, spec)
            for i in range(n):
                own = Transitions(*(x[run, i * size : (i + 1) * size] for x in given))
                arguments = learner, own, drawn[run, i], results[run, i : i + 1], td_error[run, i]
                self._one_update(self.learn.of(*arguments), *arguments)

        for_each_run(runs, learn)
        columns = {x: torch.from_numpy(results[x].copy()).float() for x in self.results.names or ()}
        return self.diagnostics(**columns, td_error=torch.from_numpy(td_error))


def _arrays(batch: Batch) -> Transitions:
    actions = batch.actions if batch.actions.ndim == 3 else batch.actions[..., None].float()
    weight = torch.empty(len(actions), 0) if batch.weight is None else batch.weight
    parts = batch.obs, actions, batch.rewards, batch.next_obs, batch.terminated, weight
    return Transitions(*(x.contiguous().numpy() for x in parts))


def _one_update(
    learn: Any, learner: Any, batch: Transitions, noise: Numbers, results: Any, td_error: Numbers
) -> None:
    """Call `learn`; see `Engine`."""
    learn(learner, batch, noise, results, td_error)
