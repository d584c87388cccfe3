"""Twin delayed deep deterministic policy gradient, TD3 (Fujimoto et al. 2018, Algorithm 1).

Symbols follow the paper: Q_theta_1, Q_theta_2 are the critics, pi_phi is the policy, theta' and
phi' are the target networks' parameters.  Details that the paper leaves open follow
Stable-Baselines3; a test compares both implementations.  Relabelled transitions are treated like
any others.  Gradients are written by hand, each next to its loss.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from hindsight.algorithms.learner import Learner
from hindsight.nn.adam import Adam, clip_by_norm_
from hindsight.nn.mlp import MLP, Network, for_each, tanh_, uniform_row
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.td3 import TD3Spec
from hindsight.specs.base import EnvironmentSpec
from hindsight.specs.off_policy import DeterministicSpec
from hindsight.streams import Purpose, stream

#: Standard normal numbers that an update needs per sample and action dimension: one, at s'.
NOISES = 1


@dataclass(frozen=True)
class Agent:
    """The networks; a run's parameter row is theta_1, theta_2, phi, theta'_1, theta'_2, phi'."""

    n_critics: ClassVar[int] = 2
    critic: MLP
    actor: MLP

    @classmethod
    def of(cls, environment: EnvironmentSpec, algorithm: DeterministicSpec) -> Self:
        """ReLU networks; a tanh squashes the policy's output."""
        n_obs, n_actions = environment.observation_size, environment.n_outputs
        hidden = algorithm.hidden
        return cls(
            MLP((n_obs + n_actions, *hidden, 1), "relu"),
            MLP((n_obs, *hidden, n_actions), "relu"),
        )

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Lengths of a row's parts: critics, policy, target critics, target policy."""
        learned = self.n_critics * self.critic.n_parameters, self.actor.n_parameters
        return *learned, *learned

    def acting(self, rows: Tensor) -> tuple[MLP, Tensor]:
        return self.actor, rows.split(self.sizes, dim=1)[1]

    def actions(self, outputs: Tensor) -> Tensor:
        """pi(s) [..., action] of the policy network's outputs [..., action]."""
        return outputs.tanh()

    def initial_row(self, seed: int) -> Tensor:
        """Initial parameters of one run, float32 [sum of sizes]; the targets are copies."""
        generator = stream(seed, Purpose.INITIALISATION)
        learned = [uniform_row(self.critic, generator) for _ in range(self.n_critics)]
        learned.append(uniform_row(self.actor, generator))
        return torch.from_numpy(np.concatenate([*learned, *learned]))


class TrainState(Learner):
    optimised = ("critics", "actor")
    targets = ("target_critics", "target_actor")
    critics: Adam
    actor: Adam
    target_critics: Tensor
    target_actor: Tensor

    def _split(self) -> None:
        critic, actor, each = self.agent.critic, self.agent.actor, self.agent.critic.n_parameters
        # The critics of all runs form one stack of networks, [n_critics run, parameter].
        self.q = Network(critic, self.critics.rows.view(-1, each))
        self.q1 = Network(critic, self.critics.rows[:, :each])
        self.pi = Network(actor, self.actor.rows)
        self.target_q = Network(critic, self.target_critics.view(-1, each))
        self.target_pi = Network(actor, self.target_actor)
        self.networks = self.q, self.target_q, self.pi, self.target_pi


def act(
    state: TrainState, obs: Tensor, spec: DeterministicSpec, numbers: Tensor | None = None
) -> Tensor:
    """Actions [run, env, action] for obs [run, env, obs]: pi(s), in training plus Gaussian noise.

    Args:
        numbers: [run, env, action], standard normal; None: no noise.
    """
    actions: Tensor = state.agent.actions(state.pi(obs))
    if numbers is None:
        return actions
    return actions.add_(numbers * spec.exploration_noise).clamp_(-1, 1)


@dataclass
class Diagnostics:
    """Diagnostics of one update, measured before its gradient steps."""

    critic_loss: Tensor  # [run]
    actor_loss: Tensor  # [run], NaN if the policy was not updated
    critic_gradient_norm: Tensor  # [run], before clipping
    actor_gradient_norm: Tensor  # [run], before clipping; NaN if the policy was not updated
    q_mean: Tensor  # [run], over the batch's actions and the critics
    td_error: Tensor  # [run, sample] mean |Q - y| of the critics, for prioritised replay


@torch.no_grad()
def update(state: TrainState, batch: Batch, noise: Tensor, spec: TD3Spec) -> Diagnostics:
    """Update the critics, and every `policy_delay` updates the policy and all targets, in place.

    Args:
        noise: [run, sample, action], standard normal, for target policy smoothing.
    """
    clip = spec.target_noise_clip
    epsilon = (noise * spec.target_policy_noise).clamp_(-clip, clip)
    next_actions = tanh_(state.target_pi(batch.next_obs)).add_(epsilon).clamp_(-1, 1)
    return learn(state, batch, next_actions, spec, spec.policy_delay)


def learn(
    state: TrainState,
    batch: Batch,
    next_actions: Tensor,
    spec: DeterministicSpec,
    policy_delay: int = 1,
) -> Diagnostics:
    """Update the critics, and every `policy_delay` updates the policy and all targets, in place.

    Args:
        next_actions: [run, sample, action], a~ at s', by the target policy.
    """
    (runs, n), n_obs, n_critics = batch.rewards.shape, batch.obs.shape[-1], state.agent.n_critics
    # y = r + gamma min_i Q_theta'_i(s', a~)
    next_inputs = for_each(torch.cat([batch.next_obs, next_actions], dim=-1), n_critics)
    next_q = state.target_q(next_inputs).view(runs, n_critics, n)
    next_value = next_q.amin(1).masked_fill_(batch.terminated, 0)
    y = torch.add(batch.rewards, next_value, alpha=spec.gamma)
    # Critics: the mean of (y - Q_theta_i(s, a))^2, summed over them
    inputs = for_each(torch.cat([batch.obs, batch.actions], dim=-1), n_critics)
    q, q_inputs = state.q.forward(inputs)
    q = q.view(runs, n_critics, n)
    delta = q - y[:, None]
    weighted = delta if batch.weight is None else delta * batch.weight[:, None]
    d_q = weighted * (2 / n)
    grad = torch.cat(state.q.backward(q_inputs, d_q.view(-1, n, 1)), dim=1).view(runs, -1)
    critic_norm = clip_by_norm_(grad, spec.max_grad_norm)
    state.critics.step(grad)
    actor_loss = actor_norm = torch.full_like(critic_norm, torch.nan)
    if state.critics.steps[0] % policy_delay == 0:  # the same number in all runs
        # Policy gradient: the mean of grad_a Q_theta_1(s, a) at a = pi(s), times grad_phi pi(s)
        head, pi_inputs = state.pi.forward(batch.obs)
        actions = tanh_(head)
        value, q_inputs = state.q1.forward(torch.cat([batch.obs, actions], dim=-1))
        actor_loss, d_value = -value.mean((1, 2)), torch.full_like(value, -1 / n)
        d_actions = state.q1.input_gradient(q_inputs, d_value)[..., n_obs:]
        d_head = torch.ops.aten.tanh_backward(d_actions, actions)
        grad = torch.cat(state.pi.backward(pi_inputs, d_head), dim=1)
        actor_norm = clip_by_norm_(grad, spec.max_grad_norm)
        state.actor.step(grad)
        # theta' <- tau theta + (1 - tau) theta', and phi' likewise
        state.target_critics.lerp_(state.critics.rows, spec.tau)
        state.target_actor.lerp_(state.actor.rows, spec.tau)
    return Diagnostics(
        critic_loss=(weighted * delta).sum((1, 2)) / n,
        actor_loss=actor_loss,
        critic_gradient_norm=critic_norm,
        actor_gradient_norm=actor_norm,
        q_mean=q.mean((1, 2)),
        td_error=delta.abs().mean(1),
    )
