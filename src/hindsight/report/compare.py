"""`hindsight compare`: compare results with the tables and figures of the replication.

The results, from files, folders or the published cells, become the plan of a new experiment, which
is then summarised and drawn like any other.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from hindsight.analysis.cells import PAPERS_ENVIRONMENT, load_cell
from hindsight.analysis.summarise import read_table, summarise
from hindsight.figures.names import CONDITIONS
from hindsight.io.files import as_json, write_if_changed
from hindsight.report import present
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


#: The environment's name and, where fidelities make a difference to it, its fidelity.
Place = tuple[str, str]


@dataclass(frozen=True)
class Result:
    """A results file with its cell's specification; `name` is the user's."""

    path: Path
    spec: dict[str, Any]
    name: str | None

    @property
    def how(self) -> dict[str, Any]:
        """The keys of algorithm, hindsight and replay that differ from their defaults."""
        return {
            f"{part}.{key}": value
            for part in ("algorithm", "hindsight", "replay")
            for key, value in _set(part, self.spec.get(part) or {}, ("strategy", "fidelity"))
            if key not in OF_CURVES
        }

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""
        return str(self.spec["algorithm"].get("name", "ppo"))

    @property
    def her(self) -> str | None:
        """The strategy of hindsight."""
        found: str | None = self.how.get("hindsight.strategy", self.how.get("replay.strategy"))
        return found

    @property
    def method(self) -> str:
        """The name of what learns: `PPO`, `PPO-HER`."""
        return self.algorithm.upper() + "-HER" * (self.her is not None)

    @property
    def place(self) -> Place:
        """The environment, with its keys that differ from their defaults."""
        where = dict(_set("environment", self.spec["environment"], ("id", "spawn", "prey")))
        name, fidelity = where.pop("id").removesuffix("-v0"), where.pop("fidelity", "released")
        pair = where.pop("spawn", None), where.pop("prey", None)
        words = [" ".join(pair) if all(pair) else name, *(f"{k}={v}" for k, v in where.items())]
        return ", ".join(words), fidelity

    @property
    def fidelities(self) -> set[str]:
        """The fidelity it was trained under, if the fidelities differ for this cell."""
        parts = [self.how[f"{part}.fidelity"] for part in ("hindsight", "replay")
                 if f"{part}.strategy" in self.how]  # fmt: skip
        differs = self.spec["environment"].get("prey") in ("attract", "repel")
        return {*parts, *([self.place[1]] if differs else [])}


def _set(part: str, given: dict[str, Any], beside: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a part of a specification that differ from their defaults, and those in
    `beside`; older files lack some keys.
    """
    usual = {
        key: list(value) if isinstance(value, tuple) else value
        for key, field in model_of(part, given).model_fields.items()
        if (value := field.get_default(call_default_factory=True)) is not None
    }
    for key, value in given.items():
        if key in beside or value != usual.get(key):
            yield key, value


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
    arms = _arms([result for text in given for result in _found(text, fidelity)])
    if len(arms) < 2:
        only = ", ".join(arms) or "none"
        raise SpecError(f"a comparison needs at least two arms, but was given {only}")
    common = [p for p in next(iter(arms.values())) if all(p in own for own in arms.values())]
    if not common:
        has = "; ".join(f"{arm}: {', '.join(_names(own).values())}" for arm, own in arms.items())
        raise SpecError(f"the arms have no condition in common ({has})")
    plan = _plan({arm: {p: own[p] for p in common} for arm, own in arms.items()})
    write_if_changed(out / "plan.json", as_json(plan))
    summarise(out / "plan.json", out)
    drawn = _draw(out, plan["entries"][0]["fidelity"])
    left = {arm: own.keys() - set(common) for arm, own in arms.items()}
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


def _arms(results: Sequence[Result]) -> dict[str, dict[Place, Result]]:
    """Group results into arms, by the user's name or else by what learns; then by environment."""
    arms: dict[str, dict[Place, Result]] = {}
    unnamed = [result for result in results if result.name is None]
    for result in results:
        name = result.name or _label(result, unnamed)
        if result.name is None and any(other.name == name for other in results):
            name += " (own)"
        own = arms.setdefault(name, {})
        if (other := own.setdefault(result.place, result)).path != result.path:
            raise SpecError(
                f"two results of {name} in {result.place[0]}: {other.path} and {result.path}; pass "
                "only one of them, or name them: NAME=FILE"
            )
    return arms


def _label(result: Result, others: Iterable[Result]) -> str:
    """Return a result's method, and the keys in which results of that method differ:
    `PPO-HER described, learning_rate=0.001`.
    """
    alike = [other.how for other in others if other.method == result.method]
    words = [
        str(result.how[key]) if key.endswith(".fidelity") else f"{key.split('.')[1]}={value}"
        for key in dict.fromkeys(key for how in alike for key in how)
        if len({json.dumps(how.get(key)) for how in alike}) > 1
        and (value := result.how.get(key)) is not None
    ]
    return f"{result.method} {', '.join(words)}".strip()


def _names(places: Iterable[Place]) -> dict[Place, str]:
    """Return the environments' names, with the fidelity where only that differs."""
    count = Counter(name for name, _ in places)
    return {place: place[0] if count[place[0]] == 1 else ", ".join(place) for place in places}


def _plan(arms: dict[str, dict[Place, Result]]) -> dict[str, Any]:
    """Return the plan of an experiment with these arms, by name and environment."""
    everything = [result for own in arms.values() for result in own.values()]
    under = set().union(*(result.fidelities for result in everything))
    fidelity = BOTH if len(under) > 1 else next(iter(under), EITHER)
    names = _names(next(iter(arms.values())))
    of_papers = set(names.values()) <= CONDITIONS.keys() and all(
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
                "algorithm": result.algorithm,
                "her": result.her,
                "keys": {
                    key: result.how[f"hindsight.{key}"]
                    for key in METHOD_KEYS
                    if f"hindsight.{key}" in result.how
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


def _in_short(out: Path, plan: dict[str, Any]) -> Iterator[Table]:
    """Yield tables as on the page: every arm in every condition, and the tests of the first arm."""
    first, of_tasks = plan["arms"][0], plan["entries"][0]["spawn"] is None
    summary, tests = read_table(out / "summary.csv"), read_table(out / "tests.csv")
    for title, file, rows in (
        ("Results", "summary.csv", summary),
        (f"Compared with {first}", "tests.csv", tests[tests["baseline"] == first]),
    ):
        columns = present.columns_of(file, {}, of_tasks=of_tasks)
        found = present.table(title, rows, columns, plan["arms"])
        table = Table(title=title, box=SIMPLE, pad_edge=False)
        for name in found.header:
            table.add_column(name, overflow="fold")
        for row in found.rows:
            table.add_row(*row)
        yield table
