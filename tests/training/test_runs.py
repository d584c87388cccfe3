"""Runs on one axis: their random numbers, evaluations, ends, and what an iteration reports."""

import math

import pytest
import torch

from hindsight.replay.rollout import Rollout
from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.cell import CellSpec, EvaluationSpec
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.specs.hindsight import HindsightSpec
from tests.training.small import assert_same, cell, runs

VARIANTS = {
    "ppo": None,
    "released": HindsightSpec(),
    "released-future-k2": HindsightSpec(strategy="future", k=2),
    "described": HindsightSpec(fidelity="described"),
    "described-episode-k2": HindsightSpec(strategy="episode", k=2, fidelity="described"),
    "released-meher": HindsightSpec(s_ratio=0.6),
    "described-meher": HindsightSpec(s_ratio=0.6, fidelity="described"),
    "described-targeted": HindsightSpec(s_ratio=0.3, failures="targeted", fidelity="described"),
    "released-to-meher": HindsightSpec(s_ratio=0.6, until_steps=100, then="meher"),
}


def test_seeds_differ_in_all_they_draw() -> None:
    among = runs(cell(), 11, 12)
    assert not torch.equal(among.rows[0], among.rows[1])
    assert not torch.equal(among.env.state[0], among.env.state[1])
    noise = among._noise()
    among.iterate()
    assert not torch.equal(noise[:, 0], noise[:, 1]) and not torch.equal(noise, among._noise())


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


# --- evaluation -----------------------------------------------------------------------------------


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


def test_evaluation_counts_as_a_plain_loop_does(monkeypatch):
    """A hand-written policy heads for a static prey, too slowly to reach every one."""
    spec = CellSpec(
        environment=PredatorPreySpec(max_steps=20),
        algorithm=PPOSpec(hidden=(8, 8)),
        evaluation=EvaluationSpec(episodes=30),
    )
    object_ = runs(spec, 3, 4)
    heading = lambda obs: 0.4 * (obs[..., 3:6] - obs[..., :3]).sign()  # noqa: E731
    monkeypatch.setattr(object_, "policy", lambda: heading)
    beginnings = object_.evaluation_env.state.clone()
    result = object_.evaluate()
    for run in range(2):
        total, successes = 0, 0
        for state in beginnings[run].double():
            predator, prey = state[:3].clone(), state[3:6]
            for _ in range(21):
                total += 1
                predator = (predator + 0.4 * (prey - predator).float().sign()).clamp(-10, 10)
                if math.dist(predator, prey) <= 1:
                    successes += 1
                    break
        assert 0 < successes < 30
        assert float(result["success_rate"][run]) == pytest.approx(successes / 30)
        assert float(result["return_mean"][run]) == pytest.approx(2 * successes / 30 - 1)
        assert float(result["episode_length"][run]) == pytest.approx(total / 30)


# --- the end of a run -----------------------------------------------------------------------------


def test_a_run_ends_past_1_3_times_its_first_perfect_step_or_with_the_budget():
    """100 rollouts of 64 steps fit; the first run is perfect at 640 and 768, the second never."""
    among = runs(cell(), 1, 2)
    among.spec = among.spec.model_copy(update={"steps": 100 * 64 + 63})
    ends: dict[int, tuple[str, int]] = {}
    for among.iteration in range(1, 101):
        value = {10: 1.0, 11: 0.9, 12: 1.0}.get(among.iteration, 0.5)
        ended = among.ended(torch.tensor([value, 0.99]))
        for seed, why in zip(among.seeds, ended, strict=True):
            if why is not None:
                ends.setdefault(seed, (why, among.env_steps))
    assert among.perfect == [640, None]
    assert ends == {1: ("early", 14 * 64), 2: ("budget", 100 * 64)}, (
        "13 x 64 is 1.3 x 640, and not past it"
    )


# --- what an iteration reports --------------------------------------------------------------------


def whole_segments(rollout: Rollout, run: int) -> tuple[int, int, int, int]:
    """Segments; those with an end; whole episodes; successes, of one run."""
    starts, ended = rollout.starts[run, 0].tolist(), rollout.terminated[run, 0].tolist()
    first, n_segments, n_ended, n_whole = 0, 0, 0, 0
    for t in range(len(ended)):
        if ended[t] or t == len(ended) - 1:
            n_segments += 1
            n_ended += ended[t]
            n_whole += ended[t] and starts[first]
            first = t + 1
    return n_segments, n_ended, n_whole, int(rollout.success[run].sum())


@pytest.mark.parametrize("variant", ["ppo", "released", "described"])
def test_shares_of_success_and_of_relabelled_samples(variant, rollouts):
    among = runs(cell(VARIANTS[variant], n_epochs=1), 1, 2, 3)
    for _ in range(2):  # the second rollout begins amid episodes
        columns = among.iterate()
    rollout = rollouts[-1]
    assert not rollout.starts[..., 0].all()
    for run in range(3):
        n_segments, n_ended, n_whole, n_success = whole_segments(rollout, run)
        before = n_success / n_ended
        copies = {"ppo": 0, "released": n_segments, "described": n_whole}[variant]
        after = (n_success + copies) / (n_ended + copies)
        assert float(columns["s_ratio_before"][run]) == pytest.approx(before)
        assert float(columns["s_ratio_after"][run]) == pytest.approx(after)
        share = float(columns["relabelled_share"][run])
        if variant == "described":
            assert 0 < share < 0.5
        else:
            assert share == pytest.approx({"ppo": 0, "released": 0.5}[variant])
