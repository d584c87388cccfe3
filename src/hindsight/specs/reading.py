"""Read YAML written by hand, and report errors with their line.

PyYAML silently keeps the last of two equal keys, crashes on deep nesting, expands aliases without
bounds and, as YAML 1.1, reads `yes` as true, 010 as 8 and 1:00:00 as 3600.  The parser's events are
therefore checked first.  It would also read 3e-4 as text.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from hindsight.io.files import reason
from hindsight.specs.errors import SpecError

#: PyYAML's safe loader; the one in C, if available, is seven times as fast.
YAML: Any = type("YAML", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
EXPONENT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$")
YAML.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, "-+.0123456789")
END = yaml.CollectionEndEvent
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
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read as UTF-8 text: {reason(error)}") from error
    values = values_of(text, str(path))
    if not isinstance(values, dict):
        raise SpecError(f"{path}: holds no keys")
    return values


def values_of(text: str, location: str) -> Any:
    """Parse YAML text; raises SpecError, which begins with `location`."""
    try:
        _must_be_plain(text, location)
        return yaml.load(text, YAML)
    except SpecError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # At the end of the text, the parser's mark is past the last line.
        last = len(text.splitlines())
        at = f" in line {min(mark.line + 1, last)}" if mark is not None and last > 1 else ""
        why = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise SpecError(f"{location}: is not YAML: {why}{at}") from None
    except ValueError as error:  # an impossible date
        raise SpecError(f"{location}: is not YAML: {reason(error)}") from None


def read_again(values: Any) -> Any:
    """Values of Snakemake's --config, which reads null, true and nested numbers as text."""
    if isinstance(values, dict):
        return {key: read_again(value) for key, value in values.items()}
    if isinstance(values, list):
        return [read_again(value) for value in values]
    if isinstance(values, str):
        with suppress(SpecError):
            found = values_of(values, "")
            return found if values == "null" or isinstance(found, int | float) else values
    return values


def _must_be_plain(text: str, location: str) -> None:
    """Raise SpecError for a repeated key, an ambiguous word, deep nesting or excessive size."""
    nodes = (e for e in yaml.parse(text, YAML) if isinstance(e, yaml.NodeEvent | END))
    anchored: dict[str | None, int] = {}

    def size(node: Any, depth: int = 0) -> int:
        """Check a node; returns its number of values, with aliases expanded."""
        if isinstance(node, yaml.AliasEvent):
            return anchored.get(node.anchor, 1)
        if isinstance(node, yaml.ScalarEvent):
            if not node.style and AMBIGUOUS.fullmatch(node.value):
                raise SpecError(
                    f"{location}: {node.value} in line {_line(node)} is ambiguous: write true, "
                    f"false or a decimal number, or '{node.value}' for text"
                )
            return 1
        if depth == DEEPEST:
            raise SpecError(f"{location}: is nested more than {DEEPEST} deep")
        count, lines = 1, dict[str, int]()
        while not isinstance(inner := next(nodes), END):
            count += size(inner, depth + 1)
            if isinstance(node, yaml.MappingStartEvent):
                if isinstance(inner, yaml.ScalarEvent):
                    key, line = inner.value, _line(inner)
                    if (first := lines.get(key)) is not None:
                        both = f"line {line}" if first == line else f"lines {first} and {line}"
                        raise SpecError(f"{location}: key {key!r} is given twice, in {both}")
                    lines[key] = line
                count += size(next(nodes), depth + 1)
        if count > MOST_VALUES:
            raise SpecError(f"{location}: holds more than {MOST_VALUES:,} values, by its aliases")
        anchored[node.anchor] = count
        return count

    for document in nodes:
        size(document)


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1
