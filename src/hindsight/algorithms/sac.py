"""Soft actor-critic, SAC (Haarnoja et al. 2018b, Algorithm 1), on the run axis.

Symbols follow the paper: Q_theta_1, Q_theta_2 are the critics, theta-bar their target parameters,
pi_phi is the policy, alpha the temperature, which is learned unless `ent_coef` fixes it.  Details
that the paper leaves open follow Stable-Baselines3; a test compares both implementations.
Relabelled transitions are treated like any others.  Gradients are written by hand, each next to its
loss.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hindsight.algorithms.learner import Learner
from hindsight.nn import squashed
from hindsight.nn.adam import Adam, clip_by_norm_
from hindsight.nn.mlp import MLP, Network, for_each, uniform_row
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.sac import SACSpec
from hindsight.specs.base import EnvironmentSpec
from hindsight.streams import Purpose, stream

#: Standard normal numbers that an update needs per sample and action dimension: at s and at s'.
NOISES = 2


@dataclass(frozen=True)
class Agent:
    """The networks; a run's parameter row is theta_1, theta_2; phi, log alpha; theta-bar_1, _2."""

    critic: MLP
    actor: MLP

    @classmethod
    def of(cls, environment: EnvironmentSpec, algorithm: SACSpec) -> "Agent":
        """ReLU networks; the policy outputs mu and log sigma."""
        n_obs, n_actions = environment.observation_size, environment.n_outputs
        hidden = algorithm.hidden
        return cls(
            MLP((n_obs + n_actions, *hidden, 1), "relu"),
            MLP((n_obs, *hidden, 2 * n_actions), "relu"),
        )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Lengths of a row's parts: critics; actor and log alpha; target critics."""
        critics = 2 * self.critic.n_parameters
        return critics, self.actor.n_parameters + 1, critics

    def acting(self, rows: Tensor) -> tuple[MLP, Tensor]:
        return self.actor, rows.split(self.sizes, dim=1)[1][:, :-1]

    def actions(self, outputs: Tensor) -> Tensor:
        """tanh(mu) [..., action] of the policy's outputs [..., 2 action]."""
        return outputs.chunk(2, dim=-1)[0].tanh()

    def initial_row(self, seed: int, alpha: float = 1.0) -> Tensor:
        """Initial parameters of one run, [parameter]; the targets are copies."""
        generator = stream(seed, Purpose.INITIALISATION)
        critics = [uniform_row(self.critic, generator) for _ in range(2)]
        actor = uniform_row(self.actor, generator)
        pieces = [*critics, actor, np.log([alpha], dtype=np.float32), *critics]
        return torch.from_numpy(np.concatenate(pieces))


class TrainState(Learner):
    optimised = ("critics", "actor")
    targets = ("target",)

    critics: Adam
    actor: Adam
    target: Tensor

    def _split(self) -> None:
        # The critics of all runs form one stack of networks, [2 run, parameter].
        each = self.agent.critic.n_parameters
        self.q = Network(self.agent.critic, self.critics.rows.view(-1, each))
        self.target_q = Network(self.agent.critic, self.target.view(-1, each))
        self.pi = Network(self.agent.actor, self.actor.rows[:, :-1])
        self.log_alpha = self.actor.rows[:, -1:]
        self.actor.decaying = slice(-1)  # all but the temperature
        self.networks = self.q, self.target_q, self.pi


def act(state: TrainState, obs: Tensor, spec: SACSpec, numbers: Tensor | None = None) -> Tensor:
    """Actions [run, env, action] for obs [run, env, obs].

    Sampled from the policy with standard normal `numbers` [run, env, action]; None: tanh(mu).
    """
    head = state.pi(obs)
    actions: Tensor = (
        state.agent.actions(head) if numbers is None else squashed.sample(head, numbers).actions
    )
    return actions


@dataclass
class Diagnostics:
    """Diagnostics of one update, measured before its gradient steps."""

    critic_loss: Tensor  # [run]
    actor_loss: Tensor  # [run]
    critic_gradient_norm: Tensor  # [run], before clipping
    actor_gradient_norm: Tensor  # [run], before clipping
    q_mean: Tensor  # [run], over the batch's actions and both critics
    alpha: Tensor  # [run]
    policy_entropy: Tensor  # [run], in nats, estimated by the mean of -log pi
    td_error: Tensor  # [run, sample] mean |Q - y| of both critics, for prioritised replay


@torch.no_grad()
def update(state: TrainState, batch: Batch, noise: Tensor, spec: SACSpec) -> Diagnostics:
    """Update critics, policy and temperature by one gradient step each, then the targets, in place.

    Args:
        noise: [run, 2 sample, action], standard normal: for the actions at s, then those at s'.
    """
    (runs, n), n_obs = batch.rewards.shape, batch.obs.shape[-1]
    alpha = state.log_alpha.exp()
    states = torch.cat([batch.obs, batch.next_obs], dim=1)
    head, pi_inputs = state.pi.forward(states)
    sampled = squashed.sample(head, noise)
    states_actions = torch.cat([states, sampled.actions], dim=-1)

    # y = r + gamma (min_i Q_i(s', a') - alpha log pi(a' | s'))
    next_q = state.target_q(for_each(states_actions[:, n:], 2)).view(runs, 2, n).amin(1)
    next_value = (next_q - alpha * sampled.log_prob[:, n:]).masked_fill_(batch.terminated, 0)
    y = torch.add(batch.rewards, next_value, alpha=spec.gamma)
    q, q_inputs = state.q.forward(for_each(torch.cat([batch.obs, batch.actions], dim=-1), 2))
    q = q.view(runs, 2, n)
    # J_Q (eq. 5): the mean of 1/2 (Q_theta_i(s, a) - y)^2, summed over both critics
    delta = q - y[:, None]
    weighted = delta if batch.weight is None else delta * batch.weight[:, None]
    j_q, d_q = (weighted * delta).sum((1, 2)) * (0.5 / n), weighted * (1 / n)
    grad = torch.cat(state.q.backward(q_inputs, d_q.view(-1, n, 1)), dim=1).view(runs, -1)
    critic_norm = clip_by_norm_(grad, spec.max_grad_norm)
    state.critics.step(grad)

    # J_pi (eq. 9): the mean of alpha log pi(a | s) - min_i Q_theta_i(s, a), with a = f(noise; s)
    # and the updated critics
    at_s = sampled.first(n)
    q_pi, q_inputs = state.q.forward(for_each(states_actions[:, :n], 2))
    q_pi = q_pi.view(runs, 2, n)
    least, alpha = q_pi.amin(1), alpha[:, 0]
    j_pi = alpha * at_s.log_prob.mean(1) - least.mean(1)
    d_q = (q_pi == least[:, None]) * (-1 / n)
    d_inputs = state.q.input_gradient(q_inputs, d_q.view(-1, n, 1))
    d_actions = d_inputs[0::2, :, n_obs:] + d_inputs[1::2, :, n_obs:]
    d_head = squashed.gradient(at_s, d_actions, d_log_prob=(alpha / n)[:, None])
    grad = torch.cat(state.pi.backward([x[:, :n] for x in pi_inputs], d_head), dim=1)
    actor_norm = clip_by_norm_(grad, spec.max_grad_norm)
    # J(alpha) (eq. 18): the mean of -alpha (log pi(a | s) + target entropy), but, as in
    # Stable-Baselines3, with the factor log alpha instead of alpha
    target_entropy = -noise.shape[-1] if spec.target_entropy is None else spec.target_entropy
    d_log_alpha = (-at_s.log_prob.mean(1) - target_entropy) * spec.learns_temperature
    state.actor.step(torch.cat([grad, d_log_alpha[:, None]], dim=1))

    state.target.lerp_(state.critics.rows, spec.tau)
    return Diagnostics(
        critic_loss=j_q,
        actor_loss=j_pi,
        critic_gradient_norm=critic_norm,
        actor_gradient_norm=actor_norm,
        q_mean=q.mean((1, 2)),
        alpha=alpha,
        policy_entropy=-at_s.log_prob.mean(1),
        td_error=delta.abs().mean(1),
    )
