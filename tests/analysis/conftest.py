"""The published results, their verdicts and the page of findings, for tests that recompute them."""

from functools import cache, partial

import pytest

from hindsight.claims import evaluate
from hindsight.specs.config import load
from hindsight.specs.plan import Plan
from tests.analysis.published import Cells
from tests.support.configuration import ROOT


@pytest.fixture(scope="session")
def plan():
    return Plan.of(load(ROOT / "config.yaml", {"results": "published"}))


@pytest.fixture(scope="session")
def cells(plan):
    """The published cells of an experiment."""
    return cache(partial(Cells, plan))


@pytest.fixture(scope="session")
def tables(published_project):
    """Of the published results, as the pipeline makes them."""
    return published_project / "results/tables/published"


@pytest.fixture(scope="session")
def verdicts(tables):
    """By claim and fidelity, and network if it is not the preset's."""
    return {(v.claim, v.fidelity, *filter(None, [v.network])): v for v in evaluate(tables)}


@pytest.fixture(scope="session")
def findings():
    return (ROOT / "docs/findings.md").read_text(encoding="utf-8")
