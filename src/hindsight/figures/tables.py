"""Read an experiment's tables, and split them into the panels and lines of a figure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from hindsight.analysis.summarise import level_text, read_table
from hindsight.figures import names
from hindsight.figures.specs import MEASURES, FigureSpec, Measure
from hindsight.figures.style import WORDS, Look, arm_look, label, method_of, own_look, swept_looks

CELL = ["arm", "level", "condition"]
MEASURE = "measure"  # the facet of a figure's measures; others are facets of the plan's entries
#: The notebook trains for 150 episodes and prints the success rate of the last 25.
NOTEBOOK_EPISODES, NOTEBOOK_LAST = 150, 25
Key = tuple[str, str, str]  # arm, level, condition
Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Tables:
    """One experiment's folder of tables, under one fidelity."""

    folder: Path
    fidelity: str

    @cached_property
    def _whole(self) -> dict[str, Any]:
        """The plan with all entries of this fidelity."""
        plan: dict[str, Any] = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        own = [e for e in plan["entries"] if e["fidelity"] == self.fidelity]
        return plan | {"entries": own}

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan with the entries of this fidelity, without an arm's repeated cells.

        `final` has one copy, whatever k is, so its levels of k are one cell.
        """
        entries = self._whole["entries"]
        first = {(e["arm"], e["condition"], e["cell"]): e for e in reversed(entries)}
        return self._whole | {"entries": list(first.values())[::-1]}

    @cached_property
    def budgets(self) -> dict[Key, int]:
        """Steps of the cells, also of repeated ones."""
        return {key_of(entry): entry["steps"] for entry in self._whole["entries"]}

    def read(self, name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
        """Return the rows of this fidelity; from a parquet table, only the key and `columns`.

        A missing column (other algorithms lack some) gives NaN.
        """
        wanted = list(dict.fromkeys([*CELL, *columns]))
        return read_table(self.folder / name, wanted, self.fidelity)

    def runs(self, measure: Measure) -> pd.DataFrame:
        """Return a row per run, with the measure as `value`."""
        key = [*CELL, "role", "seed"]
        found = self.read(f"{measure.table}.parquet", ["role", "seed", "env_steps", measure.column])
        if measure.table == "evaluations":
            found = over_training(found, key, measure.column, self.budgets).reset_index()
        if measure.column == "early_success":
            rows = self.read("seed_curves.parquet", ["seed", "env_steps", "episode_success"])
            early = early_success(rows).rename("early_success").reset_index()
            found = found.drop(columns="early_success").merge(early, on=[*CELL, "seed"])
        value = found[measure.column].astype(float)
        if measure.column == "learn_step":  # a run that never learns counts as its budget
            cells = found[CELL].itertuples(index=False, name=None)
            budgets = [float(self.budgets[cell]) for cell in cells]
            value = value.fillna(pd.Series(budgets, found.index))
        found = found[key].assign(value=value / measure.unit).dropna(subset=["value"])
        if measure.role:
            found = found[found["role"] == measure.role]
        if not measure.over:
            return found
        baseline = found[found["role"] == "baseline"]
        same = ["level", "condition", "seed"]
        both = found[found["role"] != "baseline"].merge(baseline[[*same, "value"]], on=same)
        gain = both["value_x"] - both["value_y"]
        return both.assign(value=gain).drop(columns=["value_x", "value_y"])


def over_training(
    rows: pd.DataFrame, run: Sequence[str], column: str, budgets: Mapping[Key, float]
) -> pd.Series:
    """Return the mean of each run's evaluations up to its cell's budget, with its last one kept.

    rows: evaluations, with `column`, `env_steps`, and the columns `run` that name a run.
    """
    evaluations = rows.sort_values([*run, "env_steps"]).groupby(list(run), sort=False)
    own = evaluations[column].agg(["sum", "count", "last"])
    gaps = evaluations["env_steps"].apply(lambda steps: steps.diff().max())
    gaps = gaps.groupby(level=CELL).transform("median")
    budget = [budgets[arm, level, condition] for arm, level, condition, *_ in own.index]
    points = (budget / gaps).round().fillna(0).clip(lower=own["count"])
    mean = (own["sum"] + (points - own["count"]) * own["last"]) / points
    return mean.rename(column)


def early_success(rows: pd.DataFrame) -> pd.Series:
    """Return the success rate over episodes 126 to 150, by cell and seed.

    Runs with fewer episodes are left out. `rows` are those of seed_curves.parquet, one per episode.
    """
    run = [*CELL, "seed"]
    rows = rows.sort_values([*run, "env_steps"])
    episode = rows.groupby(run, sort=False).cumcount() + 1
    window = rows[(episode > NOTEBOOK_EPISODES - NOTEBOOK_LAST) & (episode <= NOTEBOOK_EPISODES)]
    runs = window.groupby(run, sort=False)["episode_success"]
    return runs.mean()[runs.count() == NOTEBOOK_LAST]


def by_condition(table: pd.DataFrame) -> dict[Key, pd.DataFrame]:
    """Split a table by (arm, level, condition)."""
    # Without the text columns, pieces are cut sooner.
    groups = table.drop(columns=CELL).groupby([table[name] for name in CELL], sort=False)
    return {(str(a), str(b), str(c)): piece for (a, b, c), piece in groups}


def key_of(entry: Entry) -> Key:
    return str(entry["arm"]), level_text(entry["level"]), str(entry["condition"])


def look_of(plan: Mapping[str, Any], arm: str) -> Look:
    """Return the look of a plan's arm, which depends on its method and not on its name.

    If several arms are one method, they share its colour and differ in line and marker.
    """
    methods = {entry["arm"]: method_of(entry) for entry in reversed(plan["entries"])}
    method = methods.get(arm, arm)
    same = [a for a in plan["arms"] if methods.get(a, a) == method]
    return own_look(arm, arm_look(method, same.index(arm) if arm in same else 0))


def chosen(plan: Mapping[str, Any], spec: FigureSpec) -> list[Entry]:
    """Return the entries that a figure shows; arms with the same runs are one, under both names."""
    shown = [
        entry
        for entry in plan["entries"]
        if (not spec.roles or entry["role"] in spec.roles)
        and (not spec.arms or entry["arm"] in spec.arms)
        and (not spec.places or entry["condition"] in spec.places)
    ]
    own = {**plan, "entries": shown}
    arms = {arm: [arm] for arm in names.arms_of(own)}
    for first, later in names.same_cells(own):
        if {first, later} <= arms.keys():
            arms[first] += arms.pop(later)
    return [
        {**entry, "arms": arms[entry["arm"]], "name": " = ".join(arms[entry["arm"]])}
        for entry in shown
        if entry["arm"] in arms
    ]


def value(entry: Entry, facet: str) -> Any:
    level = names.level_label(entry["level"])
    facets = {
        "arm": entry["name"],
        "level": level,
        "line": f"{entry['name']}, {level}" if level else entry["name"],
        "place": entry["condition"],
        "prey": entry["prey"] or entry["condition"],
        "spawn": entry["spawn"] or "",
        "task": entry["task"] or "",
    }
    return (entry["keys"] | entry["level"] | facets).get(facet)


def values(plan: Mapping[str, Any], entries: Sequence[Entry], facet: str) -> list[Any]:
    """Return a facet's values: numbers ascend, arms are as planned, conditions as in the papers."""
    if facet == "level":
        entries = sorted(entries, key=_rank)
    if facet in ("arm", "line"):
        arms = plan["arms"]
        entries = sorted(entries, key=lambda e: (arms.index(e["arm"]), _rank(e)))
    found = list(dict.fromkeys(value(e, facet) for e in entries))
    orders: dict[str, Iterable[Any]] = {
        "spawn": names.SPAWNS, "prey": names.PREYS, "place": names.CONDITIONS,
        "strategy": WORDS, "exploration": WORDS,
    }  # fmt: skip
    if facet in orders:
        known = list(orders[facet])
        return sorted(found, key=lambda v: known.index(v) if v in known else len(known))
    return sorted(found) if all(isinstance(v, int | float) for v in found) else found


def _rank(entry: Entry) -> tuple[float, ...]:
    """Return a sort key: numbers by size, words in the order of WORDS."""
    order = list(WORDS)
    return tuple(
        (order.index(v) if v in order else len(order)) if isinstance(v, str) else float(v)
        for v in entry["level"].values()
    )


def called(facet: str, value: Any) -> str:
    """Return the name of a facet's value on a figure."""
    if facet == MEASURE:
        return label(MEASURES[value].label)
    if facet == "spawn":
        return label(names.SPAWNS.get(value, ""))
    if facet in ("prey", "place"):
        return label(names.PREYS.get(value, names.place_name(value, "\n")))
    return label(value if isinstance(value, str) else names.level_label({facet: value}))


def looks(plan: Mapping[str, Any], entries: Sequence[Entry], facet: str) -> dict[Any, Look]:
    found = values(plan, entries, facet)
    several = len({e["arm"] for e in entries}) > 1
    if facet == "arm" or (facet == "line" and several):
        arms = {value(e, facet): e["arm"] for e in reversed(entries)}
        own = {name: look_of(plan, arms[name]) for name in found}
        if len(set(own.values())) == len(own):
            return own
        # Levels within arms: colours of the level, lines and marks of the arm.
        colours = looks(plan, entries, "level")
        level = {value(e, facet): value(e, "level") for e in entries}
        return {n: replace(own[n], colour=colours[level[n]].colour) for n in found}
    if facet in ("line", "level"):
        levels = {value(e, facet): dict(e["level"]) for e in entries}
        return dict(zip(found, swept_looks([levels[v] for v in found]), strict=True))
    return dict(zip(found, swept_looks([{facet: v} for v in found]), strict=True))
