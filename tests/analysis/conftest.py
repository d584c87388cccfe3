"""The published results, their verdicts and the page of findings, for tests that recompute them."""

import json
import math
import os
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from hindsight.claims import Chosen, Verdict
from hindsight.claims.evidence import Measured
from tests.analysis.published import Cells
from tests.support.configuration import ROOT


@pytest.fixture(scope="session")
def tables(request):
    """Of the published results, as the pipeline makes them; to write the pages' numbers
    (CONTRIBUTING.md), those that were made here.
    """
    here = os.environ.get("WRITE_NUMBERS")
    project = ROOT if here else request.getfixturevalue("published_project")
    return project / "results/tables/published"


@pytest.fixture(scope="session")
def cells(tables):
    """The published cells of an experiment."""
    return cache(partial(Cells, tables))


@pytest.fixture(scope="session")
def verdicts(tables):
    """By claim and fidelity, and network if it is not the preset's."""
    found = read_verdicts(tables / "claims.json")
    return {(v.claim, v.fidelity, *filter(None, [v.network])): v for v in found}


def read_verdicts(path: Path) -> list[Verdict]:
    """What the pipeline has judged; judging takes half a minute."""

    def made(values: dict[str, Any]) -> Any:
        own = {key: math.nan if x is None else x for key, x in values.items() if key != "sentence"}
        kinds = {"value": Measured, "answer": Chosen, "verdict": Verdict}
        return next((kind(**own) for key, kind in kinds.items() if key in own), own)

    found: list[Verdict] = json.loads(path.read_text("utf-8"), object_hook=made)
    return found
