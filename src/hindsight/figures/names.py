"""Names on figures and pages: conditions, keys, levels, sources, and the subtitle."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from hindsight.analysis.summarise import level_text
from hindsight.figures.specs import DOCUMENT
from hindsight.specs.config import condition_name
from hindsight.specs.environments.predator_prey import PREYS as KNOWN

SPAWNS = {"random": "random spawn", "apart": "spawn apart"}
PREYS = {prey: prey.replace("_", " ") for prey in KNOWN}
#: Spawn and prey of each condition, by its name.
CONDITIONS = {condition_name(spawn, prey): (spawn, prey) for spawn in SPAWNS for prey in PREYS}


def axis_label(key: str) -> str:
    return str(DOCUMENT.keys.get(key, {}).get("label", key))


def number(value: float) -> str:
    """Format a number: `0.5`, `3e-5`."""
    return f"{value:g}".replace("e-0", "e-")


def level_label(level: Mapping[str, Any]) -> str:
    """Return a level in the papers' symbols: `r = 0.5`, `future k = 4`; `final` implies k = 1."""
    known = DOCUMENT.keys
    words = [
        value
        if isinstance(value, str)
        else f"{known.get(key, {}).get('symbol', f'{key} ')}{number(value)}"
        for key, value in level.items()
        if level.get("strategy") != "final" or (key, value) != ("k", 1)
    ]
    return " ".join(words)


def place_name(place: str, between: str = ", ") -> str:
    """Return the name of a condition, `static, random spawn`, or of a task."""
    if place not in CONDITIONS:
        return "all conditions" if place == "all" else place
    spawn, prey = CONDITIONS[place]
    return f"{PREYS[prey]}{between}{SPAWNS[spawn]}"


def network_note(hidden: Sequence[int]) -> str:
    """Return `network 2 × 64` for equal layers, else `network 64-32`; () means different ones."""
    if not hidden:
        return "unequal networks"
    if len(set(hidden)) == 1:
        return f"network {len(hidden)} × {hidden[0]}"
    return "network " + "-".join(map(str, hidden))


def between(unit: str, counts: Sequence[int]) -> str:
    """Return the range of counts: `16 seeds`, `4 to 16 seeds`, `25,000 steps`."""
    ends = dict.fromkeys(f"{n:,}" for n in (min(counts), max(counts)))
    return f"{' to '.join(ends)} {unit}{'' if max(counts) == 1 else 's'}"


def arms_of(plan: Mapping[str, Any]) -> list[str]:
    """Return the names of the arms with entries, in the experiment's order."""
    there = {entry["arm"] for entry in plan["entries"]}
    return [arm for arm in plan["arms"] if arm in there]


def same_cells(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pairs of arms that consist of the same cells."""
    cells: dict[str, dict[tuple[str, str], str]] = {}
    for entry in plan["entries"]:
        place = (level_text(entry["level"]), entry["condition"])
        cells.setdefault(entry["arm"], {})[place] = entry["cell"]
    return [(a, b) for a, b in combinations(arms_of(plan), 2) if cells[a] == cells[b]]


def where_from(plan: Mapping[str, Any], fidelity: str, drawn: str) -> str:
    """Return the subtitle of a figure: where its numbers come from, and what is drawn."""
    entries, source = plan["entries"], plan["source"]
    origin = "published results" if source == "published" else f"preset {source}"
    wholes = {arm: _trained(plan, arm) for arm in arms_of(plan)}
    most = max(wholes.values())
    places = {entry["condition"] for entry in entries}
    noun = "tasks" if any(entry["task"] for entry in entries) else "conditions"
    groups: dict[str, list[str]] = {}
    for arm, own in wholes.items():
        if less := _less(own, most, len(places), noun):
            groups.setdefault(less, []).append(arm)
    found = [
        f"{origin} · {network_note(plan['preset']['hidden'])}",
        f"up to {between('step', [max(e['steps'] for e in entries)])}",
        f"{fidelity} fidelity",
        between("seed", most[0]),
        "; ".join(f"{', '.join(arms)}: {less}" for less, arms in groups.items()),
        "the same runs as untargeted MEHER, as in the authors' code"
        if (plan["experiment"], fidelity) == ("targeted", "released")
        else "; ".join(f"{a} and {b} are the same runs" for a, b in same_cells(plan)),
        drawn,
    ]
    return " · ".join(filter(None, found))


def _trained(plan: Mapping[str, Any], arm: str) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the seeds and steps that occur in an arm's cells, and its number of conditions."""
    own = [entry for entry in plan["entries"] if entry["arm"] == arm]
    seeds, steps = (tuple(sorted({entry[key] for entry in own})) for key in ("seeds", "steps"))
    return seeds, steps, len({entry["condition"] for entry in own})


def _less(own: tuple[Any, ...], most: tuple[Any, ...], n_places: int, noun: str) -> str:
    """Return what an arm had less of than the largest arm: `4 seeds, 25,000 steps`."""
    words = [
        between(unit, mine)
        for unit, mine, theirs in zip(("seed", "step"), own[:2], most[:2], strict=True)
        if mine != theirs
    ]
    if own[2] < n_places:
        words.append(f"{own[2]} of {n_places} {noun}")
    return ", ".join(words)
