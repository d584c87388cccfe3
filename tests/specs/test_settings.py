"""The list of settings is that of the specifications, and each says what it does."""

import runpy
from pathlib import Path

import pytest

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.cell import PARTS, CellSpec
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.settings import EVALUATION, OF_A_CELL, described, listed

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_made_from_the_specifications():
    made = runpy.run_path(str(DOCS / "settings.py"))["page"]()
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == made, "run python docs/settings.py"
    rows = {line.split("`")[1]: line for line in made.splitlines() if line.startswith("| `")}
    assert rows["tau"].startswith("| `tau` | 0.005 | 1 | 0.05 | 0.005 | Share by which target")
    every = {
        name for kinds in PARTS.values() for kind in kinds.values() for name in kind.model_fields
    }
    of_tests = {"points", "episodes", "every"}  # given by the arguments of commands and models
    assert rows.keys() == every - of_tests - {"id", "name"} | {*OF_A_CELL, EVALUATION[0]}


@pytest.mark.parametrize("section", ["algorithm", "hindsight", "replay", "environment"])
def test_every_setting_is_described(section):
    for kind in PARTS[section].values():
        for name, field in described(kind).items():
            assert field.description or name in ("id", "name"), f"{kind.__name__}.{name}"
    assert described(ALGORITHMS["ddpg"])["gamma"].description.startswith("Discount"), "a base's"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("environment", [*ENVIRONMENTS, "FetchReach-v4"])
def test_the_list_has_the_settings_of_an_algorithm_and_an_environment(algorithm, environment):
    usual = {"her": "none", "hidden": [3, 4]}
    text = listed(algorithm, environment, usual, 90)
    names = {line.split("=")[0].strip() for line in text.splitlines() if "=" in line[:33]}
    how = ALGORITHMS[algorithm]
    where = PARTS["environment"].get(environment, PARTS["environment"][""])
    her = PARTS["hindsight" if how.on_policy else "replay"][""]
    fields = {*how.model_fields, *where.model_fields, *her.model_fields, *OF_A_CELL, EVALUATION[0]}
    assert names == fields - {"id", "name", "strategy"}
    assert "  --her none " in text and "  hidden=3,4 " in text
    assert max(map(len, text.splitlines())) <= 90
    assert f"first_seed={CellSpec.model_fields['first_seed'].default}" in text
