"""Mistakes in figures.yaml and the claims are one sentence, before anything is trained."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hindsight.claims import data
from hindsight.claims.data import Paper
from hindsight.figures import specs
from hindsight.figures.specs import Document
from hindsight.figures.tables import value
from hindsight.report.definitions import FACETS, must_fit
from hindsight.specs.config import Config, load
from hindsight.specs.errors import SpecError, must_agree, validated
from hindsight.specs.reading import values_of
from tests.support.commands import in_copy
from tests.support.configuration import ROOT, copy_project

FIGURES = specs.TABLE
PPO_HER, MEHER = (Path(data.__file__).with_name(name) for name in ("ppo_her.yaml", "meher.yaml"))


@cache
def config() -> Config:
    return load(ROOT / "config.yaml")


def check(path: Path, text: str) -> None:
    """What importing the module and `must_fit` do, if a file has this text."""
    fit(path, values_of(text, str(path)))


def fit(path: Path, values: Any) -> None:
    if path == FIGURES:
        must_fit(config(), validated(Document, values, str(path)))
    else:
        must_fit(config(), papers={path: validated(Paper, values, str(path))})


def test_the_files_are_without_mistakes():
    for path in (FIGURES, PPO_HER, MEHER):
        check(path, path.read_text(encoding="utf-8"))


#: What may be any sentence; where any value is allowed, and any name.
SENTENCES = {
    "caption", "label", "metric", "name", "published", "says", "sentence", "source", "symbol",
    "title", "what",
}  # fmt: skip
VALUES, NAMED = {"arm", "rivals", "words"}, {"choices", "claims", "figures", "networks", "of_any"}


def apart(value: Any) -> Any:
    """A file's values, of which two are one object where one is the other's alias."""
    if isinstance(value, dict):
        return {key: apart(own) for key, own in value.items()}
    return [*map(apart, value)] if isinstance(value, list) else value


def places(value: Any, *at: Any) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """Every mapping and list of a file with each of its keys, and what leads there."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in [*keys]:
        yield value, key, (*at, key)
        yield from places(value[key], *at, key)


def mistaken(values: Any) -> Iterator[list[str]]:
    """What is wrong where it now stands, and where: once for each depth and name of a key."""
    seen = set()
    for parent, key, at in places(values):
        name = [part for part in at if isinstance(part, str)][-1]
        kind = parent.get("kind") if isinstance(parent, dict) else None
        if (place := (at[0], len(at), name, kind)) in seen or NAMED & {*at[-2:-1]}:
            continue
        seen.add(place)
        where = [part for part in at[:2] if isinstance(part, str) and part != "words"]
        old = parent[key]
        unread = (name, kind) == ("x", "intervals")  # merged from a figure of another kind
        counts = not unread and not VALUES & {*at[:-1]}
        if counts and name not in SENTENCES:
            parent[key] = "nonsense"
            yield ["nonsense", *where]
        if counts and not isinstance(old, int | float):
            parent[key] = 7
            yield ["7", *where]
        parent[key] = old
        if key == name:
            parent[f"{key}x"] = parent.pop(key)
            yield [f"{key}x", *where]
            parent[key] = parent.pop(f"{key}x")


@pytest.mark.parametrize("path", [FIGURES, PPO_HER, MEHER], ids=lambda path: path.stem)
def test_every_other_key_or_word_and_every_value_of_another_kind_is_refused(path):
    values = apart(values_of(path.read_text(encoding="utf-8"), str(path)))
    for words in mistaken(values):
        with pytest.raises(SpecError) as refused:
            fit(path, values)
        message = str(refused.value)
        assert message.startswith(f"{path}: ")
        assert all(word in message for word in words), (words, message)


FIG3 = "  ppo_her_fig3:\n    experiment: algorithms\n    kind: curves\n"
M_C = "column: m_c, table: m_c, bounds: [m_c_low, m_c_high]"
#: Of figures.yaml: what is replaced, by what, and what the sentence has to say.  Unknown keys are
#: those of the test above.
IN_FIGURES = [
    ("algorithm: ddpg, role: level", "algorithm: ddpg, role: levle", "role: 'levle' is unknown; c"),
    ("{algorithm: sac}", "{algorithm: scc}", "looks: SAC-HER: arm.algorithm: 'scc' is unknown"),
    ("her: episode}", "her: episod}", "looks: DQN + HER (episode): arm.her: 'episod' is unknown"),
    # what is missing, or of a wrong type
    ("    title: PPO-HER Fig. 3 · Return by training time\n", "", "fig3.title: is missing"),
    (FIG3, "  ppo_her_fig3:\n    kind: curves\n", "ppo_her_fig3.experiment: '' is unknown; choose"),
    ("shade: [0.5, 0.7]", "shade: [0.5]", "meher_fig3.shade"),
    ("limits: [-1, 1]", "limits: [.nan, 1]", "limits.0: nan is not allowed; input should be a fin"),
    ("limits: [-1, 1]", "limits: [1, -1]", "[1.0, -1.0] must be two numbers, the smaller one fir"),
    ("[0, [1, 1]]", "[0, [0, 0]]", "dashes.1.1.0: 0 is not allowed; input should be greater than"),
    ("measures: [success]\n", "measures: [success, success]\n", "'success' is given twice"),
    ("alone: [strategy, final]", "alone: [strategy, finl]", "figA1.alone: 'finl' is unknown; cho"),
    ("unit: 1000,", "unit: 0,", "measures.steps_to_learn.unit: 0 is not allowed; input should be"),
    (FIG3, FIG3 + "    fidelity: released\n", "ppo_her_fig3.fidelity: 'released' is not allowed"),
    ("lines: learning_rate\n", "lines: arm\n",
     "ppo_her_fig4: no line, row or column is for the levels of 'learning_rate'"),
    ("measures: [tests]\n    rows: []", "measures: [tests, return]\n    rows: []",
     "no line, row or column is for the measures"),
    # names in sentences
    ("{curves} Here the x-axis is training time, so", "{curvs} So", "caption: 'curvs' is unknown"),
    ("by environment steps · {title}", "· {titel}", "title: 'titel' is unknown; choose from title"),
    ("{0} of {runs} runs", "{0} of {run} runs", "learned.title: 'run' is unknown; choose from 0"),
    ("Fig. 3 · Return", "Fig. 3 } Return", "ppo_her_fig3.title: Single '}' encountered"),
    # what does not go together
    ("measures: [tests_at_end]\n    rows: [place]", "measures: [tests_at_end]\n    rows: []",
     "solved_share_algorithms: number of rows: 0 is unknown; choose from 1"),
    ("measures: [success]\n", "measures: [solved]\n", "a table for curves: 'runs' is unknown; cho"),
    ("alone: [strategy, final]", "alone: [strategy]", "figA1: length of alone: 1 is unknown; choo"),
    ("    measures: [tests]\n", "    measures: [tests]\n    x: minutes\n",
     "recipe_elsewhere.measures: a table for minutes: 'evaluations' is unknown; choose from seed"),
    ("rows: [place]\n    lines: line", "rows: [measure]\n    lines: line",
     "of_any.solved_share.rows: 'measure' is unknown; choose from arm"),
    (M_C, "column: m_c, table: m_c", "measures.m_c.table without bounds: 'm_c' is unknown"),
]  # fmt: skip
P1 = "    measure: {highest: {tie: 0.02, column: coarse_max_median_return}}\n"
#: The same of ppo_her.yaml.
IN_CLAIMS = [
    (P1, P1.replace("tie: 0.02, ", ""), "claims.P1.measure.highest: tie: is missing"),
    ("experiment: papers_network}", "experiment: sac_temperature}",
     "a role of its arms: 'baseline' is unknown; choose from level, subject"),
    (P1, P1.replace("0.02", '"0.02"'), "highest: tie: '0.02' is not allowed; input should be a v"),
    (P1, P1.replace("0.02", "-0.02"), "tie: -0.02 is not allowed; input should be greater than or"),
    ("{lean: {above: 0}}", "{lean: {above: .nan}}", "above: nan is not allowed; input should be a"),
    ("{lean: {above: 0}}", "{lean: {above: 0, below: -1}}", "its lower bound to be the smaller"),
    ("{race: {more_than: 6}}", "{race: {more_than: 12}}", "more_than: 12 is not allowed; input sh"),
    ("her: set}", "her: sett}", "first.rivals.her: 'sett' is unknown; choose from"),
    ("dated: 2026-11-25", "dated: 2999-11-25", "dated: 2999-11-25 is not yet"),
    ("{lean: {above: 0}}", "{lean: {}}", "the rule lean needs a bound, such as {lean: {above: 0}}"),
    (", seeds: 4}", "}", "tasks_learned: needs: {'steps': 200000, 'weight_decays': 4} is not"),
    ("role: baseline}", "role: baselin}", "first.rivals.role: 'baselin' is unknown; choose from"),
    ("highest alone in {alone}", "highest in {aloen}", "claims.P1.says: 'aloen' is unknown; choo"),
    ("is the highest, or ties", "is the highest}, or ties", "P1.says: Single '}' encountered"),
    ("highest alone in {alone}", "highest in {alone:.0%%}", "P1.says: Invalid format specifier"),
    ("ties for it, in {value}", "ties for it, in {value:.2f}", "P1.says: Unknown format code 'f'"),
    ("    figure: entropy\n", "    figure: entropy\n    paper: PPO-HER\n", "P8.paper: 'PPO-HER'"),
]  # fmt: skip
COLUMN = ("column: final_evaluation_return, ", "column: learn_step, ",
          "M5a.measure.difference: a column that every run has: 'learn_step'")  # fmt: skip
IN_WORDS = ("the best S is {m_c}", "the best S is {m_c:.1f}", "claims.M1.says: Unknown format code")
M1 = ("  M1:\n", "  P1:\n", "claims.P1, also in another file: its paper: 'PPO-HER' is unknown; ch")
MISTAKES = [
    (path, *mistake)
    for path, mistakes in (
        (FIGURES, IN_FIGURES),
        (PPO_HER, IN_CLAIMS),
        (MEHER, [M1, COLUMN, IN_WORDS]),
    )
    for mistake in mistakes
]


@pytest.mark.parametrize(
    ("path", "old", "new", "words"), MISTAKES, ids=[mistake[3][:50] for mistake in MISTAKES]
)
def test_a_mistake_is_one_sentence_with_its_file_and_place(path, old, new, words):
    text = path.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(SpecError) as refused:
        check(path, text.replace(old, new, 1))
    message = str(refused.value)
    assert message.startswith(f"{path}: ") and words in message
    assert "Spec" not in message


def test_facets_are_values_of_a_plans_entries():
    entry: dict[str, Any] = {
        "name": "PPO", "keys": {"gamma": 0.9}, "level": {"k": 4}, "condition": "random static",
        "spawn": "random", "prey": "static", "task": "predator-prey",
    }  # fmt: skip
    assert all(value(entry, facet) for facet in {*FACETS, "gamma", "k"})
    assert value(entry, "alpha") is None


def test_a_name_without_a_function_and_the_reverse_are_refused():
    must_agree("unit", ("count", "share"), {"share": 1, "count": 2})
    with pytest.raises(SpecError, match=r"^the unit 'share' has a name but no function$"):
        must_agree("unit", ("count", "share"), {"count": 2})
    with pytest.raises(SpecError, match=r"^the unit 'share' has a function but no name$"):
        must_agree("unit", ["count"], {"share": 1, "count": 2})


PRESET = ("--config", "preset=smoke")


@pytest.mark.parametrize(
    ("command", "file", "old", "new"),
    [
        (("hindsight", "plan", "-c", "preset=smoke"), FIGURES, "kind: curves", "kind: curvs"),
        (("hindsight", "replicate", "--", *PRESET), MEHER, "figure: meher_fig7", "figure: fig9"),
        (("snakemake", "--cores", "1", *PRESET), FIGURES, "kind: curves", "kind: curvs"),
    ],
    ids=["plan", "replicate", "snakemake"],
)
def test_the_workflow_refuses_it_before_anything_is_trained(tmp_path, command, file, old, new):
    copy_project(tmp_path)
    path = tmp_path / file.relative_to(ROOT)
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    done = in_copy(tmp_path, *command)
    assert done.returncode == 1 and "Traceback" not in done.stdout
    key, word = new.split(": ")
    sentence = rf"^(error: )?{re.escape(str(path))}: .*{key}: '{word}' is .*$"
    assert re.search(sentence, done.stdout, re.M), done.stdout
    assert not (tmp_path / "results/specs").exists()


HER, PPO = {"role": "subject", "her": "final"}, {"role": "baseline"}
TASKS = {"BitFlipping": {"id": "BitFlipping-v0"}}
RATES, WORDS = {"learning_rate": [0.003, 0.0003]}, {"strategy": ["final", "future"]}
BY_TASK = {"One": {"id": "BitFlipping-v0"}, "Two": {"id": "BitFlipping-v0", "n_bits": 3}}
#: An experiment's keys, a figure's, and what is said if the experiment cannot fill it.
NOT_SHOWN = [
    ({"tasks": TASKS}, {"kind": "intervals", "measures": ["steps_to_learn"], "rows": ["place"]},
     "measures: 'steps_to_learn' goes by a return of 0.8, which is of predator-prey only"),
    ({"tasks": TASKS}, {"kind": "learned", "arms": ["her"], "title": "{0}"},
     "'learned' goes by a ret"),
    ({"vary": RATES}, {"kind": "learned", "arms": ["her"], "title": "{0}"}, "none of the leve"),
    ({"arms": {"her": HER, "a": PPO, "b": PPO | {"keys": {"gamma": 0.5}}}},
     {"kind": "intervals", "measures": ["gain"], "rows": ["place"]}, "over one baseline, not 2"),
    ({"arms": {"her": HER}, "vary": WORDS},
     {"kind": "along", "x": "strategy", "measures": ["solved"]},
     "x: 'final' is no number; kind: intervals shows words"),
    ({"vary": RATES | {"gamma": [0.1, 0.9]}},
     {"kind": "along", "x": "learning_rate", "measures": ["tests_at_end"], "rows": []},
     "no line, row or column is for the levels of 'gamma'"),
    ({}, {"kind": "intervals", "measures": ["m_c"], "rows": ["place"]}, "an M_c is of one key"),
    ({"vary": RATES}, {"kind": "intervals", "measures": ["tests_at_end"], "rows": ["place"]},
     "no line, row or column is for the levels of 'learning_rate'"),
    ({"vary": RATES}, {"kind": "along", "x": "learning_rate", "measures": ["m_c"],
                       "mark_best": True, "rows": []}, "mark_best: no row or column is for the"),
    ({}, {"kind": "curves", "lines": "spawn"}, "no line, row or column is for the arms"),
    ({}, {"kind": "curves", "rows": [], "columns": "arm"}, "column is for each spawn"),
    ({"tasks": TASKS | {"More": {"id": "BitFlipping-v0", "n_bits": 3}}},
     {"kind": "curves", "measures": ["success"], "rows": [], "columns": "arm"}, "is for the tasks"),
    ({"vary": WORDS}, {"kind": "intervals", "measures": ["m_c"], "rows": ["strategy"]}, "in numb"),
    ({"vary": RATES, "tasks": TASKS}, {"kind": "along", "x": "learning_rate", "measures": ["m_c"]},
     "an M_c is of returns in predator-prey"),
    ({"arms": {"her": HER}}, {"kind": "intervals", "measures": ["goal_moves"], "rows": ["place"]},
     "no arm is a baseline"),
    ({}, {"kind": "curves", "roles": ["reference"]}, "roles: 'reference' is unknown; choose"),
    # these it can fill
    ({}, {"kind": "curves", "places": ["random static", "random repel"], "rows": [],
          "columns": "prey"}, ""),
    ({"tasks": BY_TASK, "arms": {"a": HER | {"tasks": ["One"]}, "b": HER | {"tasks": ["Two"]}}},
     {"kind": "curves", "measures": ["success"], "lines": "task", "columns": "task", "rows": []},
     ""),
    ({"tasks": BY_TASK, "arms": {"her": HER, "a": PPO | {"tasks": ["One"]},
                                 "b": PPO | {"tasks": ["Two"]}}},
     {"kind": "intervals", "measures": ["gain"], "rows": ["place"]}, ""),
]  # fmt: skip


HIGHEST = {"highest": {"tie": 0.02, "column": "coarse_max_median_return", "experiment": "mine"}}
GAIN = {"difference": {"column": "success_auc", "experiment": "mine"}}
#: An experiment's keys, what a claim measures of it, and what is said.
NOT_MEASURED = [
    ({"tasks": TASKS}, HIGHEST, "highest is of returns in predator-prey"),
    ({"vary": RATES}, HIGHEST, "levels of 'learning_rate' would count as seeds"),
    ({"arms": {"her": HER, "a": PPO, "b": PPO | {"keys": {"gamma": 0.5}}}}, GAIN,
     "each baseline would count as seeds of one arm"),
    ({}, {"difference": {"column": "seed", "experiment": "mine"}}, "that every run has: 'seed'"),
]  # fmt: skip


def config_with(keys):
    mine = {"title": "Mine", "figures": "mine", "arms": {"her": HER, "ppo": PPO}, **keys}
    return load(ROOT / "config.yaml", {"experiments": {"mine": mine}, "select": {"mine": {}}})


@pytest.mark.parametrize(("keys", "measure", "said"), NOT_MEASURED)
def test_a_claim_that_an_experiment_cannot_answer_is_refused(keys, measure, said):
    values = apart(values_of(MEHER.read_text(encoding="utf-8"), str(MEHER)))
    (rule,) = [claim["rule"] for name, claim in values["claims"].items() if name == "M5a"]
    values["claims"]["M5a"] |= {"measure": measure, "choices": {}, "networks": {}, "rule": rule}
    with pytest.raises(SpecError, match=re.escape(said)):
        must_fit(config_with(keys), papers={MEHER: validated(Paper, values)})


@pytest.mark.parametrize(("keys", "figure", "said"), NOT_SHOWN)
def test_only_a_figure_that_an_experiment_cannot_fill_is_refused(keys, figure, said):
    values = apart(values_of(FIGURES.read_text(encoding="utf-8"), str(FIGURES)))
    spec = {"experiment": "mine", "title": "{title}", "caption": "Mine.", "lines": "arm", **figure}
    values["figures"]["mine"] = spec
    with pytest.raises(SpecError, match=re.escape(said)) if said else nullcontext():
        must_fit(config_with(keys), validated(Document, values))
