"""The rules that turn measurements into yes, no or open.

Intervals are over seeds, with the conditions fixed. An interval that lies within a rule's bounds
says yes, one that lies outside no, and one that reaches over a bound leaves the claim open.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat

from hindsight.analysis.metrics import ROUNDING
from hindsight.analysis.statistics import FEWEST_SEEDS
from hindsight.claims.evidence import Measured, Untested

Answer = Literal["yes", "no", "open"]
#: The number of the papers' conditions.
CONDITIONS = 12


@dataclass(frozen=True)
class Rule:
    """A rule as a sentence with fields for a claim's limits, and as a function."""

    text: str
    answer: Callable[..., Answer]


def race(m: Measured, *, more_than: Annotated[int, Field(ge=0, lt=CONDITIONS)]) -> Answer:
    """Judge whether the subject is first in most conditions, and ahead where both arrive.

    Conditions whose loser stopped too early to tell may have been won.
    """
    _must_have_seeds(m)
    nothing_to_compare = m.words.get("compared") == 0
    sooner = "yes" if nothing_to_compare else lean(m, above=0)
    most = more_than / CONDITIONS * m.n_conditions + ROUNDING
    if sooner == "no" or m.ahead + m.words.get("undecided", 0) <= most:
        return "no"
    return sooner if m.ahead > most else "open"


def level(
    m: Measured,
    *,
    at_least: float,
    at_most: float | None = None,
    of: Annotated[int, Field(ge=0, le=CONDITIONS)] = 0,
    interval: bool = True,
) -> Answer:
    """Judge whether the value is within bounds; without `interval` it needs none.

    `of` is the number of conditions that the bounds refer to; they are scaled if fewer were run.
    """
    scale = m.n_conditions / of if of else 1.0
    high = math.inf if at_most is None else at_most * scale + ROUNDING
    return _within(m, at_least * scale - ROUNDING, high, interval=interval)


def lean(m: Measured, *, above: float | None = None, below: float | None = None) -> Answer:
    """Judge whether the value lies above or below a limit."""
    low = -math.inf if above is None else above + ROUNDING
    return _within(m, low, math.inf if below is None else below - ROUNDING)


def equal(m: Measured, *, within: PositiveFloat) -> Answer:
    """Judge whether the value lies within a margin of 0."""
    return _within(m, ROUNDING - within, within - ROUNDING)


def _must_have_seeds(m: Measured) -> None:
    if m.n_seeds < FEWEST_SEEDS:
        raise Untested(f"only {m.n_seeds} seed{'s' * (m.n_seeds > 1)}; an interval needs five")


def _within(m: Measured, low: float, high: float, *, interval: bool = True) -> Answer:
    """Judge whether the interval, or else the value, lies between two bounds."""
    if math.isnan(m.low) and interval:
        _must_have_seeds(m)
    least, most = (m.value, m.value) if math.isnan(m.low) else (m.low, m.high)
    if most < low or least > high:
        return "no"
    return "yes" if low <= least and most <= high else "open"


RULES = {
    "race": Rule(
        "Yes if PPO-HER's median run is first in more than {more_than} of 12 conditions and, over "
        "those in which both learn, ahead on average (log-ratio, 95% interval). A rival "
        "that stopped earlier leaves the condition open.",
        race,
    ),
    "level": Rule("Yes if it is {bounds}.", level),
    "lean": Rule("Yes if its 95% interval is {bounds}.", lean),
    "equal": Rule("Yes if its 95% interval is between −{within:g} and {within:g}.", equal),
}


def text(rule: str, limits: dict[str, Any]) -> str:
    """Return a claim's rule as a sentence; raise ValueError if it has none of its bounds."""
    names = {"at_least": "{:g} or more", "at_most": "at most {:g}", "above": "above {:g}",
             "below": "below {:g}"}  # fmt: skip
    there = [name for name in names if limits.get(name) is not None]
    if not there and "{bounds}" in RULES[rule].text:
        raise ValueError(f"the rule {rule} needs a bound, such as {{{rule}: {{above: 0}}}}")
    if sorted(numbers := [limits[name] for name in there]) != numbers:
        raise ValueError(f"the rule {rule} needs its lower bound to be the smaller one")
    bounds = [names[name].format(limits[name]) for name in there]
    return RULES[rule].text.format(bounds=" and ".join(bounds), **limits)
