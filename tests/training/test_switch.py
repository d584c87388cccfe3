"""Hindsight that is switched off, or to MEHER: when, for which runs, and whose time it takes."""

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from hindsight.algorithms import ppo_compiled as ppo
from hindsight.io.checksums import about
from hindsight.specs.cell import CellSpec
from hindsight.specs.hindsight import HindsightSpec
from hindsight.training import runs as loops
from hindsight.training.cell import train_cell
from hindsight.training.on_policy import OnPolicyRuns
from hindsight.training.recent import WINDOW
from hindsight.training.runs import runs_of
from tests.training import small
from tests.training.small import STEPS, assert_same

cell = partial(small.cell, learning_rate=1e-3)


def her(**keys: Any) -> HindsightSpec:
    return HindsightSpec.model_validate(keys)


def scripted(spec: CellSpec, rates: dict[int, list[float]]) -> OnPolicyRuns:
    """The last hundred episodes of a seed succeed, after iteration i, as often as rates[i - 1]."""
    runs = runs_of(spec, list(rates), "cpu")

    def means() -> Tensor:
        rate = [rates[seed][runs.iteration - 1] for seed in runs.seeds]
        return torch.tensor([[2 * x - 1 for x in rate], rate, [5.0] * len(rate)]).double()

    runs.recent.means = means
    runs.recent.finished += WINDOW
    return runs


def mode(runs: OnPolicyRuns, run: int) -> str:
    """How a run learned in the last iteration, judged by its samples."""
    ((place, copies, real),) = [
        (seeds.index(runs.seeds[run]), copies, real)
        for seeds, _, real, copies in runs.learned
        if runs.seeds[run] in seeds
    ]
    if copies is None:
        return "ppo"
    thinned = not real.valid[place].all() or not copies.valid[place].all()
    goals = copies.obs[place, 0, :, 3:6]
    kinds = len(goals.unique(dim=0)) / (1 + int(copies.ends[place, 0, :-1].sum()))
    # Released copies for failures have a goal per step; without them it is one per trajectory.
    return ("meher" if thinned else "mixture") if kinds > 1.5 or thinned else "her"


def modes(runs: OnPolicyRuns, iterations: int) -> list[list[str]]:
    """[iteration][run]."""
    result = []
    for _ in range(iterations):
        runs.iterate()
        result.append([mode(runs, run) for run in range(len(runs.seeds))])
    return result


RATES = {
    21: [0.2, 0.5, 0.500001, 0.1, 0.9, 0.3],  # 0.5 itself is no excess
    22: [0.1, 0.2, 0.3, 0.4, 0.5, 0.45],
    23: [0.6, 0.1, 0.1, 0.1, 0.1, 0.1],
    24: [0.1, 0.1, 0.1, 0.1, 0.1, 1.0],
}
OVER = {21: 3, 22: None, 23: 1, 24: 6}  # the first iteration without


def test_hindsight_goes_off_for_good_once_the_success_rate_exceeds_the_threshold():
    runs = scripted(cell(her(until_success=0.5)), RATES)
    for iteration in range(1, 7):
        columns = runs.iterate()
        over = [(OVER[seed] or math.inf) <= iteration for seed in RATES]
        assert columns["hindsight"].tolist() == [not x for x in over]
        assert (columns["relabelled_share"] == 0).tolist() == over
        assert columns["hindsight_log_ratio_max"].isnan().tolist() == over
        assert [mode(runs, i) for i in range(4)] == ["ppo" if x else "her" for x in over]
        # Plain PPO: shares of success are then those of the rollout.
        same = columns["s_ratio_before"] == columns["s_ratio_after"]
        assert same.tolist() == over
        expected = [STEPS * at if at and at <= iteration else None for at in OVER.values()]
        assert runs.switched == expected


def test_no_run_switches_before_its_first_episode():
    """No episode has ended: there is no success rate (NaN), which exceeds nothing."""
    runs = scripted(cell(her(until_success=0.0)), {1: [math.nan, 0.0, 0.1]})
    assert modes(runs, 3) == [["her"], ["her"], ["ppo"]]


def test_described_hindsight_stays_on_for_a_hundred_episodes():
    """Released hindsight need not (see test_the_results_tell_when_each_run_switched)."""
    runs = scripted(cell(her(until_success=0.5, fidelity="described")), {1: [0.9] * 20})
    runs.recent.finished[:] = 0
    for _ in range(20):
        runs.iterate()
        if mode(runs, 0) == "ppo":
            break
    assert 1 < runs.iteration < 20 and WINDOW <= int(runs.recent.finished[0]) < 2 * WINDOW


@pytest.mark.parametrize(("until", "without"), [(1, 1), (63, 1), (64, 2), (65, 2), (128, 3)])
def test_hindsight_goes_off_after_so_many_steps(until, without):
    """From the first rollout on that ends after more than that many steps."""
    runs = scripted(cell(her(until_steps=until)), RATES)
    expected = [["her"] * 4] * (without - 1) + [["ppo"] * 4] * (4 - without)
    assert modes(runs, 3) == expected
    assert runs.switched == [STEPS * without] * len(RATES)


def test_described_meher_that_follows_stays():
    spec = her(s_ratio=0.05, until_success=0.5, then="meher", fidelity="described")
    runs = scripted(cell(spec), RATES)
    for iteration in range(1, 7):
        columns = runs.iterate()
        for i, seed in enumerate(RATES):
            over = (OVER[seed] or math.inf) <= iteration
            assert columns["hindsight"][i]
            # Described copies alone push the share of successes up, S = 0.05 down.
            after = float(columns["s_ratio_after"][i])
            assert after < 0.2 if over else after > 0.4
    assert runs.switched == [STEPS * at if at else None for at in OVER.values()]


def test_released_meher_that_follows_goes_back_and_never_thins():
    runs = scripted(cell(her(s_ratio=0.0, until_success=0.5, then="meher")), RATES)
    for iteration in range(1, 7):
        runs.iterate()
        over = [rates[iteration - 1] > 0.5 for rates in RATES.values()]
        assert [mode(runs, i) for i in range(4)] == ["mixture" if x else "her" for x in over]
    # The first such step is recorded.
    assert runs.switched == [STEPS * at if at else None for at in OVER.values()]


VARIANTS = {
    "off": her(until_success=0.5),
    "described": her(until_success=0.5, fidelity="described"),
    "described-episode-k2": her(until_success=0.5, fidelity="described", strategy="episode", k=2),
    "meher-off": her(until_success=0.5, s_ratio=0.6),
    "to-meher": her(until_success=0.5, s_ratio=0.6, then="meher"),
    "to-described-meher": her(
        until_success=0.5, s_ratio=0.6, then="meher", fidelity="described", failures="targeted"
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_batch_in_which_some_have_switched_equals_each_alone(variant):
    """Parameters, moments and columns return to each run's place on the axis."""
    spec = cell(VARIANTS[variant], learning_rate=3e-4)
    rates = {7: [0.1, 0.1, 0.1], 8: [0.1, 0.9, 0.1], 9: [0.1, 0.1, 0.1], 6: [0.9, 0.1, 0.9]}
    among = scripted(spec, rates)
    alone = [scripted(spec, {seed: rates[seed]}) for seed in rates]
    for _ in range(3):
        columns = among.iterate()
        assert len(among.learned) == 2, "some have switched, and some have not"
        for i, one in enumerate(alone):
            its = {name: value[i : i + 1] for name, value in columns.items()}
            assert_same(its, one.iterate(), rtol=1e-3, atol=1e-4)
    signals = among.evaluate()
    for i, one in enumerate(alone):
        for name in ("rows", "m", "v", "steps"):
            found, expected = (getattr(x.optimiser, name)[j] for x, j in ((among, i), (one, 0)))
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=3e-5)
        for name, value in one.evaluate().items():
            torch.testing.assert_close(signals[name][i : i + 1], value, rtol=1e-3, atol=1e-3)
    assert among.switched == [None, 128, None, 64]


def test_the_results_tell_when_each_run_switched(tmp_path):
    """The curves' first row without hindsight is at that step, and so is every later one."""
    spec = cell(her(until_success=0.5), learning_rate=3e-3, n_epochs=4, steps=STEPS * 10)
    path = train_cell(spec.model_copy(update={"seeds": 4}), tmp_path)
    curves = pd.read_parquet(path)
    found = []
    for run in about(path)["runs"]:
        curve = curves[(curves.seed == run["seed"]) & (curves.phase == "train")]
        above = curve[curve.success_rate > 0.5]
        expected = None if above.empty else int(above.env_steps.iloc[0])
        assert run["switch_step"] == expected
        assert (curve.hindsight == (curve.env_steps < (expected or math.inf))).all()
        found.append(expected)
    assert len(set(found)) > 1, "the runs must differ for this to tell anything"


def test_updates_with_and_without_hindsight_count_apart(monkeypatch):
    """A clock that goes 12 s per rollout, 8 s per update with copies, 2 s without."""
    collect, update, now = ppo.collect, ppo.update, [0.0]

    def collect_slowly(*args):
        now[0] += 12
        return collect(*args)

    def update_slowly(agent, optimiser, samples, order, spec):
        now[0] += 8 if samples.obs.shape[1] > samples.n_real else 2
        return update(agent, optimiser, samples, order, spec)

    fake = SimpleNamespace(perf_counter=lambda: now[0], process_time=lambda: 100 + 3 * now[0])
    monkeypatch.setattr(loops, "time", fake)
    monkeypatch.setattr(ppo, "collect", collect_slowly)
    monkeypatch.setattr(ppo, "update", update_slowly)
    rates = {1: [0.1, 0.1], 2: [0.1, 0.9], 3: [0.1, 0.1]}
    runs = scripted(cell(her(until_success=0.5)), rates)
    for _ in range(2):
        now[0] += 1000  # between iterations, such as an evaluation: not counted
        runs.iterate()
    together = (12 + 8) / 3
    shares = runs.clock.wall.tolist()
    assert shares == pytest.approx([together + 4 + last for last in (4, 2, 4)])
    assert runs.clock.cpu.tolist() == pytest.approx([3 * x for x in shares])
    runs.select(torch.tensor([1]))
    assert runs.clock.wall.tolist() == shares[1:2]
