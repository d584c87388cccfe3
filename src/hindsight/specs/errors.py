"""Errors for the person who typed: one sentence with the key, the value and what is allowed."""

import difflib
import re
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hindsight.io.interruption import awaited

#: Letters of a key or a value that are shown.
LONGEST = 100
#: The type of the error for a key that a model does not have.
UNKNOWN_KEY = "unknown_key"


class SpecError(ValueError):
    """A specification that cannot be; the message is one sentence, on one line."""

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class EnvironmentFailure(Exception):
    """An environment that failed: one sentence, and below it its own traceback if it raised."""

    @classmethod
    def of(cls, what: str, error: BaseException) -> "EnvironmentFailure":
        """What was being done, and what the environment raised."""
        lines = "".join(traceback.format_exception(error))
        return cls(f"{what}: {type(error).__name__}: {error}\n\n{lines}")


@contextmanager
def others_code(what: str) -> Iterator[None]:
    """While an environment's own code runs: it may neither end this process nor hold it up.

    Raises EnvironmentFailure where it calls sys.exit.
    """
    try:
        with awaited(what):
            yield
    except SystemExit as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise EnvironmentFailure(
            f"{what}: it called sys.exit({error.code!r}), in {place.filename}, line "
            f"{place.lineno}, which would end the training: it has to raise an error instead"
        ) from None


def one_sentence(error: ValidationError) -> str:
    """The first thing that is wrong, in one sentence."""
    first = error.errors(include_url=False)[0]
    place = _place([str(part) for part in first["loc"]])
    if first["type"] == UNKNOWN_KEY:
        key = _shortened(".".join([*place, first["ctx"]["key"]]))
        return f"unknown key {key!r}{first['msg']}"
    key = _shortened(".".join(place)) or "the specification"
    message = str(first["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if first["type"] == "value_error":
        return f"{key}: {message}" if place else message
    if first["type"] == "missing":
        return f"{key}: is missing"
    value = _shortened(repr(first["input"]))
    return f"{key}: {value} is not allowed; {message[0].lower()}{message[1:]}"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _place(parts: list[str]) -> list[str]:
    """The keys of an error's place that a person has typed: not which of several models it is."""
    if parts[:1] in (["environment"], ["algorithm"]):
        parts = parts[:1] + parts[2:]
    return [part for part in parts if not re.fullmatch(r"\w+Spec|literal\[.*\]", part)]


def guess(key: str, names: Iterable[str]) -> str:
    """The end of a sentence that offers the name that was meant; empty where none is close."""
    close = difflib.get_close_matches(key, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], values: Any) -> Model:
    """A specification from plain values; raises SpecError, one sentence."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise SpecError(one_sentence(error)) from None
