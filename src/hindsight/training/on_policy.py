"""The on-policy loop: collect a rollout, relabel it, estimate advantages, update.

`OnPolicyRuns` are the runs that share an axis; `iterate` is one iteration of all of them.
"""

import math
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hindsight.algorithms import ppo
from hindsight.envs.predator_prey import PredatorPrey
from hindsight.nn.adam import Adam
from hindsight.nn.gaussian import entropy
from hindsight.relabel import on_policy as hindsight
from hindsight.replay.rollout import Rollout, Trajectories, segment_starts
from hindsight.specs.cell import CellSpec, HindsightSpec
from hindsight.streams import Purpose, stream
from hindsight.training.recent import RecentEpisodes

#: The released code gives PPO's optimiser a weight decay (of 0), and Stable-Baselines3 2.1 then
#: leaves Adam's epsilon at PyTorch's default instead of its own 1e-5.
ADAM_EPS = 1e-8


class OnPolicyRuns:
    """Runs of one cell that train together, and everything that a checkpoint must keep."""

    def __init__(self, spec: CellSpec, seeds: list[int], device: torch.device | str) -> None:
        self.spec, self.seeds, self.device = spec, list(seeds), torch.device(device)
        self.iteration = 0
        algorithm, runs = spec.algorithm, len(self.seeds)
        environments = [spec.environment] * runs
        self.env = PredatorPrey(environments, self.seeds, algorithm.n_envs, device=device)
        self.evaluation_env = PredatorPrey(
            environments, self.seeds, spec.evaluation.episodes, device=device, evaluation=True
        )
        self.agent = ppo.ActorCritic.of(
            self.env.observation_size, self.env.action_size, algorithm.hidden
        )
        rows = [self.agent.initial_row(seed, algorithm.sigma_init) for seed in self.seeds]
        learning_rate = torch.full((runs,), algorithm.learning_rate, device=self.device)
        self.optimiser = Adam(torch.stack(rows).to(self.device), learning_rate, eps=ADAM_EPS)
        self.recent = RecentEpisodes(runs, algorithm.n_envs)
        #: Step at which a run's mean return of the last hundred episodes first was 1, by seed.
        self.perfect: dict[int, int] = {}

    @property
    def rollout_steps(self) -> int:
        """Environment steps of one run in one iteration."""
        return self.spec.algorithm.n_steps * self.spec.algorithm.n_envs

    @property
    def env_steps(self) -> int:
        """Environment steps of each run so far."""
        return self.iteration * self.rollout_steps

    @property
    def within_budget(self) -> bool:
        """Whether another rollout fits into the budget."""
        return self.env_steps + self.rollout_steps <= self.spec.steps

    @property
    def evaluation_due(self) -> bool:
        """Whether the last iteration crossed a point of the evaluation grid."""
        every = self.spec.steps / self.spec.evaluation.points
        return self.env_steps // every > (self.env_steps - self.rollout_steps) // every

    def ended(self, return_mean: Tensor) -> Tensor:
        """Which runs end now, [run] bool: out of budget, or past early_end x the perfect step."""
        for seed, value in zip(self.seeds, return_mean.tolist(), strict=True):
            if value == 1.0:
                self.perfect.setdefault(seed, self.env_steps)
        factor = self.spec.early_end or math.inf
        last = [factor * self.perfect.get(seed, math.inf) for seed in self.seeds]
        return torch.tensor([self.env_steps > step or not self.within_budget for step in last])

    def iterate(self) -> dict[str, Tensor]:
        """One iteration; returns the training curves' columns, each [run]."""
        spec, rows = self.spec.algorithm, self.optimiser.rows
        self.iteration += 1
        self.env.prepare_rollout(self.iteration, spec.n_steps)
        rollout = ppo.collect(self.env, self.agent, rows, self._noise())
        self.recent.add(rollout)
        real = Trajectories.real(rollout)
        parts = [ppo.estimate(self.agent, rows, real, spec)]
        episodes = success_counts(real)
        learned = episodes
        if self.spec.hindsight is not None:
            copies = self._relabel(rollout, self.spec.hindsight)
            parts.append(ppo.estimate(self.agent, rows, copies, spec))
            learned = episodes + success_counts(copies)
        samples = ppo.Samples.join(parts)
        order = ppo.orders(self.seeds, self.iteration, samples.valid, spec.n_epochs)
        diagnostics = ppo.update(self.agent, self.optimiser, samples, order, spec)
        log_std = self.agent.split(rows)[2]
        return {
            **self._episodes(),
            **{field.name: getattr(diagnostics, field.name) for field in fields(diagnostics)},
            "policy_entropy": entropy(log_std),
            "log_std": log_std.mean(1),
            "relabelled_share": 1 - real.valid.sum((1, 2)) / samples.valid.sum(1),
            "s_ratio_before": episodes[0] / episodes[1],
            "s_ratio_after": learned[0] / learned[1],
        }

    def _noise(self) -> Tensor:
        """Standard normal numbers for the rollout's actions, [step, run, env, action]."""
        spec = self.spec.algorithm
        size = (spec.n_steps, spec.n_envs, self.env.action_size)
        noise = [
            stream(seed, Purpose.POLICY, self.iteration).standard_normal(size, np.float32)
            for seed in self.seeds
        ]
        return torch.from_numpy(np.stack(noise, axis=1)).to(self.device)

    def _relabel(self, rollout: Rollout, spec: HindsightSpec) -> Trajectories:
        uniform = hindsight.draws(self.seeds, self.iteration, rollout, spec.k)
        return hindsight.relabel(rollout, spec, self.env.reward, uniform)

    def _episodes(self) -> dict[str, Tensor]:
        """Statistics of the last hundred episodes, each [run]."""
        return_mean, success_rate, length = self.recent.means()
        return {
            "episodes": self.recent.finished.clone(),
            "return_mean": return_mean,
            "success_rate": success_rate,
            "episode_length": length,
        }

    @torch.no_grad()
    def evaluate(self) -> dict[str, Tensor]:
        """The fixed evaluation episodes with the mean action; columns [run]."""
        env = self.evaluation_env
        mean_of = self.agent.policy.frozen(self.agent.split(self.optimiser.rows)[0])
        longest = 1 + self.spec.environment.max_steps
        env.rewind()
        env.prepare_rollout(0, longest)
        shape = env.elapsed.shape
        going = torch.ones(shape, dtype=torch.bool, device=self.device)
        success = torch.zeros_like(going)
        length = torch.zeros(shape, device=self.device)
        for _ in range(longest):
            step = env.step(mean_of(env.state))
            success |= going & step.success
            length += going
            going &= ~step.terminated
        rate = success.float().mean(1)
        # An episode of predator-prey returns +1 or -1.
        return {
            "episodes": self.recent.finished.clone(),
            "return_mean": 2 * rate - 1,
            "success_rate": rate,
            "episode_length": length.mean(1),
        }

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices; the others leave the axis."""
        self.seeds = [self.seeds[i] for i in runs.tolist()]
        for part in (self.env, self.evaluation_env, self.optimiser, self.recent):
            part.select(runs.cpu() if part is self.recent else runs)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; random streams need no more than the iteration."""
        return {
            "seeds": self.seeds,
            "iteration": self.iteration,
            "rows": self.optimiser.rows,
            "optimiser": self.optimiser.state_dict(),
            "env": self.env.state_dict(),
            "recent": self.recent.state_dict(),
            "perfect": self.perfect,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.select(torch.tensor([self.seeds.index(seed) for seed in saved["seeds"]]))
        self.iteration = saved["iteration"]
        self.optimiser.rows.copy_(saved["rows"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.env.load_state_dict(saved["env"])
        self.recent.load_state_dict(saved["recent"])
        self.perfect = saved["perfect"]


def success_counts(paths: Trajectories) -> Tensor:
    """Trajectories with a success, and trajectories that have an end, [2, run]."""
    begins = torch.cat([torch.ones_like(paths.ends[..., :1]), paths.ends[..., :-1]], dim=-1)
    first = segment_starts(begins)
    successes = ((paths.rewards > 0) & paths.valid).float()
    succeeded = torch.zeros_like(successes).scatter_reduce_(-1, first, successes, "amax")
    whole = torch.zeros_like(successes).scatter_reduce_(
        -1, first, (paths.ends & paths.valid).float(), "amax"
    )
    return torch.stack([(succeeded * whole).sum((1, 2)), whole.sum((1, 2))])
