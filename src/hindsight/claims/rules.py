"""Four rules: from what was measured to yes or no.

Intervals are those over seeds, the conditions being fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hindsight.claims.evidence import Measured, Untested

ROUNDING = 1e-6
#: The papers' conditions, of which a claim counts some.
CONDITIONS = 12


@dataclass(frozen=True)
class Rule:
    """text: the rule in a sentence, with a claim's limits to be filled in; holds: whether it says
    yes.
    """

    text: str
    holds: Callable[..., bool]


def race(m: Measured, *, more_than: int) -> bool:
    """First in most conditions, and not by the other's default alone."""
    share = more_than / CONDITIONS
    sooner = m.words["compared"] == 0 or _has_interval(m).low > 0
    return m.ahead > share * m.n_conditions + ROUNDING and sooner


def level(
    m: Measured,
    *,
    at_least: float,
    at_most: float = float("inf"),
    of: int = 0,
    interval: bool = True,
) -> bool:
    """Within bounds; of: conditions that the bounds count, of fewer that share of them; interval:
    whether there must be one.
    """
    if interval:
        _has_interval(m)
    scale = m.n_conditions / of if of else 1.0
    return at_least * scale - ROUNDING <= m.value <= at_most * scale + ROUNDING


def lean(m: Measured, *, above: float | None = None, below: float | None = None) -> bool:
    """The interval lies on one side."""
    _has_interval(m)
    return (above is None or m.low > above) and (below is None or m.high < below)


def equal(m: Measured, *, within: float) -> bool:
    """The interval lies within a margin of 0."""
    _has_interval(m)
    return -within < m.low and m.high < within


def _has_interval(m: Measured) -> Measured:
    if m.low != m.low:
        raise Untested(f"{m.n_seeds} seed{'s' * (m.n_seeds > 1)}, and an interval needs five")
    return m


RULES = {
    "race": Rule(
        "Yes if PPO-HER's median run is first in more than {more_than} of 12 conditions and, over "
        "those in which both sides arrive, ahead on average (log-ratio, 95 % interval). A rival "
        "that stopped earlier leaves the condition open.",
        race,
    ),
    "level": Rule("Yes if it is {bounds}.", level),
    "lean": Rule("Yes if its 95 % interval is {bounds}.", lean),
    "equal": Rule("Yes if its 95 % interval is between −{within:g} and {within:g}.", equal),
}


def text(rule: str, limits: dict[str, Any]) -> str:
    """A claim's rule in a sentence."""
    names = {"at_least": "{:g} or more", "at_most": "at most {:g}", "above": "above {:g}",
             "below": "below {:g}"}  # fmt: skip
    bounds = [words.format(limits[name]) for name, words in names.items() if name in limits]
    return RULES[rule].text.format(bounds=" and ".join(bounds), **limits)
