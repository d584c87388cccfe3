"""`hindsight compare`: compare results with the tables and figures of the replication.

The results, from files, folders or the published cells, become the plan of a new experiment, which
is then summarised and drawn like any other.
"""

import json
import math
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
from hindsight.report.present import Column, count, interval, number, of, p_value
from hindsight.specs.cell import model_of
from hindsight.specs.config import PAPERS_TASK, PUBLISHED, load
from hindsight.specs.errors import SpecError
from hindsight.specs.manifest import verify
from hindsight.specs.plan import Plan, Shipped

CONFIG = Path("config.yaml")
#: The experiment whose arms are named without it.
MAIN = "algorithms"
#: The name of the comparison's experiment, and of its source.
SOURCE = "comparison"
#: The plan's fidelity where the two fidelities do not differ, and where both are compared.
EITHER, BOTH = "either", "released and described"
#: Keys of an algorithm that change how often it is recorded, not what it does.
OF_CURVES = ("log_interval",)
#: Keys of hindsight by which figures recognize a method.
METHOD_KEYS = ("s_ratio", "failures", "until_success", "until_steps", "then")


def _steps(value: float) -> str:
    return count(value) if math.isfinite(value) else "never"


ARM: list[Column] = [("condition", of(str, "condition")), ("arm", of(str, "arm"))]
RUNS: Column = ("runs", of(count, "n_seeds"))
SOLVED: Column = (
    "share that solved it", of(interval, "solved_share", "solved_low", "solved_high")
)  # fmt: skip
RETURNS: list[Column] = [
    ("best median return", of(number, "max_median_return")),
    ("after steps", of(_steps, "time_to_learn_steps")),
    ("final return (interquartile mean)", of(interval, "iqm_return", "iqm_low", "iqm_high")),
    SOLVED,
]
SUCCESS: list[Column] = [
    ("final success", of(interval, "mean_success", "success_low", "success_high")),
    SOLVED,
    ("solved after steps (median)", of(_steps, "solve_step_median")),
]
PAIRS: list[Column] = [
    ("within steps", of(count, "steps")),
    ("better", of(interval, "probability_of_improvement", "probability_low", "probability_high")),
    ("p", of(p_value, "p_holm")),
]
#: The metrics whose tests are shown.
METRICS = {"auc": "mean return over training", "success_auc": "mean success over training"}


@dataclass(frozen=True)
class Result:
    """A results file with its cell's specification; `name` is the user's."""

    path: Path
    spec: dict[str, Any]
    name: str | None

    @property
    def how(self) -> dict[str, dict[str, Any]]:
        """The keys of algorithm, hindsight and replay that differ from their defaults."""
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
        """The environment as text, equal for equal environments; older files lack some keys."""
        own = _set("environment", self.spec["environment"], beside=("id", "spawn", "prey"))
        return json.dumps(own, sort_keys=True)

    @property
    def fidelities(self) -> set[str]:
        """The fidelity it was trained under, if the fidelities differ for this cell."""
        where, parts = self.spec["environment"], self.how
        found = {part["fidelity"] for part in parts.values() if part.get("strategy")}
        differs = where.get("prey") in ("attract", "repel")
        return found | ({where.get("fidelity", "released")} if differs else set())


def _set(part: str, given: dict[str, Any], beside: Collection[str] = ()) -> dict[str, Any]:
    """Return the keys of a part of a specification that differ from their defaults.

    Keys in `beside` are always kept.
    """
    kind = model_of(part, given).model_fields
    usual = {
        key: list(value) if isinstance(value, tuple) else value
        for key, field in kind.items()
        if (value := field.get_default(call_default_factory=True)) is not None
    }
    return {key: value for key, value in given.items() if key in beside or value != usual.get(key)}


def compare(given: Sequence[str], out: Path, fidelity: str = "described") -> list[Table | str]:
    """Write tables and figures of a comparison to `out`; return what to print.

    Args:
        given: results files, folders of them, or published arms (`PPO-HER` or `experiment/arm`);
            each may begin with `NAME=`.
        out: the folder to write to.
        fidelity: the fidelity of the published arms.

    Raises:
        SpecError: an argument is none of these, there are fewer than two arms, or the arms share
            no condition.
        FileError: a results file cannot be used.
    """
    arms = _named(list(chain.from_iterable(_found(text, fidelity) for text in given)))
    if len(arms) < 2:
        only = ", ".join(arms) or "none"
        raise SpecError(f"a comparison needs at least two arms, but was given {only}")
    places = {arm: _by_place(arm, results) for arm, results in arms.items()}
    common = [p for p in next(iter(places.values())) if all(p in own for own in places.values())]
    if not common:
        has = "; ".join(f"{arm}: {', '.join(_names(own).values())}" for arm, own in places.items())
        raise SpecError(f"the arms have no condition in common ({has})")
    plan = _plan({arm: {p: own[p] for p in common} for arm, own in places.items()})
    write_if_changed(out / "plan.json", as_json(plan))
    summarise(out / "plan.json", out)
    drawn = _draw(out, plan["entries"][0]["fidelity"])
    left = {arm: own.keys() - set(common) for arm, own in places.items()}
    return [
        *_in_short(out, plan),
        *(f"left out: {len(rest)} conditions of {arm}" for arm, rest in left.items() if rest),
        f"tables: {out}/*.csv; figures: {', '.join(str(path) for path in drawn)}",
    ]


def _found(text: str, fidelity: str) -> list[Result]:
    """Return the results that an argument names."""
    name, equals, what = text.partition("=")
    named: str | None = name if equals and not Path(text).exists() else None
    path = Path(what if named is not None else text)
    if path.is_dir():
        inner = path / "cells" if (path / "cells").is_dir() else path
        if not (files := sorted(inner.rglob("*.parquet"))):
            raise SpecError(f"{path}: this folder contains no results files (.parquet)")
        return [_read(file, named) for file in files]
    if path.suffix == ".parquet":
        return [_read(path, named)]
    if path.exists():
        raise SpecError(
            f"{path}: not a results file; `hindsight train` writes them to results/cells, with the "
            "ending .parquet"
        )
    arm, files = _shipped(str(path), fidelity, text)
    return [_read(file, named or arm) for file in files]


def _read(path: Path, name: str | None) -> Result:
    if ".." in path.parts:
        path = path.resolve()
    verify([path])
    return Result(path, load_cell(path).metadata["spec"], name)


def _shipped(what: str, fidelity: str, text: str) -> tuple[str, list[Path]]:
    """Return the name of a published arm and the files of its cells."""
    if not CONFIG.exists():
        raise SpecError(f"{text}: no such file or folder")
    experiments = Plan.of(Shipped(load(CONFIG)).config).experiments
    experiment, slash, arm = what.partition("/")
    if not slash:
        experiment, arm = MAIN, what
    places = [(entry, name) for entry, name in experiments.get(experiment, []) if entry.arm == arm]
    if not places:
        there = ", ".join(dict.fromkeys(entry.arm for entry, _ in experiments.get(MAIN, [])))
        raise SpecError(
            f"{text}: no such file, folder or published arm; choose from {there}, or "
            "experiment/arm as in config.yaml"
        )
    if places[0][0].level:
        raise SpecError(
            f"{text}: this experiment varies {', '.join(places[0][0].level)}; name its files"
        )
    under = {entry.fidelity for entry, _ in places}
    chosen = fidelity if fidelity in under else min(under)
    named = [PUBLISHED / "cells" / f"{name}.parquet" for e, name in places if e.fidelity == chosen]
    files = [path for path in named if path.exists()]
    if not files:
        raise SpecError(f"{text}: none of its cells is in {PUBLISHED}")
    return arm, files


def _named(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Group results into arms: by the user's name or, without one, by what learns."""
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
    """Return the keys in which arms of one name differ: `learning_rate=0.001`, `released`."""
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
    """Return an arm's results by environment; raise SpecError for two in one environment."""
    found: dict[str, Result] = {}
    for result in results:
        if (other := found.setdefault(result.place, result)).path != result.path:
            where = next(iter(_names({result.place: result}).values()))
            raise SpecError(
                f"two results of {arm} in {where}: {other.path} and {result.path}; pass only one "
                "of them, or name them: NAME=FILE"
            )
    return found


def _names(places: Iterable[str]) -> dict[str, str]:
    """Return the environments' names, followed by keys that are not at their defaults."""
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
    """Return the plan of an experiment with these arms, by name and environment."""
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
                "keys": {
                    key: value
                    for key, value in result.how["hindsight"].items()
                    if key in METHOD_KEYS
                },
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


def _draw(out: Path, fidelity: str) -> list[Path]:
    """Draw the figures that any experiment has; return their PNG files."""
    from hindsight.figures import draw_spec, of_any, style

    drawn = []
    for name, spec in of_any(SOURCE).items():
        if spec.fidelity == "released":
            figure = draw_spec(replace(spec, fidelity=fidelity), out)
            drawn.append(style.save(figure, out / name.removesuffix(f"_{SOURCE}"))[0])
    return drawn


def _in_short(out: Path, plan: dict[str, Any]) -> list[Table]:
    """Return short tables: every arm in every condition, and each compared with the first arm."""
    summary, tests = read_table(out / "summary.csv"), read_table(out / "tests.csv")
    # Only returns on the papers' environment have a common scale.
    by_return = bool(summary["time_to_learn_steps"].notna().any())
    arms = _table("Results", summary, [*ARM, RUNS, *(RETURNS if by_return else SUCCESS)])
    if tests.empty:  # no two arms have a step of their curves in common
        return [arms]
    measure = next(name for name in METRICS if name in set(tests["metric"]))
    pairs = _table(
        f"Compared with {plan['arms'][0]}: share of all pairs of runs in which the arm is better "
        f"by {METRICS[measure]}, and p over runs paired by seed, corrected for the number of "
        "conditions",
        tests[(tests["baseline"] == plan["arms"][0]) & (tests["metric"] == measure)],
        [*ARM, *PAIRS],
    )
    return [arms, pairs]


def _table(title: str, rows: pd.DataFrame, columns: list[Column]) -> Table:
    table = Table(title=title)
    for name, _ in columns:
        table.add_column(name, justify="left" if name in ("condition", "arm") else "right")
    for row in rows.to_dict("records"):
        table.add_row(*(show(row) for _, show in columns))
    return table
