"""YAML that a person wrote, as plain values; what is wrong with it is said with its line.

YAML lets the last of two equal keys win without a word, and its parser in C ends the process where
brackets are nested deeply: both are looked for first, among the parser's events.
"""

from pathlib import Path
from typing import Any

import yaml

from hindsight.files import reason
from hindsight.specs.errors import SpecError

#: PyYAML's safe loader, in C where its library is there: a seventh of the time.
YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Deeper than any configuration is nested.
DEEPEST = 50


def read_keys(path: Path) -> dict[str, Any]:
    """Keys and values of a configuration file; raises SpecError, one sentence."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {reason(error)}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError(
            f"{path}: is not UTF-8 text (byte {error.start}, line {line}); save it so"
        ) from None
    values = values_of(text, str(path))
    if not isinstance(values, dict):
        raise SpecError(f"{path}: holds no keys")
    return values


def values_of(text: str, where: str) -> Any:
    """What YAML text says; raises SpecError, one sentence that begins with `where`."""
    try:
        _must_be_plain(text, where)
        return yaml.load(text, YAML)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # At the end of the text the parser's mark is on a line that there is not.
        last = len(text.splitlines())
        at = f" in line {min(mark.line + 1, last)}" if mark is not None and last > 1 else ""
        why = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise SpecError(f"{where}: is not YAML: {why}{at}") from None
    except ValueError as error:  # a date that there is not
        raise SpecError(f"{where}: is not YAML: {reason(error)}") from None


def _must_be_plain(text: str, where: str) -> None:
    """Raise SpecError for a key that is given twice, or for what is nested too deeply."""
    #: Of each collection that is open the lines of its keys, or None for a list; whether a key is
    #: next in it.
    inside: list[tuple[dict[str, int] | None, bool]] = []
    for event in yaml.parse(text, YAML):
        if isinstance(event, yaml.CollectionEndEvent):
            inside.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        if inside:
            keys, is_key = inside[-1]
            if keys is not None and is_key and isinstance(event, yaml.ScalarEvent):
                line = event.start_mark.line + 1 if event.start_mark is not None else 0
                if (first := keys.get(event.value)) is not None:
                    lines = f"line {line}" if first == line else f"lines {first} and {line}"
                    raise SpecError(f"{where}: key {event.value!r} is given twice, in {lines}")
                keys[event.value] = line
            inside[-1] = keys, not is_key
        if isinstance(event, yaml.CollectionStartEvent):
            if len(inside) == DEEPEST:
                raise SpecError(f"{where}: is nested more than {DEEPEST} deep")
            inside.append(({} if isinstance(event, yaml.MappingStartEvent) else None, True))
