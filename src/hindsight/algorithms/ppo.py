"""Proximal policy optimisation, PPO (Schulman et al. 2017, Algorithm 1), on the run axis.

Symbols follow the paper: r_t(theta) is the probability ratio, A the advantage, epsilon the clip
range.  Details that the paper leaves open follow Stable-Baselines3, on which the replicated papers
build: advantages normalised per minibatch, clipped value loss, early stopping on the approximate
KL divergence, bootstrapping at truncations.  A test compares both implementations.  Relabelled
samples are treated like any others.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hindsight.envs.environment import Environment
from hindsight.envs.rollout import Cuts, Rollout, Trajectories
from hindsight.envs.step import Step
from hindsight.nn.adam import Adam, clip_by_norm_
from hindsight.nn.cuda_graph import Repeated
from hindsight.nn.entropy import categorical_entropy, gaussian_entropy
from hindsight.nn.mlp import MLP, Network, orthogonal_row
from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.base import EnvironmentSpec
from hindsight.specs.on_policy import Exploration, OnPolicySpec
from hindsight.streams import Purpose, stream


@dataclass(frozen=True)
class Agent:
    """Policy and value networks; a run's parameter row is policy, value function, log sigma.

    The policy network outputs the mean of a Gaussian or, if actions are discrete, the logits of a
    categorical distribution for each component of an action, and there is no sigma.
    """

    policy: MLP
    value: MLP
    #: Numbers of choices of an action's components; empty if actions are continuous.
    choices: tuple[int, ...] = ()
    exploration: Exploration = "gaussian"

    @classmethod
    def of(cls, environment: EnvironmentSpec, algorithm: OnPolicySpec) -> "Agent":
        """Separate tanh networks."""
        below = environment.observation_size, *algorithm.hidden
        networks = MLP((*below, environment.n_outputs)), MLP((*below, 1))
        return cls(*networks, environment.choices, algorithm.exploration)

    @property
    def discrete(self) -> bool:
        return bool(self.choices)

    def each(self, outputs: Tensor) -> tuple[Tensor, ...]:
        """Split outputs [..., output] of a discrete policy into those of each component."""
        each: tuple[Tensor, ...] = outputs.split(self.choices, dim=-1)
        return each

    @property
    def n_sigmas(self) -> int:
        return 0 if self.discrete else self.policy.sizes[-1]

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.policy.n_parameters, self.value.n_parameters, self.n_sigmas

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split rows [run, parameter] into policy, value function and log sigma [run, action]."""
        policy, value, log_std = rows.split(self.sizes, dim=1)
        return policy, value, log_std

    def acting(self, rows: Tensor) -> tuple[MLP, Tensor]:
        return self.policy, self.split(rows)[0]

    def actions(self, outputs: Tensor) -> Tensor:
        """The most likely choices, or the environment's actions for the Gaussian's mean."""
        if not self.discrete:
            return self.squash(outputs)
        chosen = [logits.argmax(-1) for logits in self.each(outputs)]
        return chosen[0] if len(chosen) == 1 else torch.stack(chosen, dim=-1)

    def squash(self, samples: Tensor) -> Tensor:
        """The environment's actions for samples of the Gaussian policy: their tanh if "squashed".

        PPO trains on the samples before the tanh.  Their probability ratios equal those of the
        squashed actions, because the Jacobian of the tanh cancels.
        """
        return samples.tanh() if self.exploration == "squashed" else samples

    def log_prob(self, outputs: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        """log pi(actions), [run, sample], from policy outputs [run, sample, output]."""
        if self.discrete:
            pairs = zip(self.each(outputs), actions.long().split(1, dim=-1), strict=True)
            each = [logits.log_softmax(-1).gather(-1, action) for logits, action in pairs]
            return torch.cat(each, dim=-1).sum(-1)
        z = (actions - outputs) * (-log_std).exp()[:, None]
        constant = 0.5 * math.log(2 * math.pi) * self.n_sigmas
        return -0.5 * z.square().sum(-1) - log_std.sum(-1, keepdim=True) - constant

    def entropy(self, outputs: Tensor, log_std: Tensor, weight: Tensor) -> Tensor:
        """Mean entropy of the policy in nats, [run], weighted by `weight` [run, sample]."""
        if self.discrete:
            return (weight * self.state_entropy(outputs)).sum(-1)
        return gaussian_entropy(log_std)

    def state_entropy(self, outputs: Tensor) -> Tensor:
        """Entropy of a discrete policy at each state, [run, sample]."""
        return torch.stack([categorical_entropy(x) for x in self.each(outputs)]).sum(0)

    def initial_row(self, seed: int, sigma: float) -> Tensor:
        """Initial parameters of one run: orthogonal, gain sqrt(2); last layers 0.01 (pi), 1 (V)."""
        generator = stream(seed, Purpose.INITIALISATION)
        gains = [math.sqrt(2)] * (len(self.policy.sizes) - 2)
        pieces = [
            orthogonal_row(self.policy, [*gains, 0.01], generator),
            orthogonal_row(self.value, [*gains, 1.0], generator),
            np.full(self.n_sigmas, math.log(sigma), np.float32),
        ]
        return torch.from_numpy(np.concatenate(pieces))


@dataclass(frozen=True)
class Samples:
    """The training samples of one update; leading dimensions [run, sample]."""

    obs: Tensor  # [run, sample, obs]
    actions: Tensor  # [run, sample, action]; of a discrete action, its components' choices
    log_prob: Tensor  # [run, sample], under the policy that collected
    value: Tensor  # [run, sample]
    advantage: Tensor  # [run, sample]
    returns: Tensor  # [run, sample]
    valid: Tensor  # [run, sample] bool
    n_real: int  # the samples from this index on are relabelled copies
    cloned: bool = False  # train by supervised learning on the actions alone (GCSL)

    def with_copies(self, copies: "Samples") -> "Samples":
        joined: dict[str, Any] = {
            name: torch.cat([value, getattr(copies, name)], dim=1)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **joined)


def advantages(
    rewards: Tensor, values: Tensor, last_value: Tensor, ends: Tensor, gamma: float, lam: float
) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016, eq. 16), [..., step].

    A_t = delta_t + gamma lambda A_{t+1}, delta_t = r_t + gamma V_{t+1} - V_t; V_{t+1} and A_{t+1}
    are 0 if step t ends a trajectory.  A parallel scan (Hillis & Steele 1986) solves the recurrence
    in log2(steps) passes; a loop over time would cost a kernel launch per step.

    Args:
        rewards, values: [..., step].
        last_value: [...], the value of the observation after the last step.
        ends: [..., step] bool.
    """
    goes_on = (~ends).to(values.dtype)
    next_values = torch.cat([values[..., 1:], last_value[..., None]], dim=-1)
    advantage = rewards + gamma * next_values * goes_on - values
    factor = gamma * lam * goes_on
    steps, reach = rewards.shape[-1], 1
    while reach < steps:
        # advantage_t sums the first `reach` terms; factor_t multiplies the following ones.
        advantage[..., :-reach] += factor[..., :-reach] * advantage[..., reach:]
        factor[..., :-reach] = factor[..., :-reach] * factor[..., reach:]
        reach *= 2
    return advantage


def behaviour(
    agent: Agent, rows: Tensor, spec: OnPolicySpec, generator: torch.Generator | None = None
) -> Callable[[Tensor], Tensor]:
    """The policy of rows [run, parameter], as a function of observations [run, env, obs].

    generator: samples actions as in training; None: the mean action, or the most likely choice.
    """
    policy, _, log_std = agent.split(rows)
    outputs_of, sigma = agent.policy.frozen(policy), log_std.exp()[:, None]

    def act(obs: Tensor) -> Tensor:
        outputs = outputs_of(obs)
        if generator is not None and agent.discrete:
            # argmax(logits + noise) is a sample of softmax(logits) if the noise is standard Gumbel.
            outputs = outputs - torch.empty_like(outputs).exponential_(generator=generator).log()
        elif generator is not None:
            outputs = outputs + torch.randn(outputs.shape, generator=generator) * sigma
        return agent.actions(outputs)

    return act


@torch.no_grad()
def collect(env: Environment, agent: Agent, rows: Tensor, noise: Tensor) -> Rollout:
    """Collect one rollout.

    Args:
        noise: [step, run, env, action], standard normal.  For discrete actions [step, run, env,
            choice], standard Gumbel: argmax(logits + noise) is a sample of softmax(logits).
    """
    policy, _, log_std = agent.split(rows)
    outputs_of = agent.policy.frozen(policy)
    noise = noise if agent.discrete else noise * log_std.exp()[:, None]
    seen, steps = [], []
    for noise_now in noise:
        obs, starts = env.state.clone(), env.elapsed == 0
        actions = outputs_of(obs) + noise_now
        if agent.discrete:
            actions = torch.stack([x.argmax(-1) for x in agent.each(actions)], dim=-1).float()
            step = env.step(actions if len(agent.choices) > 1 else actions[..., 0])
        else:
            step = env.step(agent.squash(actions))
        seen.append((obs, actions, starts))
        steps.append(step)
    obs, actions, starts = (torch.stack(x, dim=2) for x in zip(*seen, strict=True))
    columns = zip(*steps, strict=True)
    step = Step._make(None if x[0] is None else torch.stack(x, dim=2) for x in columns)
    return rollout_of(env, obs, actions, starts, step)


def rollout_of(
    env: Environment, obs: Tensor, actions: Tensor, starts: Tensor, step: Step
) -> Rollout:
    """The rollout whose steps, [run, env, step, ...], have just been taken."""
    return Rollout(
        obs,
        actions,
        step.next_achieved,
        step.reward,
        step.terminated,
        step.success,
        starts,
        env.state.clone(),
        Cuts(step.truncated, step.next_obs) if env.spec.truncates else None,
        step.rest,
    )


@torch.no_grad()
def estimate(agent: Agent, rows: Tensor, paths: Trajectories, spec: OnPolicySpec) -> Samples:
    """Values, log-probabilities, advantages and returns of trajectories under the current policy.

    At a truncation, gamma V(next observation) is added to the reward, as in Stable-Baselines3
    (partial-episode bootstrapping, Pardo et al. 2018).
    """
    runs, n_paths, steps, _ = paths.obs.shape
    policy, value, log_std = agent.split(rows)
    obs, actions = paths.obs.flatten(1, 2), paths.actions.flatten(1, 2)
    values = agent.value(value, obs).view(runs, n_paths, steps)
    last_value = agent.value(value, paths.last_obs)[..., 0]
    rewards = paths.rewards
    if paths.cuts is not None:
        following = agent.value(value, paths.cuts.next_obs.flatten(1, 2)).view(values.shape)
        rewards = rewards + spec.gamma * following * paths.cuts.truncated
    advantage = advantages(rewards, values, last_value, paths.ends, spec.gamma, spec.gae_lambda)
    return Samples(
        obs,
        actions,
        agent.log_prob(agent.policy(policy, obs), log_std, actions),
        values.flatten(1),
        advantage.flatten(1),
        (advantage + values).flatten(1),
        paths.valid.flatten(1),
        n_real=obs.shape[1],
    )


def orders(seeds: Sequence[int], iteration: int, valid: Tensor, n_epochs: int) -> Tensor:
    """Random orders of each run's valid samples: indices [epoch, run, largest number of them]."""
    counts = valid.sum(1)
    most = int(counts.max())
    result = np.zeros((n_epochs, valid.shape[0], most), dtype=np.int64)
    for run, seed in enumerate(seeds):
        generator = stream(seed, Purpose.MINIBATCH, iteration)
        there = np.flatnonzero(valid[run].cpu().numpy())
        for e in range(n_epochs):
            result[e, run, : len(there)] = generator.permutation(there)
    return torch.from_numpy(result).to(valid.device)


@dataclass
class Diagnostics:
    """Diagnostics of one update, each [run]; unless stated, means over the minibatches seen."""

    policy_loss: Tensor
    value_loss: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor
    gradient_norm: Tensor
    updates: Tensor  # number of gradient steps taken


def update(
    agent: Agent, optimiser: Adam, samples: Samples, order: Tensor, spec: PPOSpec
) -> Diagnostics:
    """Run PPO's epochs of minibatch updates on `optimiser.rows`, in place; `order` [epoch, run, n].

    A run stops before the first minibatch whose approximate KL divergence exceeds 1.5 x target_kl.
    The other runs continue.
    """
    if spec.exploration == "annealed":  # nothing moves sigma but its schedule
        optimiser.decaying = slice(-agent.n_sigmas)
    n, size = order.shape[-1], spec.batch_size
    order = pad(order, (0, -(-max(n, 1) // size) * size - n))
    place = torch.arange(order.shape[-1], device=order.device)
    there = place < samples.valid.sum(1, keepdim=True)  # false for padding
    active, log = torch.ones_like(there[:, 0], dtype=torch.bool), []
    take_step = Repeated(partial(step, agent, optimiser, samples, spec))
    for indices in order:
        minibatches = (x.split(size, dim=1) for x in (indices, there))
        for index, is_there in zip(*minibatches, strict=True):
            active, *diagnostics = take_step(index, is_there, active)
            log.append(torch.stack(diagnostics).detach())  # [quantity, run]
        if not active.any():
            break
    *means, seen, moves = torch.stack(log).unbind(1)
    columns = [(seen * x).sum(0) / seen.sum(0).clamp(min=1) for x in means]
    columns.append(moves.sum(0))
    return Diagnostics(*columns)


def step(
    agent: Agent,
    optimiser: Adam,
    samples: Samples,
    spec: PPOSpec,
    index: Tensor,
    there: Tensor,
    active: Tensor,
) -> tuple[Tensor, ...]:
    """One gradient step for the runs that are `active` [run].

    If `samples.cloned`, maximise the log-likelihood of the actions, whatever their advantages:
    goal-conditioned supervised learning (GCSL, Ghosh et al. 2019, arXiv; ICLR 2021; Algorithm 1).

    Args:
        index: [run, sample], the minibatch as indices of the samples; `there` is false for padding.

    Returns which runs are still active, and what `update` makes `Diagnostics` of, each [run].
    """
    run = torch.arange(len(index), device=index.device)[:, None]
    mb_advantage, w = normalised(samples.advantage[run, index], there)
    policy, value, log_std = agent.split(optimiser.rows)
    mb_obs = samples.obs[run, index]
    policy_network, value_network = Network(agent.policy, policy), Network(agent.value, value)
    head, policy_inputs = policy_network.forward(mb_obs)
    v, value_inputs = value_network.forward(mb_obs)
    log_std = log_std.detach()
    outputs = (head, v, log_std)
    for output in outputs:
        output.requires_grad_()

    log_prob = agent.log_prob(head, log_std, samples.actions[run, index])
    log_ratio = log_prob - samples.log_prob[run, index]
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - spec.clip_range, 1 + spec.clip_range)
    # L^CLIP (eq. 7), which is maximised
    gain = torch.min(ratio * mb_advantage, clipped * mb_advantage)
    policy_loss = -(w * (log_prob if samples.cloned else gain)).sum(-1)
    new = v[..., 0]
    if spec.clip_range_vf is not None:
        old = samples.value[run, index]
        new = old + (new - old).clamp(-spec.clip_range_vf, spec.clip_range_vf)
    value_loss = (w * (new - samples.returns[run, index]).square()).sum(-1)
    loss = policy_loss if samples.cloned else policy_loss + spec.vf_coef * value_loss
    if spec.ent_coef:
        loss = loss - spec.ent_coef * agent.entropy(head, log_std, w)
    # Runs share no parameters, so the gradient of the summed losses [run] is each run's own.
    d_head, d_v, d_log_std = torch.autograd.grad(loss.sum(), outputs, materialize_grads=True)

    with torch.no_grad():
        if spec.exploration == "annealed":
            d_log_std = torch.zeros_like(d_log_std)
        d_policy = policy_network.backward(policy_inputs, d_head)
        d_value = value_network.backward(value_inputs, d_v)
        grad = torch.cat([*d_policy, *d_value, d_log_std], dim=1)
        norm = clip_by_norm_(grad, spec.max_grad_norm)
        # Schulman's estimator of the KL divergence, E[(r - 1) - log r]
        kl = (w * (ratio - 1 - log_ratio)).sum(-1)
        seen = active & there.any(-1)
        if spec.target_kl is not None:
            active = active & ~(seen & (kl > 1.5 * spec.target_kl))
        moves = seen & active
        optimiser.step(grad, moves)
        clip_fraction = (w * ((ratio - 1).abs() > spec.clip_range)).sum(-1)
    counts = (seen.float(), moves.float())
    return active, policy_loss, value_loss, kl, clip_fraction, norm, *counts


def normalised(advantage: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """A minibatch's advantages [run, sample] with mean 0 and standard deviation 1, and weights.

    The weights sum to 1 over its samples; they are 0 for padding, where `there` is false.
    """
    size = there.sum(-1, keepdim=True)
    weight = there / size.clamp(min=1)
    mean = (weight * advantage).sum(-1, keepdim=True)
    variance = (weight * (advantage - mean).square()).sum(-1, keepdim=True)
    std = (variance * size / (size - 1).clamp(min=1)).sqrt()
    # As in Stable-Baselines3, a single sample is not normalised.
    return torch.where(size > 1, (advantage - mean) / (std + 1e-8), advantage), weight
