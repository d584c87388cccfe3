"""Read the papers' claims, one file per paper."""

import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Strict

from hindsight.specs.base import Fidelity, Spec
from hindsight.specs.config import FolderName
from hindsight.specs.errors import validated
from hindsight.specs.reading import read_keys

Outcome = Literal["yes", "no", "open", "not tested"]
#: How a value is shown: `UNITS` in report/words.py.
Unit = Literal["count", "times", "share", "points", "return", "plain"]


def _has_come(date: datetime.date) -> datetime.date:
    # A day more, because it may have come elsewhere first.
    if date > datetime.date.today() + datetime.timedelta(days=1):
        raise ValueError(f"{date} is not yet")
    return date


Date = Annotated[datetime.date, Strict(), AfterValidator(_has_come)]
#: The name of a function, and its keyword arguments.
Call = Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]


class Change(Spec):
    """A change to a rule after results were seen; `before`: the old verdicts by fidelity."""

    date: Date
    what: str
    before: dict[Fidelity, Literal[Outcome, "reproduced", "partly", "not reproduced"]] = Field({})


class Claim(Spec):
    """A claim of a paper and the rule by which it is judged; ppo_her.yaml explains the keys."""

    sentence: str
    source: str
    published: str
    metric: str
    measure: Call
    rule: Call
    unit: Unit
    says: str
    figure: str
    dated: Date
    by_condition: Unit | None = None
    changes: tuple[Change, ...] = ()
    choices: dict[str, dict[str, Any]] = Field({})
    networks: dict[str, dict[str, Any]] = Field({})
    #: Set by this module.
    id: Annotated[str, Field(max_length=0)] = ""
    paper: Annotated[str, Field(max_length=0)] = ""


class Paper(Spec):
    paper: str
    title: str
    claims: dict[FolderName, Claim]


#: The papers by file, their titles by short name, and their claims by id.
DOCUMENTS = {
    path: validated(Paper, read_keys(path), f"{path}")
    for path in map(Path(__file__).with_name, ("ppo_her.yaml", "meher.yaml"))
}
PAPERS = {paper.paper: paper.title for paper in DOCUMENTS.values()}
CLAIMS = {
    name: claim.model_copy(update={"id": name, "paper": paper.paper})
    for paper in DOCUMENTS.values()
    for name, claim in paper.claims.items()
}
