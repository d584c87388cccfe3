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
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hindsight.envs.environment import Environment
from hindsight.nn import categorical, gaussian
from hindsight.nn.adam import Adam, clip_by_norm_
from hindsight.nn.mlp import MLP, Network, orthogonal_row
from hindsight.replay.rollout import Cuts, Rollout, Trajectories
from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.on_policy import Exploration, OnPolicySpec
from hindsight.streams import Purpose, stream


@dataclass(frozen=True)
class ActorCritic:
    """Policy and value networks; a run's parameter row is policy, value function, log sigma.

    The policy network outputs the mean of a Gaussian or, if actions are `discrete`, the logits of a
    categorical distribution, which has no sigma.
    """

    policy: MLP
    value: MLP
    discrete: bool = False

    @classmethod
    def of(
        cls, n_obs: int, n_outputs: int, hidden: Sequence[int], discrete: bool = False
    ) -> "ActorCritic":
        """Separate tanh networks; `n_outputs` is the action size or the number of choices."""
        return cls(MLP((n_obs, *hidden, n_outputs)), MLP((n_obs, *hidden, 1)), discrete)

    @property
    def n_sigmas(self) -> int:
        """Length of log sigma."""
        return 0 if self.discrete else self.policy.sizes[-1]

    @property
    def n_parameters(self) -> int:
        """Length of a run's parameter row."""
        return self.policy.n_parameters + self.value.n_parameters + self.n_sigmas

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split rows [run, parameter] into policy, value function and log sigma [run, action]."""
        sizes = (self.policy.n_parameters, self.value.n_parameters, self.n_sigmas)
        policy, value, log_std = rows.split(sizes, dim=1)
        return policy, value, log_std

    def acting(self, rows: Tensor) -> tuple[MLP, Tensor]:
        """The network that selects actions, and its parameters [run, parameter] within `rows`."""
        return self.policy, self.split(rows)[0]

    def log_prob(self, outputs: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        """log pi(actions), [run, sample], from policy outputs [run, sample, output]."""
        if self.discrete:
            return categorical.log_prob(outputs, actions[..., 0].long())
        return gaussian.log_prob(outputs, log_std, actions)

    def entropy(self, outputs: Tensor, log_std: Tensor, weight: Tensor) -> Tensor:
        """Mean entropy of the policy in nats, [run], weighted by `weight` [run, sample]."""
        if self.discrete:
            return (weight * categorical.entropy(outputs)).sum(-1)
        return gaussian.entropy(log_std)

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
    actions: Tensor  # [run, sample, action]; a discrete action is one number
    log_prob: Tensor  # [run, sample], under the policy that collected
    value: Tensor  # [run, sample]
    advantage: Tensor  # [run, sample]
    returns: Tensor  # [run, sample]
    valid: Tensor  # [run, sample] bool
    n_real: int  # the samples from this index on are relabelled copies
    cloned: bool = False  # train by supervised learning on the actions alone (GCSL)

    def with_copies(self, copies: "Samples") -> "Samples":
        """These samples followed by the copies."""
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


def squash(actions: Tensor, exploration: Exploration) -> Tensor:
    """The environment's actions for samples of the Gaussian policy: their tanh if "squashed".

    PPO trains on the samples before the tanh.  Their probability ratios equal those of the squashed
    actions, because the Jacobian of the tanh cancels.
    """
    return actions.tanh() if exploration == "squashed" else actions


def behaviour(
    agent: ActorCritic, rows: Tensor, spec: OnPolicySpec, generator: torch.Generator | None = None
) -> Callable[[Tensor], Tensor]:
    """The policy of rows [run, parameter], as a function of observations [run, env, obs].

    generator: samples actions as in training; None: the mean action, or the most likely choice.
    """
    policy, _, log_std = agent.split(rows)
    outputs_of, sigma = agent.policy.frozen(policy), log_std.exp()[:, None]

    def act(obs: Tensor) -> Tensor:
        outputs = outputs_of(obs)
        if agent.discrete:
            if generator is None:
                return outputs.argmax(-1)
            chances = outputs.softmax(-1).flatten(0, -2)
            return torch.multinomial(chances, 1, generator=generator).view(obs.shape[:-1])
        if generator is not None:
            outputs = outputs + torch.randn(outputs.shape, generator=generator) * sigma
        return squash(outputs, spec.exploration)

    return act


@torch.no_grad()
def collect(
    env: Environment,
    agent: ActorCritic,
    rows: Tensor,
    noise: Tensor,
    exploration: Exploration = "gaussian",
) -> Rollout:
    """Collect one rollout.

    Args:
        noise: [step, run, env, action], standard normal.  For discrete actions [step, run, env,
            choice], standard Gumbel: argmax(logits + noise) is a sample of softmax(logits).
    """
    n_steps, runs, envs, _ = noise.shape
    policy, _, log_std = agent.split(rows)
    outputs_of = agent.policy.frozen(policy)
    noise = noise if agent.discrete else noise * log_std.exp()[:, None]

    def buffer(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        # The step axis comes first here, so that each step is written contiguously.
        return torch.empty(n_steps, runs, envs, *size, dtype=dtype, device=rows.device)

    obs, actions = buffer(env.observation_size), buffer(env.action_size)
    next_achieved = buffer(env.goal_size)
    starts, terminated, success = (buffer(dtype=torch.bool) for _ in range(3))
    rest = buffer() if env.keeps_rest else None
    cuts = None
    if env.truncates:
        cuts = Cuts(buffer(dtype=torch.bool), buffer(env.observation_size))
    for t in range(n_steps):
        obs[t] = env.state
        starts[t] = env.elapsed == 0
        if agent.discrete:
            choice = (outputs_of(env.state) + noise[t]).argmax(-1)
            actions[t] = choice[..., None]
            step = env.step(choice)
        else:
            torch.add(outputs_of(env.state), noise[t], out=actions[t])
            step = env.step(squash(actions[t], exploration))
        next_achieved[t], terminated[t] = step.next_achieved, step.terminated
        success[t] = step.success
        if rest is not None and step.rest is not None:
            rest[t] = step.rest
        if cuts is not None:
            cuts.truncated[t], cuts.next_obs[t] = step.truncated, step.next_obs

    def run_first(x: Tensor) -> Tensor:
        return x.movedim(0, 2).contiguous()

    obs, next_achieved, terminated = run_first(obs), run_first(next_achieved), run_first(terminated)
    goal = obs[..., env.goal_size : 2 * env.goal_size]
    rewards, _ = env.task.reward(next_achieved, goal, terminated)
    if rest is not None:
        rest = run_first(rest)
        rewards = rewards + rest
    return Rollout(
        obs,
        run_first(actions),
        next_achieved,
        rewards,
        terminated,
        run_first(success),
        run_first(starts),
        env.state.clone(),
        None if cuts is None else Cuts(*map(run_first, cuts)),
        rest,
    )


@torch.no_grad()
def estimate(agent: ActorCritic, rows: Tensor, paths: Trajectories, spec: OnPolicySpec) -> Samples:
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


@dataclass(frozen=True)
class Epoch:
    """One shuffled pass over the samples; leading dimensions [run, minibatch, sample]."""

    obs: Tensor
    actions: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor  # normalised within each minibatch
    returns: Tensor
    weight: Tensor  # sums to 1 over a minibatch's samples; 0 for padding
    filled: Tensor  # [run, minibatch] bool: the minibatch has samples
    relabelled: Tensor  # bool: the sample is a copy


def concatenate(samples: Samples) -> Tensor:
    """The samples as one table [run, sample, column], which one gather of rows can shuffle."""
    vectors = (samples.obs, samples.actions)
    scalars = (samples.log_prob, samples.value, samples.advantage, samples.returns)
    return torch.cat([*vectors, *(x[..., None] for x in scalars)], dim=-1)


def shuffle(
    table: Tensor, n_obs: int, n_real: int, order: Tensor, counts: Tensor, batch_size: int
) -> Epoch:
    """The minibatches of one epoch.

    Args:
        table: [run, sample, column], see `concatenate`; the samples from `n_real` on are copies.
        order: [run, sample'], indices of each run's valid samples, padded at the end.
        counts: [run], number of valid samples.
    """
    runs, n = order.shape
    n_samples, width = table.shape[1:]
    minibatches = -(-n // batch_size)
    order = pad(order, (0, minibatches * batch_size - n))
    flat = order + torch.arange(runs, device=order.device)[:, None] * n_samples
    shuffled = table.flatten(0, 1).index_select(0, flat.flatten())
    shuffled = shuffled.view(runs, minibatches, batch_size, width)
    sizes = (n_obs, width - n_obs - 4, 1, 1, 1, 1)
    obs, actions, *columns = shuffled.split(sizes, dim=-1)
    log_prob, value, advantage, returns = (c[..., 0] for c in columns)
    place = torch.arange(minibatches * batch_size, device=order.device)
    there = (place < counts[:, None]).view(runs, minibatches, batch_size)
    size = there.sum(-1, keepdim=True)
    weight = there / size.clamp(min=1)
    mean = (weight * advantage).sum(-1, keepdim=True)
    variance = (weight * (advantage - mean).square()).sum(-1, keepdim=True)
    std = (variance * size / (size - 1).clamp(min=1)).sqrt()
    # As in Stable-Baselines3, a single sample is not normalised.
    advantage = torch.where(size > 1, (advantage - mean) / (std + 1e-8), advantage)
    relabelled = (order >= n_real).view(there.shape) & there
    filled = size[..., 0] > 0
    return Epoch(obs, actions, log_prob, value, advantage, returns, weight, filled, relabelled)


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
    ratio_max: Tensor  # largest probability ratio
    relabelled_ratio_max: Tensor  # largest ratio of the relabelled samples
    updates: Tensor  # number of gradient steps taken


def update(
    agent: ActorCritic, optimiser: Adam, samples: Samples, order: Tensor, spec: PPOSpec
) -> Diagnostics:
    """Run PPO's epochs of minibatch updates on `optimiser.rows`, in place; `order` [epoch, run, n].

    A run stops before the first minibatch whose approximate KL divergence exceeds 1.5 x target_kl.
    The other runs continue, from the next epoch on without it.
    """
    counts, table = samples.valid.sum(1), concatenate(samples)
    runs = torch.arange(len(counts), device=counts.device)
    sums, ratios = table.new_zeros(7, len(counts)), table.new_zeros(2, len(counts))
    n_obs = samples.obs.shape[-1]
    if order.shape[-1] == 0:  # no run has valid samples
        order = order[:0]
    for epoch_order in order:
        part = optimiser.take(runs)
        batch = shuffle(
            table[runs], n_obs, samples.n_real, epoch_order[runs], counts[runs], spec.batch_size
        )
        active = torch.ones_like(runs, dtype=torch.bool)
        log = []
        for i in range(batch.weight.shape[1]):
            active, *diagnostics = step(agent, part, batch, i, active, spec, samples.cloned)
            log.append(diagnostics)
        optimiser.put(runs, part)
        epoch_sums, largest = summary(log, batch.relabelled, spec.clip_range)
        sums[:, runs] += epoch_sums
        ratios[:, runs] = torch.maximum(ratios[:, runs], largest)
        runs = runs[active]
        if len(runs) == 0:
            break
    *totals, seen, moves = sums
    policy_loss, value_loss, kl, norm, clipped = (x / seen.clamp(min=1) for x in totals)
    largest, relabelled = ratios
    return Diagnostics(policy_loss, value_loss, kl, clipped, norm, largest, relabelled, moves)


def step(
    agent: ActorCritic,
    optimiser: Adam,
    batch: Epoch,
    i: int,
    active: Tensor,
    spec: PPOSpec,
    cloned: bool = False,
) -> tuple[Tensor, ...]:
    """One gradient step on minibatch i, for the runs that are `active` [run].

    If `cloned`, maximise the log-likelihood of the samples' actions, whatever their advantages:
    goal-conditioned supervised learning (GCSL, Ghosh et al. 2019, arXiv; ICLR 2021; Algorithm 1).

    Returns which runs are still active, followed by the inputs of `summary`.
    """
    policy, value, log_std = agent.split(optimiser.rows)
    obs, w, advantage = batch.obs[:, i], batch.weight[:, i], batch.advantage[:, i]
    policy_network, value_network = Network(agent.policy, policy), Network(agent.value, value)
    head, policy_inputs = policy_network.forward(obs)
    v, value_inputs = value_network.forward(obs)
    log_std = log_std.detach()
    outputs = (head, v, log_std)
    for output in outputs:
        output.requires_grad_()

    log_prob = agent.log_prob(head, log_std, batch.actions[:, i])
    log_ratio = log_prob - batch.log_prob[:, i]
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - spec.clip_range, 1 + spec.clip_range)
    # L^CLIP (eq. 7), which is maximised
    gain = log_prob if cloned else torch.min(ratio * advantage, clipped * advantage)
    policy_loss = -(w * gain).sum(-1)
    new = v[..., 0]
    if spec.clip_range_vf is not None:
        old = batch.value[:, i]
        new = old + (new - old).clamp(-spec.clip_range_vf, spec.clip_range_vf)
    value_loss = (w * (new - batch.returns[:, i]).square()).sum(-1)
    loss = policy_loss if cloned else policy_loss + spec.vf_coef * value_loss
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
        seen = active & batch.filled[:, i]
        if spec.target_kl is not None:
            active = active & ~(seen & (kl > 1.5 * spec.target_kl))
        moves = seen & active
        optimiser.step(grad, moves)
    return active, policy_loss, value_loss, kl, norm, ratio, w, seen, moves


@torch.no_grad()
def summary(
    log: list[list[Tensor]], relabelled: Tensor, clip_range: float
) -> tuple[Tensor, Tensor]:
    """Sums over an epoch's minibatches [quantity, run], and the largest ratios [2, run] of all
    samples and of the `relabelled` ones [run, minibatch, sample].
    """
    policy_loss, value_loss, kl, norm, ratio, w, seen, moves = map(
        torch.stack, zip(*log, strict=True)
    )
    clipped = (w * ((ratio - 1).abs() > clip_range)).sum(-1)
    quantities = (policy_loss, value_loss, kl, norm, clipped, torch.ones_like(kl))
    sums = [(seen * x).sum(0) for x in quantities]
    there = ratio * (w > 0) * seen[..., None]
    largest = [there.amax((0, 2)), (there * relabelled.transpose(0, 1)).amax((0, 2))]
    return torch.stack([*sums, moves.sum(0)]), torch.stack(largest)
