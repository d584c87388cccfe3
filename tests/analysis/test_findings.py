"""Every number of "Which should I use?", "Why it works", the recipe's test, switching off and
README's bullets, computed once more from the published cells and looked for in the text.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.published import (
    EPSILON,
    Cells,
    Run,
    Runs,
    learned,
    maximum,
    reached,
    savings,
)

ROOT = Path(__file__).parents[2]
RECIPE = "failed, weighted, switched off"
UNLEARNED = {"apart static", "apart repel", "apart straight_away"}  # by SAC-HER
HARDEST = ("random random", "random repel", "random straight_away", "random random_direction")
#: What the text has of digits that are no results: settings, seeds, references.
SETTINGS = (
    "2 × 64", "3 × 512", "-2-PPO", "layers of 64", "layers of 512", "seeds 100 to 107",
    "seeds, 16 to 31", "16 seeds", "8 seeds", "SAC-HER has 200 000", "500 000 steps",
    "and 500 000", "150 000", "return of 0.8", "return is 0.8", "at 50 %", "at least 95 %",
    "2019", "z²", "− 1", "is 1 on", "σ = 0.5", "until 95 %",
    "after 30 000 steps", "After 75 000 steps", "after 100 000 steps",
)  # fmt: skip
CLOCKS = ("env_steps", "cpu_seconds")


@pytest.fixture(scope="module")
def tested(cells):
    return cells("recipe").under("described")


@pytest.fixture(scope="module")
def algorithms(cells):
    return cells("algorithms").under("described")


def chapter(page: str, title: str) -> str:
    """Its text on one line, without its code."""
    (found,) = re.findall(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", page, re.M | re.S)
    return " ".join(re.sub(r"^```.*?^```", "", found, flags=re.M | re.S).split())


def all_there(text: str, facts: Iterable[str], settings: Iterable[str] = ()) -> None:
    """Each fact stands in the text, and no other number does but SETTINGS and `settings`."""
    for fact in sorted(facts, key=len, reverse=True):
        assert fact in text, fact
        text = text.replace(fact, " ", 1)
    text = re.sub(r"\]\([^)]*\)", "]", text)  # where links lead
    for known in (*settings, *SETTINGS):
        text = text.replace(known, " ")
    left = re.findall(r"[^.|]*\d[^.|]*", text)
    assert not left, left


def steps_of(runs: Runs, arm: str, conditions: str = "", clock: str = "env_steps") -> pd.Series:
    """Of an arm, by condition and seed; conditions: how their names begin."""
    return pd.Series({
        (condition, seed): learned(run, clock)[0]
        for (own, _, condition), by_seed in runs.items()
        for seed, run in by_seed.items()
        if own == arm and condition.startswith(conditions)
    })  # fmt: skip


def thousands(steps: float) -> str:
    return "never" if np.isinf(steps) else f"{int(steps / 1000 + 0.5)} 000"


def seconds(minutes: float) -> str:
    own = 60 * minutes
    return "never" if np.isinf(own) else f"{own:.1f}" if own < 10 else f"{own:.0f}"


def near(column: str, runs: dict[int, Run], step: int) -> float:
    """Median over runs of a column's mean over the five iterations up to a step."""
    rows = [run.train[run.train["env_steps"] <= step + 1024].tail(5) for run in runs.values()]
    return float(np.median([own[column].astype(float).mean() for own in rows]))


def last_by(runs: dict[int, Run], step: int) -> list[float]:
    """Success in each run's last tests up to a step."""
    return [
        float(run.tests.loc[run.tests["env_steps"] <= step + 1024, "success_rate"].iloc[-1])
        for run in runs.values()
    ]


def percent(share: float) -> str:
    return f"{int(round(100 * share, 3) + 0.5)}"


def row(runs: Runs, arm: str) -> list[str]:
    """Of a table: steps and seconds from random starts and from others, and who never learns."""
    cells = []
    for start in ("random", "apart"):
        steps, minutes = (steps_of(runs, arm, start, clock).median() for clock in CLOCKS)
        cells += [thousands(steps), seconds(minutes)]
    lost = np.isinf(steps_of(runs, arm))
    return [*cells, f"{lost.sum()} of {lost.size}"]


def test_which_should_i_use(findings, tested, algorithms, cells):
    arms = {
        "PPO": (tested, "PPO"),
        "PPO-HER": (tested, "PPO-HER"),
        "PPO-HER-2-PPO": (tested, "switched off"),
        "the recipe": (tested, RECIPE),
        "SAC-HER": (algorithms, "SAC-HER"),
    }
    facts = []
    for name, where in arms.items():
        shown = [name, *row(*where)]
        if name == "the recipe":
            shown = [f"**{cell}**" for cell in shown]
        facts.append(f"| {' | '.join(shown)} |")
    low, arm = cells("sac_temperature").under("described"), "SAC-HER, α₀ = 0.01"
    steps, minutes = (steps_of(low, arm, "apart", clock) for clock in CLOCKS)
    assert np.isfinite(steps).all() and steps.max() == 6000
    facts += [
        f"{arm} | – | – | {thousands(steps.median())} | {seconds(minutes.median())} | "
        f"0 of {steps.size} |",
        f"all {steps.size} runs learn there, after at most {thousands(steps.max())} steps",
        "With 0.01", "auto_0.01", "fewer than 10 000 steps", "papers' 1,", "vary, 0.01",
        "seeds 32 to 47",
    ]  # fmt: skip
    tests = [run.tests["success_rate"].iloc[-1] for runs in low.values() for run in runs.values()]
    assert sum(success < 0.95 - EPSILON for success in tests) == 1
    sac, recipe = (
        [steps_of(*arms[name], "random", clock).median() for clock in CLOCKS]
        for name in ("SAC-HER", "the recipe")
    )
    # Milliseconds a step.
    assert 60_000 * (sac[1] - recipe[1]) / (recipe[0] - sac[0]) == pytest.approx(1 / 4, abs=0.02)
    assert sac[0] / recipe[0] == pytest.approx(0.25, abs=0.02)
    fixed = np.isinf(steps_of(algorithms, "SAC-HER", "apart"))
    assert fixed.sum() == np.isinf(steps_of(algorithms, "SAC-HER")).sum()
    facts.append(f"all of its {fixed.sum()} failures are from a fixed start")
    by_prey = fixed.groupby(level=0).mean()
    assert set(by_prey.index[by_prey > 0.5]) == UNLEARNED
    race = [steps_of(*arms[name], clock="cpu_seconds").groupby(level=0).median()
            for name in ("the recipe", "SAC-HER")]  # fmt: skip
    assert (race[0] < race[1]).all() and len(race[0]) == 12
    shown = (own for runs, arm in arms.values() for (name, *_), own in runs.items() if name == arm)
    assert all("AMD" in run.timed_on[0] for own in shown for run in own.values())
    all_there(chapter(findings, "Which should I use?"), facts)


def test_why_it_works(findings, tested):
    runs = {arm: tested[arm, "", "random repel"] for arm, *_ in tested}
    hers = runs["PPO-HER"]
    end = 500_000
    resting = tested["PPO-HER", "", "random static"]
    for run in (*hers.values(), *resting.values(), *runs["weighted"].values()):
        share, advantage, z = (run.train[f"relabelled_{name}"] for name in (
            "share", "advantage", "z_squared"))  # fmt: skip
        run.train["push"] = share * advantage * z
        # `log_std` is that after the iteration's update, as in the published z.
        run.train["corrected"] = z + 2 * run.train["log_std"].diff()
        run.train["corrected_push"] = share * advantage * run.train["corrected"]
    share, advantage, z = (near(f"relabelled_{name}", hers, end) for name in (
        "share", "advantage", "z_squared"))  # fmt: skip
    low = min(range(20_480, end, 2048), key=lambda step: near("log_std", hers, step))
    few = [near("relabelled_share", runs["failed"], step) for step in (30_000, end)]
    assert near("log_std", resting, 100_000) < near("log_std", resting, 30_000)
    assert near("push", runs["weighted"], end) > near("push", hers, end)
    assert near("log_std", runs["weighted"], end) < near("log_std", hers, end)
    facts = [
        f"its return is still −{-near('return_mean', runs['PPO'], end):.2f}",
        f"mean advantage is +{near('relabelled_advantage', hers, 30_000):.2f}",
        f"mean action catches {percent(np.median(last_by(hers, 75_000)))} % of the prey",
        f"those of the copies {1 + z:.2f} at the end",
        f"{share:.1f} × {advantage:.2f} × {z:.2f} = {near('push', hers, end):.2f}",
        f"from {np.exp(near('log_std', hers, low)):.1f} after {low // 1000} 000 steps "
        f"to {np.exp(near('log_std', hers, end)):.1f}",
        f"the return stays at {near('return_mean', hers, end):.2f}",
        f"while the mean action catches {percent(np.median(last_by(hers, end)))} %",
        f"fades to {near('push', resting, 100_000):.3f}",
        f"falls from {few[0]:.2f} to {few[1]:.2f}",
        f"larger by {near('corrected', hers, end) - z:.3f}",
        f"rests fades to {near('corrected_push', resting, 100_000):.3f}",
        f"return reaches {near('return_mean', runs['failed'], end):.2f}",
        f"at {near('relabelled_z_squared', runs['failed'], end):.2f}. Second, the product",
        f"to {np.exp(near('log_std', runs['weighted'], 100_000)):.2f} after 100 000 steps",
        f"return ends at {near('return_mean', runs['weighted'], end):.2f}",
        f"a return of {near('return_mean', runs[RECIPE], 100_000):.2f} after 100 000 steps, "
        f"when PPO-HER's is {near('return_mean', hers, 100_000):.2f}",
    ]
    all_there(chapter(findings, "Why it works"), facts)


def test_what_else_would_do(findings, cells):
    runs = cells("alternatives").under("described")
    arms = {name: name for name in ("PPO-HER", "PPO, dense reward", "GCSL", "PPO-HER, σ = 0.5")}
    arms["the recipe"] = RECIPE
    facts = [f"| {' | '.join([name, *row(runs, arm)])} |" for name, arm in arms.items()]

    def last(arm: str, condition: str, rows: str = "tests", column: str = "success_rate") -> float:
        own = runs[arm, "", condition].values()
        return float(np.median([getattr(run, rows)[column].iloc[-1] for run in own]))

    fixed, flees = "PPO-HER, σ = 0.5", [f"{s} {p}" for s in ("random", "apart")
                                        for p in ("repel", "straight_away")]  # fmt: skip
    facts.append(f"{np.isinf(steps_of(runs, 'GCSL')).sum()} runs never learn")
    medians = steps_of(runs, "GCSL").groupby(level=0).median()
    falls = [c for c in medians.index if last("GCSL", c, "train", "log_std") < 0]
    assert (len(falls), np.isinf(medians).sum(), np.isinf(medians[falls]).sum()) == (9, 6, 4)
    for prey in ("static", "attract"):
        fast, slow = (steps_of(runs, arm, f"random {prey}").median() for arm in ("GCSL", "PPO-HER"))
        facts.append(f"{thousands(fast)} instead of {thousands(slow)}")
    for arm, words in (
        ("GCSL", "ends at {} to {} % in tests"),
        ("PPO-HER", "PPO-HER's at {} to {} %"),
    ):
        facts.append(words.format(*(percent(f(last(arm, c) for c in flees)) for f in (min, max))))
    stalled = ("random repel", "random random_direction")
    a, b = (last(fixed, c, "train", "return_mean") for c in stalled)
    facts.append(f"a return of {a:.2f} (`repel`) and −{-b:.2f} (`random_direction`)")
    for arm, words in ((fixed, "catches {} and {} %"), ("PPO-HER", "against {} and {} % if")):
        facts.append(words.format(*(percent(last(arm, c)) for c in stalled)))
    z = [near("relabelled_z_squared", runs[arm, "", stalled[0]], 500_000)
         for arm in (fixed, "PPO-HER")]  # fmt: skip
    assert z[0] > 2 * z[1]
    facts += [f"ends at {z[0]:.2f}", f"the {z[1]:.2f} that"]
    all_there(chapter(findings, "Instead of hindsight: what came out"), facts)


def test_how_the_recipe_was_chosen_and_tested(findings, cells, tested):
    chosen = cells("recipe_choice").under("described")
    medians = {arm: float(steps_of(chosen, arm).median()) for arm, *_ in chosen}
    assert min(medians, key=lambda arm: medians[arm]) == RECIPE

    def spelled(arm: str) -> str:
        return f"{medians[arm]:,.0f}".replace(",", " ")

    never = np.isinf(steps_of(chosen, "PPO-HER"))
    last = cells("recipe").last_tests()["described"]
    short = (last < 0.95 - EPSILON).groupby("arm").sum()
    assert np.isfinite(steps_of(tested, RECIPE)).all() and short[RECIPE] == 0
    facts = [
        f"return of 0.8 after {spelled(RECIPE)} steps",
        f"took {spelled('weighted, switched off')} and PPO-HER-2-PPO {spelled('switched off')}. "
        f"Of PPO-HER's {never.size} runs, {never.sum()} [never",
        f"every one of its {len(steps_of(tested, RECIPE))} runs learns",
        f"In {short['PPO-HER']} runs of PPO-HER and in {short['PPO']} of plain PPO",
    ]
    names = {"static": "at rest", "random": "moves at random", "attract": "comes nearer",
             "repel": "flees (repel)", "straight_away": "flees straight away",
             "random_direction": "keeps a random direction"}  # fmt: skip
    columns = ("PPO", "PPO-HER", "switched off", "weighted, switched off", RECIPE)
    table = pd.DataFrame({
        arm: steps_of(tested, arm).groupby(level=0).median() for arm in dict.fromkeys(
            arm for arm, *_ in tested)
    })  # fmt: skip
    for prey, name in names.items():
        own = [thousands(table.loc[f"random {prey}", arm]).removesuffix(" 000") for arm in columns]
        facts.append(f"| {name} | {' | '.join(own)} |")
    whole = steps_of(tested, "switched off")
    assert np.isfinite(whole).all()
    facts.append(f"learns in all of its {whole.size} runs")
    logs = cells("recipe").outcomes("described")["log"].droplevel(1)
    for chosen_from in (True, False):
        factors = []
        for arm in ("PPO-HER", "switched off"):
            gaps = (logs[arm] - logs[RECIPE]).groupby(level=0).mean()
            factors.append(2 ** gaps[gaps.index.isin(HARDEST) == chosen_from].mean())
        words = ("needs {:.2f} times the recipe's steps and PPO-HER-2-PPO {:.2f} times",
                 "there it is {:.2f} and {:.2f} times")  # fmt: skip
        facts.append(words[not chosen_from].format(*factors))
    all_there(chapter(findings, "What came out"), facts)
    hardest, best = table.loc[list(HARDEST)], table[RECIPE]
    assert all((hardest[RECIPE] < hardest[arm]).all() for arm in ("PPO-HER", "switched off"))
    assert (hardest["weighted, switched off"] < hardest[RECIPE]).sum() == 3
    assert (hardest["weighted, switched off"] <= hardest[RECIPE]).all()
    apart = table[table.index.str.startswith("apart")].drop(columns="PPO")
    assert (apart.max(axis=1) - apart.min(axis=1)).max() < 9000
    near_by = best["random attract"] - table.loc["random attract", "PPO-HER"]
    assert near_by == pytest.approx(2000, abs=500)


def test_the_recipe_on_other_tasks(findings, cells):
    runs = cells("recipe_elsewhere").under("described")
    arms = {"PPO": ["PPO"], "PPO-HER": ["PPO-HER", "PPO-HER (cut, inside)"],
            "the recipe": ["recipe", "recipe (inside)"], "SAC-HER": ["SAC-HER"]}  # fmt: skip
    tasks = {"FetchReach": "FetchReach", "PointReach": "point mass", "BitFlipping": "eight bits",
             "PointMaze": "maze"}  # fmt: skip
    facts = []
    for task, name in tasks.items():
        row_of = [name]
        for names in arms.values():
            own = next((runs[arm, "", task] for arm in names if (arm, "", task) in runs), {})
            first = [reached(run, 0.95) for run in own.values()]
            never = int(np.isinf(first).sum()) if own else 0
            middle = thousands(float(np.median(first))).removesuffix(" 000") if own else "–"
            some = f" ({never} of {len(first)} never)" if 0 < never < len(first) / 2 else ""
            row_of.append(middle + some)
        facts.append(f"| {' | '.join(row_of)} |")
    ends = cells("recipe_elsewhere").last_tests()["described"][:, "", "PointMaze"]
    ends, means = ends.groupby("arm").median(), ends.groupby("arm").mean()
    whole = ["PPO-HER (whole)", "recipe (whole)"]
    facts += [
        "in {} % of its last tests, PPO-HER's in {} %, the recipe's in {} %".format(
            *map(percent, ends[["PPO", "PPO-HER", "recipe"]])
        ),
        "PPO-HER's median run succeeds in {} %, the recipe's in {} %".format(
            *map(percent, ends[whole])
        ),
        "are {} and {} %, PPO's is {} %".format(*map(percent, means[[*whole, "PPO"]])),
    ]
    first = [
        [reached(run, 0.75) for run in runs[arm, "", "PointMaze"].values()]
        for arm in ("recipe (whole)", "PPO")
    ]
    assert all(np.isinf(steps).sum() == 1 and len(steps) == 4 for steps in first)
    steps = [thousands(float(np.median(steps))) for steps in first]
    facts.append("gets to 75 % after {} steps, PPO after {}".format(*steps))
    by_hand = ("takes 39 thousand steps, the recipe 57, SAC-HER 2", "v3", "4 seeds", "--seeds 4",
               "150000")  # fmt: skip
    all_there(chapter(findings, "On other tasks"), facts, by_hand)


def test_the_bullets_of_the_readme(tested, algorithms):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    hers = [tested["PPO-HER", "", f"random {prey}"] for prey in ("repel", "random_direction")]
    trained = [(1 + near("return_mean", own, 500_000)) / 2 for own in hers]
    tests = [percent(np.median(last_by(own, 500_000))) for own in hers]
    whole, arms = "switched off", ("switched off", RECIPE, "PPO-HER", "PPO")
    steps = {arm: steps_of(tested, arm) for arm in arms}
    learns = {arm: np.isfinite(own).sum() for arm, own in steps.items()}
    medians = {arm: own.groupby(level=0).median() for arm, own in steps.items()}
    saved = (1 - medians[RECIPE] / medians[whole])[list(HARDEST[1:])]
    assert learns[whole] == learns[RECIPE] == steps[RECIPE].size
    fixed = steps_of(algorithms, "SAC-HER", "apart")
    facts = [
        f"at the papers' 1, {np.isinf(fixed).sum()} of {fixed.size} runs from a fixed start",
        "at 0.01",
        f"at {percent(trained[0])} and {percent(trained[1])}% success",
        f"[{tests[0]} and {tests[1]}%]",
        f"[all {learns[whole]} runs learn](docs/findings.md#which-should-i-use); left on, "
        f"{learns['PPO-HER']}; plain PPO, {learns['PPO']}.",
        f"saves another {percent(saved.min())}–{percent(saved.max())}% of the steps",
    ]
    all_there(
        chapter(readme, "What was found"), facts, ("150,000 to 1,000,000 steps", "20 times as long")
    )
    medians = (steps_of(algorithms, arm).groupby(level=0).median() for arm in ("PPO", "PPO-HER"))
    alone, hindsight = (set(own.index[np.isfinite(own)]) for own in medians)
    assert alone < hindsight and (len(alone), len(hindsight)) == (5, 10)


def test_when_hindsight_should_be_switched_off(findings, cells):
    arms = ("PPO-HER", "PPO-HER-2-PPO")
    curves, facts, reached = cells("stop_her").curves(), list[str](), list[int]()
    shares = []  # of updates over the whole run, of updates and of time after the switch
    for fidelity in ("released", "described"):
        found = cells("stop_her").under(fidelity)
        saved: dict[str, list[tuple[float, ...]]] = {}
        for condition in dict.fromkeys(place[2] for place in found):
            always, stopped = (found[arm, "", condition] for arm in arms)
            assert all(solved(run) for run in stopped.values())
            saved[condition] = [savings(stopped[s], always[s]) for s in stopped.keys() & always]
            if any(solved(run) for run in always.values()):
                continue
            columns = [maximum(curves[fidelity, arm, "", condition]) for arm in arms]
            for own in (always, stopped):
                ends = [run.tests["success_rate"].iloc[-1] for run in own.values()]
                columns.append(float(np.median(ends)))
            spawn, prey = condition.split()
            assert spawn == "random"
            shown = "{:.2f} | **{:.2f}** | {:.2f} | **{:.2f}**".format(*columns)
            facts.append(f"| `{prey}` | {shown} |")
            median = curves[fidelity, arms[1], "", condition].median(axis=1)
            reached.append(median.index[median >= 0.95 - EPSILON][0])
        assert len(saved) == 12
        means = np.mean([np.mean(own, axis=0) for own in saved.values()], axis=0)
        shares.append([percent(float(share)) for share in means])
    (whole, updates, time), (whole_too, updates_too, time_too) = shares
    facts += [
        f"{whole} % as released, {whole_too} % as described",
        f"{updates} % and {updates_too} % of the updates are saved, and {time} % and {time_too} %",
        f"after {thousands(min(reached))} – {thousands(max(reached))} steps",
        "in 1 000 000 steps", "reaches 0.95", "45 – 56 %",
    ]  # fmt: skip
    assert len(facts) == 6 + 4
    text = chapter(findings, "When should hindsight be switched off?")
    all_there(text, [*facts, *by_level(cells)], ["network [6 %]"])  # see the chapter it links to


def by_level(cells: Callable[[str], Cells]) -> list[str]:
    """What the chapter says of other success rates at which hindsight is switched off."""
    rates: dict[tuple[str, str], float] = {}  # updates per step, by level and condition
    returns: dict[str, list[float]] = {}  # final returns by condition
    for (_, level, condition), own in cells("switch_off").under("described").items():
        trained = [run.train for run in own.values()]
        per_step = [train["updates"].sum() / train["env_steps"].max() for train in trained]
        rates[level, condition] = float(np.median(per_step))
        if level != "1.0":
            ends = [train["return_mean"].tail(5).mean() for train in trained]
            returns.setdefault(condition, []).append(float(np.median(ends)))
    assert len(returns) == 2 and all(np.ptp(ends) < 0.015 for ends in returns.values())
    levels = sorted({level for level, _ in rates} - {"1.0"})
    saved = {
        level: percent(np.mean([1 - rates[level, c] / rates["1.0", c] for c in returns]))
        for level in levels
    }
    tried = [percent(float(level)) for level in levels]
    return [
        f"{', '.join(map(str, tried[:-1]))} or {tried[-1]} % leads to the same final return",
        f"{saved[levels[0]]} % at {tried[0]} %, {saved[levels[-1]]} % at {tried[-1]} %",
    ]


def solved(run: Run) -> bool:
    """Whether 95 % of 100 episodes succeed at some time."""
    rows = run.train[["episodes", "success_rate"]].to_numpy(float)
    n, successes = rows[:, 0].cumsum(), (rows[:, 0] * rows[:, 1]).cumsum()
    for end, total in enumerate(n):
        start = np.searchsorted(n, total - 100, side="right") - 1
        before, had = (n[start], successes[start]) if start >= 0 else (0.0, 0.0)
        if total >= 100 and successes[end] - had >= 0.95 * (total - before) - EPSILON:
            return True
    return False


def test_does_the_small_network_matter(findings, cells):
    network, large = cells("network").under("described"), " (3 × 512)"
    steps = {arm: steps_of(network, arm) for arm, *_ in network}
    medians = {arm: own.groupby(level=0).median() for arm, own in steps.items()}
    solved = {arm: set(own.index[np.isfinite(own)]) for arm, own in medians.items()}
    assert (len(solved["PPO-HER" + large]), len(solved["PPO-HER"])) == (9, 10)
    assert solved["PPO"] == solved["PPO" + large] and len(solved["PPO"]) == 5
    assert solved["PPO"] < solved["PPO-HER" + large] and solved["PPO"] < solved["PPO-HER"]
    arms = ("PPO", "PPO-HER", "PPO-HER-2-PPO", "recipe")
    runs = {arm: np.isfinite(steps[arm + large]).sum() for arm in arms}
    assert runs["recipe"] == steps["recipe" + large].size == 12 * 8
    passed = cells("network").outcomes("described")["success"] >= 0.95 - EPSILON
    tests = passed.groupby(level=0).sum()
    done = {
        arm: percent(np.mean([run.train["updates"].mean()
                              for (own, *_), by_seed in network.items() if own == arm
                              for run in by_seed.values()]) / 100)
        for arm in ("PPO", "PPO-HER", "PPO" + large, "PPO-HER" + large)
    }  # fmt: skip
    stopped = cells("papers_network_stop_her").under("described")
    always = {place[2]: own for place, own in stopped.items() if place[0] == "PPO-HER" + large}
    later = [
        np.mean([savings(run, always[place[2]][seed])[1] for seed, run in own.items()
                 if run.about["switch_step"] is not None])
        for place, own in stopped.items() if place[0] == "PPO-HER-2-PPO" + large
    ]  # fmt: skip
    facts = [
        "each of its {recipe} runs; PPO-HER-2-PPO learns in {PPO-HER-2-PPO}".format(**runs),
        "PPO-HER in {PPO-HER}, PPO in {PPO}.".format(**runs),
        "{} of the recipe's runs succeed in 95 % of the episodes or more, {} of PPO-HER-2-PPO's, "
        "{} of PPO-HER's and {} of PPO's".format(
            *(tests[arm + large] for arm in ("recipe", "PPO-HER-2-PPO", "PPO-HER", "PPO"))
        ),
        "PPO-HER does {PPO-HER} of an iteration's 640 updates on average, and PPO {PPO} of 320."
        .format(**done),
        f"they do {done['PPO-HER' + large]} and {done['PPO' + large]}.",
        f"saves {percent(float(np.mean(later)))} % of the later updates, where it saves 49 %",
        "three of 512", "([M5b]", "0.005", "16 seeds",
        *saved_under_limits(cells),
        "8 seeds and 500 000 steps", "after 500 000 steps", "1 000 000 steps",
        "within 40 000 steps", "(4 in each",
    ]  # fmt: skip
    for prey in ("repel", "straight_away", "random_direction"):
        learned = [of_all(steps[arm + large][f"random {prey}"]) for arm in arms[1:]]
        facts.append(f"| {' | '.join(learned)} |")
    preys = ("static", "random", "attract", "repel", "straight_away", "random_direction")
    shown = {arm: f"{arm}, 2 × 64" for arm in arms[:2]}
    for arm, words in (shown | {arm + large: f"{arm}, 3 × 512" for arm in arms}).items():
        caught = [last_by(network[arm, "", f"random {prey}"], 500_000) for prey in preys]
        shares = " | ".join(f"{percent(np.mean(own))} %" for own in caught)
        facts.append(f"{words} | {shares} |")
    ratios = medians["PPO-HER" + large] / medians["PPO-HER"]
    ratios = ratios[np.isfinite(medians["PPO-HER"]) & np.isfinite(ratios)]
    facts.append(f"{ratios.min():.1f} to {ratios.max():.1f} times the steps")
    text = chapter(findings, "Does the small network matter?")
    all_there(text, [*facts, *runs_of_sac(cells, network)])


def saved_under_limits(cells: Callable[[str], Cells]) -> list[str]:
    """What switching off saves of later updates under other limits on the KL divergence."""
    runs, shown = cells("kl_limit").under("described"), list[str]()
    for limit in ("KL 0.005", "no limit"):
        for prey in ("static", "random"):
            always, stopped = (runs[f"{arm}, {limit}", "", f"random {prey}"]
                               for arm in ("PPO-HER", "PPO-HER-2-PPO"))  # fmt: skip
            assert len(stopped) == 16
            later = [savings(run, always[seed])[1] for seed, run in stopped.items()]
            shown.append(f"{100 * np.mean(later):.0f}".replace("-", "−"))
    return [f"saves {shown[0]} % where the prey rests and {shown[1]} % where it moves at random",
            f"without any limit {shown[2]} and {shown[3]} %"]  # fmt: skip


def of_all(steps: pd.Series) -> str:
    """How many runs learn, and the span of steps until then, as in a table."""
    known = steps[np.isfinite(steps)]
    span = f": {thousands(known.min())} to {thousands(known.max())}" if known.size else ""
    return f"{known.size} of {steps.size}{span}"


def runs_of_sac(cells: Callable[[str], Cells], network: Runs) -> list[str]:
    """What the chapter says of SAC-HER with either network."""
    arms, facts = ("SAC-HER", "SAC-HER (3 × 512)"), list[str]()
    every = (network, cells("network").under("released"))
    for spawn, words in (("random", "at random"), ("apart", "at fixed places")):
        learned_by = [np.isfinite(steps_of(runs, arm, spawn)) for runs in every for arm in arms]
        counts = " | ".join(f"{runs.sum()} of {runs.size}" for runs in learned_by)
        facts.append(f"| both start {words} | {counts} |")
    small, large = (steps_of(network, arm).groupby(level=0).median() for arm in arms)
    assert np.isinf(
        steps_of(network, arms[1])[["random straight_away", "apart straight_away"]]
    ).all()
    ratio = (large / small)[np.isfinite(small) & np.isfinite(large)].max()
    ppo = steps_of(network, "PPO-HER (3 × 512)").groupby(level=0).median()
    learned_by_sac = large[np.isfinite(large)]
    assert len(learned_by_sac) == 6 and (learned_by_sac < ppo[learned_by_sac.index]).all()
    return [*facts, f"up to {ratio:.1f} times as many steps"]


def test_the_recipe_can_be_typed(findings):
    (block,) = re.findall(r"^```python\n(.*?)^```", findings, re.M | re.S)
    assert len(block.splitlines()) <= 12
    names: dict[str, Any] = {}
    exec(compile(block.replace("200_000", "4_096"), "docs/findings.md", "exec"), names)
    assert names["model"].curves()["hindsight_log_ratio_mean"].notna().any()
