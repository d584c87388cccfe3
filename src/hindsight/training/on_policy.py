"""The on-policy training loop: collect a rollout, relabel it, estimate advantages, update."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from hindsight.algorithms.interface import OnPolicyAlgorithm, columns_of
from hindsight.envs.environment import Environment
from hindsight.envs.rollout import Rollout, Trajectories, at_step, segment_starts
from hindsight.envs.run_axis import Environments
from hindsight.nn.adam import Adam
from hindsight.nn.entropy import gaussian_entropy
from hindsight.relabel import on_policy as hindsight
from hindsight.relabel import s_ratio
from hindsight.relabel.weights import WEIGHTS
from hindsight.specs.on_policy import OnPolicySpec
from hindsight.streams import Purpose
from hindsight.training.policies import Policy, agent_of, policy_of
from hindsight.training.runs import Runs
from hindsight.training.signals import entropies

if TYPE_CHECKING:
    from hindsight.algorithms.ppo import Agent, Samples

#: What a run learns from: the rollout alone, the rollout and copies of all of it, rollout and
#: copies with a target share of successes, or the rollout and a mixture of copies.
Mode = Literal["none", "copies", "balance", "mixture"]

#: PyTorch's default, not Stable-Baselines3's 1e-5: the released code passes a weight decay (of 0)
#: to the optimiser, and Stable-Baselines3 2.1 then leaves epsilon at PyTorch's default.
ADAM_EPS = 1e-8


class OnPolicyRuns(Runs):
    algorithm: OnPolicySpec
    module: OnPolicyAlgorithm

    def begin(self, rows: Tensor) -> None:
        #: The module of `collect`; compiled code can step only this package's environments.
        self.collector = self.updater if isinstance(self.env, Environments) else self.module
        self.agent: Agent = cast("Agent", agent_of(self.spec))
        rate, decay = self.algorithm.learning_rate, self.algorithm.weight_decay
        self.optimiser = Adam(rows, rate, eps=ADAM_EPS, weight_decay=decay)
        #: What the last iteration learned from: seeds, samples, real trajectories and copies.
        self.learned: list[tuple[list[int], Samples, Trajectories, Trajectories | None]] = []

    @property
    def rows(self) -> Tensor:
        return self.optimiser.rows

    @property
    def parts(self) -> dict[str, Any]:
        return {"optimiser": self.optimiser}

    def policy(self) -> Policy:
        return policy_of(self.spec, self.rows)

    def _iterate(self) -> dict[str, Tensor]:
        spec, rows = self.algorithm, self.rows
        everyone = torch.arange(len(self.seeds), device=self.device)
        self.clock.start()
        self._follow_schedules()
        self.env.prepare_rollout(self.iteration, spec.n_steps)
        noise = self._noise()
        rollout = self.collector.collect(self.env, self.agent, rows, noise)
        self.recent.add(rollout.rewards, rollout.over, rollout.success)
        columns = self._columns(self.recent.means())
        columns |= goal_movement(rollout, self.env.task)
        if rollout.rest is not None:
            columns["reward_rest"] = rollout.rest.mean((1, 2))
        self.clock.lap(everyone)
        self.learned = []
        for mode, runs in self._modes(columns["success_rate"]):
            for name, values in self._learn(rollout, mode, runs).items():
                columns.setdefault(name, values.new_zeros(len(everyone)))[runs] = values
            self.clock.lap(runs)
        log_std = self.agent.split(rows)[2]
        columns["policy_entropy"] = self._entropy(rollout, log_std)
        columns["log_std"] = log_std.mean(1)
        return columns

    def _learn(self, rollout: Rollout, mode: Mode, runs: Tensor) -> dict[str, Tensor]:
        """Relabel, estimate advantages and update the runs with these indices; returns columns."""
        part, rollout = self.optimiser.take(runs), rollout.map(lambda x: x[runs])
        seeds = [self.seeds[i] for i in runs.tolist()]
        spec = self.algorithm
        real, copies = self._relabel(rollout, mode, seeds)
        if spec.dense_reward:
            real = replace(real, rewards=real.rewards + rollout.approach)
        samples, log_ratio = self._estimate(part.rows, rollout, real, copies)
        # Of the policy that collected the samples: the update changes its parameters in place.
        imitation = mechanism(self.agent, part.rows, samples, log_ratio)
        order = self.module.orders(seeds, self.iteration, samples.valid, spec.n_epochs)
        diagnostics = self.updater.update(self.agent, part, samples, order, spec)
        self.optimiser.put(runs, part)
        self.learned.append((seeds, samples, real, copies))
        any_step = self.env.task.terminates_on_success or self.env.any_success
        before = success_counts(Trajectories.real(rollout), any_step)
        after = success_counts(real, any_step)
        if copies is not None:
            after = after + success_counts(copies, any_step)
        n_real = samples.valid[:, : samples.n_real].sum(1)
        return {
            **columns_of(diagnostics, len(seeds)),
            "hindsight": samples.valid[:, samples.n_real :].any(1).float(),
            **imitation,
            "relabelled_share": 1 - n_real / samples.valid.sum(1),
            "s_ratio_before": before[0] / before[1],
            "s_ratio_after": after[0] / after[1],
        }

    def _relabel(
        self, rollout: Rollout, mode: Mode, seeds: list[int]
    ) -> tuple[Trajectories, Trajectories | None]:
        """Return the part of the rollout to learn from, and its relabelled copies, if any."""
        real, spec = Trajectories.real(rollout), self.spec.hindsight
        if mode == "none" or spec is None:
            return real, None
        task, draw = self.env.task, hindsight.Draws(seeds, self.iteration, self.device)
        if mode == "copies":
            _, envs, steps = rollout.rewards.shape
            relabel = hindsight.RELABEL[spec.fidelity]
            return real, relabel(rollout, spec, task, draw(envs, steps, spec.k))
        target = torch.full((len(seeds),), spec.s_ratio or 0.0, device=self.device)
        if mode == "mixture":
            return real, s_ratio.mixture(rollout, task, target, draw)
        return s_ratio.BALANCE[spec.fidelity](rollout, spec, task, target, draw)

    def _estimate(
        self, rows: Tensor, rollout: Rollout, real: Trajectories, copies: Trajectories | None
    ) -> "tuple[Samples, Tensor | None]":
        """Estimate the advantages of real steps and of copies, under parameters [run, parameter].

        Returns the samples to learn from and the copies' log importance ratios [run, sample].
        """
        samples = self.module.estimate(self.agent, rows, real, self.algorithm)
        if copies is None:
            return samples, None
        how = self.spec.hindsight
        assert how is not None
        relabelled = self.module.estimate(self.agent, rows, copies, self.algorithm)
        log_ratio = log_ratios(samples, relabelled, rollout, copies)
        if how.copied_steps == "better":
            unbiased = self.algorithm.model_copy(update={"gae_lambda": 1.0})
            gain = self.module.estimate(self.agent, rows, copies, unbiased).advantage
            copies = replace(copies, valid=copies.valid & (gain > 0).view(copies.valid.shape))
        weight = WEIGHTS[how.weight](log_ratio, copies)
        relabelled = replace(
            relabelled, advantage=relabelled.advantage * weight, valid=copies.valid.flatten(1)
        )
        if how.clone:  # GCSL imitates the copies alone
            samples = replace(samples, valid=torch.zeros_like(samples.valid), cloned=True)
        return samples.with_copies(relabelled), log_ratio

    def _modes(self, success_rate: Tensor) -> list[tuple[Mode, Tensor]]:
        """Group the runs (indices) by how they learn in this iteration, and record switches.

        A switch is permanent, with one exception: the released code uses MEHER only while the
        threshold is exceeded, and then mixes in copies without thinning.
        """
        runs = torch.arange(len(self.seeds), device=self.device)
        spec = self.spec.hindsight
        if spec is None:
            return [("none", runs)]
        goes_over = spec.then == "meher"
        before: Mode = "copies" if spec.s_ratio is None or goes_over else "balance"
        over = torch.zeros(len(runs), dtype=torch.bool)
        if spec.until_success is not None:
            over = (success_rate > spec.until_success) & self._enough_episodes
        elif spec.until_steps is not None:
            over[:] = self.env_steps > spec.until_steps
        self._note_first(self.switched, over.tolist())
        if not (goes_over and spec.fidelity == "released"):
            over = torch.tensor([step is not None for step in self.switched])
        after: Mode = "none"
        if goes_over:
            after = "mixture" if spec.fidelity == "released" else "balance"
        over = over.to(self.device)
        return [(mode, runs[who]) for mode, who in ((before, ~over), (after, over)) if who.any()]

    def _follow_schedules(self) -> None:
        """Set the scheduled learning rate and sigma of this iteration.

        As in Stable-Baselines3, the learning rate is that of the iteration's last step.
        """
        spec, steps = self.algorithm, self.spec.steps
        if spec.learning_rate_schedule == "linear":
            self.optimiser.learning_rate.fill_((1 - self.env_steps / steps) * spec.learning_rate)
        if spec.exploration == "annealed":
            iterations = steps // self.rollout_steps
            done = (self.iteration - 1) / max(iterations - 1, 1)
            first, last = math.log(spec.sigma_init), math.log(spec.sigma_final)
            self.agent.split(self.rows)[2].fill_(first + done * (last - first))

    def _entropy(self, rollout: Rollout, log_std: Tensor) -> Tensor:
        """Entropy of the policy in nats, [run]; averaged over states if it depends on them."""
        if self.agent.discrete:
            obs = rollout.obs.flatten(1, 2)
            logits = self.agent.policy(self.agent.split(self.rows)[0], obs)
            return self.agent.state_entropy(logits).mean(1)
        entropy = gaussian_entropy(log_std)
        if self.algorithm.exploration != "squashed":
            return entropy
        # E[log |d tanh(u) / du|], with 1 - tanh(u)^2 = 4 / (e^u + e^-u)^2 in a stable form.
        u = rollout.actions
        log_slope = 2 * (math.log(2) - u - softplus(-2 * u))
        return entropy + log_slope.sum(-1).mean((1, 2))

    def _noise(self) -> Tensor:
        """Draw the rollout's random numbers for `collect`, [step, run, env, ...]."""
        spec = self.algorithm
        size = (spec.n_steps, spec.n_envs, self.agent.policy.sizes[-1])

        def draw(generator: np.random.Generator) -> np.ndarray:
            if self.agent.discrete:
                return generator.gumbel(size=size)
            return generator.standard_normal(size, np.float32)

        noise = self.from_streams(Purpose.POLICY, self.iteration, draw)
        return noise.float().movedim(0, 1).contiguous()

    def evaluate(self) -> dict[str, Tensor]:
        """Play the evaluation episodes; also returns entropies of the last iteration's samples."""
        columns, choices = super().evaluate(), self.spec.environment.choices
        for seeds, samples, *paths in self.learned:
            here = [i for i, seed in enumerate(seeds) if seed in self.seeds]  # others have ended
            if not here:
                continue
            runs = [self.seeds.index(seeds[i]) for i in here]
            rewards = torch.cat([p.rewards.flatten(1) for p in paths if p is not None], dim=1)
            actions = samples.actions
            if not choices:
                actions = self.agent.squash(actions).clamp(-1, 1)
            obs, valid = samples.obs[here], samples.valid[here]
            limit = torch.tensor(self.env.limits(), device=self.device)
            found = entropies(obs, actions[here], rewards[here], valid, limit, choices)
            for name, values in found.items():
                columns.setdefault(name, values.new_zeros(len(self.seeds)))[runs] = values
        return columns


def log_ratios(real: "Samples", copies: "Samples", rollout: Rollout, paths: Trajectories) -> Tensor:
    """log pi(a|s, g') / pi(a|s, g) of the copies (on `paths`), [run, sample], in nats.

    This is the importance weight that is missing when copies are treated as on-policy.
    """
    runs, envs, steps = rollout.rewards.shape
    # Released copies of a step are adjacent along the step axis, described ones are further paths.
    side_by_side = paths.rewards.shape[1] // envs, paths.rewards.shape[2] // steps
    original = real.log_prob.view(runs, envs, steps)
    original = original.repeat_interleave(side_by_side[0], 1).repeat_interleave(side_by_side[1], 2)
    return copies.log_prob - original.flatten(1)


def mechanism(
    agent: "Agent", rows: Tensor, samples: "Samples", log_ratio: Tensor | None
) -> dict[str, Tensor]:
    """Diagnose how learning from copies affects the policy, each [run]; NaN where undefined.

    hindsight_log_ratio_max, _mean: of the copies' log importance ratios [run, sample], in nats.
    advantage, relabelled_advantage: mean advantage of real samples and of copies, normalised
        together as in the update.
    z_squared, relabelled_z_squared: mean of ((a - mu) / sigma)^2 - 1 over samples and action
        coordinates, for a Gaussian policy.  Imitating actions where it is positive widens sigma.
    """
    is_real = torch.arange(samples.valid.shape[1], device=rows.device) < samples.n_real
    real, copies = samples.valid & is_real, samples.valid & ~is_real

    def mean(values: Tensor, among: Tensor) -> Tensor:
        return torch.where(among, values, 0).sum(1) / among.sum(1)

    centre = mean(samples.advantage, samples.valid)[:, None]
    spread = mean((samples.advantage - centre).square(), samples.valid).sqrt()[:, None]
    advantage = (samples.advantage - centre) / (spread + 1e-8)
    z_squared = torch.full_like(advantage, math.nan)
    if not agent.discrete:
        # log N(a; mu, sigma) = -1/2 sum z^2 - sum log sigma - n/2 log 2 pi
        log_std = agent.split(rows)[2]
        constant = log_std.sum(1, keepdim=True) + 0.5 * math.log(2 * math.pi) * agent.n_sigmas
        z_squared = -2 * (samples.log_prob + constant) / agent.n_sigmas - 1
    columns = {
        "advantage": mean(advantage, real),
        "relabelled_advantage": mean(advantage, copies),
        "z_squared": mean(z_squared, real),
        "relabelled_z_squared": mean(z_squared, copies),
    }
    largest = average = torch.full_like(centre[:, 0], math.nan)
    if log_ratio is not None:
        valid = samples.valid[:, samples.n_real :]
        average = mean(log_ratio, valid)
        largest = torch.where(valid, log_ratio, -math.inf).amax(1)
        largest = torch.where(valid.any(1), largest, math.nan)
    return {**columns, "hindsight_log_ratio_max": largest, "hindsight_log_ratio_mean": average}


def goal_movement(rollout: Rollout, task: Environment) -> dict[str, Tensor]:
    """Measure how achieved goals move within a rollout's complete episodes, [run]; NaN without any.

    `goal_moved`: share of episodes whose last achieved goal the task does not count as equal to
    the first.  `goal_displacement`: mean distance between the two, divided by the mean distance
    from the first achieved to the first desired goal, so that tasks of different size compare.
    """
    first = rollout.first
    began, desired = at_step(rollout.achieved, first), at_step(rollout.desired, first)
    ended = rollout.next_achieved
    _, same = task.reward(ended, began, torch.zeros_like(rollout.success))
    last = rollout.whole & rollout.over
    moved, far, to_go = (
        (values * last).sum((1, 2))
        for values in (~same, (ended - began).norm(dim=-1), (desired - began).norm(dim=-1))
    )
    return {"goal_moved": moved / last.sum((1, 2)), "goal_displacement": far / to_go}


def success_counts(paths: Trajectories, any_step: bool = True) -> Tensor:
    """Count the trajectories that end in the rollout and succeed, and all that end, [2, run].

    Also those that began before it.  One succeeds if its last step does or, with `any_step`, any.
    """
    begins = torch.cat([torch.ones_like(paths.ends[..., :1]), paths.ends[..., :-1]], dim=-1)
    first = segment_starts(begins)
    success = paths.success & paths.valid
    if not any_step:
        success = success & paths.ends
    successes = success.float()
    succeeded = torch.zeros_like(successes).scatter_reduce_(-1, first, successes, "amax")
    ends = (paths.ends & paths.valid).float()
    whole = torch.zeros_like(successes).scatter_reduce_(-1, first, ends, "amax")
    return torch.stack([(succeeded * whole).sum((1, 2)), whole.sum((1, 2))])
