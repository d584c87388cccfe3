"""Runs on one axis: their random numbers, evaluations, ends, and what an iteration reports."""

import torch

from hindsight.replay.rollout import Rollout
from hindsight.specs.hindsight import HindsightSpec
from tests.training.small import assert_same, cell, runs


def test_algorithms_are_paired(rollouts: list[Rollout]) -> None:
    """Episode e of a seed begins in the same state, with or without hindsight."""
    for hindsight in (None, HindsightSpec()):
        one = runs(cell(hindsight), 5)
        one.iterate()
        one.iterate()
    plain, other = rollouts[:2], rollouts[2:]
    assert torch.equal(plain[0].obs, other[0].obs)
    assert torch.equal(plain[0].actions, other[0].actions)
    assert not torch.equal(plain[1].actions, other[1].actions)
    beginnings = [torch.cat([r.obs[0, 0][r.starts[0, 0]] for r in part]) for part in (plain, other)]
    n = min(map(len, beginnings))
    assert n > 10 and torch.equal(beginnings[0][:n, :6], beginnings[1][:n, :6])


def test_evaluation_does_not_disturb_training():
    spec = cell(HindsightSpec(), n_epochs=2)
    often, never = runs(spec, 1, 2), runs(spec, 1, 2)
    first = often.evaluate()
    assert_same(first, often.evaluate())
    for _ in range(3):
        assert_same(often.iterate(), never.iterate())
        often.evaluate()
    assert torch.equal(often.optimiser.rows, never.optimiser.rows)
    assert torch.equal(often.env.state, never.env.state)


def test_a_run_ends_past_1_3_times_its_first_perfect_step_or_with_the_budget():
    """100 rollouts of 64 steps fit; the first run is perfect at 640 and 768, the second never."""
    among = runs(cell(), 1, 2)
    among.spec = among.spec.model_copy(update={"steps": 100 * 64 + 63, "early_end": 1.3})
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
