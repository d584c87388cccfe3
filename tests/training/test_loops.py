"""Every way to use hindsight: the same results alone or among others, interrupted or not.

For every algorithm and environment: tests/contract.
"""

from typing import Any

import pytest
import torch

from hindsight.envs.bit_flipping import BitFlipping
from hindsight.envs.point_reach import PointReach
from hindsight.envs.predator_prey import PredatorPrey
from hindsight.envs.rollout import Rollout
from hindsight.specs.cell import CellSpec
from hindsight.specs.hindsight import HindsightSpec
from hindsight.training.recent import WINDOW
from tests.training import small, test_off_policy


def cell_of(name: str, **algorithm: Any) -> CellSpec:
    """A cell by its name; `algorithm`: keys of an on-policy algorithm."""
    if name in test_off_policy.VARIANTS:
        return test_off_policy.cell(name)
    schedules = {"learning_rate_schedule": "linear", "exploration": "annealed"}
    return small.cell(small.HINDSIGHT[name], **algorithm, **(schedules if name == "ppo" else {}))


@pytest.mark.parametrize("name", [*small.HINDSIGHT, *test_off_policy.VARIANTS])
def test_a_seed_alone_equals_itself_among_others(name):
    small.assert_alone_as_among(cell_of(name, n_envs=2))


@pytest.mark.parametrize("name", [*small.HINDSIGHT, *test_off_policy.VARIANTS])
def test_a_resumed_run_continues_bit_for_bit(name, monkeypatch):
    """Blocks of 5 episodes: the blocks move on before, at and after the interruption."""
    for kind in (PredatorPrey, PointReach, BitFlipping):
        monkeypatch.setattr(kind, "block_size", 5)
    whole = small.assert_resumed_as_whole(cell_of(name, n_envs=2))
    assert int(whole.env.episode.min()) > 2 * 5, "several blocks must have passed"


def test_algorithms_are_paired(rollouts: list[Rollout]) -> None:
    """Episode e of a seed begins in the same state, with or without hindsight."""
    for hindsight in (None, HindsightSpec()):
        one = small.runs(small.cell(hindsight), 5)
        one.iterate()
        one.iterate()
    plain, other = rollouts[:2], rollouts[2:]
    assert torch.equal(plain[0].obs, other[0].obs)
    assert torch.equal(plain[0].actions, other[0].actions)
    assert not torch.equal(plain[1].actions, other[1].actions)
    beginnings = [torch.cat([r.obs[0, 0][r.starts[0, 0]] for r in part]) for part in (plain, other)]
    n = min(map(len, beginnings))
    assert n > 10 and torch.equal(beginnings[0][:n, :6], beginnings[1][:n, :6])


def test_a_run_ends_past_1_3_times_its_first_perfect_step_or_with_the_budget():
    """100 rollouts of 64 steps fit; the first run is perfect at 640 and 768, the second never."""
    among = small.runs(small.cell(), 1, 2)
    among.spec = among.spec.model_copy(update={"steps": 100 * 64 + 63, "early_end": 1.3})
    among.recent.finished += WINDOW
    ends: dict[int, tuple[str, int]] = {}
    for among.iteration in range(1, 101):
        value = {5: 1.0, 10: 1.0, 11: 0.9, 12: 1.0}.get(among.iteration, 0.5)
        success = float(among.iteration != 5)  # a return of 1 without success is a coincidence
        ended = among.ended(torch.tensor([value, 0.99]), torch.tensor([success, 1.0]))
        for seed, why in zip(among.seeds, ended, strict=True):
            if why is not None:
                ends.setdefault(seed, (why, among.env_steps))
    assert among.perfect == [640, None]
    assert ends == {1: ("early", 14 * 64), 2: ("budget", 100 * 64)}, (
        "13 x 64 is 1.3 x 640, and not past it"
    )


@pytest.mark.parametrize(
    ("name", "first"), [("ppo", 100), ("described-meher", 100), ("released", 1), ("sac", 100)]
)
def test_a_run_is_perfect_once_a_hundred_episodes_were(name, first):
    """With `released` PPO-HER, as in the authors' code, also once fewer were."""
    one = small.runs(cell_of(name), 1)
    for episodes in (1, 99, 100, 101):
        one.iteration, one.recent.finished[:] = episodes, episodes
        one.ended(torch.ones(1), torch.ones(1))
    assert one.perfect == [first * one.rollout_steps]
