"""Errors for the person who typed: one sentence with the key, the value and what is allowed."""

import difflib
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError


class SpecError(ValueError):
    """A specification that cannot be; the message is one sentence."""


def one_sentence(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """The first thing that is wrong, in one sentence; `model` lends names for unknown keys."""
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    key = ".".join(place) or "the specification"
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}{_did_you_mean(place, model)}"
    message = str(first["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if first["type"] == "value_error":
        return f"{key}: {message}" if place else message
    return f"{key}: {first['input']!r} is not allowed; {message[0].lower()}{message[1:]}"


def _did_you_mean(place: list[str], model: type[BaseModel] | None) -> str:
    """A guess at the key that was meant, or the keys there are."""
    inner: Any = model
    for part in place[:-1]:
        field = getattr(inner, "model_fields", {}).get(part)
        inner = field.annotation if field is not None else None
    if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
        return ""
    names = list(inner.model_fields)
    close = difflib.get_close_matches(place[-1], names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(names))}"


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], values: Any) -> Model:
    """A specification from plain values; raises SpecError, one sentence."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise SpecError(one_sentence(error, model)) from None
