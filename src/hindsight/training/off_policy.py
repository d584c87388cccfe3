"""The off-policy training loop: act, store, sample with hindsight, update.

`OffPolicyRuns._iterate` takes `log_interval` steps of all runs on an axis.
"""

import sys
from dataclasses import fields, replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from hindsight.algorithms.critics_compiled import Engine
from hindsight.algorithms.interface import OffPolicyAlgorithm, columns_of
from hindsight.envs.run_axis import Environments
from hindsight.nn.standardise import Standardiser
from hindsight.replay.buffer import Relabelling, ReplayBuffer, RowLayout, draws
from hindsight.replay.prioritized import PrioritizedReplayBuffer, annealed
from hindsight.specs.off_policy import ContinuousSpec, OffPolicySpec
from hindsight.specs.replay import ReplaySpec
from hindsight.streams import Purpose
from hindsight.training.off_policy_compiled import take
from hindsight.training.policies import Policy, agent_of, networks_in
from hindsight.training.runs import Runs

#: Environment steps for which random numbers are drawn at once: creating a generator costs as much
#: as a thousand numbers, but the numbers of a thousand steps would not fit into the cache.
CHUNK = 50
FLOAT = np.float32


class OffPolicyRuns(Runs):
    algorithm: OffPolicySpec
    module: OffPolicyAlgorithm

    def begin(self, rows: Tensor) -> None:
        self.replay = cast(ReplaySpec, self.spec.replay)
        how = self.algorithm
        agent, (networks, _) = agent_of(self.spec), networks_in(self.spec, rows)
        self.state = self.module.TrainState(agent, networks, how.rate_of, how.weight_decay)
        self.buffer = self._buffer()
        #: Standardises observations for the networks; None: they are used as they are.
        self.standardiser: Standardiser | None = None
        if isinstance(how, ContinuousSpec) and how.normalize_observations:
            sizes = self.env.observation_size, self.env.goal_size
            self.standardiser = Standardiser(len(self.seeds), *sizes, self.device)
        #: Compiled updates; None: PyTorch's.
        self.engine: Engine | None = getattr(self.updater, "ENGINE", None)
        #: Whether whole chunks of steps are compiled.
        self.compiled = (
            self.engine is not None
            and isinstance(self.env, Environments)
            and self.standardiser is None
        )

    def _buffer(self) -> ReplayBuffer:
        """Create the buffer; it needs no more room than for the steps to come.

        Nor less than for two episodes of each environment: longer ones are stored in pieces.
        """
        replay, env = self.replay, self.env
        strategy, k = (replay.strategy, replay.k) if replay.strategy else ("future", 0)
        ends = env.task.terminates_on_success
        relabelling = Relabelling(strategy, k, ends, replay.fidelity)
        row = RowLayout.of(
            env.observation_size, env.goal_size, env.action_size, has_rest=env.keeps_rest
        )
        n_envs, limit = self.algorithm.n_envs, self.spec.environment.step_limit
        to_come = self.spec.steps + self.rollout_steps
        limit = min(limit, -(-to_come // n_envs))  # no episode is longer than the training
        size = min(self.algorithm.buffer_size, max(to_come, 2 * n_envs * limit))
        sizes = (len(self.seeds), n_envs, size, row, relabelling)
        kind: Any = ReplayBuffer
        if replay.prioritized:
            kind = partial(PrioritizedReplayBuffer, alpha=replay.alpha)
        buffer = kind(*sizes, discrete_actions=bool(env.n_choices), device=self.device)
        if buffer.longest < limit:
            print(
                f"buffer_size: an environment's share, {size // n_envs:,} steps, holds episodes of "
                f"up to {buffer.longest:,}, half of it; longer ones, of up to {limit:,}, are "
                f"stored in pieces: set buffer_size to {2 * n_envs * limit:,} or more",
                file=sys.stderr,
            )
        return buffer

    @property
    def rows(self) -> Tensor:
        """Parameters of every run [run, parameter], for observations that are not standardised.

        They are its networks and, if these were trained on standardised ones, the bounds of what
        they see.
        """
        rows = self.state.rows
        if self.standardiser is None:
            return rows
        folded = self.module.TrainState(self.state.agent, rows, 0.0)
        self.standardiser.fold(folded.networks)
        return torch.cat([folded.rows, self.standardiser.bounds], dim=1)

    @property
    def parts(self) -> dict[str, Any]:
        standardiser = {"standardiser": self.standardiser} if self.standardiser else {}
        return {"agent": self.state, "buffer": self.buffer, **standardiser}

    def policy(self) -> Policy:
        return lambda obs: self.module.act(self.state, self._seen(obs), self.algorithm)

    def _seen(self, obs: Tensor) -> Tensor:
        return obs if self.standardiser is None else self.standardiser(obs)

    def _abandon(self, episodes: Tensor) -> None:
        self.buffer.end_episodes(episodes.cpu().numpy())

    @torch.no_grad()
    def _iterate(self) -> dict[str, Tensor]:
        self.clock.start()
        interval = self.rollout_steps // self.algorithm.n_envs
        #: Steps of each environment so far.
        self.steps = (self.iteration - 1) * interval
        names = [field.name for field in fields(self.module.Diagnostics)]
        #: Diagnostics [run, update] of the iteration.
        self._diagnostics: dict[str, list[Tensor]] = {x: [] for x in names if x != "td_error"}
        if self.env.keeps_rest:
            self._diagnostics["reward_rest"] = []
        finished = self.recent.finished.clone()
        hindsight = [self.replay.strategy is not None and step is None for step in self.switched]
        sizes = [min(CHUNK, interval - t) for t in range(0, interval, CHUNK)]
        # Chunks are numbered from the run's first, so that no two draw the same numbers.
        first = (self.iteration - 1) * len(sizes)
        updates = sum(self._chunk(first + i, steps) for i, steps in enumerate(sizes))
        columns = self._columns(self.recent.means())
        of_iteration = self.recent.means(self.recent.finished - finished)
        if (threshold := self.replay.until_success) is not None:
            over = (columns["success_rate"] >= threshold) & self._enough_episodes
            self._note_first(self.switched, over.tolist())
        # Every row has every column, even before the first update.
        nothing = torch.full((len(self.seeds), 1), torch.nan, device=self.device)
        means = {n: torch.cat(x or [nothing], 1).nanmean(1) for n, x in self._diagnostics.items()}
        self.clock.lap(torch.arange(len(self.seeds)))
        return {
            **columns,
            **means,
            "episode_return": of_iteration[0],
            "episode_success": of_iteration[1],
            "updates": torch.full((len(self.seeds),), updates),
            "hindsight": torch.tensor(hindsight).float(),
        }

    def _chunk(self, index: int, steps: int) -> int:
        """Take some steps in each environment, with updates; returns the number of updates."""
        spec = self.algorithm
        noise, random_actions = self._exploration(index, (spec.n_envs, steps))
        at_random = self._at_random(index, steps)
        due = np.array([self._is_due(t) for t in range(self.steps + 1, self.steps + steps + 1)])
        n_updates = int(due.sum()) * spec.gradient_steps
        uniform = draws(self.seeds, index, (n_updates, spec.batch_size, 3))
        for i, since in enumerate(self.switched):
            if since is not None:
                uniform[i, ..., 1] = 1  # never relabelled
        size = (n_updates, self.module.NOISES * spec.batch_size, self.env.action_size)
        normal = self.from_streams(Purpose.UPDATE, index, lambda g: g.standard_normal(size, FLOAT))
        self.env.prepare_rollout(index + 1, steps)
        if self.compiled:
            outcomes, found = take(self, noise, random_actions, at_random, due, uniform, normal)
            self._note(found)
            self.steps += steps
            self.recent.add(*map(torch.from_numpy, outcomes))
            return n_updates
        taken, update, each = list[tuple[Tensor, ...]](), 0, spec.gradient_steps
        # Only priorities depend on the updates before.
        together = each if self.engine and not self.replay.prioritized else 1
        for t in range(steps):
            actions = random_actions[:, :, t]
            if not (random := at_random[:, :, t]).all():
                wanted = self._explore(self.env.state, noise[:, :, t])
                random = random.view(*random.shape, *[1] * (actions.ndim - random.ndim))
                actions = torch.where(random, actions, wanted)
            taken.append(self._step(actions))
            if due[t]:
                for _ in range(0, each, together):
                    now = slice(update, update + together)
                    self._update(uniform[:, now], normal[:, now])
                    update += together
        observed, *columns = zip(*taken, strict=True)
        rewards, ended, succeeded, *rests = (torch.stack(x, dim=-1) for x in columns)
        self.recent.add(rewards, ended, succeeded)
        if rests:
            self._note({"reward_rest": rests[0].mean(1)})  # of each step
        if self.standardiser is not None:
            self.standardiser.update(torch.cat(observed, dim=1))
        return n_updates

    def _note(self, diagnostics: dict[str, Tensor]) -> None:
        for name, values in diagnostics.items():
            self._diagnostics[name].append(values)

    def _step(self, actions: Tensor) -> tuple[Tensor, ...]:
        """Take a step with these actions in each environment, and store it.

        Returns observations [run, env, obs], rewards, whether episodes ended and succeeded, and, if
        the environment has one, the part of the reward that does not depend on the goal [run, env].
        """
        obs = self.env.state.clone()
        step = self.env.step(actions)
        terminated, truncated = step.terminated, step.truncated
        ended = terminated | truncated
        if self.replay.time_limit_terminates:
            terminated = ended
        self.buffer.add(
            obs, actions, step.reward, step.next_obs, terminated, truncated, step.success, step.rest
        )
        self.steps += 1
        rest = () if step.rest is None else (step.rest,)
        return obs, step.reward, ended, step.success, *rest

    def _at_random(self, index: int, steps: int) -> Tensor:
        """Whether a chunk's actions are uniformly random, [run, env, step] bool."""
        spec, size = self.algorithm, (self.algorithm.n_envs, steps)
        starting = (self.steps + torch.arange(steps)) * spec.n_envs < spec.learning_starts
        at_random = (starting & spec.random_warm_up).expand(len(self.seeds), *size)
        if isinstance(spec, ContinuousSpec) and spec.epsilon:  # DQN itself draws its random choices
            uniform = self.from_streams(
                Purpose.UNIFORM_ACTIONS, index, lambda g: g.random(size, FLOAT)
            )
            at_random = at_random.to(self.device) | (uniform < spec.epsilon)
        return at_random.to(self.device)

    def _is_due(self, steps: int) -> bool:
        """Whether updates follow after this many steps of each environment."""
        spec = self.algorithm
        enough = steps * spec.n_envs > spec.learning_starts
        # Only finished episodes can be sampled, and by then one has finished.
        finished = steps >= self.spec.environment.step_limit
        return enough and finished and steps % spec.train_freq == 0

    def _exploration(self, index: int, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Draw the policy's noise and uniform random actions, both [run, env, step, ...]."""
        n_choices, each = self.env.n_choices, (*size, self.env.action_size)
        if n_choices:
            uniform = self.from_streams(
                Purpose.POLICY, index, lambda g: g.random((*size, 2), FLOAT)
            )
            return uniform, (uniform[..., 1] * n_choices).long()

        def draw(generator: np.random.Generator) -> np.ndarray:
            return np.stack([generator.random(each, FLOAT), generator.standard_normal(each, FLOAT)])

        uniform, normal = self.from_streams(Purpose.POLICY, index, draw).unbind(1)
        return normal, 2 * uniform - 1

    def _explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        return self.module.act(self.state, self._seen(obs), self.algorithm, noise)

    def _update(self, uniform: np.ndarray, noise: Tensor) -> None:
        """Sample batches together, and take a gradient step on each.

        uniform: [run, update, sample, 3].  noise: [run, update, number, action].
        """
        runs, n, samples, _ = uniform.shape
        numbers = uniform.reshape(runs, n * samples, 3)
        beta = annealed(self.replay.beta, self.steps * self.algorithm.n_envs / self.spec.steps)
        index, weight = self.buffer.draw(numbers[..., 0], beta)
        batch = self.buffer.sample_at(index, numbers[..., 1:], self.env.task.reward, weight)
        batch = replace(batch, obs=self._seen(batch.obs), next_obs=self._seen(batch.next_obs))
        if self.engine is not None:
            found = self.engine.update(self.state, batch, noise, self.algorithm, n)
        else:
            found = self.module.update(self.state, batch, noise[:, 0], self.algorithm)
        errors = found.td_error.view(runs, n, -1)
        if isinstance(self.buffer, PrioritizedReplayBuffer):
            # A run whose errors are no longer finite has diverged, and ends after this iteration.
            finite = np.nan_to_num(errors[:, 0].cpu().numpy(), posinf=0.0, neginf=0.0)
            self.buffer.update_priorities(index, finite)
        self._note(columns_of(found, runs, n, but="td_error"))
