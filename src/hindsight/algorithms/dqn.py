"""Deep Q-learning (Mnih et al. 2015, Algorithm 1) and its double form (van Hasselt et al. 2016).

Symbols are the papers': Q(s, a; theta) the online network, theta^- the target network's parameters,
y the target, epsilon the share of random actions; delta = y - Q(s, a; theta) is the TD error.  A
test holds this and Stable-Baselines3's DQN together.  Relabelled transitions enter like any others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from hindsight.nn.adam import Adam, clip_by_norm_
from hindsight.nn.mlp import MLP, Network, uniform_row
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.dqn import DQNSpec
from hindsight.streams import Purpose, stream

#: Standard normal numbers that an update wants per sample.
NOISES = 0


@dataclass(frozen=True)
class Agent:
    """Where the networks lie in a run's row: theta, then theta^-."""

    q: MLP

    @classmethod
    def of(cls, n_obs: int, n_choices: int, hidden: Sequence[int]) -> "Agent":
        """Observations to the values of all choices, by rectified linear units."""
        return cls(MLP((n_obs, *hidden, n_choices), "relu"))

    @property
    def n_choices(self) -> int:
        """Actions are 0 ... n_choices - 1."""
        return self.q.sizes[-1]

    @property
    def n_parameters(self) -> int:
        """Length of a run's row."""
        return 2 * self.q.n_parameters

    def acting(self, rows: Tensor) -> tuple[MLP, Tensor]:
        """The network that acts, and its parameters [run, ...] in rows."""
        return self.q, rows.chunk(2, dim=1)[0]

    def initial_row(self, seed: int) -> Tensor:
        """One run's first parameters, float32 [2 q.n_parameters]; the target is a copy."""
        row = torch.from_numpy(uniform_row(self.q, stream(seed, Purpose.INITIALISATION)))
        return row.repeat(2)


class State:
    """What an update changes: every run's row, and the optimiser's moments."""

    def __init__(
        self, agent: Agent, rows: Tensor, learning_rate: Tensor, weight_decay: float = 0.0
    ) -> None:
        """`rows` [run, parameter], as `Agent.initial_row` gives them; `learning_rate` [run]."""
        self.agent = agent
        online, self.target = (part.clone() for part in rows.chunk(2, dim=1))
        self.online = Adam(online, learning_rate, weight_decay=weight_decay)
        self._split()

    def _split(self) -> None:
        self.q = Network(self.agent.q, self.online.rows)
        self.target_q = Network(self.agent.q, self.target)

    @property
    def rows(self) -> Tensor:
        """The runs' rows [run, parameter], as a copy."""
        return torch.cat([self.online.rows, self.target], dim=1)

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices."""
        self.online.select(runs)
        self.target = self.target[runs]
        self._split()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"online": self.online.state_dict(), "target": self.target}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.online.load_state_dict(saved["online"])
        self.target.copy_(saved["target"])


def act(state: State, obs: Tensor, uniform: Tensor | None = None, epsilon: float = 0.0) -> Tensor:
    """Choices [run, env] at obs [run, env, obs]: argmax_a Q(s, a; theta), or epsilon-greedy.

    Args:
        uniform: [run, env, 2] in [0, 1): whether the choice is random, and which one it then is.
    """
    greedy = state.q(obs).argmax(-1)
    if uniform is None:
        return greedy
    random = (uniform[..., 1] * state.agent.n_choices).long()
    return torch.where(uniform[..., 0] < epsilon, random, greedy)


def explore(state: State, obs: Tensor, numbers: Tensor, spec: DQNSpec) -> Tensor:
    """Actions [run, env] while learning, by numbers [run, env, 2] uniform in [0, 1)."""
    return act(state, obs, numbers, spec.epsilon)


def targets(state: State, batch: Batch, spec: DQNSpec) -> Tensor:
    """y = r + gamma Q(s', a'; theta^-), or r where nothing follows; [run, sample].

    a' is the target network's own best choice (Mnih et al., Algorithm 1), or where `double` the
    online network's (van Hasselt et al., eq. 4), which does not prefer what is overestimated.
    """
    next_q = state.target_q(batch.next_obs)
    chosen_by = state.q(batch.next_obs) if spec.double else next_q
    value = next_q.gather(-1, chosen_by.argmax(-1, keepdim=True))[..., 0]
    return batch.rewards + spec.gamma * value * ~batch.terminated


@dataclass
class Diagnostics:
    """Of one update, as things were before its step."""

    loss: Tensor  # [run]
    q_mean: Tensor  # [run], of the actions in the batch
    gradient_norm: Tensor  # [run], before clipping
    td_error: Tensor  # [run, sample] |delta|, from which priorities follow


@torch.no_grad()
def update(state: State, batch: Batch, noise: Tensor, spec: DQNSpec) -> Diagnostics:
    """One gradient step of theta, then the target's, in place.

    The loss is Huber's, quadratic up to |delta| = 1, which bounds each sample's gradient as Mnih et
    al. do ("Training details"); importance weights multiply it (Schaul et al. 2016, Algorithm 1).

    Args:
        batch: actions are [run, sample] integers.
        noise: [run, 0, 1]: nothing is drawn; here for the signature that all have.
    """
    chosen = batch.actions[..., None]
    y = targets(state, batch, spec)
    q, inputs = state.q.forward(batch.obs)
    value = q.gather(-1, chosen)[..., 0]
    delta = y - value
    loss, d_value = huber_loss(value, y, reduction="none"), -delta.clamp(-1, 1)
    if batch.weight is not None:
        loss, d_value = batch.weight * loss, batch.weight * d_value
    # The loss is a mean over the samples; only the chosen actions' values are in it.
    d_q = torch.zeros_like(q).scatter_(-1, chosen, d_value[..., None] / delta.shape[-1])
    grad = torch.cat(state.q.backward(inputs, d_q), dim=1)
    norm = clip_by_norm_(grad, math.inf if spec.max_grad_norm is None else spec.max_grad_norm)
    state.online.step(grad)
    due = state.online.steps % spec.target_update_interval == 0
    state.target.lerp_(state.online.rows, spec.tau * due[:, None])
    return Diagnostics(loss.mean(-1), value.mean(-1), norm, delta.abs())
