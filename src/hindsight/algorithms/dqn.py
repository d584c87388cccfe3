"""DQN (Mnih et al. 2015, Algorithm 1) and double DQN (van Hasselt et al. 2016).

Symbols follow the papers: Q(s, a; theta) is the online network, theta^- the parameters of the
target network, y the target, epsilon the exploration rate, delta = y - Q(s, a; theta) the TD error.
A test compares this module with Stable-Baselines3's DQN.  Relabelled transitions are treated like
any others.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from hindsight.algorithms.learner import Learner
from hindsight.nn.adam import Adam, clip_by_norm_
from hindsight.nn.mlp import MLP, Network, uniform_row
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.dqn import DQNSpec
from hindsight.specs.base import EnvironmentSpec
from hindsight.streams import Purpose, stream

#: Standard normal numbers that an update needs per sample.
NOISES = 0


@dataclass(frozen=True)
class Agent:
    """The network, and the layout of a run's parameter row: theta, then theta^-."""

    q: MLP

    @classmethod
    def of(cls, environment: EnvironmentSpec, algorithm: DQNSpec) -> "Agent":
        """A ReLU network from observations to the Q-values of all actions."""
        sizes = environment.observation_size, *algorithm.hidden, environment.n_outputs
        return cls(MLP(sizes, "relu"))

    @property
    def sizes(self) -> tuple[int, int]:
        return self.q.n_parameters, self.q.n_parameters

    def acting(self, rows: Tensor) -> tuple[MLP, Tensor]:
        return self.q, rows.chunk(2, dim=1)[0]

    def values(self, outputs: Tensor) -> Tensor:
        """Q-values [..., choice] of the network's outputs [..., output]."""
        return outputs

    def actions(self, outputs: Tensor) -> Tensor:
        """Greedy choices [...] by the network's outputs [..., output]."""
        return self.values(outputs).argmax(-1)

    def initial_row(self, seed: int) -> Tensor:
        """Initial parameters of one run, float32 [2 q.n_parameters]; the target is a copy."""
        row = torch.from_numpy(uniform_row(self.q, stream(seed, Purpose.INITIALISATION)))
        return row.repeat(2)


class TrainState(Learner):
    optimised = ("online",)
    targets = ("target",)

    online: Adam
    target: Tensor

    def _split(self) -> None:
        self.q = Network(self.agent.q, self.online.rows)
        self.target_q = Network(self.agent.q, self.target)


def act(state: TrainState, obs: Tensor, spec: DQNSpec, numbers: Tensor | None = None) -> Tensor:
    """Greedy or, in training, epsilon-greedy actions [run, env] for obs [run, env, obs].

    Args:
        numbers: [run, env, 2], uniform in [0, 1): the first decides whether the action is random,
            the second which one it is; None: greedy.
    """
    values: Tensor = state.agent.values(state.q(obs))
    greedy = values.argmax(-1)
    if numbers is None:
        return greedy
    random = (numbers[..., 1] * values.shape[-1]).long()
    return torch.where(numbers[..., 0] < spec.epsilon, random, greedy)


@dataclass
class Diagnostics:
    """Diagnostics of one update, measured before its gradient step."""

    loss: Tensor  # [run]
    q_mean: Tensor  # [run], over the batch's actions
    gradient_norm: Tensor  # [run], before clipping
    td_error: Tensor  # [run, sample] |delta|, for prioritised replay


@torch.no_grad()
def update(state: TrainState, batch: Batch, noise: Tensor, spec: DQNSpec) -> Diagnostics:
    """Update theta by one gradient step, then the target network, in place.

    The Huber loss, quadratic up to |delta| = 1, bounds each sample's gradient like the error
    clipping of Mnih et al. ("Training details").  Importance weights multiply it (Schaul et al.
    2016, Algorithm 1).

    Args:
        batch: actions are integers [run, sample].
        noise: [run, 0, 1], unused; all algorithms share this signature.
    """
    chosen = batch.actions[..., None]
    # y = r + gamma Q(s', a'; theta^-), or y = r if s' is terminal.  a' is greedy with respect to
    # the target network (Mnih et al., Algorithm 1) or, for double DQN, to the online network (van
    # Hasselt et al., eq. 4), which reduces overestimation.
    next_q = state.target_q(batch.next_obs)
    chosen_by = state.q(batch.next_obs) if spec.double else next_q
    next_value = next_q.gather(-1, chosen_by.argmax(-1, keepdim=True))[..., 0]
    y = batch.rewards + spec.gamma * next_value * ~batch.terminated
    q, inputs = state.q.forward(batch.obs)
    value = q.gather(-1, chosen)[..., 0]
    delta = y - value
    loss, d_value = huber_loss(value, y, reduction="none"), -delta.clamp(-1, 1)
    if batch.weight is not None:
        loss, d_value = batch.weight * loss, batch.weight * d_value
    # The loss is the mean over samples and depends only on the Q-values of the actions taken.
    d_q = torch.zeros_like(q).scatter_(-1, chosen, d_value[..., None] / delta.shape[-1])
    grad = torch.cat(state.q.backward(inputs, d_q), dim=1)
    norm = clip_by_norm_(grad, spec.max_grad_norm)
    state.online.step(grad)
    due = state.online.steps % spec.target_update_interval == 0
    state.target.lerp_(state.online.rows, spec.tau * due[:, None])
    return Diagnostics(loss.mean(-1), value.mean(-1), norm, delta.abs())
