"""The steps of docs/how-to-add.md, each followed in a copy of the package."""

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

import hindsight
from hindsight.claims import evaluate
from hindsight.pipeline.project import Project
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import code_of
from hindsight.specs.config import Config, completed, load
from hindsight.specs.environments.predator_prey import SPAWNS
from hindsight.specs.errors import validated
from hindsight.specs.plan import Plan
from hindsight.specs.reading import read_keys
from tests.analysis.synthetic import constant, summarise, write_experiment
from tests.support.commands import program, python

PACKAGE = Path(hindsight.__file__).parent
ROOT = PACKAGE.parents[1]
PAGE = (ROOT / "docs" / "how-to-add.md").read_text(encoding="utf-8")
#: The page's blocks of code, by the file that each begins with.
BLOCKS = dict(
    re.findall(r"^```(?:python|yaml)\n# ((?:src|tests)/\S+)\n(.*?)^```", PAGE, re.M | re.S)
)
SMALL = {"seeds": 2, "steps": 256, "evaluation": {"points": 1, "episodes": 2}}
PPO = {"n_steps": 64, "hidden": [8], "batch_size": 32}
OFF_POLICY = {"hidden": [8], "log_interval": 64, "learning_starts": 20, "batch_size": 16}
#: Trains cells for two iterations, and prints fingerprints of others.
PROGRAM = """
import json, sys, torch
torch.set_num_threads(1)
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import code_of
from hindsight.training.runs import runs_of
others, cells = json.loads(sys.argv[1])
found = []
for cell in cells:
    runs = runs_of(CellSpec.model_validate(cell), [0, 1], "cpu", 0)
    before = runs.rows.clone()
    columns = [runs.iterate() for _ in range(2)][-1] | runs.evaluate()
    assert (runs.rows != before).any(1).all(), "it learns"
    found.append({name: values.tolist() for name, values in columns.items()})
print(json.dumps([[code_of(CellSpec.model_validate(cell)) for cell in others], found]))
"""
#: Cells of every algorithm and environment there is.
OTHERS = [
    {"hindsight": {}},
    {"algorithm": {"name": "sac"}, "replay": {"strategy": "future"}},
    {"algorithm": {"name": "td3"}},
    {"algorithm": {"name": "ddpg"}, "environment": {"id": "PointReach-v0"}},
    {"algorithm": {"name": "dqn"}, "environment": {"id": "BitFlipping-v0"}},
]


@pytest.fixture
def package(tmp_path):
    """A copy of the package; its folder is that of the repository."""
    ignored = shutil.ignore_patterns("*.pyc.*")  # those are just being written
    shutil.copytree(PACKAGE, tmp_path / "src" / "hindsight", ignore=ignored)
    return tmp_path


def ran(package: Path, code: str, *arguments: str) -> str:
    """What code prints with these arguments, and that package."""
    done = python(code, *arguments, sources=package / "src", cwd=package).finished()
    assert done.returncode == 0, done.stderr
    return done.stdout


def trained(
    package: Path, *cells: object, others: Sequence[object] = OTHERS, then: str = ""
) -> list[dict[str, list[float]]]:
    """The last columns of trainings, after which more code is run; no other cell is stale."""
    codes, found = json.loads(ran(package, PROGRAM + then, json.dumps([others, cells])))
    assert codes == [code_of(CellSpec.model_validate(cell)) for cell in others]
    return found


def keeps_its_contracts(package: Path, kind: str, name: str) -> None:
    """The contracts of this kind hold for what was added."""
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), "-k", name)
    where = {**os.environ, "PYTHONPATH": f"{package / 'src'}{os.pathsep}{ROOT}"}
    kinds = [kind, "updates"] if kind == "algorithms" else [kind]
    files = [str(ROOT / "tests" / "contract" / f"test_{kind}.py") for kind in kinds]
    done = program(sys.executable, "-m", "pytest", *options, *files, env=where)
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout[-3000:]
    assert passed and int(passed[1]) >= 4


def add(package: Path, word: str) -> list[str]:
    """Write the page's new files that have a word in their name."""
    names = [name for name in BLOCKS if word in name]
    for name in names:
        assert not (package / name).exists()
        (package / name).write_text(BLOCKS[name], encoding="utf-8")
    return names


def test_an_environment(package):
    names = add(package, "line.py")
    assert len(names) == 2
    assert sum(len(BLOCKS[name].splitlines()) for name in names) < 150
    where = {"environment": {"id": "Line-v0"}, **SMALL}
    her = {"strategy": "future", "fidelity": "described"}
    meher = {"s_ratio": 0.6, "failures": "targeted", "fidelity": "described"}
    columns, *_ = trained(
        package,
        {**where, "algorithm": PPO, "hindsight": her},
        {**where, "algorithm": PPO, "hindsight": meher},
        {**where, "algorithm": {"name": "sac", **OFF_POLICY}, "replay": her},
        then="import warnings; warnings.simplefilter('error')\n"
        "import gymnasium, hindsight.envs\n"
        "from gymnasium.utils.env_checker import check_env\n"
        "env = gymnasium.make('Line-v0', width=3.0)\n"
        "check_env(env.unwrapped)\n"
        "obs, _ = env.reset(seed=0, options={'state': [1.0, 1.75, 1.0]})\n"
        "obs, reward, terminated, *_ = env.step([0.25])\n"
        "assert (obs['observation'], reward, terminated) == ([1.25], 0.0, True)\n",
    )
    assert 0 < columns["relabelled_share"][0] < 1
    keeps_its_contracts(package, "environments", "Line-v0")


REFERENCE = "tests/envs/test_predator_prey.py"


def write_prey(package: Path) -> None:
    path = package / "src/hindsight/envs/prey.py"
    text = path.read_text(encoding="utf-8")
    block = BLOCKS["src/hindsight/envs/prey.py"]
    path.write_text(text.replace("def policy_of(", f"{block}\n\ndef policy_of("))


def name_prey(package: Path) -> None:
    path = package / "src/hindsight/specs/environments/predator_prey.py"
    last, line = '    "random_direction": ("released",),\n', BLOCKS[str(path.relative_to(package))]
    path.write_text(path.read_text(encoding="utf-8").replace(last, last + line))


def name_strategy(package: Path) -> None:
    path = package / "src/hindsight/specs/replay.py"
    line, text = BLOCKS["src/hindsight/specs/replay.py"], path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"^    EpisodeStrategy = .*\n", line, text, flags=re.M))


@pytest.mark.parametrize(
    ("half", "module", "words"),
    [
        (name_prey, "envs.prey", "the prey 'to_and_fro' has a name but no function"),
        (name_strategy, "relabel.goals", "the goal strategy 'soon' has a name but no function"),
    ],
)
def test_the_forgotten_half_is_named_at_import(package, half, module, words):
    half(package)
    done = python(f"import hindsight.{module}", sources=package / "src").finished()
    assert done.returncode == 1 and done.stderr.endswith(f"SpecError: {words}\n")


def test_a_prey(package):
    """It moves as written; the papers' grids and the code of other cells stay as they are."""
    write_prey(package)
    name_prey(package)
    reference = (ROOT / REFERENCE).read_text(encoding="utf-8")
    (package / "reference.py").write_text(
        reference.replace(
            "    raise AssertionError(f", f"{BLOCKS[REFERENCE]}    raise AssertionError(f"
        )
    )
    planned = Plan.of(load(ROOT / "config.yaml", {"preset": "large"}))
    (package / "planned.txt").write_text("\n".join(planned.cells))
    columns, *_ = trained(
        package,
        {**SMALL, "environment": {"prey": "to_and_fro"}, "algorithm": PPO, "hindsight": {}},
        then="import gymnasium, numpy as np, hindsight.envs, hindsight.figures.names as names\n"
        "env = gymnasium.make('PredatorPrey-v0', prey='to_and_fro', grid_size=1000.0)\n"
        "obs, _ = env.reset(seed=0)\n"
        "moved = []\n"
        "for _ in range(20):\n"
        "    before = obs['desired_goal']\n"
        "    obs, *_ = env.step(np.zeros(3, np.float32))\n"
        "    moved.append(obs['desired_goal'] - before)\n"
        "first, *others = np.transpose(moved)\n"
        "assert np.allclose(np.abs(first), 3**0.5 / 2, atol=1e-4)\n"
        "assert len(set(np.sign(first))) == 2\n"
        "assert not np.any(others)\n"
        "assert names.place_name('apart to_and_fro') == 'to and fro, spawn apart'\n"
        f"sys.path.insert(0, {str(package)!r})\n"
        "from reference import reference_velocity\n"
        "from hindsight.envs.prey import velocities\n"
        "d, u = (np.random.default_rng(0).random((50, n), np.float32) for n in (3, 8))\n"
        "by_hand = [reference_velocity('to_and_fro', *now) for now in zip(d, u)]\n"
        "assert np.allclose(velocities('to_and_fro', d, u, False), by_hand)\n"
        "from pathlib import Path\n"
        "from hindsight.specs.config import load\n"
        "from hindsight.specs.plan import Plan\n"
        f"config = load(Path({str(ROOT / 'config.yaml')!r}), {{'preset': 'large'}})\n"
        f"planned = Path({str(package / 'planned.txt')!r}).read_text().splitlines()\n"
        "assert list(Plan.of(config).cells) == planned\n",
    )
    assert 0 < columns["relabelled_share"][0] < 1


def test_a_strategy(package):
    goals = package / "src/hindsight/relabel/goals.py"
    text = goals.read_text(encoding="utf-8")
    block = BLOCKS["src/hindsight/relabel/goals.py"]
    goals.write_text(text.replace("def strategy_of(", f"{block}\n\ndef strategy_of("))
    name_strategy(package)
    hers = [{"strategy": "soon", "fidelity": fidelity} for fidelity in ("released", "described")]
    on_policy = [{**SMALL, "algorithm": PPO, "hindsight": her} for her in hers]
    sac = {"name": "sac", **OFF_POLICY}
    off_policy = [{**SMALL, "algorithm": sac, "replay": her} for her in hers]
    found = trained(
        package,
        *on_policy,
        *off_policy,
        then="import numpy as np, torch\n"
        "from hindsight.relabel.goals import choose, choose_on\n"
        "for of, by in ((np.array, choose), (torch.tensor, choose_on)):\n"
        "    steps = of([3, 3]), of([1, 1]), of([9, 2])\n"
        "    found = [by('soon', *steps, of([u, u])).tolist() for u in (0.0, 0.9)]\n"
        "    assert found == [[3, 3], [6, 4]]\n",
    )
    assert all(columns["relabelled_share"][0] > 0 for columns in found[:2])
    keeps_its_contracts(package, "strategies", "soon")


def test_an_on_policy_algorithm(package):
    assert len(add(package, "reinforce.py")) == 2
    how = {**SMALL, "algorithm": {"name": "reinforce", **PPO}}
    bits = {"id": "BitFlipping-v0", "n_bits": 3}
    columns, _ = trained(
        package,
        {**how, "hindsight": {}},
        {**how, "environment": bits},
        then="from pathlib import Path\n"
        "from hindsight.analysis.cells import load_cell\n"
        "from hindsight.specs.cell import CellSpec\n"
        "from hindsight.training.cell import train_cell\n"
        "load_cell(train_cell(CellSpec.model_validate(cells[0]), Path('results')))\n",
    )
    assert columns["relabelled_share"] == [0.5, 0.5] and len(columns["policy_loss"]) == 2
    keeps_its_contracts(package, "algorithms", "reinforce")


def test_an_off_policy_algorithm(package):
    """Its option reaches its network, and it has a model although nothing else names it."""
    assert len(add(package, "qrdqn.py")) == 2
    bits = {"id": "BitFlipping-v0", "n_bits": 3}
    her = {"strategy": "future", "fidelity": "described"}
    how = {**SMALL, "environment": bits, "algorithm": {"name": "qrdqn", **OFF_POLICY}}
    columns, _ = trained(
        package,
        {**how, "replay": her},
        how,
        then="from hindsight import QRDQN\n"
        "from hindsight.specs.cell import CellSpec\n"
        "from hindsight.training.policies import agent_of\n"
        "cell = CellSpec.model_validate(cells[0])\n"
        "wide = cell.model_copy(update={'algorithm':\n"
        "    cell.algorithm.model_copy(update={'n_quantiles': 7})})\n"
        "assert agent_of(wide).q.sizes[-1] == 3 * 7 and wide.hash != cell.hash\n"
        "model = QRDQN('BitFlipping-v0', env_kwargs={'n_bits': 3}, n_quantiles=7, seeds=2,\n"
        "    log_interval=250, learning_starts=50)\n"
        "before = model.parameters().clone()\n"
        "assert (model.learn(250).parameters() != before).any()\n"
        "import pickle\n"
        "assert (pickle.loads(pickle.dumps(model)).parameters() == model.parameters()).all()\n",
    )  # that it learns to solve a task is one of the contracts
    assert columns["loss"][0] > 0
    keeps_its_contracts(package, "algorithms", "qrdqn")


def test_an_experiment():
    (block,) = re.findall(r"^```yaml\n(experiments:.*?)^```", PAGE, re.M | re.S)
    own = read_keys(ROOT / "config.yaml") | yaml.safe_load(block) | {"preset": "smoke"}
    plan = Plan.of(validated(Config, completed(own, ROOT)))
    assert list(plan.experiments) == ["sigma"]
    specs: list[CellSpec] = list(plan.cells.values())
    assert {spec.algorithm.sigma_init for spec in specs} == {1.0, 0.5}
    assert all(spec.algorithm.gamma == 0.95 for spec in specs)
    # Figures that any experiment can have (tests/figures/test_figures.py draws them).
    figures = {name for name, of in Project(plan.config).figures.items() if of == "sigma"}
    assert figures == {"curves_sigma", "solved_share_sigma", "aggregate_sigma"}


#: The entry that goes with the page's function.
ENTRY_OF_P10 = """
  P10:
    sentence: PPO-HER ends near its best.
    source: section 5
    published: seen
    metric: share of PPO-HER's runs that end within 0.05 of their best return
    measure: {ends_at_its_best: {lost: 0.05}}
    rule: {level: {at_least: 0.9}}
    unit: share
    says: "{value} of the runs do."
    figure: entropy
    dated: 2026-11-20
"""
#: Judges the claims on some tables, and tells the verdicts with their words.
JUDGE = """
import json, sys
from pathlib import Path
from hindsight.claims import write_claims
from hindsight.report.build import read_claims
write_claims(out := Path(sys.argv[1], "claims.json"))
claims = {c.claim.id: c for c in read_claims(out)}
from hindsight.report.words import rule
print(json.dumps({i: c.verdicts["released"] | {"rule": rule(c.claim)} for i, c in claims.items()}))
"""


def test_a_claim(package, tmp_path):
    """P9 uses an existing measure, P10 a new one; the other verdicts stay."""
    tables = tmp_path / "project"
    plan = write_experiment(
        tables, "algorithms", arms=("PPO", "PPO-HER"), seeds=5, iterations=10,
        fidelities=("released",),
        curve_of=lambda arm, *_: constant(0.9 if arm == "PPO-HER" else 0.5),
        conditions=[(spawn, prey) for spawn in SPAWNS for prey in ("static", "random", "attract")],
    )  # fmt: skip
    summarise(plan, tables)
    where = str(plan.parent.parent)
    before = {v.claim: v.verdict for v in evaluate(Path(where)) if v.fidelity == "released"}
    entries = package / "src/hindsight/claims/ppo_her.yaml"
    functions = package / "src/hindsight/claims/measures.py"
    with entries.open("a", encoding="utf-8") as file:
        file.write(BLOCKS["src/hindsight/claims/ppo_her.yaml"] + ENTRY_OF_P10)
    text = functions.read_text(encoding="utf-8")
    block = BLOCKS["src/hindsight/claims/measures.py"]
    text = text.replace("MEASURES: Mapping", f"{block}\n\nMEASURES: Mapping")
    text = text.replace("        highest, first,", "        ends_at_its_best, highest, first,")
    functions.write_text(text, encoding="utf-8")
    after = json.loads(ran(package, JUDGE, where))
    p9, p10 = after.pop("P9"), after.pop("P10")
    assert {name: row["verdict"] for name, row in after.items()} == before
    # Success is as given in every step of every run; six of twelve conditions are there.
    assert p9["verdict"] == "yes" and p9["measured"]["ahead"] == 6
    assert p9["measured"]["value"] == pytest.approx(0.4, abs=0.01)
    assert "differs by +40.0" in p9["says"] and "above 0.05" in p9["rule"]
    assert p10["verdict"] == "yes" and p10["measured"]["value"] == 1
