"""The published results, their verdicts and the page of findings, for tests that recompute them."""

from pathlib import Path

import pytest

from hindsight.claims import evaluate
from hindsight.specs.config import load
from hindsight.specs.plan import Plan

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def plan():
    return Plan.of(load(ROOT / "config.yaml", {"results": "published"}))


@pytest.fixture(scope="session")
def tables(published_project):
    """Of the published results, as the pipeline makes them."""
    return published_project / "results/tables/published"


@pytest.fixture(scope="session")
def verdicts(tables):
    return {(v.claim, v.fidelity): v for v in evaluate(tables)}


@pytest.fixture(scope="session")
def findings():
    return (ROOT / "docs/findings.md").read_text(encoding="utf-8")
