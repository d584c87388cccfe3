"""What an arm is called decides nothing: renamed, it is judged and drawn as before."""

import json
from pathlib import Path
from typing import Any

from hindsight.claims import evaluate, row_of
from hindsight.figures.style import method_of
from hindsight.figures.tables import look_of
from hindsight.specs.config import load
from hindsight.specs.plan import Plan
from tests.analysis.synthetic import CONDITIONS, levels_of, second_paper, summarise, summarised
from tests.support.configuration import ROOT

FIRST = ("algorithms", "learning_rate", "agent_size")
SECOND = ("s_ratio", "targeted", "stop_her")


def judged(tables: Path) -> list[dict[str, Any]]:
    """All verdicts; numbers to twelve digits, because sums depend on the order of the arms."""
    rows = json.dumps([row_of(verdict) for verdict in evaluate(tables)])
    found: list[dict[str, Any]] = json.loads(rows, parse_float=lambda x: round(float(x), 12))
    return found


def test_a_renamed_arm_changes_no_verdict(tmp_path):
    """Tables are made once more, from the same cells; the first arm's name sorts last."""
    for name in FIRST:
        arms = ("PPO", "PPO-HER", "SAC", "SAC-HER") if name == "algorithms" else None
        summarised(
            tmp_path, name, arms=arms, conditions=CONDITIONS[:2], seeds=5, iterations=10,
            fidelities=("described",),
        )  # fmt: skip
    for name in SECOND:
        folder = second_paper(
            tmp_path, name, levels_of(name)[::2], conditions=CONDITIONS[:1],
            fidelities=("described",),
        )  # fmt: skip
    before, after = folder.parent, tmp_path / "renamed"
    for path in before.glob("*/plan.json"):
        plan = json.loads(path.read_text())
        names = {arm: f"Z{9 - i} of {plan['experiment']}" for i, arm in enumerate(plan["arms"])}
        plan["arms"] = list(names.values())
        plan["roles"] = {names[arm]: role for arm, role in plan["roles"].items()}
        for entry in plan["entries"]:
            entry["arm"] = names[entry["arm"]]
        again = after / path.parent.name / "plan.json"
        again.parent.mkdir(parents=True)
        again.write_text(json.dumps(plan))
        summarise(again, tmp_path)
    found = judged(before)
    assert sum(row["verdict"] != "not tested" for row in found) >= 10
    assert found == judged(after)


def test_every_arm_of_the_published_plan_is_drawn_by_what_it_is():
    config = load(ROOT / "config.yaml", {"results": "published"})
    plan = Plan.of(config)
    for name in plan.experiments:
        document = plan.document(name)
        looks = {arm: look_of(document, arm) for arm in document["arms"]}
        methods = {e["arm"]: method_of(e) for e in document["entries"]}
        assert len({looks[arm] for arm in methods}) == len(methods), name  # told apart
        for entry in document["entries"]:
            entry["arm"] += ", renamed"
        document["arms"] = [f"{arm}, renamed" for arm in document["arms"]]
        again = {arm: look_of(document, f"{arm}, renamed") for arm in looks if arm in methods}
        assert again == {arm: look for arm, look in looks.items() if arm in methods}
