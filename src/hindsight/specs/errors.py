"""Errors shown to the user: one sentence with the key, the value and what is allowed."""

import difflib
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from hindsight.io.interruption import awaited

PACKAGE = Path(__file__).parents[1]
#: Characters of a key or a value that a message shows.
LONGEST = 100


class SpecError(ValueError):
    """An invalid specification; the message is one sentence on one line."""

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


class EnvironmentFailure(Exception):
    """An environment failed: one sentence, followed by the traceback if its own code raised."""

    @classmethod
    def of(cls, what: str, error: BaseException) -> "EnvironmentFailure":
        """Say what was done and why it failed; a check of this package needs no traceback."""
        raised = traceback.extract_tb(error.__traceback__)[-1:]
        ours = all(PACKAGE in Path(place.filename).parents for place in raised)
        if ours and isinstance(error, ValueError):
            return cls(f"{what}: {error}")
        lines = "".join(traceback.format_exception(error))
        try:
            said = str(error)
        except Exception:  # of a class of its own
            said = "its message cannot be shown"
        return cls(f"{what}: {type(error).__name__}: {said}\n\n{lines}")


class _Exit(SystemExit):
    """What os._exit raises in third-party code: it would end this process without a word."""


_os_exit = os._exit
#: The processes in which third-party code runs, one entry for each call of `others_code`.
_running: list[int] = []


def _no_exit(status: int) -> None:
    if os.getpid() not in _running:  # a process that the code has forked
        _os_exit(status)
    raise _Exit(status)


@contextmanager
def _ending_forks(here: int) -> Iterator[None]:
    """End a fork of the process `here` at once: it would go on as a second one of this program."""
    status: Any = 0
    try:
        yield
    except BaseException as error:
        status = error.code if isinstance(error, SystemExit) else str(error)
        raise
    finally:
        if os.getpid() != here:
            if not isinstance(status, int | None):
                print(status, file=sys.stderr, flush=True)
                status = 1
            _os_exit(status or 0)


def ends_forks(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a third-party environment's method, from which a fork of this process does not return.

    As `functools.partial` of that method, an environment can be copied and pickled.
    """
    with _ending_forks(os.getpid()):
        return method(*args, **kwargs)


@contextmanager
def others_code(what: str) -> Iterator[None]:
    """Keep a third-party environment from blocking this process, or exiting: EnvironmentFailure.

    A process that it forks ends where it would leave the environment's code.
    """
    here = os.getpid()
    _running.append(here)
    os._exit = _no_exit  # type: ignore[assignment]
    try:
        with awaited(what), _ending_forks(here):
            yield
    except SystemExit as error:
        called = "os._exit" if isinstance(error, _Exit) else "sys.exit"
        places = traceback.extract_tb(error.__traceback__)
        place = [each for each in places if each.name != _no_exit.__name__][-1]
        raise EnvironmentFailure(
            f"{what}: it called {called}({error.code!r}), in {place.filename}, line "
            f"{place.lineno}, which would end the training: it has to raise an error instead"
        ) from None
    except (KeyboardInterrupt, Exception):
        raise
    except BaseException as error:  # GeneratorExit, for example
        raise EnvironmentFailure.of(f"{what} failed", error) from error
    finally:
        _running.pop()
        if not _running:
            os._exit = _os_exit


def one_sentence(error: ValidationError) -> str:
    """The first of a model's validation errors as one sentence."""
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    if place[:1] in (["environment"], ["algorithm"]):
        del place[1:2]  # the kind
    place = [part for part in place if not re.fullmatch(r"\w+Spec|literal\[.*\]", part)]
    if place[-1:] == ["strategy"]:
        place = [*place[:-2], "her"]  # as it is given
    key = shortened(".".join(place)) or "the specification"
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "value_error":
        return f"{key}: {message}" if place else message
    if first["type"] == "missing":
        return f"{key}: is missing"
    value = shortened(repr(first["input"]))
    return f"{key}: {value} is not allowed; {message[0].lower()}{message[1:]}"


def shortened(text: str) -> str:
    """The text, cut to what a message shows."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def guess(key: str, names: Iterable[str]) -> str:
    """Suggest the closest name, as the end of a sentence; empty if none is close."""
    close = difflib.get_close_matches(key, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], values: Any, location: str = "") -> Model:
    """Validate plain values; raises SpecError with one sentence, which begins with `location`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise SpecError(f"{location}: {one_sentence(error)}".removeprefix(": ")) from None


def not_allowed(name: str, given: object, instead: str) -> SpecError:
    """An error that says which argument was given what, and what to give instead."""
    return SpecError(f"{name}: {given} is not allowed; {instead}")


def must_be_among(there: Iterable[Any], name: Any, location: str) -> None:
    """Raise ValueError, which begins with `location`, for an unknown name."""
    if name not in there:
        known = ", ".join(sorted(map(str, there)))
        choice = f"choose from {known}" if known else "there are none"
        raise ValueError(f"{location} {name!r} is unknown; {choice}")


def must_agree(what: str, names: Collection[str], functions: Collection[str]) -> None:
    """Raise SpecError if one of a registry's names has no function, or a function no name."""
    for one in sorted({*names} ^ {*functions}):
        lacks = "name but no function" if one in names else "function but no name"
        raise SpecError(f"the {what} {one!r} has a {lacks}")
