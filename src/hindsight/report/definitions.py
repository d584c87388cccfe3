"""Check the names in figures.yaml and in the claims, before anything is trained."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from string import Formatter
from typing import Any, get_args

from pydantic import ConfigDict, create_model

from hindsight.analysis.arms import SET
from hindsight.analysis.cells import PAPERS_ENVIRONMENT
from hindsight.analysis.reduce import COLUMNS
from hindsight.claims.data import CLAIMS, DOCUMENTS, Paper
from hindsight.claims.measures import MEASURES, OF_TEXT, WORDS
from hindsight.claims.rules import RULES, text
from hindsight.figures.specs import DOCUMENT, TABLE, Document, FigureSpec, specs_of
from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.base import Spec
from hindsight.specs.cell import KEYS
from hindsight.specs.config import (
    PICTURE,
    Arm,
    Conditions,
    Config,
    Experiment,
    Role,
    condition_name,
)
from hindsight.specs.errors import SpecError, must_be_among, validated
from hindsight.specs.replay import GOAL_STRATEGIES

#: The tables that a kind of figure is drawn from, and curves over minutes.
TABLES = {
    "minutes": ("seed_curves",),
    "curves": ("seed_curves", "evaluations"),
    "along": ("evaluations", "runs", "m_c"),
    "intervals": ("evaluations", "runs", "m_c"),
}
#: What separates the plan's entries besides keys of their cells (`figures.tables.value`).
FACETS = {"arm", "level", "line", "place", "prey", "spawn", "task"}
#: What selects an arm, and the values of keys that are no option of a cell.
ARM_VALUES = {"role": get_args(Role), "algorithm": ALGORITHMS, "her": (SET, *GOAL_STRATEGIES)}
ARM_KEYS = {*ARM_VALUES, "early_end", "first_seed"}.union(*KEYS.values())
#: The fields of every verdict's sentence, of which two are text.
TEXTS, COUNTS = ("value", "wide"), ("n_conditions", "n_seeds", "ahead", "behind", "open")
#: Columns without a value for runs that never get there, those that go by the return, and of words.
NEVER = {"learn_step", "learn_minutes", "solve_step", "switch_step"}
LEARNED, OF_WORDS = {"learn_step", "learn_minutes"}, {"ended"}
#: Measures of claims that go by returns, which are from -1 to 1 in predator-prey only.
OF_RETURNS = {"highest", "first"}
#: A place in a file, the names there, and those that are allowed.
Names = tuple[str, Iterable[Any], Iterable[Any]]


class Arguments(Spec):
    """Keyword arguments of a function; text is no number."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


def must_fit(
    config: Config, document: Document = DOCUMENT, papers: Mapping[Path, Paper] = DOCUMENTS
) -> None:
    """Raise SpecError for the first mistake, with its file and place, and what is allowed."""
    of_file: dict[Path, Iterator[Names]] = {TABLE: _figures(config, document)}
    of_file |= {path: _claims(config, paper) for path, paper in papers.items()}
    for path, found in of_file.items():
        try:
            for where, names, allowed in found:
                for name in names:
                    must_be_among(allowed, name, f"{where}:")
        except ValueError as error:
            raise SpecError(f"{path}: {error}") from None


def _figures(config: Config, document: Document) -> Iterator[Names]:
    levels = [levels for e in config.experiments.values() for levels in e.vary.values()]
    yield "swept", document.swept, {level for own in levels for level in own}
    yield "keys", document.keys, ARM_KEYS
    yield "without", document.without, config.experiments
    for look in document.looks:
        yield f"looks: {look.name}: arm", look.arm, ARM_KEYS
        for key, allowed in ARM_VALUES.items():
            yield f"looks: {look.name}: arm.{key}", _given(look.arm, key), allowed
    for name, measure in document.measures.items():
        columns = [x for x in COLUMNS[measure.table] if x not in OF_WORDS]
        columns += ["early_success"] * (measure.table == "runs")
        yield f"measures.{name}.column", [measure.column, *(measure.bounds or ())], columns
        bounds, tables = ("with", {"m_c"}) if measure.bounds else ("without", {*COLUMNS} - {"m_c"})
        yield f"measures.{name}.table {bounds} bounds", [measure.table], tables
    for name, spec in document.of_any.items():
        yield from _figure(f"of_any.{name}", spec, FACETS, document)
    for name, spec in document.figures.items():
        where, pictured = f"figures.{name}", spec.kind == "episodes"
        there = [PICTURE] if pictured else config.experiments
        yield f"{where}.experiment", [spec.experiment], there
        if pictured:
            continue
        experiment = config.experiments[spec.experiment]
        of = experiment.conditions or Conditions()  # a configuration may train fewer
        papers = [condition_name(*place) for place in product(of.spawns, of.preys)]
        keys = {key for arm in experiment.arms.values() for key in arm.keys}
        yield from _figure(where, spec, FACETS | keys | experiment.vary.keys(), document)
        yield f"{where}.x", [spec.x] * (spec.kind == "along"), experiment.vary
        _must_have(where, spec, experiment, document)
        _must_be_apart(where, spec, experiment)
        yield f"{where}.roles", spec.roles, {arm.role for arm in experiment.arms.values()}
        values = experiment.vary | {"arm": (*experiment.arms,)}
        for key, value in [spec.alone] if spec.alone and spec.alone[0] in values else []:
            yield f"{where}.alone", [value], values[key]
        yield f"{where}.arms", spec.arms, experiment.arms
        yield f"{where}.places", spec.places, experiment.tasks or papers


def _must_have(where: str, spec: FigureSpec, experiment: Experiment, document: Document) -> None:
    """Raise ValueError if an experiment has not what a figure measures."""
    known = document.measures
    measures = {name: known[name] for name in spec.measures if name in known}
    others = _foreign(experiment)
    learned = [name for name, measure in measures.items() if measure.column in LEARNED]
    if others and (learned or spec.kind == "learned"):
        what = f"measures: {learned[0]!r}" if learned else "kind: 'learned'"
        raise ValueError(f"{where}.{what} goes by a return of 0.8, which is of predator-prey only")
    if spec.kind == "learned" and experiment.vary:
        raise ValueError(f"{where}.kind: 'learned' shows arms, and none of the levels that vary")
    roles = [arm.role for arm in experiment.arms.values()]
    baselines = [arm for arm in experiment.arms.values() if arm.role == "baseline"]
    gain = any(measure.over for measure in measures.values())
    if gain and (not baselines or _share_a_task(baselines)):
        n = len(baselines)
        raise ValueError(f"{where}.measures: a gain is over one baseline, not {n}")
    for role in {measure.role for measure in measures.values()} - {None, *roles}:
        raise ValueError(f"{where}.measures: no arm is a {role}")
    if any(measure.table == "m_c" for measure in measures.values()):
        levels = [x for varied in experiment.vary.values() for x in varied]
        numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in levels)
        if len(experiment.vary) != 1 or not numbers:
            raise ValueError(f"{where}.measures: an M_c is of one key that varies, in numbers")
        if others:
            raise ValueError(f"{where}.measures: an M_c is of returns in predator-prey")
    words = [x for x in experiment.vary.get(spec.x, ()) if isinstance(x, str)]
    if spec.kind == "along" and words:
        raise ValueError(f"{where}.x: {words[0]!r} is no number; kind: intervals shows words")


def _must_be_apart(where: str, spec: FigureSpec, experiment: Experiment) -> None:
    """Raise ValueError if a figure would pool or drop levels, arms, tasks or conditions."""
    if spec.kind not in TABLES:
        return
    missing = f"{where}: no line, row or column is for"
    apart = {*spec.rows, spec.columns, spec.lines, *spec.alone[:1]}
    by_measure = "measure" in apart or (spec.kind == "intervals" and spec.columns != "task")
    if len(spec.measures) > 1 and not by_measure:
        raise ValueError(f"{missing} the measures")
    apart |= {spec.x} if spec.kind == "along" else set()
    for key, varied in experiment.vary.items():
        if len(varied) > 1 and not apart & {key, "line", "level"}:
            raise ValueError(f"{missing} the levels of {key!r}")
    roles = spec.roles or get_args(Role)
    arms = experiment.arms
    names = spec.arms or [name for name, arm in arms.items() if arm.role in roles]
    alike: dict[str, list[Arm]] = {}
    for name in () if apart & {"arm", "line"} else names:  # keys may tell arms apart, too
        keys = str([arms[name].keys.get(key) for key in sorted(apart)])
        alike.setdefault(keys, []).append(arms[name])
    if any(_share_a_task(several) for several in alike.values()):
        raise ValueError(f"{missing} the arms")
    if spec.mark_best and len(names) > 1 and not {*spec.rows, spec.columns} & {"arm", "line"}:
        raise ValueError(f"{where}.mark_best: no row or column is for the arms")
    if spec.kind != "curves":  # the others show means over conditions
        return
    tasks = [task for task in experiment.tasks if task in (spec.places or [task])]
    if len(tasks) > 1 and not apart & {"task", "place", "prey"}:
        raise ValueError(f"{missing} the tasks")
    of = experiment.conditions or Conditions()
    pairs = [*product(of.spawns, of.preys)]
    if spec.places:
        pairs = [pair for pair in pairs if condition_name(*pair) in spec.places]
    for name, several in zip(("spawn", "prey"), zip(*pairs, strict=True), strict=False):
        if not experiment.tasks and len({*several}) > 1 and not apart & {name, "place"}:
            raise ValueError(f"{missing} each {name}")


def _share_a_task(arms: Sequence[Arm]) -> bool:
    for one, other in combinations(arms, 2):
        if not one.tasks or not other.tasks or {*one.tasks} & {*other.tasks}:
            return True
    return False


def _figure(where: str, spec: FigureSpec, facets: set[str], document: Document) -> Iterator[Names]:
    measured = facets | {"measure"}
    yield f"{where}.rows", spec.rows, facets if spec.kind == "intervals" else measured
    yield f"{where}.columns", [spec.columns], measured
    yield f"{where}.lines", [spec.lines], facets
    yield f"{where}.alone", spec.alone[:1], facets
    yield f"{where}: length of alone", [len(spec.alone)], [0, 2]
    yield f"{where}.caption", _fields(f"{where}.caption", spec.caption), document.words
    title = _fields(f"{where}.title", spec.title)
    if spec.kind == "learned":
        yield f"{where}.title", title, ["runs", *map(str, range(len(spec.arms)))]
        return
    if spec.kind == "intervals":
        yield f"{where}: number of rows", [len(spec.rows)], [1]
    if spec.kind == "curves":
        yield f"{where}.x", [spec.x], ["env_steps", "minutes"]
    yield f"{where}.title", title, ["title"]
    yield f"{where}.measures", spec.measures, document.measures
    tables = [document.measures[name].table for name in spec.measures]
    kind = "minutes" if spec.x == "minutes" else spec.kind
    yield f"{where}.measures: a table for {kind}", tables, TABLES[kind]


def _fields(where: str, sentence: str, texts: Iterable[str] = ()) -> Iterator[str]:
    """The names of a sentence's fields; raises ValueError for one that cannot be written.

    texts: the fields that are no numbers.
    """
    try:
        for _, name, form, _ in Formatter().parse(sentence):
            if name is not None:
                yield name
                format("" if name in texts else 0.0, form or "")
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _claims(config: Config, paper: Paper) -> Iterator[Names]:
    figures = [name for name, x in specs_of(config.experiments).items() if x.fidelity == "released"]
    tasks = {task for experiment in config.experiments.values() for task in experiment.tasks}
    for name, claim in paper.claims.items():
        where = f"claims.{name}"
        ((measure, usual),), ((rule, limits),) = claim.measure.items(), claim.rule.items()
        yield f"{where}, also in another file: its paper", [CLAIMS[name].paper], [paper.paper]
        yield f"{where}.figure", [claim.figure], figures
        yield f"{where}.measure", [measure], MEASURES
        yield f"{where}.rule", [rule], RULES
        _must_bind(RULES[rule].answer, limits, f"{where}.rule.{rule}")
        text(rule, limits)
        known = [*TEXTS, *COUNTS, *WORDS.get(measure, "").split()]
        texts = {*TEXTS, *OF_TEXT.get(measure, "").split()}
        yield f"{where}.says", _fields(f"{where}.says", claim.says, texts), known
        for network, changes in claim.networks.items():
            yield f"{where}.networks.{network}", ["experiment"], changes
        others = [*claim.choices.items(), *claim.networks.items()]
        for part, more in [("measure", {}), *others]:
            at, given = f"{where}.{part}.{measure}", usual | more
            _must_bind(MEASURES[measure], given, at)
            if "rivals" in given:
                yield f"{at}.rivals", given["rivals"], ARM_KEYS
                yield f"{at}.rivals: role", ["role"], given["rivals"]
                for key, allowed in ARM_VALUES.items():
                    yield f"{at}.rivals.{key}", _given(given["rivals"], key), allowed
            yield f"{at}: a task", [*_given(given, "only"), *given.get("others", ())], tasks
            if "experiment" in given:
                yield f"{at}.experiment", [given["experiment"]], config.experiments
                experiment = config.experiments[given["experiment"]]
                roles = {arm.role for arm in experiment.arms.values()}
                yield f"{at}.experiment: a role of its arms", get_args(Role)[:2], roles
                yield (
                    f"{at}.rivals: a role of its arms",
                    _given(given.get("rivals", {}), "role"),
                    roles,
                )
                vary = experiment.vary
                yield f"{at}.key", _given(given, "key"), vary
                _must_be_measurable(at, measure, given, experiment)
                if measure == "difference":
                    whole = {*COLUMNS["runs"]} - NEVER - OF_WORDS - {"seed"}
                    yield f"{at}: a column that every run has", _given(given, "column"), whole
                    yield f"{at}: a column", _given(given, "once"), COLUMNS["runs"]


def _must_be_measurable(
    where: str, measure: str, given: Mapping[str, Any], experiment: Experiment
) -> None:
    """Raise ValueError if runs of an experiment do not have what a claim measures, or not once."""
    for role in get_args(Role)[:2]:
        if _share_a_task([arm for arm in experiment.arms.values() if arm.role == role]):
            raise ValueError(f"{where}.experiment: each {role} would count as seeds of one arm")
    if measure in OF_RETURNS and _foreign(experiment):
        raise ValueError(f"{where}.experiment: {measure} is of returns in predator-prey")
    over = {given.get("key"), *(experiment.vary if measure == "difference" else ())}
    several = {key for key, levels in experiment.vary.items() if len(levels) > 1}
    for key in several - over:
        raise ValueError(f"{where}.experiment: levels of {key!r} would count as seeds")


def _foreign(experiment: Experiment) -> list[str]:
    return [task for task, of in experiment.tasks.items()
            if of.get("id", PAPERS_ENVIRONMENT) != PAPERS_ENVIRONMENT]  # fmt: skip


def _given(arguments: dict[str, Any], *keys: str) -> list[Any]:
    return [arguments[key] for key in keys if arguments.get(key) is not None]


def _must_bind(function: Callable[..., Any], arguments: dict[str, Any], where: str) -> None:
    """Raise SpecError if a function does not take these keyword arguments."""
    fields: dict[str, Any] = {
        one.name: (one.annotation, ... if one.default is one.empty else one.default)
        for one in inspect.signature(function).parameters.values()
        if one.kind is one.KEYWORD_ONLY
    }
    validated(create_model("Of", __base__=Arguments, **fields), arguments, where)
