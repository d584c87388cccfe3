"""Questions, and how an answer puts what was measured into words.

An answer says what these runs show: a difference with its 95 % interval and how many seeds and
conditions it rests on. Where the interval holds 0 it says that nothing can be told apart. Intervals
are each for itself, not corrected for their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from hindsight.analysis.effects import Effect
from hindsight.analysis.summarise import read_table
from hindsight.analysis.verdicts import Evidence

Numbers = dict[str, Any]
Status = Literal["answered", "not tested"]


@dataclass(frozen=True)
class Answer:
    """What was found for one question under one fidelity; `numbers` are those in the words.

    section: the part of the report that it belongs to.
    """

    id: str
    question: str
    experiment: str
    figure: str
    answer: str
    fidelity: str
    numbers: Numbers
    status: Status
    section: str


class Untested(Exception):
    """Why a question cannot be answered."""


@dataclass(frozen=True)
class Question:
    """A question, its figure's name under the fidelity `released`, and what answers it."""

    id: str
    question: str
    experiment: str
    figure: str
    find: Callable[[Evidence], tuple[str, Numbers]]
    fidelities: tuple[str, ...] = ("released", "described")
    section: str = "open questions"

    def answer(self, evidence: Evidence) -> Answer:
        """The answer under one fidelity."""
        ending = "" if evidence.fidelity == "released" else f"_{evidence.fidelity}"
        asked = (self.id, self.question, self.experiment, self.figure + ending)
        numbers: Numbers = {}
        status: Status = "answered"
        try:
            words, numbers = self.find(evidence)
        except Untested as reason:
            words, status = f"Not tested: {reason}.", "not tested"
        return Answer(*asked, words, evidence.fidelity, numbers, status, self.section)


def ask(questions: Iterable[Question], tables_dir: str | Path) -> list[Answer]:
    """An answer to every question, for each fidelity under which its experiment has results; the
    first it may have if there are none.
    """
    directory = Path(tables_dir)
    found = []
    for question in questions:
        path = directory / question.experiment / "summary.csv"
        there = set(read_table(path)["fidelity"]) if path.exists() else set()
        names = [name for name in question.fidelities if name in there]
        for name in names or question.fidelities[:1]:
            found.append(question.answer(Evidence(directory, name)))
    return found


def read(evidence: Evidence, experiment: str, name: str) -> pd.DataFrame:
    """An experiment's table under this fidelity; Untested if it has no rows."""
    table = evidence.table(experiment, name)
    if table is None:
        raise Untested("the experiment has no results")
    return table


def told(found: Effect, what: str) -> str:
    """`raises it by +0.1 (+0.0 to +0.2)`, and no more than its interval allows."""
    if np.isnan(found.low) or found.sign():
        verb = "changes" if np.isnan(found.low) else "raises" if found.mean > 0 else "lowers"
        return f"{verb} {what} by {found.words()}"
    return f"does not measurably change {what}: {found.words()}"


def size(found: Effect) -> str:
    """How many seeds and conditions a difference rests on."""
    return seeds(found.n_seeds, found.n_conditions)


def seeds(n_seeds: int, n_conditions: int) -> str:
    """`16 seeds, 2 conditions`."""
    return f"{n_seeds} seeds, {n_conditions} condition{'s' if n_conditions > 1 else ''}"
