"""PPO, PPO-HER and MEHER on the point mass and on bits: episodes, goals and choices."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from hindsight.algorithms import ppo_compiled as ppo
from hindsight.envs.rollout import Rollout
from hindsight.specs.cell import CellSpec
from tests.training.small import HINDSIGHT, cell_in, runs

POINT: dict[str, Any] = {"id": "PointReach-v0", "max_steps": 9, "threshold": 0.4}
BITS: dict[str, Any] = {"id": "BitFlipping-v0", "n_bits": 4}
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "point": POINT,
    "bits": BITS,
    "continuous": {**BITS, "continuous": True},
}


def cell(environment: str, hindsight: str, **algorithm: Any) -> CellSpec:
    how = {"n_steps": 60, "n_epochs": 3, **algorithm}
    return cell_in(ENVIRONMENTS[environment], how, hindsight=HINDSIGHT[hindsight])


def episodes_of(rollouts: list[Rollout], run: int) -> pd.DataFrame:
    """The finished episodes of a run, in the order in which they end."""
    names = {"return_mean": "rewards", "success_rate": "success", "over": "over"}
    found = []
    for env in range(rollouts[0].rewards.shape[1]):
        steps = pd.DataFrame(
            {key: torch.cat([getattr(r, name)[run, env] for r in rollouts]).numpy()
             for key, name in names.items()}
        ).assign(env=env, episode_length=1).reset_index(names="end")  # fmt: skip
        kinds = dict.fromkeys(["end", "env", "success_rate", "over"], "last")
        kinds |= {"return_mean": "sum", "episode_length": "sum"}
        found.append(steps.groupby(steps.over.cumsum() - steps.over).agg(kinds))
    return pd.concat(found).query("over").sort_values(["end", "env"])


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_last_hundred_episodes_count_truncated_ones_too(environment, n_envs, rollouts):
    """Eleven rollouts; some episodes go on in the next one."""
    one = runs(cell(environment, "ppo", n_envs=n_envs), 1, 2)
    assert one.recent.means().isnan().all()
    for _ in range(11):
        columns = one.iterate()
    latest = one.recent.means(torch.tensor([1, 0]))
    assert latest[:, 1].isnan().all()
    for run in range(2):
        plain = episodes_of(rollouts, run)[["return_mean", "success_rate", "episode_length", "end"]]
        assert len(plain) > 100 or environment == "point"
        means = plain[-100:].mean()
        for name in plain.columns[:3]:
            assert float(columns[name][run]) == pytest.approx(means[name]), name
        assert int(columns["episodes"][run]) == len(plain)
        if environment == "point":
            assert means.success_rate > 0 and means.episode_length == 9
        if run == 0:
            assert latest[:, run].tolist() == plain.iloc[-1, :3].tolist()
        # Of the episodes that end in the last rollout: successes by their last steps.
        last = plain[plain.end >= 10 * 60].success_rate.mean()
        assert float(columns["s_ratio_before"][run]) == pytest.approx(last)


#: How far apart achieved goals must be to differ by the task's own rule.
APART = {"point": 0.4, "bits": 0.0, "continuous": 0.0, "prey": 1.0, "object": 1.0}


@pytest.mark.parametrize("environment", APART)
def test_how_often_and_how_far_the_achieved_goal_has_moved(environment, rollouts):
    """In complete episodes only; the second rollout begins within one."""
    prey = {"n_dims": 2, "grid_size": 3, "max_steps": 7, "pushes_object": environment == "object"}
    where = ENVIRONMENTS.get(environment, prey)
    training, found = runs(cell_in(where, {"n_steps": 60, "n_epochs": 1}), 5, 6), []
    goal = training.env.goal_size
    for _ in range(2):
        columns = training.iterate()
        share, rollout = columns["goal_moved"], rollouts[-1]
        for run in range(2):
            distances, to_go, began = [], [], None
            for t in range(60):
                obs = rollout.obs[run, 0, t].numpy()
                if rollout.starts[run, 0, t]:
                    began, desired = obs[:goal], obs[goal : 2 * goal]
                if began is not None and rollout.over[run, 0, t]:
                    ended = rollout.next_achieved[run, 0, t].numpy()
                    distances.append(math.dist(began, ended))
                    to_go.append(math.dist(began, desired))
            moved = np.array(distances) > APART[environment]
            assert float(share[run]) == pytest.approx(moved.mean())
            expected = np.mean(distances) / np.mean(to_go)
            assert float(columns["goal_displacement"][run]) == pytest.approx(expected, rel=1e-5)
        found += share.tolist()
    assert any(0 < share < 1 for share in found)


def test_choices_are_drawn_with_their_probabilities():
    """6,000 choices of an untrained policy with a bias against its softmax."""
    one = runs(cell("bits", "ppo", n_steps=200, n_envs=10), 1, 2, 3)
    policy: Tensor = one.agent.split(one.rows)[0]
    one.agent.policy.layers(policy)[-1][0].copy_(torch.tensor([0.5, -1.0, 0.0, 1.0]))
    rollout = ppo.collect(one.env, one.agent, one.rows, one._noise())
    counts = torch.bincount(rollout.actions.long().flatten(), minlength=4).double()
    # The network's weights are small: the bias decides to within a percent.
    p = torch.tensor([0.5, -1.0, 0.0, 1.0]).softmax(0).double()
    torch.testing.assert_close(counts / counts.sum(), p, rtol=0, atol=0.03)
