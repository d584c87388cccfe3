"""Plans: every preset has one, equal cells are shared, and mistakes are refused by name."""

import itertools
import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from hindsight.report.definitions import must_fit
from hindsight.specs.config import Config, load
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.specs.errors import SpecError, validated
from hindsight.specs.plan import Plan, left_out, papers_grids
from tests.support import configuration
from tests.support.commands import program
from tests.support.configuration import ROOT

CONFIG = ROOT / "config.yaml"


def plan_of(**overrides):
    return Plan.of(load(CONFIG, overrides))


def test_the_paper_preset_is_the_papers_grid():
    """The papers' experiments: arms x levels x twelve conditions, seeds as published."""
    plan = plan_of(preset="paper")
    counts = {
        "algorithms": 4 * 12 * 2,
        "learning_rate": 2 * 3 * 12 * 2,
        "her_strategy": 3 * 4 * 12,
        "agent_size": 2 * 4 * 12 * 2,
        "grid_size": 2 * 5 * 12 * 2,
        "dimensions": 2 * 5 * 12 * 2,
        "s_ratio": 11 * 12 * 2,
        "targeted": 11 * 12 * 2,
        "stop_her": 4 * 12 * 2,
        "fetch": 2 * 4 * 4 * 2,
    }
    assert {name: len(plan.experiments[name]) for name in counts} == counts
    assert {entry.spec.seeds for entry, _ in plan.experiments["learning_rate"]} == {4}
    specs = plan.cells.values()
    of_the_papers = [s for s in specs if isinstance(s.environment, PredatorPreySpec)]
    sizes = {(spec.algorithm.hidden, spec.steps) for spec in of_the_papers}
    assert sizes == {((512, 512, 512), 1_000_000)}
    # 100 points on an off-policy curve
    assert {s.algorithm.iteration_steps for s in of_the_papers if s.replay is not None} == {10_000}
    assert left_out(plan) == []


def test_the_grids_of_the_papers_figures_are_whole_whatever_the_preset_is():
    """The published pages show them (tests/workflow/test_published.py)."""
    config = load(CONFIG, {"preset": "smoke", "steps": 5, "select": {}})
    assert papers_grids(config) == papers_grids(load(CONFIG, {"preset": "large"}))
    values = configuration.values()
    del values["presets"]["paper"]
    assert papers_grids(validated(Config, values)) == {}


def test_a_row_counts_up_to_the_presets_size_and_seeds_may_be_more_than_the_papers():
    """The cells of `large` are the published ones (test_cell)."""

    def sizes(**more):
        plan = plan_of(
            preset="large", select={"learning_rate": {"seeds": 12, "steps": 8192}}, **more
        )
        return {(spec.seeds, spec.steps) for spec in plan.cells.values()}

    assert sizes() == {(12, 8192)}
    assert sizes(seeds=2, steps=4096) == {(2, 4096)}


def test_what_any_row_names_is_trained_and_the_last_row_that_gives_a_key_counts():
    rows = [
        {"arms": ["PPO"], "preys": ["static", "repel"], "steps": 4096, "seeds": 3},
        {"fidelities": ["released"], "preys": ["repel"], "spawns": ["apart"], "steps": 8192},
        {"arms": ["SAC", "SAC-HER"], "skip": True},
        {"arms": ["SAC"], "fidelities": ["released"], "preys": ["repel"], "spawns": ["apart"]},
    ]
    plan = plan_of(preset="smoke", steps=100_000, seeds=5, select={"algorithms": rows})
    found = {
        (e.arm, e.fidelity, e.condition): (e.spec.steps, e.spec.seeds)
        for e, _ in plan.experiments["algorithms"]
    }
    last = ("released", "apart repel")
    others = itertools.product(["released", "described"], ["static", "repel"], ["random", "apart"])
    assert found == {
        **{("PPO", fidelity, f"{spawn} {prey}"): (4096, 3) for fidelity, prey, spawn in others},
        ("PPO", *last): (8192, 3), ("PPO-HER", *last): (8192, 5),
    }  # fmt: skip
    # The last row names it without training more than the others say: `skip` is a key, too.
    rows[-1]["skip"] = False
    plan = plan_of(preset="smoke", steps=100_000, seeds=5, select={"algorithms": rows})
    assert {e.arm for e, _ in plan.experiments["algorithms"]} == {"PPO", "PPO-HER", "SAC"}


def test_an_entry_has_the_seeds_of_the_cell_that_it_shares():
    """Else a figure's subtitle would name fewer than it draws."""
    entries = plan_of(preset="large").document("recipe_elsewhere")["entries"]
    shared = {(e["arm"], e["condition"]): e for e in entries}["PPO", "PointReach"]
    assert shared["seeds"] == 8 and "-8seeds-" in shared["cell"]


def plan_with(select=(), **experiment):
    """The plan of an experiment of one's own, of which `select` is trained."""
    values = configuration.values()
    values["experiments"]["mine"] = {"title": "t", "figures": "f", **experiment}
    return Plan.of(validated(Config, {**values, "select": {"mine": dict(select)}}))


PPO = {"PPO": {}}
HER = {"PPO-HER": {"her": "final"}}
SAC = {"SAC": {"algorithm": "sac"}}


@pytest.mark.parametrize(
    ("experiment", "named"),
    [
        ({"arms": HER | PPO, "vary": {"s_ratio": [0.1]}}, ["mine, PPO,", "'s_ratio' needs hinds"]),
        ({"arms": HER, "vary": {"s_ratio": [0.1, 1.2]}}, ["mine, PPO-HER", "s_ratio", "1.2"]),
        ({"arms": HER, "keys": {"until_succes": 0.4}}, ["did you mean 'until_success'?"]),
        (
            {"arms": HER, "keys": {"fidelity": "described"}},
            ["'fidelity' is given by `fidelities`", "as fidelity=released in `hindsight train`"],
        ),
        (
            {"arms": HER, "keys": {"seeds": 5}},
            ["'seeds' is given by `seeds` in a preset or `select`"],
        ),
        ({"arms": HER, "vary": {"hidden": [[8], [8, 8]]}}, [".vary.hidden.0: [8] is not a number"]),
        ({"arms": HER, "vary": {"k": [1, 1.0]}}, [".vary.k: 1 is given twice"]),
        ({"arms": HER, "vary": {"k": [1, "all"]}}, [".vary.k: [1, 'all'] are neither all numbers"]),
        ({"arms": HER, "fidelities": ["released"] * 2}, [".fidelities: 'released' is given twice"]),
        ({"arms": HER, "tasks": {"x": {"keys": 5}}}, ["tasks.x.keys: 5 is not a mapping"]),
        ({"arms": HER, "tasks": {"x": {"keys": {5: 3}}}}, ["tasks.x.keys: {5: 3} is not a mapp"]),
        ({"arms": HER, "tasks": {"PointReach-v0": {}}}, ["tasks.PointReach-v0.id: is missing"]),
        ({"arms": HER, "tasks": {"x": {"id": [1]}}}, ["mine, PPO-HER, x: environment.id: [1] is"]),
        ({"arms": SAC, "keys": {"n_envs": 0}}, ["mine, SAC", "algorithm.n_envs: 0 is not allowed"]),
        # What would move a cell away from the place that tables and figures give it.
        ({"arms": HER, "keys": {"spawn": "apart"}}, ["keys: 'spawn' is given by `conditions`"]),
        ({"arms": HER, "vary": {"prey": ["repel"]}}, ["vary: 'prey' is given by `conditions`"]),
        ({"arms": {"A": {"keys": {"name": "td3"}}}}, ["arms.A.keys: 'name' is given by"]),
        (
            {"arms": {"A": {"her": "future", "keys": {"strategy": "final"}}}},
            ["arms.A.keys: 'strategy' is given by `her`"],
        ),
        (
            {"arms": {"A": {"her": "final", "keys": {"k": 4}}}, "vary": {"k": [1, 2]}},
            ["arms.A.keys: 'k' is given by `vary`"],
        ),
        (
            {"arms": HER, "tasks": {"x": {"id": "PointReach-v0", "keys": {"id": "y"}}}},
            ["tasks.x.keys: 'id' is given by `tasks`"],
        ),
        (
            {"arms": HER, "tasks": {"x": {"id": "PointReach-v0"}}, "conditions": {}},
            ["conditions: an experiment has either these or tasks"],
        ),
        ({"arms": HER | {"B": {"her": "final"}}}, ["arms: 'PPO-HER' and 'B' are the same cells"]),
        (
            {"arms": HER, "keys": {"k": 7}, "vary": {"n_sampled_goal": [1, 2]}},
            ["PPO-HER", "k and n_sampled_goal are the same: give one"],
        ),
        (
            {"arms": HER, "tasks": {x: {"id": "PointReach-v0"} for x in "ab"}},
            ["tasks: 'a' and 'b' are the same cells"],
        ),
    ],
)
def test_an_impossible_experiment_is_refused_in_one_sentence(experiment, named):
    with pytest.raises(SpecError) as caught:
        plan_with(**experiment)
    message = str(caught.value)
    assert message.startswith("experiments.mine")
    for word in named:
        assert word in message


@pytest.mark.parametrize(
    ("where", "text", "said"),
    [
        ("config.yaml", "presett: x", "config.yaml: unknown key 'presett'"),
        ("config.yaml", "evaluation: {pionts: 3}", "config.yaml: evaluation: unknown key 'pionts'"),
        ("config.yaml", "experiments: 3", "config.yaml: experiments: 3 is not allowed"),
        ("config.yaml", "experiments: {a: {}}", "config.yaml: experiments.a.title: is missing"),
        ("config/experiments.yaml", "  a: {}", "config/experiments.yaml: experiments.a.title: is"),
        (
            "config/presets/smoke.yaml",
            "n_step: 1",
            "config/presets/smoke.yaml: presets.smoke: unkn",
        ),
        ("", "presett", "--config: unknown key 'presett'"),
        ("", "seeds", "--config: seeds: 'x' is not allowed"),
    ],
)
def test_a_mistake_names_its_file(tmp_path, monkeypatch, where, text, said):
    for name in ("config.yaml", *(str(path) for path in Path("config").rglob("*.yaml"))):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(Path(name).read_text())
    monkeypatch.chdir(tmp_path)
    if where:
        with Path(where).open("a") as file:
            file.write(f"\n{text}\n")
    with pytest.raises(SpecError) as caught:
        load(Path("config.yaml"), {} if where else {text: "x"})
    assert str(caught.value).startswith(said)


def test_a_key_of_the_preset_can_be_overridden():
    """Also by null: `early_end: null` at the top means never, not "as the preset says"."""
    main = {"seeds": 3, "steps": 4096, "hidden": [8, 8], "select": {"algorithms": {}}}
    plan, never = plan_of(**main), plan_of(**main, early_end=None)
    specs = plan.cells.values()
    assert {(s.seeds, s.algorithm.hidden, s.early_end) for s in specs} == {(3, (8, 8), 1.3)}
    assert {spec.early_end for spec in never.cells.values()} == {None}
    assert list(plan.experiments) == ["algorithms"]
    with pytest.raises(SpecError, match="seeds: None is not allowed"):
        plan_of(seeds=None)


def test_what_is_replaced_need_not_fit_other_presets():
    """Laptop's rows name levels of s_ratio that this one lacks, and a figure a condition."""
    own = {"title": "t", "figures": "f", "arms": HER, "vary": {"s_ratio": [0.5]}}
    narrow = {"preys": ["static"], "spawns": ["random"]}
    more = {"experiments": {"s_ratio": own}, "conditions": narrow, "select": {"s_ratio": {}}}
    config = load(CONFIG, {"preset": "smoke", **more})
    must_fit(config)
    assert len(Plan.of(config).cells) == 1
    assert load(CONFIG, {"preset": "large", "experiments": {"s_ratio": own}}).size
    with pytest.raises(SpecError, match=r"presets.laptop.select.s_ratio.fidelities: .* is unkn"):
        load(CONFIG, {"preset": "laptop", "experiments": {"s_ratio": own}})


def test_the_published_results_are_those_that_were_published_whatever_is_trained():
    """Otherwise `seeds: 4` in config.yaml would empty REPLICATION.md, and `publish` its folder."""
    size = {"seeds": 4, "early_end": None, "evaluation": {"points": 5}, "select": {"mine": {}}}
    own = {"mine": MINE, "learning_rate": MINE}
    conditions = {"spawns": ["random"], "preys": ["static"]}
    more = {**size, "experiments": own, "conditions": conditions, "preset": "smoke"}
    published, overridden = (load(CONFIG, {"results": "published", **x}) for x in ({}, more))
    assert overridden.size == published.size == published.presets["large"]
    assert Plan.of(overridden).experiments == Plan.of(published).experiments


PLAIN, ANNEALED = {"her": "final"}, {"her": "final", "keys": {"exploration": "annealed"}}
REACH = {"id": "PointReach-v0"}
USUAL = {"arms": {"a": PLAIN}}
#: Keys of an experiment, and what is said of one that has no effect.
EFFECTS = [
    ({"vary": {"sigma_final": [0.1, 0.5]}}, "'sigma_final' has no effect: all levels are one cell"),
    ({"vary": {"k": [1, 2]}}, "'k' has no effect"),
    # k counts for other strategies than `final`, and a key may count for one of the arms
    ({"vary": {"k": [1, 2], "strategy": ["final", "future"]}}, ""),
    ({"keys": {"sigma_final": 0.3}}, "a, random static: sigma_final=0.3 has no effect"),
    ({"arms": {"a": PLAIN, "b": ANNEALED}, "keys": {"sigma_final": 0.3}}, ""),
    (
        {"tasks": {"PointReach": REACH | {"keys": {"sigma_final": 0.3}}}},
        "a, PointReach: sigma_final=0.3 has no effect",
    ),
    ({"tasks": {"PointReach": REACH}, "keys": {"learning_rate": 0.1}}, ""),
    (
        {"arms": {"a": PLAIN | {"keys": {"sigma_final": 0.3}}}},
        r"experiments.mine, a, random static: sigma_final=0.3 has no effect",
    ),
    ({"arms": {"a": PLAIN | {"keys": {"sigma_final": 0.3, "exploration": "annealed"}}}}, ""),
    # it counts in another fidelity than the preset's
    ({"arms": {"a": PLAIN | {"keys": {"failures": "targeted", "s_ratio": 0.5}}},
      "fidelities": ["released", "described"]}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "said"), EFFECTS)
def test_a_key_without_effect_is_refused(keys, said):
    with pytest.raises(SpecError, match=said) if said else nullcontext():
        plan_with({"fidelities": ["released"]} if "fidelities" in keys else {}, **USUAL | keys)


def test_what_is_narrowed_is_not_without_effect():
    """Levels that are left out, or conditions, may be where a key counts."""
    select = {"her_strategy": {"levels": {"strategy": ["final"]}}}
    assert Plan.of(load(CONFIG, {"preset": "large", "select": select})).cells
    only = {"levels": {"strategy": ["final"]}}
    arms = {"a": PLAIN | {"keys": {"k": 8}}}
    assert plan_with(only, arms=arms, vary={"strategy": ["final", "future"]}).cells
    conditions = {"spawns": ["random"], "preys": ["static"]}
    assert Plan.of(load(CONFIG, {"preset": "paper", "conditions": conditions})).cells


@pytest.mark.parametrize(
    ("row", "said"), [({"preys": ["repel"]}, "preys"), ({"fidelities": ["described"]}, "fid")]
)
def test_every_row_of_a_selection_names_something(row, said):
    place = {"spawns": ["random"], "preys": ["static"]}
    arms = {"PPO-HER": {"her": "final"}}
    mine = {"title": "Mine", "figures": "mine", "arms": arms, "conditions": place}
    with pytest.raises(SpecError, match=rf"select.mine.{said}.*is unknown; choose from"):
        load(CONFIG, {"experiments": {"mine": mine}, "select": {"mine": [{}, row]}})


MINE = {
    "title": "Mine",
    "figures": "mine",
    "conditions": {"spawns": ["random"], "preys": ["attract"]},
    "arms": {"PPO-HER": {"her": "final", "published": True}},
}


def test_a_published_arm_has_the_published_size_and_the_seeds_and_end_that_it_asks_for():
    def published(size=None, **keys):
        arm = MINE["arms"]["PPO-HER"] | {"keys": keys}
        mine = MINE | {"arms": {"PPO-HER": arm, "trained": {"her": "final"}}}
        narrowed = {"conditions": {"spawns": ["apart"], "preys": ["static"]}, "early_end": None}
        more = {"preset": "laptop", "experiments": {"mine": mine}, "select": {"mine": {}}}
        plan = Plan.of(load(CONFIG, more | narrowed | (size or {})))
        return next(entry.spec for entry, _ in plan.experiments["mine"] if entry.published)

    for size in ({"preset": "smoke"}, {"n_steps": 1024}, {"hidden": [8]}):
        assert (spec := published(size)).algorithm.hidden == (64, 64) and spec.seeds == 16
    usual = published()
    assert (usual.seeds, usual.first_seed, usual.early_end) == (16, 0, 1.3)
    assert published(first_seed=0, early_end=1.3) == usual
    assert published(early_end=None).early_end is None
    with pytest.raises(SpecError, match=r"random attract: no published cell has .* first_seed"):
        published(first_seed=99)


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"preset": "lap"}, ["preset", "lap", "laptop"]),
        ({"select": {"algorithm": {}}}, ["algorithm", "algorithms"]),
        (
            {"select": {"algorithms": {"preys": ["statc"]}}},
            ["select.algorithms.0.preys.0", "statc"],
        ),
        ({"select": {"agent_size": {"levels": {"n_dims": [2]}}}}, ["agent_size", "n_dims"]),
        ({"select": {"algorithms": [{}, {"arms": ["SAK"]}]}}, ["algorithms.arms", "'SAK' is unkn"]),
        ({"select": {"fetch": {"levels": {"k": [1]}}}}, ["select.fetch.levels: 'k' is unknown"]),
        ({"select": {"fetch": {"levels": {"weight_decay": [1]}}}}, [".weight_decay: 1 is unknown"]),
        ({"select": {"fetch": {"spawns": ["apart"]}}}, ["select.fetch.spawns: 'apart' is unknown"]),
        ({"select": {"algorithms": []}}, ["select.algorithms"]),
        (
            {"select": {"algorithms": {"arms": {"SAC": {}}}}},
            ["select.algorithms.0.arms: {'SAC': {}} is not allowed; input should be a valid tuple"],
        ),
        ({"select": {"point_reach": {"tasks": ["Reach"]}}}, ["'Reach' is unknown", "PointReach"]),
        (
            {"experiments": {"e": {"title": "t", "figures": "f", "arms": {"A": {"tasks": ["T"]}}}}},
            ["experiments.e", "arms.A.tasks: 'T' is unknown"],
        ),
        ({"select": {}}, ["select: names no experiment"]),
        ({"select": {"fetch": {"preys": ["static"]}}}, ["select.fetch.preys: 'static' is unknown"]),
        (
            {"select": {"agent_size": {"levels": {"interception_distance": []}}}},
            ["select.agent_size.0.levels.interception_distance: "],
        ),
        ({"results": "drawn"}, ["results", "drawn", "trained"]),
        ({"hidden": []}, ["hidden", "at least 1 item"]),
        ({"experiments": {"e": {"figures": "f", "arms": {"A": {}}}}}, ["experiments.e.title: is"]),
        ({"seeds": 10**9}, ["seeds: 1000000000 is not allowed", "less than or equal to 10000"]),
        (
            {"experiments": {"environment": {"title": "t", "figures": "f", "arms": {"A": {}}}}},
            ["'environment' is the name of the picture of the environment"],
        ),
        (
            {"experiments": {"e_described": {"title": "t", "figures": "f", "arms": {"A": {}}}}},
            ["'e_described' may not end in '_described'"],
        ),
    ],
)
def test_a_mistake_in_a_configuration_is_refused_in_one_sentence(overrides, named):
    with pytest.raises(SpecError) as caught:
        plan_of(**overrides)
    assert len(str(caught.value)) < 800
    for word in named:
        assert word in str(caught.value)


def test_what_select_leaves_out_is_reported():
    """A level that is added under `experiments` and hidden by the preset's `select` is named."""
    values = configuration.values()
    values["experiments"]["her_strategy"]["vary"]["k"].append(16)
    select = {
        "algorithms": [{}, {"arms": ["SAC"], "preys": ["static"], "skip": True}],
        "her_strategy": {"levels": {"k": [1, 2]}},
        "moving_goals": {"tasks": ["PointReach"]},
    }
    lines = left_out(Plan.of(validated(Config, {**values, "select": select})))
    assert lines[:2] == [
        "`select` narrows the experiments to",
        "  her_strategy: k 1, 2 without 4, 8, 16",
    ]
    (task,) = lines[2:]
    assert task.startswith("  moving_goals: ") and "tasks PointReach without FetchReach, " in task


def test_conda_and_lock_pin_the_same():
    lock, of_tests = (
        set((ROOT / name).read_text().splitlines())
        for name in ("requirements.lock", "requirements-test.lock")
    )
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pins,) = [part["pip"] for part in conda if isinstance(part, dict)]
    assert set(pins) == lock
    hashed = re.findall(r"^[\w.-]+==[^ ;]+", (ROOT / "requirements-hashes.lock").read_text(), re.M)
    assert {line.lower().replace("_", "-") for line in lock} <= set(hashed)
    # Of these, `make` checks the hashes of all but torch.
    told = program("make", "-n", "-B", ".venv/ready", cwd=ROOT).stdout
    (filtered,) = re.findall(r"^(sed .*) \| .* --require-hashes -r /dev/stdin$", told, re.M)
    left = program("sh", "-c", filtered, cwd=ROOT).stdout
    checked = set(re.findall(r"^[\w.-]+==[^ ;]+", left, re.M))
    unchecked = {line.lower().replace("_", "-") for line in lock} - checked
    assert {line.partition("==")[0] for line in unchecked} == {"torch"}
    assert left.count("--hash=sha256:") >= len(checked) and not re.search(r"\\\n\S", left)
    # `make replicate` installs no package that only tests and linters need.
    assert {"pytest", "ruff", "mypy"} <= {line.partition("==")[0] for line in of_tests - lock}
    # What the documentation and an error message tell users to install.
    robots = {line for line in lock if line.startswith(("mujoco", "gymnasium-robotics"))}
    for told in ("pyproject.toml", "docs/your-environment.md", "src/hindsight/specs/gymnasium.py"):
        text = (ROOT / told).read_text()
        assert len(robots) == 2 and all(pin in text for pin in robots), told


@pytest.mark.parametrize("preset", configuration.values()["presets"])
def test_every_preset_has_a_plan_and_can_be_given_on_snakemakes_command_line(preset):
    """Snakemake reads nested values as text, numbers too."""
    plan, select = plan_of(preset=preset), configuration.values()["presets"][preset]["select"]
    for experiment, entries in plan.experiments.items():
        document = json.loads(json.dumps(plan.document(experiment)))
        assert len(document["entries"]) == len(entries) > 0
    as_text = yaml.load(json.dumps(select), yaml.BaseLoader)
    assert load(CONFIG, {"preset": preset, "select": as_text}).size == plan.config.size


def test_words_on_snakemakes_command_line_that_are_values():
    experiments = {"mine": {**configuration.values()["experiments"]["algorithms"]}}
    experiments["mine"]["vary"] = {"only_if_moved": [True, False]}
    as_text = {"mine": {"arms": ["PPO-HER"], "levels": {"only_if_moved": ["true"]}}}
    given = {"early_end": "null", "end_test": "null", "select": as_text, "experiments": experiments}
    config = load(CONFIG, {"preset": "smoke", **given})
    assert config.size.early_end is None and config.size.end_test is None
    row = {"arms": ["SAC"], "end_test": "false"}
    tiny = {"hidden": ["64", "64"], "seeds": "2", "steps": "8192", "select": {"algorithms": row}}
    own = load(CONFIG, {"preset": "tiny", "presets": {"tiny": tiny}})
    assert own.size.select["algorithms"][0].end_test is False
    assert all(
        entry.level == {"only_if_moved": True} for entry, _ in Plan.of(config).experiments["mine"]
    )


def test_no_selection_asks_for_more_steps_than_its_preset_has():
    """The smallest budget counts, so a larger one would have no effect."""
    for name, preset in load(CONFIG).presets.items():
        selected = json.dumps(preset.model_dump(mode="json")["select"])
        budgets = map(int, re.findall(r'"steps": (\d+)', selected))
        assert max(budgets, default=0) <= preset.steps, name
