"""The papers' claims as data, each with its rule, and all their verdicts."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hindsight.analysis import judges, judges_meher, other_systems
from hindsight.analysis.answers import answers
from hindsight.analysis.questions import ask
from hindsight.analysis.summarise import read_table
from hindsight.analysis.verdicts import Evidence, Verdict
from hindsight.files import write_whole

__all__ = ["CLAIMS", "Claim", "Verdict", "evaluate", "write_claims"]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper and the rule by which it is judged, fixed before its results were seen
    unless it says otherwise.
    """

    id: str
    paper: str
    sentence: str
    metric: str
    published: str
    rule: str


def _rule(reproduced: str, partly: str) -> str:
    return (
        f"Reproduced: {reproduced}. Partly: {partly}, or all of the former on incomplete evidence "
        "(arms, conditions, seeds or steps missing). Otherwise not reproduced."
    )


#: Where SAC had fewer steps than PPO.
_UNEQUAL = (
    " The conditions counted are those that every arm present was trained in. Where the arms' "
    "budgets differ, all of this must hold twice, at each arm's own budget and within what all "
    "arms had, and is then partly at most."
)
_TIME_RULE = (
    _rule(
        "PPO-HER reaches a scaled maximum median return of at least 0.5 and its time to learn is "
        "below that of every other arm that does, in more than half of all twelve conditions, "
        "against PPO, SAC and SAC-HER",
        "more conditions won than lost (ties and conditions where no arm learns count as neither)",
    )
    + _UNEQUAL
)
JUDGES = judges.JUDGES | judges_meher.JUDGES
_ALL = "over all twelve conditions and S = 0, 0.1, ..., 1"
_PAPER, _MEHER = "PPO-HER", "MEHER"
CLAIMS = {
    claim.id: claim
    for claim in (
        Claim(
            "P1", _PAPER,
            "PPO-HER has the highest maximum median return among PPO, PPO-HER, SAC and SAC-HER.",
            "maximum median return", "10 of 12 conditions",
            _rule(
                "PPO-HER alone is highest, by at least 0.02 (one episode of the last hundred), in "
                "at least ten of twelve conditions, against PPO, SAC and SAC-HER",
                "more conditions won than lost (ties count as neither)",
            ) + _UNEQUAL,
        ),
        Claim(
            "P2", _PAPER, "PPO-HER is the most sample-efficient.", "time to learn, steps",
            "most conditions", _TIME_RULE,
        ),
        Claim(
            "P3", _PAPER, "PPO-HER is the most clock-time-efficient.",
            "time to learn, minutes of training time", "most conditions", _TIME_RULE,
        ),
        Claim(
            "P4", _PAPER, "PPO-HER solves conditions that PPO alone does not solve.",
            "share of runs whose success rate reaches 0.95", "yes",
            _rule(
                "at least half of the PPO-HER runs and fewer than half of the PPO runs solve the "
                "task in at least one condition, Fisher's test with Holm's correction gives p < "
                "0.05 in one of these, and there are more of them than of the reverse",
                "at least one such condition",
            ),
        ),
        Claim(
            "P5", _PAPER, "PPO-HER is less sensitive to the learning rate than PPO.",
            "worst-case sensitivity over conditions, per cent", "76 % against 3200 %",
            _rule(
                "the worst-case sensitivity of PPO-HER is at most half of PPO's, and it is the "
                "less sensitive in more conditions than not (sign test p < 0.05, over the "
                "conditions that both arms learn at some rate)",
                "either of the two",
            ),
        ),
        Claim(
            "P6", _PAPER,
            "PPO-HER holds up better than PPO as r shrinks, as G grows and as n grows.",
            "scaled maximum median return: mean over the levels, and drop from the easiest to the "
            "hardest",
            "yes, each",
            _rule(
                "in each of the three sweeps PPO-HER's mean over the levels is higher and, over "
                "the conditions that both arms learn at the easiest level, its drop is smaller, "
                "with 95 % intervals over conditions that exclude 0 (with fewer than five such "
                "conditions the mean over the levels decides; with fewer than five conditions at "
                "all, seeds by their own best return take their place)",
                "so in at least one sweep, or the mean over the levels is higher in every sweep "
                "present",
            ),
        ),
        Claim(
            "P7", _PAPER, "On the Fetch tasks, PPO-HER learns FetchReach only.",
            "highest success rate, in training or at the end without random actions: median over "
            "seeds, best weight decay",
            "1 of 4",
            "Reproduced: all four tasks were trained, and PPO-HER learns FetchReach and none of "
            "the other three. Partly: PPO-HER learns FetchReach and at most one other, or all of "
            "the former on incomplete evidence (tasks, seeds, weight decays or steps missing). "
            "Otherwise not reproduced. An arm learns a task if at some weight decay the median "
            "over seeds of a run's success is at least 0.9: the highest rate of a hundred training "
            "episodes or that of its last evaluation, whichever is higher (a policy that reaches "
            "every goal may miss many of them while its actions are still random). That last "
            "evaluation was added to the rule after a first run on FetchReach; the verdict by the "
            "original rule, without it, is told, too.",
        ),
        Claim(
            "P8", _PAPER, "Stability falls as the policy improves and its entropy falls.",
            "PPO-HER runs that reach return 0: rank correlation of entropy and success, downward "
            "steps in the lower-entropy half less those in the higher, return lost after the best",
            "seen",
            _rule(
                "(a) the mean correlation is below 0 and (b) downward steps are larger in the "
                "lower-entropy half, both with 95 % intervals over conditions that exclude 0, and "
                "(c) runs lose on average at least 0.05 of return after their best",
                "(a) and one of (b), (c)",
            ),
        ),
        Claim(
            "M1", _MEHER, "The S-ratio that is best by M_c lies between 0.5 and 0.7.",
            "the S at which the mean over conditions of MEHER's M_c is highest", "0.5 - 0.7",
            _rule(
                f"{_ALL}, the best S lies in 0.5 to 0.7, its whole 95 % interval in 0.4 to 0.8, "
                "and the mean M_c is single-peaked (no step between neighbouring S falls before "
                "the best or rises after it by more than its standard error)",
                "the best S lies in 0.5 to 0.7",
            ),
        ),
        Claim(
            "M2", _MEHER, "MEHER at its best S-ratio beats PPO-HER.",
            "area under the curve of scaled returns, paired by seed", "yes",
            _rule(
                f"{_ALL}, MEHER less PPO-HER is above 0 with a 95 % interval over conditions "
                "(seeds, where there are fewer than five) that excludes 0, and MEHER is ahead in "
                "more conditions than it is behind; S is chosen by the mean M_c of the even seeds "
                "and compared on the odd ones, and the other way round, because the best of "
                "several S on the seeds that chose it looks better than it is",
                "the difference is above 0 and MEHER is ahead in more conditions than behind",
            ),
        ),
        Claim(
            "M3", _MEHER,
            "Successes carry more information than failures: the M_c bars lean right of 0.5.",
            "mean M_c at S above 0.5 less that at the mirrored S below", "yes",
            _rule(
                f"{_ALL}, the difference is above 0 with a 95 % interval that excludes 0, also "
                "above 0 without S = 0 (which has no successes to learn from) and 1, and more of "
                "the conditions that are learned at some S lean right than left",
                "the difference is above 0 and more of these conditions lean right than left",
            ),
        ),
        Claim(
            "M4", _MEHER,
            "Targeting failures near the final position does not help.",
            "area under the curve of scaled returns, targeted less untargeted at equal S, paired "
            "by seed, where either is learned and failures are made (S below 1)",
            "no gain",
            _rule(
                f"{_ALL}, the 90 % interval of the mean difference lies below 0.05 (0.1 in "
                "return: a non-superiority test at 5 %), its 95 % interval not wholly above 0",
                "the mean difference is below 0.05",
            ),
        ),
        Claim(
            "M5", _MEHER, "PPO-HER-2-PPO matches PPO-HER with less computation time.",
            "final return of the last evaluation and training time over the same steps, paired by "
            "seed, in the conditions in which a run switches",
            "45 - 56 % less",
            _rule(
                "of all twelve conditions, the 90 % interval of the difference in return lies "
                "within -0.1 and 0.1 (an equivalence test at 5 %), and at least 45 % of the "
                "training time is saved, with a 95 % interval above 0",
                "the difference in return is within -0.1 and 0.1 and time is saved",
            ),
        ),
    )
}  # fmt: skip


def evaluate(tables_dir: str | Path) -> list[Verdict]:
    """A verdict for every claim and every fidelity found under results/tables/<source>; both if
    none is found.
    """
    directory = Path(tables_dir)
    found: set[str] = set()
    for path in sorted(directory.glob("*/summary.csv")):
        found |= set(read_table(path)["fidelity"])
    fidelities = [name for name in ("released", "described") if name in found or not found]
    return [judge(Evidence(directory, f)) for judge in JUDGES.values() for f in fidelities]


def write_claims(tables_dir: str | Path) -> list[Verdict]:
    """Evaluate and write <tables_dir>/claims.json, one object per verdict with the claim's own
    words, and answers.json, one per answer to a question.
    """
    directory = Path(tables_dir)
    verdicts = evaluate(directory)
    rows = [asdict(CLAIMS[verdict.claim]) | asdict(verdict) for verdict in verdicts]
    _write_json(
        directory / "claims.json", [{k: x for k, x in r.items() if k != "id"} for r in rows]
    )
    said = [*answers(directory), *ask(other_systems.QUESTIONS, directory)]
    _write_json(directory / "answers.json", [asdict(answer) for answer in said])
    return verdicts


def _write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    text = json.dumps(_finite(rows), indent=1) + "\n"
    write_whole(path, lambda part: part.write_text(text))


def _finite(value: Any) -> Any:
    """The same with null for numbers that JSON has no word for."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
