"""Questions, read from questions.yaml, and what answering one needs.

An answer holds what was measured: differences with their 95 % intervals and how many seeds and
conditions they rest on.  Intervals are each for itself, not corrected for their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import yaml

from hindsight.analysis.arms import select
from hindsight.analysis.summarise import read_table
from hindsight.claims.data import FOLDER
from hindsight.claims.verdicts import Evidence, Incomplete, Numbers, lack, planned

Status = Literal["answered", "not tested"]


@dataclass(frozen=True)
class Answer:
    """What was found for one question under one fidelity.

    numbers: what its sentences say; for "not tested" the reason, as `lack` has it.
    section: the part of the report that it belongs to.
    """

    id: str
    question: str
    experiment: str
    figure: str
    fidelity: str
    numbers: Numbers
    status: Status
    section: str


class Untested(Exception):
    """Why a question cannot be answered, as `lack` has it."""

    def __init__(self, kind: str, **values: Any) -> None:
        super().__init__(kind)
        self.reason = lack(kind, **values)


@dataclass(frozen=True)
class Question:
    """A question, its figure's name under the fidelity `released`, and the numbers it needs."""

    id: str
    section: str
    question: str
    experiment: str
    figure: str
    fidelities: tuple[str, ...] = ("released", "described")
    thresholds: dict[str, Any] = field(default_factory=dict)
    published: dict[str, Any] = field(default_factory=dict)


def _read() -> dict[str, Question]:
    found = {}
    for part in yaml.safe_load((FOLDER / "questions.yaml").read_text(encoding="utf-8")):
        for name, values in part["questions"].items():
            fidelities = tuple(values.pop("fidelities", ("released", "described")))
            found[name] = Question(name, part["section"], **values, fidelities=fidelities)
    return found


#: All questions by id, in order.
QUESTIONS = _read()


def ask(
    answers: Mapping[str, Callable[[Evidence], Numbers]], tables_dir: str | Path
) -> list[Answer]:
    """An answer to every question that has a function, for each fidelity under which its experiment
    has results; the first it may have if there are none.
    """
    directory = Path(tables_dir)
    found = []
    for name, answer in answers.items():
        question = QUESTIONS[name]
        path = directory / question.experiment / "summary.csv"
        there = set(read_table(path)["fidelity"]) if path.exists() else set()
        there |= planned(path.with_name("plan.json"))
        names = [name for name in question.fidelities if name in there]
        for fidelity in names or question.fidelities[:1]:
            found.append(_answer(question, answer, Evidence(directory, fidelity)))
    return found


def _answer(
    question: Question, answer: Callable[[Evidence], Numbers], evidence: Evidence
) -> Answer:
    ending = "" if evidence.fidelity == "released" else f"_{evidence.fidelity}"
    asked = (question.id, question.question, question.experiment, question.figure + ending)
    numbers: Numbers
    status: Status = "answered"
    try:
        numbers = answer(evidence)
    except (Untested, Incomplete) as found:
        numbers, status = found.reason, "not tested"
    return Answer(*asked, evidence.fidelity, numbers, status, question.section)


def read(evidence: Evidence, experiment: str, name: str) -> pd.DataFrame:
    """An experiment's table under this fidelity; Untested if it has no rows."""
    table = evidence.table(experiment, name)
    if table is None:
        raise Untested("no results")
    return table


def needed(table: pd.DataFrame, *roles: str) -> list[pd.DataFrame]:
    """The rows of the arms with these roles; Untested if one has none."""
    found = [select(table, role) for role in roles]
    absent = [role for role, rows in zip(roles, found, strict=True) if rows.empty]
    if absent:
        raise Untested("no arm", roles=absent)
    return found
