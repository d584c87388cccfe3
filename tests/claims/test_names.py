"""What an arm is called decides nothing: renamed, it is judged and drawn as before."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hindsight.claims import evaluate
from hindsight.figures.style import method_of
from hindsight.figures.tables import look_of
from hindsight.specs.config import load
from hindsight.specs.plan import Plan
from tests.analysis.synthetic import CONDITIONS, levels_of, second_paper, summarise, summarised

FIRST = ("algorithms", "learning_rate", "agent_size")
SECOND = ("s_ratio", "targeted", "stop_her")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Experiments that claims are about, small."""
    root = tmp_path_factory.mktemp("named")
    for name in FIRST:
        arms = ("PPO", "PPO-HER", "SAC", "SAC-HER") if name == "algorithms" else None
        summarised(
            root, name, arms=arms, conditions=CONDITIONS[:3], seeds=5, iterations=10,
            fidelities=("described",),
        )  # fmt: skip
    for name in SECOND:
        second_paper(
            root, name, levels_of(name)[::2], conditions=CONDITIONS[:1], fidelities=("described",)
        )
    return root


def renamed(project: Path, root: Path) -> Path:
    """The same with every arm renamed, tables made anew; the first arm's name sorts last."""
    shutil.copytree(project, root, dirs_exist_ok=True)
    for path in root.glob("results/tables/*/*/plan.json"):
        plan = json.loads(path.read_text())
        names = {arm: f"Z{9 - i} of {plan['experiment']}" for i, arm in enumerate(plan["arms"])}
        plan["arms"] = list(names.values())
        for entry in plan["entries"]:
            entry["arm"] = names[entry["arm"]]
        path.write_text(json.dumps(plan))
        summarise(path, root)
    return next(root.glob("results/tables/*"))


def without_names(value: Any) -> Any:
    """Numbers and words without what arms are called: values in order, keys that are names gone."""
    if isinstance(value, dict):
        return [without_names(item) for item in value.values()]
    if isinstance(value, list | tuple):
        return [without_names(item) for item in value]
    if isinstance(value, float):
        return "nan" if np.isnan(value) else round(value, 12)
    return None if isinstance(value, str) else value


def test_a_renamed_arm_changes_no_verdict(project, tmp_path):
    before = next(project.glob("results/tables/*"))
    after = renamed(project, tmp_path)
    verdicts = evaluate(before), evaluate(after)
    words = [[(v.claim, v.fidelity, v.verdict) for v in found] for found in verdicts]
    assert words[0] == words[1]
    assert sum(verdict != "not tested" for *_, verdict in words[0]) >= 10
    for one, other in zip(*verdicts, strict=True):
        assert without_names(asdict(one)) == without_names(asdict(other)), one.claim


def test_every_arm_of_the_published_plan_is_drawn_by_what_it_is():
    config = load(ROOT / "config.yaml", {"results": "published"})
    plan = Plan.of(config)
    for name in plan.experiments:
        document = plan.document(name)
        looks = {arm: look_of(document, arm) for arm in document["arms"]}
        methods = {e["arm"]: method_of(e) for e in document["entries"]}
        assert len(set(methods.values())) == len(methods), name  # told apart
        for entry in document["entries"]:
            entry["arm"] += ", renamed"
        again = {arm: look_of(document, f"{arm}, renamed") for arm in looks if arm in methods}
        assert again == {arm: look for arm, look in looks.items() if arm in methods}
