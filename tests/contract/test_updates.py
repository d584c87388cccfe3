"""What an update of every registered off-policy algorithm does with a batch."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from hindsight.algorithms.interface import off_policy
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.cell import CellSpec
from hindsight.training.policies import agent_of, initial_row
from tests.contract.cells import cell

NAMES = [name for name, kind in ALGORITHMS.items() if not kind.on_policy]
N = 24  # transitions in a batch, of each of two runs
#: As far as an algorithm has them: quick to learn, and hardly any entropy in the values.
QUICK = {
    "learning_rate": 3e-3, "tau": 0.1, "target_update_interval": 1, "policy_delay": 1,
    "ent_coef": 1e-6, "hidden": (16,), "max_grad_norm": None,
}  # fmt: skip


def quick(name: str, **keys: Any) -> CellSpec:
    of = ALGORITHMS[name]
    task = {"id": "BitFlipping-v0" if of.actions == "discrete" else "PointReach-v0"}
    given = {key: value for key, value in QUICK.items() if key in of.model_fields}
    return cell(name, task, **{**given, **keys})


class Learning:
    """An algorithm's update, applied to two runs."""

    def __init__(self, spec: CellSpec) -> None:
        self.spec, self.file = spec.algorithm, off_policy(spec.algorithm)
        rows = torch.stack([initial_row(spec, seed) for seed in (0, 1)])
        rate, decay = self.spec.rate_of, self.spec.weight_decay
        self.state = self.file.TrainState(agent_of(spec), rows, rate, decay)
        self.size = spec.environment.action_size
        self.generator = torch.Generator().manual_seed(1)

    def __call__(self, batch: Batch, times: int = 1) -> Any:
        for _ in range(times):
            shape = (2, self.file.NOISES * N, self.size)
            noise = torch.randn(shape, generator=self.generator)
            found = self.file.update(self.state, batch, noise, self.spec)
        return found


def batch_of(spec: CellSpec, **parts: Tensor) -> Batch:
    """A random batch [2, N], with these parts instead."""
    generator, environment = torch.Generator().manual_seed(0), spec.environment

    def some(*size: int) -> Tensor:
        return torch.randn((2, N, *size), generator=generator)

    actions = some(environment.action_size).clamp(-1, 1)
    if environment.choices:
        actions = torch.randint(max(environment.choices), (2, N), generator=generator)
    obs, rewards = some(environment.observation_size), some()
    never = torch.zeros(2, N, dtype=torch.bool)
    made = Batch(obs, actions, rewards, some(environment.observation_size), never)
    return replace(made, **parts)


def learned(spec: CellSpec, batch: Batch, times: int = 3) -> Tensor:
    """Parameters [run, parameter] after updates with this batch."""
    learning = Learning(spec)
    learning(batch, times)
    return learning.state.rows.clone()


@pytest.mark.parametrize("name", NAMES)
def test_only_a_terminal_step_ends_the_future(name):
    """And the future is discounted."""
    spec, late = quick(name), quick(name, gamma=0.5)
    batch = batch_of(spec)
    ended = replace(batch, terminated=torch.ones(2, N, dtype=torch.bool))
    for one, next_obs_counts in ((batch, True), (ended, False)):
        other = replace(one, next_obs=one.next_obs + 1)
        first = learned(spec, one)
        assert torch.equal(first, learned(spec, other)) is not next_obs_counts
        assert torch.equal(first, learned(late, one)) is not next_obs_counts


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_a_chain_of_two_steps(name):
    """Of state A, whose step pays 0.25 and leads to B, and of B, whose last step pays 1.

    Samples of weight 0, which say otherwise, do not count. `td_error` tells what was learned.
    """
    spec = quick(name, gamma=0.5)
    a, b = batch_of(spec).obs[0, :2]
    third = torch.arange(N) % 3
    obs = torch.where((third == 1)[:, None], b, a).expand(2, N, -1)
    rewards = torch.tensor([0.25, 1.0, -9.0])[third].expand(2, N)
    weight = torch.tensor([1.0, 1.0, 0.0])[third].expand(2, N)
    chain = batch_of(
        spec, obs=obs, rewards=rewards, next_obs=b.expand_as(obs), weight=weight,
        terminated=(third > 0).expand(2, N),
    )  # fmt: skip
    learning = Learning(spec)
    learning(chain, 1500)
    # What A and B are worth, as if that were the reward of a last step; and what they are not.
    worth = torch.tensor([0.25 + 0.5 * 1.0, 1.0, 0.0])[third].expand(2, N)
    ends = torch.ones(2, N, dtype=torch.bool)
    for off in (torch.zeros(N), torch.linspace(-3, 3, N)):
        told = replace(chain, rewards=worth + off, terminated=ends)
        errors = learning(told).td_error
        assert errors.shape == (2, N)
        expected = off.abs()[third < 2].expand(2, -1)
        torch.testing.assert_close(errors[:, third < 2], expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_the_networks_learn_and_their_targets_follow(name):
    """By `tau` (else at once), each `target_update_interval` or `policy_delay` updates."""
    fields = ALGORITHMS[name].model_fields
    every = {key: 3 for key in ("target_update_interval", "policy_delay") if key in fields}
    tau = {"tau": 0.25} if "tau" in fields else {}
    spec = quick(name, **every, **tau)
    batch, learning = batch_of(spec), Learning(spec)
    for update in range(1, 4):
        state, before = learning.state, learning.state.rows.clone()
        old = {target: getattr(state, target).clone() for target in state.targets}
        learning(batch)
        for target, was in old.items():
            now = getattr(state, target)
            if every and update < 3:
                assert torch.equal(now, was)
                continue
            of = (getattr(state, part).rows for part in state.optimised)
            follows = [torch.lerp(was, x, tau.get("tau", 1.0)) for x in of if x.shape == was.shape]
            assert not torch.equal(now, was)
            assert any(torch.allclose(now, x, atol=1e-6) for x in follows)
    assert not torch.equal(state.rows, before)
    for part in state.optimised:
        assert getattr(state, part).rows.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_a_large_gradient_is_scaled_down(name):
    """Adam forgets its scale, but not how two of different sizes compare."""
    batch = batch_of(quick(name))
    large = replace(batch, rewards=100 * batch.rewards)
    found = []
    for norm in (None, 1e-3):
        learning = Learning(quick(name, max_grad_norm=norm))
        learning(batch)
        learning(large)
        found.append(learning.state.rows)
    assert not torch.allclose(*found, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_exploring_actions_differ_and_belong_to_the_space(name):
    spec = quick(name, **{k: v for k, v in {"exploration_noise": 3.0, "epsilon": 0.5}.items()
                          if k in ALGORITHMS[name].model_fields})  # fmt: skip
    learning, obs = Learning(spec), 3 * batch_of(spec).obs
    state, generator = learning.state, torch.Generator().manual_seed(2)
    greedy = learning.file.act(state, obs, learning.spec)
    if choices := spec.environment.choices:
        numbers = torch.rand((2, N, 2), generator=generator)
        explored = learning.file.act(state, obs, learning.spec, numbers)
        assert explored.dtype == torch.int64 and explored.min() >= 0
        assert explored.max() < max(choices)
        kept = numbers[..., 0] >= 0.5
        assert torch.equal(explored[kept], greedy[kept])
    else:
        numbers = torch.randn((2, N, learning.size), generator=generator)
        explored = learning.file.act(state, obs, learning.spec, numbers)
        assert explored.abs().max() <= 1 and explored.isfinite().all()
    assert explored.shape == greedy.shape and (explored != greedy).float().mean() > 0.2
