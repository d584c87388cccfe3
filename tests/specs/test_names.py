"""Words of a configuration: no path leaves its folder, and no shell sees an unquoted word."""

import json
import re
import shlex
from pathlib import Path

import pytest

from hindsight.pipeline.project import Project
from hindsight.specs.config import Config
from hindsight.specs.errors import SpecError, validated
from tests.support import configuration

HOSTILE = (
    "../../../tmp/elsewhere",
    "",
    "a\n'b' \"c\" && $(touch harmed) | `cat` > harmed\0",
    "--out=harmed; touch harmed",
    "<{input}> {wildcards.cell} *",
)


def few():
    """config.yaml with few experiments, every kind of key among them."""
    values = configuration.values()
    kept = ("her_strategy", "learning_rate", "point_reach")
    values["experiments"] = {n: values["experiments"][n] for n in kept}
    place = {"spawns": ["random"], "preys": ["static"], "fidelities": ["released"]}
    select = {
        "her_strategy": {**place, "levels": {"strategy": ["final"], "k": [1]}},
        "learning_rate": place,
        "point_reach": {},
    }
    smoke = {**values["presets"]["smoke"], "select": select}
    return {**values, "preset": "smoke", "presets": {"smoke": smoke}}


def everything(project):
    """All paths that the workflow makes or reads, and the options that stand in its commands."""
    paths = [project.tables, project.folder, project.episodes, *project.everything]
    paths += [*project.policies, *(str(project.plan_of(name)) for name in project.experiments)]
    options = {project.options(file) for file in project.files.values()}
    return paths, [*" ".join(options).split(), *project.experiments]


TEXT = json.dumps(few())
#: Every key and every string.
PLACES = list(re.finditer(r'"(?:[^"\\]|\\.)*"', TEXT))


def put(place, word):
    """The configuration with another word at a place."""
    return json.loads(TEXT[: place.start()] + json.dumps(word) + TEXT[place.end() :])


@pytest.mark.parametrize("word", HOSTILE)
def test_a_hostile_word_is_refused_or_harmless(word):
    refused = 0
    for place in PLACES:
        try:
            project = Project(validated(Config, put(place, word)))
        except SpecError as error:
            refused += 1
            assert "\n" not in str(error) and "Traceback" not in str(error), place
            continue
        paths, options = everything(project)
        for path in paths:
            assert path == "REPLICATION.md" or path.startswith(("results/", "figures/")), place
            assert ".." not in Path(path).parts and re.fullmatch(r"[\w./=,+-]+", path), place
        for option in options:
            assert shlex.quote(option) == option, place
    assert refused > len(PLACES) / 2
