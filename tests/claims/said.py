"""Verdicts and answers in the report's words, for tests."""

from hindsight.claims import Verdict, row_of
from hindsight.claims.questions import Answer
from hindsight.report import words


def measured(verdict: Verdict) -> str:
    """What the report says was measured."""
    return words.measured(row_of(verdict))


def note(verdict: Verdict) -> str:
    """What it says beside."""
    return words.note(row_of(verdict))


def p_value_of(verdict: Verdict) -> str:
    """What it says that the p-value is of."""
    return words.test(row_of(verdict))


def words_of(found: Answer) -> str:
    """What it says to a question."""
    return words.answer(row_of(found))
