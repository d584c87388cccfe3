"""Mistakes in figures.yaml and the claims are one sentence, before anything is trained."""

import re
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
from tests.support.commands import program
from tests.support.configuration import ROOT, copy_project, environment_of

FIGURES = specs.TABLE
PPO_HER, MEHER = (Path(data.__file__).with_name(name) for name in ("ppo_her.yaml", "meher.yaml"))


@cache
def config() -> Config:
    return load(ROOT / "config.yaml")


def check(path: Path, text: str) -> None:
    """What importing the module and `must_fit` do, if a file has this text."""
    values = values_of(text, str(path))
    if path == FIGURES:
        must_fit(config(), validated(Document, values, str(path)))
    else:
        must_fit(config(), papers={path: validated(Paper, values, str(path))})


def test_the_files_are_without_mistakes():
    for path in (FIGURES, PPO_HER, MEHER):
        check(path, path.read_text(encoding="utf-8"))


FIG3 = "  ppo_her_fig3:\n    experiment: algorithms\n    kind: curves\n"
M_C = "column: m_c, table: m_c, bounds: [m_c_low, m_c_high]"
#: Of figures.yaml: what is replaced, by what, and what the sentence has to say.
IN_FIGURES = [
    # keys, at every level
    ("\nwithout: ", "\nwithuot: ", "unknown key 'withuot'; did you mean 'without'?"),
    (FIG3, FIG3.replace("kind", "knid"), "figures.ppo_her_fig3: unknown key 'knid'; did you mean"),
    ("{column: return_mean", "{colunm: return_mean", "measures.return: unknown key 'colunm'"),
    ("n_dims: {label", "n_dims: {lable", "keys.n_dims.lable.[key]: 'lable' is not allowed; input"),
    ("name: GCSL, colour", "name: GCSL, color", "looks.5: unknown key 'color'; did you mean"),
    ("{algorithm: ppo, clone", "{algoritm: ppo, clone", "looks: GCSL: arm: 'algoritm' is unknown"),
    ("algorithm: ddpg, role: level", "algorithm: ddpg, role: levle", "role: 'levle' is unknown; c"),
    ("{algorithm: sac}", "{algorithm: scc}", "looks: SAC-HER: arm.algorithm: 'scc' is unknown"),
    ("her: episode}", "her: episod}", "looks: DQN + HER (episode): arm.her: 'episod' is unknown"),
    # what is missing, or of a wrong type
    ("    title: PPO-HER Fig. 3 · Return by training time\n", "", "fig3.title: is missing"),
    (FIG3, "  ppo_her_fig3:\n    kind: curves\n", "ppo_her_fig3.experiment: '' is unknown; choose"),
    ("measures: [success]\n", "measures: success\n", "fig5.measures: 'success' is not allowed; in"),
    ("shade: [0.5, 0.7]", "shade: [0.5]", "meher_fig3.shade"),
    ("limits: [-1, 1]", "limits: [-1, one]", "measures.return.limits.1: 'one' is not allowed"),
    ("unit: 1000,", "unit: 0,", "measures.steps_to_learn.unit: 0 is not allowed; input should be"),
    ('final: {colour: "#D55E00"', "final: {colour: red", "swept.final.colour: 'red' is not allow"),
    ("marker: X}", "marker: Y}", "looks.5.marker: 'Y' is not allowed; input should be 'o', 's'"),
    ("[0, [1, 1]]", "[0, dots]", "dashes.1.1: 'dots' is not allowed"),
    (FIG3, FIG3 + "    fidelity: released\n", "ppo_her_fig3.fidelity: 'released' is not allowed"),
    # names that are unknown
    (FIG3, FIG3.replace("curves", "curvs"), "kind: 'curvs' is not allowed; input should be 'curv"),
    (FIG3, FIG3.replace("algorithms", "algoritms"), "experiment: 'algoritms' is unknown; choose"),
    ("measures: [success]\n", "measures: [sucess]\n", "fig5.measures: 'sucess' is unknown; choose"),
    ("x: minutes", "x: minuts", "ppo_her_fig3.x: 'minuts' is unknown; choose from env_steps, min"),
    ("x: s_ratio", "x: sratio", "meher_fig3.x: 'sratio' is unknown; choose from s_ratio"),
    ("rows: [arm, spawn]", "rows: [arms, spawn]", "fig4.rows: 'arms' is unknown; choose from arm,"),
    ("columns: task", "columns: tsak", "ppo_her_fig5.columns: 'tsak' is unknown; choose from arm"),
    ("lines: n_dims", "lines: n_dim", "ppo_her_figA4.lines: 'n_dim' is unknown; choose from"),
    ("alone: [strategy, final]", "alone: [stratgy, final]", "alone: 'stratgy' is unknown; choose"),
    ("arms: [PPO-HER, failed,", "arms: [PPO-HR, failed,", "mechanism.arms: 'PPO-HR' is unknown"),
    ("places: [random repel", "places: [random repell", "places: 'random repell' is unknown; cho"),
    ("without: [fetch_rollout]", "without: [fetch_rolout]", "without: 'fetch_rolout' is unknown"),
    ("  final: {colour", "  finall: {colour", "swept: 'finall' is unknown; choose from"),
    ("  n_dims: {label", "  n_dim: {label", "keys: 'n_dim' is unknown; choose from"),
    ("column: return_mean", "column: mean_return", "column: 'mean_return' is unknown; choose from"),
    ("return_mean, table: seed_curves", "return_mean, table: curves", "table: 'curves' is not all"),
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
    (M_C, M_C.replace("m_c_low", "m_c_lo"), "measures.m_c.column: 'm_c_lo' is unknown; choose fro"),
]  # fmt: skip
P1 = "    measure: {highest: {tie: 0.02, column: coarse_max_median_return}}\n"
P4 = "    measure: {solves: {}}\n"
#: The same of ppo_her.yaml.
IN_CLAIMS = [
    ("\nclaims:", "\nclaim:", "unknown key 'claim'; did you mean 'claims'?"),
    (P1, P1.replace("measure", "mesure"), "claims.P1: unknown key 'mesure'; did you mean 'measur"),
    ("      - date: 2026-11-25\n        what: >-\n          Ties",
     "      - dated: 2026-11-25\n        what: >-\n          Ties",
     "claims.P1.changes.0: unknown key 'dated'; did you mean 'date'?"),
    (P1, P1.replace("tie", "tye"), "P1.measure.highest: unknown key 'tye'; did you mean 'tie'?"),
    ("at_least: 10,", "atleast: 10,", "P1.rule.level: unknown key 'atleast'; did you mean 'at_le"),
    ("{column: common_steps", "{colum: common_steps", "needs 10).highest: unknown key 'colum'"),
    ("her: set}", "hers: set}", "P2b.measure.first.rivals: 'hers' is unknown; choose from"),
    ("weight_decays: 4", "weight_decay: 4", "needs.weight_decay.[key]: 'weight_decay' is not all"),
    # what is missing, or of a wrong type
    ("    source: section 4, Fig. 2\n", "", "claims.P1.source: is missing"),
    (P1, P1.replace("tie: 0.02, ", ""), "claims.P1.measure.highest: tie: is missing"),
    (P1, P1.replace("0.02", '"0.02"'), "highest: tie: '0.02' is not allowed; input should be a v"),
    (P1, "    measure: highest\n", "P1.measure: 'highest' is not allowed; input should be a"),
    ("{lean: {above: 0}}", "{lean: {}}", "the rule lean needs a bound, such as {lean: {above: 0}}"),
    ("dated: 2026-11-25", "dated: 20261125", "P1.dated: 20261125 is not allowed; input should be"),
    (P4, P4 + "    published: 12\n", "key 'published' is given twice, in lines"),
    ("published: 10 of 12 conditions", "published: 10", "P1.published: 10 is not allowed; input"),
    ('published: "yes"', "published: yes", "yes in line"),
    (", seeds: 4}", "}", "tasks_learned: needs: {'steps': 200000, 'weight_decays': 4} is not"),
    # names that are unknown
    (P4, P4.replace("solves", "solved"), "claims.P4.measure: 'solved' is unknown; choose from aft"),
    ("rule: {level: {at_least: 10", "rule: {levl: {at_least: 10", "rule: 'levl' is unknown; choos"),
    ("unit: count", "unit: counts", "P1.unit: 'counts' is not allowed; input should be 'count',"),
    ("figure: ppo_her_fig2", "figure: copies_mime", "claims.P1.figure: 'copies_mime' is unknown; "),
    (P1, P1.replace("coarse_max", "coarse_min"), "column: 'coarse_min_median_return' is not allow"),
    ("role: baseline}", "role: baselin}", "first.rivals.role: 'baselin' is unknown; choose from"),
    ("highest alone in {alone}", "highest in {aloen}", "claims.P1.says: 'aloen' is unknown; choo"),
    ("is the highest, or ties", "is the highest}, or ties", "P1.says: Single '}' encountered"),
    ("highest alone in {alone}", "highest in {alone:.0%%}", "P1.says: Invalid format specifier"),
    ("ties for it, in {value}", "ties for it, in {value:.2f}", "P1.says: Unknown format code 'f'"),
    ("    figure: entropy\n", "    figure: entropy\n    paper: PPO-HER\n", "P8.paper: 'PPO-HER'"),
    ("experiment: agent_size", "experiment: agentsize", "experiment: 'agentsize' is unknown; choo"),
    ("key: interception_distance", "key: distance", "retained.key: 'distance' is unknown; choose"),
    ("only: FetchReach", "only: FetchReech", "a task: 'FetchReech' is unknown; choose from"),
    ("{released: partly", "{relased: partly", "before.relased.[key]: 'relased' is not allowed; in"),
]  # fmt: skip
#: The same of meher.yaml.
IN_MEHER = [
    ("column: final_evaluation_return", "column: final_return_evaluation",
     "M5a.measure.difference: a column: 'final_return_evaluation' is unknown; choose from end"),
    ("once: switch_step", "once: switch_steps", "a column: 'switch_steps' is unknown; choose from"),
    ("{experiment: stop_her", "{experiment: stopher", "experiment: 'stopher' is unknown; choose f"),
    ("  M1:\n", "  P1:\n", "claims.P1, also in another file: its paper: 'PPO-HER' is unknown; ch"),
    ("{whole:.0%}", "{hole:.0%}", "claims.M5b.says: 'hole' is unknown; choose from"),
]  # fmt: skip
MISTAKES = [
    (path, *mistake)
    for path, mistakes in ((FIGURES, IN_FIGURES), (PPO_HER, IN_CLAIMS), (MEHER, IN_MEHER))
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
    assert "\n" not in message and "Spec" not in message


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
    done = program(*command, cwd=tmp_path, env=environment_of(tmp_path))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    key, word = new.split(": ")
    sentence = rf"^(error: )?{re.escape(str(path))}: .*{key}: '{word}' is .*$"
    assert re.search(sentence, done.stderr, re.M), done.stderr
    assert not (tmp_path / "results/specs").exists()
