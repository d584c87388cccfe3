"""Read YAML written by hand, and report errors with their line.

PyYAML silently keeps the last of two equal keys, crashes on deep nesting, expands aliases without
bounds and, as YAML 1.1, reads `yes` as true, 010 as 8 and 1:00:00 as 3600.  The parser's events are
therefore checked first.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from hindsight.io.files import reason
from hindsight.specs.errors import SpecError

#: PyYAML's safe loader; the one in C, if available, is seven times as fast.
YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: Maximum nesting depth.
DEEPEST = 50
#: Maximum number of values after expanding aliases.
MOST_VALUES = 10**6
#: Plain scalars that YAML 1.1 reads differently from YAML 1.2.
AMBIGUOUS = re.compile(
    r"(?i:yes|no|on|off)|[-+]?0[0-9_]+|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
)


def read_keys(path: Path) -> dict[str, Any]:
    """Read the keys and values of a configuration file; raises SpecError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {reason(error)}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError(
            f"{path}: is not UTF-8 text (byte {error.start}, line {line}); save it as UTF-8"
        ) from None
    values = values_of(text, str(path))
    if not isinstance(values, dict):
        raise SpecError(f"{path}: holds no keys")
    return values


def values_of(text: str, where: str) -> Any:
    """Parse YAML text; raises SpecError, which begins with `where`."""
    try:
        _must_be_plain(text, where)
        return yaml.load(text, YAML)
    except SpecError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # At the end of the text, the parser's mark is past the last line.
        last = len(text.splitlines())
        at = f" in line {min(mark.line + 1, last)}" if mark is not None and last > 1 else ""
        why = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise SpecError(f"{where}: is not YAML: {why}{at}") from None
    except ValueError as error:  # an impossible date
        raise SpecError(f"{where}: is not YAML: {reason(error)}") from None


def _must_be_plain(text: str, where: str) -> None:
    """Raise SpecError for a repeated key, an ambiguous word, deep nesting or excessive size."""
    # For each open collection: lines of its keys (None for a list), and whether a key is next.
    inside: list[tuple[dict[str, int] | None, bool]] = []
    # For each open collection: its anchor, and its number of values with aliases expanded.
    sizes: list[tuple[str | None, int]] = [(None, 0)]
    anchored: dict[str | None, int] = {}
    for event in yaml.parse(text, YAML):
        if isinstance(event, yaml.CollectionEndEvent):
            inside.pop()
            anchor, size = sizes.pop()
            anchored[anchor] = size
            sizes[-1] = sizes[-1][0], sizes[-1][1] + size
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        more = anchored.get(event.anchor, 1) if isinstance(event, yaml.AliasEvent) else 1
        sizes[-1] = sizes[-1][0], sizes[-1][1] + more
        if sizes[-1][1] > MOST_VALUES:
            raise SpecError(f"{where}: holds more than {MOST_VALUES:,} values, by its aliases")
        if isinstance(event, yaml.ScalarEvent) and event.style in (None, ""):
            _must_be_read_in_one_way(event, where)
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
            sizes.append((event.anchor, 0))


def _must_be_read_in_one_way(event: yaml.ScalarEvent, where: str) -> None:
    if AMBIGUOUS.fullmatch(event.value):
        line = f" in line {event.start_mark.line + 1}" if event.start_mark is not None else ""
        raise SpecError(
            f"{where}: {event.value}{line} is ambiguous: write true, false or a decimal number, or "
            f"'{event.value}' for text"
        )
