"""The page's interactive charts, as Vega-Lite specifications: data and looks, no code.

A reader chooses condition, side and arms with ordinary form fields, which the keyboard reaches.
The figure of a claim shows the same numbers as a picture: without scripts, and on paper.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hindsight.analysis.reduce import ALL
from hindsight.analysis.summarise import read_plan, read_table
from hindsight.figures.names import CONDITIONS, PREYS, SPAWNS
from hindsight.figures.tables import arms_of, look_of

#: Points of a curve; more cannot be told apart at the width of a page.
POINTS = 40
CLOCKS = {"env_steps": "environment steps", "minutes": "minutes of training"}
Spec = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """A chart: its name, its title, what it shows, the claim whose figure shows the same
    numbers, and its specification.
    """

    name: str
    title: str
    caption: str
    claim: str
    spec: Spec


def charts(tables: Path) -> list[Chart]:
    """Those whose experiments have results."""
    made = (make(tables) for make in CHARTS)
    return [chart for chart in made if chart is not None]


def _curves(tables: Path) -> Chart | None:
    folder = tables / "algorithms"
    if not (folder / "curves.parquet").exists():
        return None
    columns = ["fidelity", "arm", "condition", "clock", "x", "median", "q25", "q75"]
    frame = pd.read_parquet(folder / "curves.parquet", columns=columns).dropna(subset=["median"])
    if frame.empty:
        return None
    series: list[Spec] = []
    lines = ["series,x,median,low,high"]
    keys = ["fidelity", "arm", "condition", "clock"]
    frame = frame[frame["x"] <= _half_ended(folder, frame[keys])]
    for i, (key, rows) in enumerate(frame.groupby(keys, sort=False)):
        series.append({"series": i} | dict(zip(keys, key, strict=True)))
        every = max(1, len(rows) // POINTS)
        kept = rows.iloc[[*range(0, len(rows) - 1, every), len(rows) - 1]]
        lines += [
            f"{i},{row.x:.4g},{row.median:.3g},{row.q25:.3g},{row.q75:.3g}"
            for row in kept.itertuples()
        ]
    arms = _arms(read_plan(folder / "plan.json"), frame["arm"])
    shown = {arm: f"arm{i}" for i, arm in enumerate(arms)}
    chosen = " || ".join(f"({name} && datum.arm === {arm!r})" for arm, name in shown.items())
    x: Spec = {"field": "x", "type": "quantitative", "axis": {"title": {"expr": "clock"}}}
    colour = _colour(arms)
    spec = _page({
        "data": {"values": "\n".join(lines), "format": {"type": "csv"}},
        "params": [
            _select("condition", _conditions(frame), "Condition"),
            _select("fidelity", _sides(frame), "Runs"),
            _select("clock", {v: v for v in CLOCKS.values()}, "Against"),
            {"name": "part", "value": 100,
             "bind": {"input": "range", "min": 2, "max": 100, "step": 1,
                      "name": "Show the first % of the axis "}},
            *({"name": name, "value": True, "bind": {"input": "checkbox", "name": f"{arm} "}}
              for arm, name in shown.items()),
        ],
        "transform": [
            {"lookup": "series", "from": {"data": {"values": series}, "key": "series",
                                          "fields": keys}},
            {"filter": "datum.condition === condition && datum.fidelity === fidelity"},
            {"filter": " || ".join(f"(datum.clock === {name!r} && clock === {title!r})"
                                   for name, title in CLOCKS.items())},
            {"joinaggregate": [{"op": "max", "field": "x", "as": "end"}]},
            {"filter": f"datum.x <= part / 100 * datum.end && ({chosen})"},
        ],
        "encoding": {"x": x, "color": colour},
        "layer": [
            {"mark": {"type": "area", "opacity": 0.18, "aria": False},
             "encoding": {"y": _y("low", "return",
                                  domain=[-1, 1]),
                          "y2": {"field": "high"}}},
            {"mark": {"type": "line", "aria": False, "strokeWidth": 2.2},
             "encoding": {"y": {"field": "median", "type": "quantitative"}}},
            {"mark": {"type": "point", "aria": False, "filled": True, "size": 45, "opacity": 0.01},
             "encoding": {"y": {"field": "median", "type": "quantitative"},
                          "tooltip": [
                              {"field": "arm", "title": "algorithm"},
                              {"field": "x", "type": "quantitative", "format": ",.4~g",
                               "title": "after"},
                              *({"field": f, "type": "quantitative", "title": t, "format": ".2f"}
                                for f, t in (("median", "median return"), ("low", "a quarter lies "
                                             "below"), ("high", "a quarter lies above")))]}},
        ],
    })  # fmt: skip
    return Chart(
        "learning-curves", "Learning curves",
        "Return over training in one condition: the line is the median over seeds, the band the "
        "middle half of them, and both end where half of the seeds have ended. 1 means that every "
        "episode ends with the prey caught.",
        "P1", spec,
    )  # fmt: skip


def _half_ended(folder: Path, places: pd.DataFrame) -> "pd.Series[float]":
    """Of each row of `places` (fidelity, arm, condition, clock) where half of its runs have ended,
    on that clock: from there on a median shows what runs had in the end, as the figures know.
    """
    cell = ["fidelity", "arm", "condition"]
    columns = [*cell, "seed", *CLOCKS]
    runs = pd.read_parquet(folder / "seed_curves.parquet", columns=columns)
    ends = runs.groupby([*cell, "seed"])[list(CLOCKS)].max().groupby(cell).median()
    ended = ends.rename_axis("clock", axis=1).stack().to_dict()
    found = [ended.get(place, np.inf) for place in places.itertuples(index=False, name=None)]
    return pd.Series(found, places.index)


def _s_ratio(tables: Path) -> Chart | None:
    path = tables / "s_ratio" / "m_c.csv"
    if not path.exists() or (frame := read_table(path)).empty:
        return None
    frame = frame[frame["s_ratio"].notna()]
    names = {"s_ratio": "s", "m_c": "m", "m_c_low": "low", "m_c_high": "high", "n_seeds": "seeds"}
    rows = _rows(frame, names)
    title = "S, the share of successes among the training episodes"
    s: Spec = {"field": "s", "type": "quantitative", "axis": {"title": title}}
    spec = _page({
        "data": {"values": rows},
        "params": [_select("condition", _conditions(frame), "Condition")],
        "transform": [{"filter": "datum.condition === condition"}, _named_sides()],
        "encoding": {"x": s, "color": {"field": "side", "type": "nominal",
                                       "scale": {"range": ["#D55E00", "#0072B2"]},
                                       "legend": {"title": None, "orient": "top"}}},
        "layer": [
            {"mark": {"type": "area", "opacity": 0.15, "aria": False},
             "encoding": {"y": _y("low", "M_c",
                                  domain=[0, 1]),
                          "y2": {"field": "high"}}},
            {"mark": {"type": "line", "aria": False,
                      "point": {"filled": True, "size": 60, "aria": False}},
             "encoding": {"y": {"field": "m", "type": "quantitative"},
                          "tooltip": [
                              {"field": "side", "title": "runs"}, {"field": "s", "title": "S"},
                              *({"field": f, "type": "quantitative", "title": t, "format": ".3f"}
                                for f, t in (("m", "M_c"), ("low", "95 % interval from"),
                                             ("high", "to"))),
                              {"field": "seeds"}]}},
        ],
    })  # fmt: skip
    return Chart(
        "s-ratio", "MEHER by its share of successes",
        "M_c is 1 where the median run learns at once and perfectly, and 0 where it never does. "
        "Bands are 95 % intervals over seeds.",
        "M1", spec,
    )  # fmt: skip


def _sensitivity(tables: Path) -> Chart | None:
    path = tables / "learning_rate" / "sensitivity.csv"
    if not path.exists() or (frame := read_table(path)).empty:
        return None
    rows = _rows(frame, {"best": "best", "worst": "worst"})
    arms = _arms(read_plan(path.parent / "plan.json"), frame["arm"])
    spec = _page({
        "data": {"values": rows},
        "params": [_select("fidelity", _sides(frame), "Runs")],
        "transform": [{"filter": "datum.fidelity === fidelity"}],
        "height": {"step": 18},
        "encoding": {
            "y": {"field": "name", "type": "nominal", "sort": None, "axis": {"title": None}},
            "yOffset": {"field": "arm", "sort": list(arms)},
            "color": _colour(arms),
            "tooltip": [{"field": "arm", "title": "algorithm"},
                        {"field": "best", "title": "with the best rate", "format": ".2f"},
                        {"field": "worst", "title": "with the worst rate", "format": ".2f"}],
        },
        "layer": [
            {"mark": {"type": "bar", "aria": False, "height": 9},
             "encoding": {"x": {"field": "worst", "type": "quantitative",
                                "scale": {"domain": [0, 1]},
                                "axis": {"title": "return, scaled to 0–1: worst rate to best"}},
                          "x2": {"field": "best"}}},
            {"mark": {"type": "point", "aria": False, "filled": True, "size": 50},
             "encoding": {"x": {"field": "best", "type": "quantitative"}}},
        ],
    })  # fmt: skip
    return Chart(
        "sensitivity", "What a badly chosen learning rate costs",
        "Each bar reaches from the return with the worst learning rate to that with the best (dot),"
        " condition by condition: the shorter, the less it matters.",
        "P5b", spec,
    )  # fmt: skip


#: Every chart there can be.
CHARTS: Sequence[Callable[[Path], Chart | None]] = (_curves, _s_ratio, _sensitivity)


def _page(spec: Spec) -> Spec:
    """What all have in common: as wide as the page lets it be."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container", "height": 320, "background": "transparent",
        "config": {"axis": {"aria": False}, "legend": {"aria": False}},
    } | spec  # fmt: skip


def _arms(plan: Spec, there: "pd.Series[Any]") -> dict[str, str]:
    """Colours of the arms that have results, as in the figures."""
    found = set(there)
    return {arm: look_of(plan, arm).colour for arm in arms_of(plan) if arm in found}


def _colour(arms: dict[str, str]) -> Spec:
    return {
        "field": "arm", "type": "nominal", "legend": {"title": None, "orient": "top"},
        "scale": {"domain": list(arms), "range": list(arms.values())},
    }  # fmt: skip


def _y(field: str, title: str, domain: list[float]) -> Spec:
    return {"field": field, "type": "quantitative", "axis": {"title": title},
            "scale": {"domain": domain}}  # fmt: skip


def _condition(name: str) -> str:
    if name == ALL:
        return "all conditions"
    if name not in CONDITIONS:
        return name
    spawn, prey = CONDITIONS[name]
    return f"prey {PREYS[prey]}, {SPAWNS[spawn]}"


def _conditions(frame: pd.DataFrame) -> dict[str, str]:
    found = set(frame["condition"])
    known = [name for name in (ALL, *CONDITIONS) if name in found]
    return {name: _condition(name) for name in [*known, *sorted(found - set(known))]}


SIDES = {"released": "authors' code (released)", "described": "papers' words (described)"}


def _sides(frame: pd.DataFrame) -> dict[str, str]:
    found = set(frame["fidelity"])
    return {name: words for name, words in SIDES.items() if name in found}


def _named_sides() -> Spec:
    words = f"datum.fidelity === 'released' ? {SIDES['released']!r} : {SIDES['described']!r}"
    return {"calculate": words, "as": "side"}


def _select(name: str, options: dict[str, str], label: str) -> Spec:
    bind = {"input": "select", "options": list(options), "labels": list(options.values())}
    return {"name": name, "value": next(iter(options)), "bind": bind | {"name": f"{label} "}}


def _rows(frame: pd.DataFrame, numbers: dict[str, str]) -> list[Spec]:
    """The frame's numbers under short names, rounded, with where they are of."""
    return [
        {short: None if pd.isna(row[name]) else float(f"{row[name]:.4g}")
         for name, short in numbers.items()}
        | {"fidelity": row["fidelity"], "arm": row["arm"], "condition": row["condition"],
           "name": _condition(row["condition"])}
        for row in frame.to_dict("records")
    ]  # fmt: skip
