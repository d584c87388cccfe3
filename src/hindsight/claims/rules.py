"""The rules that turn measurements into yes or no.

Intervals are over seeds, with the conditions fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hindsight.analysis.metrics import ROUNDING
from hindsight.claims.evidence import Measured, Untested

#: The number of the papers' conditions.
CONDITIONS = 12


@dataclass(frozen=True)
class Rule:
    """A rule as a sentence with fields for a claim's limits, and as a function."""

    text: str
    holds: Callable[..., bool]


def race(m: Measured, *, more_than: int) -> bool:
    """Return whether the subject is first in most conditions, and ahead where both arrive."""
    share = more_than / CONDITIONS
    sooner = m.words.get("compared") == 0 or _has_interval(m).low > 0
    return m.ahead > share * m.n_conditions + ROUNDING and sooner


def level(
    m: Measured,
    *,
    at_least: float,
    at_most: float = float("inf"),
    of: int = 0,
    interval: bool = True,
) -> bool:
    """Return whether the value, which must have an interval, or not, is within bounds.

    `of` is the number of conditions that the bounds refer to; they are scaled if fewer were run.
    """
    if interval:
        _has_interval(m)
    scale = m.n_conditions / of if of else 1.0
    return at_least * scale - ROUNDING <= m.value <= at_most * scale + ROUNDING


def lean(m: Measured, *, above: float | None = None, below: float | None = None) -> bool:
    """Return whether the interval lies above or below a limit."""
    _has_interval(m)
    return (above is None or m.low > above) and (below is None or m.high < below)


def equal(m: Measured, *, within: float) -> bool:
    """Return whether the interval lies within a margin of 0."""
    _has_interval(m)
    return -within < m.low and m.high < within


def _has_interval(m: Measured) -> Measured:
    if m.low != m.low:
        raise Untested(f"only {m.n_seeds} seed{'s' * (m.n_seeds > 1)}; an interval needs five")
    return m


RULES = {
    "race": Rule(
        "Yes if PPO-HER's median run is first in more than {more_than} of 12 conditions and, over "
        "those in which both learn, ahead on average (log-ratio, 95 % interval). A rival "
        "that stopped earlier leaves the condition open.",
        race,
    ),
    "level": Rule("Yes if it is {bounds}.", level),
    "lean": Rule("Yes if its 95 % interval is {bounds}.", lean),
    "equal": Rule("Yes if its 95 % interval is between −{within:g} and {within:g}.", equal),
}


def text(rule: str, limits: dict[str, Any]) -> str:
    """Return a claim's rule as a sentence; raise ValueError if it has none of its bounds."""
    names = {"at_least": "{:g} or more", "at_most": "at most {:g}", "above": "above {:g}",
             "below": "below {:g}"}  # fmt: skip
    there = [name for name in names if limits.get(name) is not None]
    if not there and "{bounds}" in RULES[rule].text:
        raise ValueError(f"the rule {rule} needs a bound, such as {{{rule}: {{above: 0}}}}")
    bounds = [names[name].format(limits[name]) for name in there]
    return RULES[rule].text.format(bounds=" and ".join(bounds), **limits)
