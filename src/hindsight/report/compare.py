"""`hindsight compare`: results side by side, with the tables and figures of the replication.

Results come from files, from folders or from what ships.  They become the plan of an experiment of
their own, whose tables and figures are then made as those of any other: no statistic is new here.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
from rich.table import Table

from hindsight.analysis.cells import PAPERS_ENVIRONMENT, load_cell
from hindsight.analysis.summarise import read_table, summarise
from hindsight.io.files import as_json, write_if_changed
from hindsight.specs.cell import model_of
from hindsight.specs.config import PAPERS_TASK, PUBLISHED, load
from hindsight.specs.errors import SpecError
from hindsight.specs.manifest import verify
from hindsight.specs.plan import Plan, Shipped

#: The experiment whose arms may go without its name.
MAIN = "algorithms"
#: What a plan says it is made from, and the name of its folder's experiment.
SOURCE = "comparison"
#: Where the two fidelities are one, and where both are compared.
EITHER, BOTH = "either", "released and described"
#: Keys of an algorithm that say how often what happens is recorded, not what does.
OF_CURVES = ("log_interval",)


@dataclass(frozen=True)
class Result:
    """A results file, and what it is called if somebody has said so."""

    path: Path
    spec: dict[str, Any]  # the cell's specification, as plain values
    name: str | None

    @property
    def how(self) -> dict[str, dict[str, Any]]:
        """What learns: what is set of algorithm, hindsight and replay."""
        found = {}
        for part in ("algorithm", "hindsight", "replay"):
            given = self.spec.get(part) or {}
            own = _set(part, given, beside=("name", "strategy", "fidelity"))
            found[part] = {key: value for key, value in own.items() if key not in OF_CURVES}
        return found

    @property
    def her(self) -> str | None:
        """The strategy of hindsight."""
        found: str | None = {**self.how["replay"], **self.how["hindsight"]}.get("strategy")
        return found

    @property
    def place(self) -> str:
        """The environment, as text: equal for equal ones, also in older files, which lack keys."""
        own = _set("environment", self.spec["environment"], beside=("id", "spawn", "prey"))
        return json.dumps(own, sort_keys=True)

    @property
    def fidelities(self) -> set[str]:
        """Under which fidelities it was trained, where they differ."""
        where, parts = self.spec["environment"], self.how
        found = {part["fidelity"] for part in parts.values() if part.get("strategy")}
        differs = where.get("prey") in ("attract", "repel")
        return found | ({where.get("fidelity", "released")} if differs else set())


def _set(part: str, given: dict[str, Any], beside: Collection[str] = ()) -> dict[str, Any]:
    """What is set of a part of a specification, as plain values, unlike its defaults."""
    kind = model_of(part, given).model_fields
    usual = {
        key: list(value) if isinstance(value, tuple) else value
        for key, field in kind.items()
        if (value := field.get_default(call_default_factory=True)) is not None
    }
    return {key: value for key, value in given.items() if key in beside or value != usual.get(key)}


def compare(
    given: Sequence[str], out: Path, fidelity: str = "described", config: Path = Path("config.yaml")
) -> list[Table | str]:
    """Write tables and figures of results side by side to `out`; returns what is to be shown.

    Args:
        given: results files, folders with such, or arms that ship, `PPO-HER` or
            `experiment/arm`; each may begin with `NAME=`.
        fidelity: of the arms that ship.

    Raises:
        SpecError: what is none of these; fewer than two arms; no condition that all have.
        FileError: results that cannot be used.
    """
    arms = _named(list(chain.from_iterable(_found(text, fidelity, config) for text in given)))
    if len(arms) < 2:
        only = ", ".join(arms) or "none"
        raise SpecError(f"a comparison needs two arms or more; there is {only}")
    places = {arm: _by_place(arm, results) for arm, results in arms.items()}
    common = [p for p in next(iter(places.values())) if all(p in own for own in places.values())]
    if not common:
        has = "; ".join(f"{arm}: {', '.join(_names(own).values())}" for arm, own in places.items())
        raise SpecError(f"there is no condition that all arms have ({has})")
    plan = _plan({arm: {p: own[p] for p in common} for arm, own in places.items()})
    write_if_changed(out / "plan.json", as_json(plan))
    summarise(out / "plan.json", out)
    drawn = _draw(out, plan["entries"][0]["fidelity"])
    left = {arm: own.keys() - set(common) for arm, own in places.items()}
    return [
        *_in_short(out, plan),
        *(f"left out: {len(rest)} conditions of {arm} alone" for arm, rest in left.items() if rest),
        f"tables: {out}/*.csv; figures: {', '.join(str(path) for path in drawn)}",
    ]


def _found(text: str, fidelity: str, config: Path) -> list[Result]:
    """The results that an argument names."""
    name, equals, what = text.partition("=")
    named: str | None = name if equals and not Path(text).exists() else None
    path = Path(what if named is not None else text)
    if path.is_dir():
        inner = path / "cells" if (path / "cells").is_dir() else path
        if not (files := sorted(inner.rglob("*.parquet"))):
            raise SpecError(f"{path}: there is no results file (.parquet) in this folder")
        return [_read(file, named) for file in files]
    if path.suffix == ".parquet":
        return [_read(path, named)]
    if path.exists():
        raise SpecError(
            f"{path}: is no results file; `hindsight train` writes one below results/cells, which "
            "ends in .parquet"
        )
    return [
        _read(file, named or shown) for shown, file in _shipped(str(path), fidelity, config, text)
    ]


def _read(path: Path, name: str | None) -> Result:
    if ".." in path.parts:
        path = path.resolve()
    verify([path])
    return Result(path, load_cell(path).metadata["spec"], name)


def _shipped(what: str, fidelity: str, config: Path, text: str) -> list[tuple[str, Path]]:
    """Name and file of every published cell of an arm."""
    if not config.exists():
        raise SpecError(f"{text}: there is no such file or folder")
    plan = Plan.of(Shipped(load(config)).config)
    experiment, slash, arm = what.partition("/")
    if not slash:
        experiment, arm = MAIN, what
    places = [
        (entry, name) for entry, name in plan.experiments.get(experiment, []) if entry.arm == arm
    ]
    if not places:
        own = plan.experiments.get(MAIN, [])
        there = ", ".join(dict.fromkeys(entry.arm for entry, _ in own))
        raise SpecError(
            f"{text}: there is no such file or folder, nor is it an arm that ships: {there}, or "
            "experiment/arm of config.yaml"
        )
    if places[0][0].level:
        raise SpecError(
            f"{text}: this experiment varies {', '.join(places[0][0].level)}; give its files"
        )
    under = {entry.fidelity for entry, _ in places}
    chosen = fidelity if fidelity in under else min(under)
    files = [
        (arm, path)
        for entry, name in places
        if entry.fidelity == chosen and (path := PUBLISHED / "cells" / f"{name}.parquet").exists()
    ]
    if not files:
        raise SpecError(f"{text}: none of its cells is in {PUBLISHED}")
    return files


def _named(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The arms, each with its results: by name or, without one, by what learns."""
    named: dict[str, list[Result]] = defaultdict(list)
    unnamed: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.name is not None:
            named[result.name].append(result)
        else:
            unnamed[json.dumps(result.how, sort_keys=True)].append(result)
    bare: dict[str, list[list[Result]]] = defaultdict(list)
    for group in unnamed.values():
        first = group[0]
        how = str(first.how["algorithm"].get("name", "ppo")).upper()
        bare[f"{how}-HER" if first.her else how].append(group)
    for name, groups in bare.items():
        for group, more in zip(groups, _apart([group[0] for group in groups]), strict=True):
            full = f"{name} {more}".strip()
            named[full if full not in named else f"{full} (own)"] += group
    return dict(named)


def _apart(firsts: Sequence[Result]) -> list[str]:
    """What tells arms of one name apart: `learning_rate=0.001`, `released`; "" for a single one."""
    flat = [
        {f"{part}.{key}": value for part, keys in one.how.items() for key, value in keys.items()}
        for one in firsts
    ]
    keys = [
        key
        for key in dict.fromkeys(chain.from_iterable(flat))
        if len({json.dumps(own.get(key)) for own in flat}) > 1
    ]
    return [
        ", ".join(
            str(own[key]) if key.endswith(".fidelity") else f"{key.split('.')[1]}={own[key]}"
            for key in keys
            if key in own
        )
        for own in flat
    ]


def _by_place(arm: str, results: Iterable[Result]) -> dict[str, Result]:
    """An arm's results by environment; SpecError for two of one."""
    found: dict[str, Result] = {}
    for result in results:
        if (other := found.setdefault(result.place, result)).path != result.path:
            where = next(iter(_names({result.place: result}).values()))
            raise SpecError(
                f"two results of {arm} in {where}: {other.path} and {result.path}; name the one "
                "that is meant, or call them differently: NAME=FILE"
            )
    return found


def _names(places: Iterable[str]) -> dict[str, str]:
    """What environments are called: `random static`, `FetchReach-v4`; what is unusual behind it."""
    texts = {}
    for place in places:
        where = json.loads(place)
        shown = where["id"].removesuffix("-v0")
        if {"spawn", "prey"} <= where.keys():
            shown = f"{where['spawn']} {where['prey']}"
        beside = ("id", "spawn", "prey", "fidelity")
        more = [f"{key}={value}" for key, value in where.items() if key not in beside]
        texts[place] = ", ".join([shown, *more])
    twice = {text for text in texts.values() if list(texts.values()).count(text) > 1}
    return {
        place: f"{text}, {json.loads(place).get('fidelity', 'released')}" if text in twice else text
        for place, text in texts.items()
    }


def _plan(arms: dict[str, dict[str, Result]]) -> dict[str, Any]:
    """The plan of an experiment that has these arms, in conditions that all of them have."""
    everything = [result for own in arms.values() for result in own.values()]
    under = set().union(*(result.fidelities for result in everything))
    fidelity = BOTH if len(under) > 1 else next(iter(under), EITHER)
    names = _names(next(iter(arms.values())))
    papers = {text for text in names.values() if len(text.split(" ")) == 2 and "," not in text}
    of_papers = papers == set(names.values()) and all(
        result.spec["environment"]["id"] == PAPERS_ENVIRONMENT for result in everything
    )
    networks = {tuple(result.spec["algorithm"].get("hidden", ())) for result in everything}
    return {
        "experiment": SOURCE,
        "title": " beside ".join(arms),
        "figures": "hindsight compare",
        "source": SOURCE,
        "preset": {
            "hidden": list(networks.pop()) if len(networks) == 1 else [],
            "steps": max(result.spec["steps"] for result in everything),
            "seeds": max(result.spec["seeds"] for result in everything),
        },
        "arms": list(arms),
        "vary": [],
        "entries": [
            {
                "fidelity": fidelity,
                "arm": arm,
                "role": "baseline" if arm == next(iter(arms)) else "level",
                "algorithm": str(result.how["algorithm"].get("name", "ppo")),
                "her": result.her,
                "keys": _telling(result),
                "level": {},
                "task": PAPERS_TASK if of_papers else names[place],
                "condition": names[place],
                "spawn": result.spec["environment"]["spawn"] if of_papers else None,
                "prey": result.spec["environment"]["prey"] if of_papers else None,
                "seeds": result.spec["seeds"],
                "steps": result.spec["steps"],
                "cell": str(result.path),
            }
            for arm, own in arms.items()
            for place, result in own.items()
        ],
    }


def _telling(result: Result) -> dict[str, Any]:
    """Keys of hindsight by which the figures know a method."""
    known = ("s_ratio", "failures", "until_success", "until_steps", "then")
    return {key: value for key, value in result.how["hindsight"].items() if key in known}


def _draw(out: Path, fidelity: str) -> list[Path]:
    """Draw the figures that any experiment can have; returns their pictures."""
    from hindsight.figures import draw_spec, of_any, style

    drawn = []
    for name, spec in of_any(SOURCE).items():
        if spec.fidelity == "released":
            figure = draw_spec(replace(spec, fidelity=fidelity), out)
            drawn.append(style.save(figure, out / name.removesuffix(f"_{SOURCE}"))[0])
    return drawn


def _in_short(out: Path, plan: dict[str, Any]) -> list[Table]:
    """The tables in short: every arm in every condition, and each beside the first."""
    summary, tests = read_table(out / "summary.csv"), read_table(out / "tests.csv")
    # Only the papers' returns have a scale, on which they are compared.
    by_return = bool(summary["time_to_learn_steps"].notna().any())
    shown = RETURNS if by_return else SUCCESS
    arms = _table("What each has come to", ("condition", "arm", "runs", *shown))
    for _, row in summary.iterrows():
        cells = [_shown(row, *columns) for columns in shown.values()]
        arms.add_row(row["condition"], row["arm"], f"{row['n_seeds']:.0f}", *cells)
    chosen = (tests["baseline"] == plan["arms"][0]) & tests["metric"].isin(list(METRICS))
    measure = next(name for name in METRICS if name in set(tests["metric"]))
    pairs = _table(
        f"Beside {plan['arms'][0]}: in what share of all pairs of runs the arm is better by "
        f"{METRICS[measure]}, and p over runs of one seed, corrected for the number of conditions",
        ("condition", "arm", "within steps", "better", "p"),
    )
    for _, row in tests[chosen].iterrows():
        better = _shown(row, "probability_of_improvement", "probability")
        p = f"{row['p_holm']:.2g}"
        pairs.add_row(row["condition"], row["arm"], f"{row['steps']:,.0f}", better, p)
    return [arms, pairs]


#: What is shown of an arm: columns of summary.csv, with the stems of their bounds.
RETURNS = {
    "best median return": ("max_median_return", ""),
    "after steps": ("time_to_learn_steps", ""),
    "final return (interquartile mean)": ("iqm_return", "iqm"),
    "share that solved it": ("solved_share", "solved"),
}
SUCCESS = {
    "final success": ("mean_success", "success"),
    "share that solved it": ("solved_share", "solved"),
    "solved after steps (median)": ("solve_step_median", ""),
}
#: Which of the tests is shown, and what it measures.
METRICS = {
    "auc": "its mean return over training", "success_auc": "its mean success over training"
}  # fmt: skip


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="left" if column in ("condition", "arm") else "right")
    return table


def _shown(row: pd.Series, column: str, stem: str) -> str:
    """A count of steps, or `0.91 (0.85 to 0.95)`; without an interval where there is none."""
    value = row[column]
    if pd.isna(value) or value == float("inf"):
        return "never"
    if "step" in column:
        return f"{value:,.0f}"
    if not stem or pd.isna(row[f"{stem}_low"]):
        return f"{value:.2f}"
    return f"{value:.2f} ({row[f'{stem}_low']:.2f} to {row[f'{stem}_high']:.2f})"
