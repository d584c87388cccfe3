"""Who trains together: all that may, as many as pays, and arms that are timed apart."""

from pathlib import Path

import pytest

from hindsight.specs.axis import axis_key, by_axis, must_share_axis
from hindsight.specs.bundles import bundles_of, jobs_of
from hindsight.specs.cell import CellSpec
from hindsight.specs.config import load
from hindsight.specs.cost import AXIS_RUNS, START_SECONDS, as_one, one_after_another, seconds
from hindsight.specs.plan import Plan


def cell(seeds: int = 4, **keys: object) -> CellSpec:
    """A small cell; keys of its parts by `part.key`."""
    values: dict = {"seeds": seeds, "algorithm": {"hidden": [64, 64]}, "environment": {}}
    for name, value in keys.items():
        part, _, key = name.partition("__")
        if key:
            values.setdefault(part, {})[key] = value
        else:
            values[part] = value
    return CellSpec.model_validate(values)


def named(*cells: CellSpec) -> dict[str, CellSpec]:
    return {spec.name: spec for spec in cells}


def sizes(bundles: list[list[str]], cells: dict[str, CellSpec]) -> list[int]:
    return [sum(cells[name].seeds for name in names) for names in bundles]


PREYS = ("static", "random", "attract", "repel", "straight_away", "random_direction")


def test_cells_that_differ_in_values_are_one_bundle_in_order():
    cells = named(
        cell(),
        cell(algorithm__hidden=[32, 32]),
        cell(8, environment__prey="random"),
        cell(algorithm__learning_rate=1e-3),
    )
    first, other, second, third = cells
    assert bundles_of(cells, {}) == [[first, second, third], [other]]


@pytest.mark.parametrize(
    "other",
    [
        {"algorithm__n_steps": 512}, {"algorithm__ent_coef": 0.1}, {"environment__n_dims": 2},
        {"hindsight__strategy": "final"}, {"steps": 10_000}, {"early_end": None},
        {"evaluation__points": 3}, {"environment": {"id": "BitFlipping-v0"}},
        {"algorithm": {"name": "sac", "hidden": [64, 64]}},
    ],
)  # fmt: skip
def test_all_else_separates(other):
    cells = named(cell(), cell(**other))
    assert len(bundles_of(cells, {})) == 2
    assert len(set(map(axis_key, cells.values()))) == 2
    with pytest.raises(ValueError, match="differ in more than values"):
        must_share_axis(cells.values())


def test_no_target_share_and_some_target_are_two_code_paths():
    with_, without = cell(hindsight__s_ratio=0.3), cell(hindsight__strategy="final")
    assert axis_key(with_) == axis_key(cell(hindsight__s_ratio=0.9)) != axis_key(without)


def test_an_axis_takes_what_it_gains_by_in_about_equal_parts():
    cells = named(*(cell(16, environment__prey=p, environment__spawn=s)
                    for p in PREYS for s in ("random", "apart")))  # fmt: skip
    assert sizes(bundles_of(cells, {}), cells) == [AXIS_RUNS] * 3
    assert sizes(bundles_of(cells, {}, runs_per_axis=100), cells) == [96, 96]
    odd = named(*(cell(6, environment__prey=p, environment__spawn=s)
                  for p in PREYS for s in ("random", "apart")))  # fmt: skip
    assert sizes(bundles_of(odd, {}), odd) == [36, 36]


def test_large_networks_and_other_algorithms_keep_to_themselves():
    """On a CPU; a GPU takes large networks together."""
    large = named(*(cell(environment__prey=p, algorithm__hidden=[512] * 3) for p in PREYS))
    assert len(bundles_of(large, {})) == len(PREYS)
    assert sizes(bundles_of(large, {}, device="cuda"), large) == [24]
    for name in ("sac", "td3"):
        kind = {"name": name, "hidden": [64, 64]}
        others = named(*(cell(environment__prey=p, algorithm=kind) for p in PREYS))
        assert len(bundles_of(others, {})) == len(PREYS)


def test_a_bundle_is_divided_where_it_would_keep_one_core_too_long():
    """But not where its cells alone take about as long, so that nothing would be gained."""
    cells = named(*(cell(10, environment__prey=p, steps=100_000) for p in PREYS))
    whole = seconds(as_one(list(cells.values())))
    parts = bundles_of(cells, {}, longest=0.8 * whole)
    assert 1 < len(parts) < 6
    for names in parts:
        assert seconds(as_one([cells[name] for name in names])) <= 0.8 * whole
    assert sorted(name for names in parts for name in names) == sorted(cells)
    alone = max(map(seconds, cells.values()))
    for names in bundles_of(cells, {}, longest=1.0):
        assert seconds(as_one([cells[name] for name in names])) <= 1.25 * alone
    few = named(*(cell(1, environment__prey=p, steps=100_000) for p in PREYS[:2]))
    assert len(bundles_of(few, {}, longest=1.0)) == 1


def test_short_bundles_follow_each_other_in_one_job():
    """Each as often as its axis is; a long one, and what is foreign, have jobs of their own."""
    kinds = [{"algorithm__hidden": [n, n], "steps": 8192} for n in (8, 16, 32, 64)]
    cells = named(*(cell(environment__prey=p, **kind) for kind in kinds for p in PREYS[:2]))
    long = cell(environment__n_dims=2, steps=10**6)
    foreign = cell(environment={"id": "FetchReach-v4"}, seeds=1, steps=2048)
    cells = {**cells, **named(long, foreign, cell(environment__n_dims=4, steps=8192))}
    bundles = [[name] for name in cells]  # so that two are of one axis
    jobs = jobs_of(bundles, cells, long=20.0)
    assert sorted(name for names in jobs for name in names) == sorted(cells)
    assert [long.name] in jobs and [foreign.name] in jobs and len(jobs) < len(bundles) - 3
    for names in jobs:
        specs = [cells[name] for name in names]
        assert len(by_axis(specs)) == len(specs)
        assert len(names) == 1 or one_after_another(specs) <= 20
    assert jobs_of(bundles, cells, long=0.0) == bundles
    # Together they cost their axes, and start once.
    first, second = (cells[name] for name in jobs[0][:2])
    apart = seconds(first) + seconds(second)
    assert one_after_another([first, second]) == pytest.approx(apart - START_SECONDS)
    both = [first, first.model_copy(update={"seeds": 7})]
    assert one_after_another(both) == seconds(as_one(both))


def test_arms_that_are_timed_train_with_their_own_alone():
    """In the presets: arm, level and fidelity of an experiment that compares minutes, and no more;
    every cell of the plan is in one bundle."""
    for preset in ("smoke", "laptop", "large", "paper"):
        plan = Plan.of(load(Path("config.yaml"), {"preset": preset}))
        bundles = bundles_of(plan.cells, plan.timed)
        assert sorted(name for names in bundles for name in names) == sorted(plan.cells)
        timed = {name for name, each in plan.config.experiments.items() if each.timed}
        assert {"algorithms", "stop_her"} <= timed
        places: dict[str, set] = {}
        for experiment in timed & plan.experiments.keys():
            for entry, name in plan.experiments[experiment]:
                level = tuple(entry.level.items())
                place = (experiment, entry.fidelity, entry.arm, level)
                places.setdefault(name, set()).add(place)
        for names in bundles:
            assert len({frozenset(places.get(name, ())) for name in names}) == 1
            must_share_axis(plan.cells[name] for name in names)
    laptop = Plan.of(load(Path("config.yaml"), {"preset": "laptop"}))
    found = bundles_of(laptop.cells, laptop.timed)
    arms = {entry.arm for names in found for entry, name in laptop.experiments["algorithms"]
            if name in names and len(names) == 6}  # fmt: skip
    assert arms == {"PPO", "PPO-HER"}, "all conditions of an arm, in two halves"
