"""Errors for the person who typed: one sentence with the key, the value and what is allowed."""

import difflib
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from hindsight.io.interruption import awaited

#: Letters of a key or a value that are shown.
LONGEST = 100


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


def one_sentence(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """The first thing that is wrong, in one sentence; `model` lends names for unknown keys."""
    first = error.errors(include_url=False)[0]
    place, home = _resolve([str(part) for part in first["loc"]], model)
    key = _shortened(".".join(place)) or "the specification"
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}{_did_you_mean(place[-1], home)}"
    message = str(first["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if first["type"] == "value_error":
        return f"{key}: {message}" if place else message
    if first["type"] == "missing":
        return f"{key}: is missing"
    value = _shortened(repr(first["input"]))
    return f"{key}: {value} is not allowed; {message[0].lower()}{message[1:]}"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _resolve(place: list[str], model: type[BaseModel] | None) -> tuple[list[str], Any]:
    """The keys of an error's place, and the model in which the last of them is looked for.

    Where one of several models is chosen by its id or name, pydantic's place holds that too, which
    the person did not type.
    """
    keys: list[str] = []
    inner: Any = model
    for i, part in enumerate(place):
        if isinstance(inner, tuple):
            inner = next((m for m in inner if part in (m.__name__, *_tags(m))), None)
            continue
        keys.append(part)
        if get_origin(inner) is dict:  # its keys are names of the person's own
            inner = _models(get_args(inner)[1])
        elif i < len(place) - 1:
            field = getattr(inner, "model_fields", {}).get(part)
            inner = _models(field.annotation) if field is not None else None
    return keys, inner


def _models(annotation: Any) -> Any:
    """The model of an annotation, all of them if it leaves a choice, or the mapping to models."""
    is_mapping = get_origin(annotation) is dict
    kinds = (annotation,) if is_mapping else get_args(annotation) or (annotation,)
    bare = [get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in kinds]
    if mappings := [kind for kind in bare if get_origin(kind) is dict]:
        return mappings[0]
    found = tuple(kind for kind in bare if isinstance(kind, type) and issubclass(kind, BaseModel))
    return found[0] if len(found) == 1 else found or None


def _tags(model: type[BaseModel]) -> set[Any]:
    defaults = (field.default for field in model.model_fields.values())
    return {default for default in defaults if isinstance(default, str)}


def _did_you_mean(key: str, model: Any) -> str:
    """A guess at the key that was meant, or the keys there are."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return ""
    names = list(model.model_fields)
    return guess(key, names) or f"; there are {', '.join(sorted(names))}"


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
        raise SpecError(one_sentence(error, model)) from None
