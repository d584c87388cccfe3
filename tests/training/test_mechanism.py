"""Copies of failed episodes only, truncated importance weights, and the columns that show why."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hindsight.algorithms import ppo, ppo_compiled
from hindsight.algorithms.ppo import Samples
from hindsight.specs.cell import CellSpec
from hindsight.training.on_policy import OnPolicyRuns, mechanism

PREY = {"prey": "attract", "grid_size": 3.0, "max_steps": 8}


def cell(fidelity: str = "described", **hindsight: Any) -> CellSpec:
    return CellSpec.model_validate(
        {
            "environment": PREY,
            "algorithm": {"n_steps": 128, "n_epochs": 1, "hidden": (8, 8)},
            "hindsight": {"fidelity": fidelity, **hindsight},
        }
    )


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[Samples]:
    """What each update was given."""
    log: list[Samples] = []
    update = ppo_compiled.update

    def noting(agent: Any, optimiser: Any, samples: Samples, order: Any, spec: Any) -> Any:
        log.append(samples)
        return update(agent, optimiser, samples, order, spec)

    monkeypatch.setattr(ppo_compiled, "update", noting)
    return log


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_only_failed_episodes_are_copied(fidelity: str, learned: list[Samples]) -> None:
    runs = OnPolicyRuns(cell(fidelity, copies="failed"), [1, 2], "cpu")
    everything = OnPolicyRuns(cell(fidelity), [1, 2], "cpu")
    runs.iterate()
    everything.iterate()
    some, whole = learned
    n = some.n_real
    reward_ends = torch.isclose(some.returns[:, :n], torch.ones(1))  # real returns of 1: success
    assert reward_ends.any()
    for run in range(2):
        (_, _, real, copies), (_, _, _, all_copies) = runs.learned[0], everything.learned[0]
        assert copies is not None and all_copies is not None
        over = np.flatnonzero(real.ends[run, 0].numpy())
        for first, last in zip([0, *over[:-1] + 1], over, strict=False):
            caught = bool(real.success[run, 0, last])
            kept = copies.valid[run, 0, first : last + 1]
            was = all_copies.valid[run, 0, first : last + 1]
            assert torch.equal(kept, was & (not caught))
    assert 0 < some.valid[:, n:].sum() < whole.valid[:, n:].sum()


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_copies_weigh_by_the_truncated_importance_ratio(
    fidelity: str, learned: list[Samples]
) -> None:
    weighted = OnPolicyRuns(cell(fidelity, weight="truncated"), [3], "cpu")
    plain = OnPolicyRuns(cell(fidelity), [3], "cpu")
    weighted.iterate()
    plain.iterate()
    found, expected = learned
    n = found.n_real
    # k = 1: a copy stands at the place of the step that it is of.
    ratio = (expected.log_prob[:, n:] - expected.log_prob[:, :n]).exp()
    valid = expected.valid[:, n:]
    assert (ratio[valid] > 1).any() and (ratio[valid] < 1).any()
    torch.testing.assert_close(
        found.advantage[:, n:][valid], (expected.advantage[:, n:] * ratio.clamp(max=1))[valid]
    )
    torch.testing.assert_close(found.advantage[:, :n], expected.advantage[:, :n])
    torch.testing.assert_close(found.returns, expected.returns)


def test_the_columns_by_hand() -> None:
    agent = ppo.ActorCritic.of(2, 1, (3,))
    rows = torch.zeros(1, agent.n_parameters)
    rows[0, -1] = math.log(2.0)  # mu = 0 everywhere, sigma = 2
    actions = torch.tensor([[[2.0], [0.0], [4.0], [6.0], [9.0]]])
    policy, _, log_std = agent.split(rows)
    obs = torch.zeros(1, 5, 2)
    log_prob = agent.log_prob(agent.policy(policy, obs), log_std, actions)
    advantage = torch.tensor([[1.0, 3.0, 5.0, 7.0, 99.0]])
    valid = torch.tensor([[True, True, True, True, False]])
    nothing = torch.zeros(1, 5)
    samples = Samples(obs, actions, log_prob, nothing, advantage, nothing, valid, n_real=2)
    columns = mechanism(agent, rows, samples, torch.tensor([[0.5, -1.5, 9.0]]))
    spread = math.sqrt((9 + 1 + 1 + 9) / 4)
    expected = {
        "advantage": (-3 - 1) / 2 / spread,
        "relabelled_advantage": (1 + 3) / 2 / spread,
        "z_squared": (1 + 0) / 2 - 1,
        "relabelled_z_squared": (4 + 9) / 2 - 1,
        "hindsight_log_ratio_max": 0.5,
        "hindsight_log_ratio_mean": -0.5,
    }
    assert {k: float(v) for k, v in columns.items()} == pytest.approx(expected, abs=1e-5)
    alone = mechanism(agent, rows, replace(samples, n_real=5), None)
    assert math.isnan(alone["relabelled_advantage"]) and math.isnan(alone["z_squared"]) is False


def test_a_ratio_of_successes_chooses_its_own_copies() -> None:
    with pytest.raises(ValueError, match="without copies 'failed'"):
        cell(copies="failed", s_ratio=0.5)
