"""Deep Q-learning (Mnih et al. 2015, Algorithm 1) and its double form (van Hasselt et al. 2016).

Symbols are the papers': Q(s, a; theta) the online network, theta^- the target network's parameters,
y the target, epsilon the share of random actions; delta = y - Q(s, a; theta) is the TD error.  A
test holds this and Stable-Baselines3's DQN together.  Relabelled transitions enter like any others.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from hindsight.nn.adam import Adam, clip_by_norm_
from hindsight.nn.mlp import MLP
from hindsight.replay.transitions import Batch
from hindsight.specs.off_policy import DQNSpec
from hindsight.streams import Purpose, stream


@dataclass(frozen=True)
class QNetwork:
    """Observations to the values of all choices.

    A run's theta is a row of the optimiser's, its theta^- the same row of a tensor beside them.
    """

    q: MLP

    @classmethod
    def of(cls, n_obs: int, n_choices: int, hidden: Sequence[int]) -> "QNetwork":
        """A network of rectified linear units."""
        return cls(MLP((n_obs, *hidden, n_choices), "relu"))

    def initial_row(self, seed: int) -> Tensor:
        """One run's first theta and theta^-, float32 [parameter].

        Weights and biases are uniform within 1 / sqrt(inputs of the layer), as PyTorch's are.
        """
        generator = stream(seed, Purpose.INITIALISATION)
        pieces = []
        for n_in, n_out in itertools.pairwise(self.q.sizes):
            bound = 1 / math.sqrt(n_in)
            pieces.append(generator.uniform(-bound, bound, n_out * (n_in + 1)))
        return torch.from_numpy(np.concatenate(pieces).astype(np.float32))


def greedy(agent: QNetwork, rows: Tensor, obs: Tensor) -> Tensor:
    """argmax_a Q(s, a; theta), [run, env], at observations [run, env, obs]."""
    return agent.q(rows, obs).argmax(-1)


def epsilon_greedy(
    agent: QNetwork, rows: Tensor, obs: Tensor, uniform: Tensor, epsilon: float
) -> Tensor:
    """With probability epsilon a random choice, else the greedy one: [run, env].

    Args:
        obs: [run, env, obs].
        uniform: [run, env, 2] in [0, 1): whether the choice is random, and which one it then is.
    """
    random = (uniform[..., 1] * agent.q.sizes[-1]).long()
    return torch.where(uniform[..., 0] < epsilon, random, greedy(agent, rows, obs))


def targets(agent: QNetwork, rows: Tensor, target: Tensor, batch: Batch, spec: DQNSpec) -> Tensor:
    """y = r + gamma Q(s', a'; theta^-), or r where nothing follows; [run, sample].

    a' is the target network's own best choice (Mnih et al., Algorithm 1), or where `double` the
    online network's (van Hasselt et al., eq. 4), which does not prefer what is overestimated.
    """
    next_q = agent.q(target, batch.next_obs)
    if spec.double:
        best = greedy(agent, rows, batch.next_obs)
        value = next_q.gather(-1, best[..., None])[..., 0]
    else:
        value = next_q.amax(-1)
    return batch.rewards + spec.gamma * value * ~batch.terminated


@dataclass
class Diagnostics:
    """Of one update, as it was before the step."""

    loss: Tensor  # [run]
    q_mean: Tensor  # [run], of the actions in the batch
    gradient_norm: Tensor  # [run], before clipping
    td_error: Tensor  # [run, sample] |delta|, from which priorities follow


@torch.no_grad()
def update(
    agent: QNetwork,
    optimiser: Adam,
    target: Tensor,
    batch: Batch,
    spec: DQNSpec,
    active: Tensor,
) -> Diagnostics:
    """One gradient step of `optimiser.rows` [run, parameter], then the target network's, in place.

    The loss is Huber's, quadratic up to |delta| = 1, which bounds each sample's gradient as Mnih et
    al. do ("Training details"); importance weights multiply it (Schaul et al. 2016, Algorithm 1).

    Args:
        target: theta^-, [run, parameter].
        batch: actions are [run, sample] integers.
        active: [run] bool; the others keep their theta, their theta^- and their step count.
    """
    rows, chosen = optimiser.rows, batch.actions[..., None]
    y = targets(agent, rows, target, batch, spec)
    q, inputs = agent.q.forward(rows, batch.obs)
    value = q.gather(-1, chosen)[..., 0]
    delta = y - value
    loss, d_value = huber_loss(value, y, reduction="none"), -delta.clamp(-1, 1)
    if batch.weight is not None:
        loss, d_value = batch.weight * loss, batch.weight * d_value
    # The loss is a mean over the samples; only the chosen actions' values are in it.
    d_q = torch.zeros_like(q).scatter_(-1, chosen, d_value[..., None] / delta.shape[-1])
    grad = torch.cat(agent.q.backward(rows, inputs, d_q), dim=1)
    norm = clip_by_norm_(grad, math.inf if spec.max_grad_norm is None else spec.max_grad_norm)
    optimiser.step(grad, active)
    due = active & (optimiser.steps % spec.target_update_interval == 0)
    target.lerp_(rows, spec.tau * due.to(rows.dtype)[:, None])
    return Diagnostics(loss.mean(-1), value.mean(-1), norm, delta.abs())
