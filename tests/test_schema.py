"""The JSON schema that config.yaml names in its first line."""

import json
import re

import jsonschema
import pytest

from hindsight.specs.config import Config, Size
from tests.support import configuration
from tests.support.configuration import ROOT

TEXT = (ROOT / "config.yaml").read_text(encoding="utf-8")
(NAMED,) = re.findall(r"\A# yaml-language-server: \$schema=(\S+)\n", TEXT)
SCHEMA = json.loads((ROOT / NAMED).read_text(encoding="utf-8"))
VALUES = configuration.values()
#: What each file is the schema of; `python -m tests.test_schema` writes them anew.
MODELS = {ROOT / NAMED: Config, ROOT / "workflow/preset.schema.json": Size}


@pytest.mark.parametrize(("path", "model"), MODELS.items())
def test_the_files_are_those_of_the_models(path, model):
    schema = json.loads(json.dumps(model.model_json_schema()))
    assert json.loads(path.read_text(encoding="utf-8")) == schema, "python -m tests.test_schema"


def test_it_accepts_config_yaml():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


if __name__ == "__main__":
    for path, model in MODELS.items():
        path.write_text(json.dumps(model.model_json_schema(), indent=1) + "\n", encoding="utf-8")
