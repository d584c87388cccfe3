"""The papers' claims as data, each with its rule stated beforehand, and all their verdicts."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from hindsight.analysis.judges import JUDGES
from hindsight.analysis.summarise import read_table
from hindsight.analysis.verdicts import Evidence, Verdict
from hindsight.files import write_whole

__all__ = ["CLAIMS", "Claim", "Verdict", "evaluate", "write_claims"]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper and the rule, fixed beforehand, by which it is judged."""

    id: str
    paper: str
    sentence: str
    metric: str
    published: str
    rule: str


def _rule(reproduced: str, partly: str) -> str:
    return (
        f"Reproduced: {reproduced}. Partly: {partly}, or all of the former on incomplete evidence "
        "(arms, conditions or seeds missing). Otherwise not reproduced."
    )


_TIME_RULE = _rule(
    "PPO-HER reaches a scaled maximum median return of at least 0.5 and its time to learn is "
    "below that of every other arm that does, in more than half of all twelve conditions, against "
    "PPO, SAC and SAC-HER",
    "more conditions won than lost (ties and conditions where no arm learns count as neither)",
)
_PAPER = "PPO-HER"
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
            ),
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
    """Evaluate and write <tables_dir>/claims.json: one object per verdict, with the claim's own
    words.
    """
    verdicts = evaluate(tables_dir)
    rows = [asdict(CLAIMS[verdict.claim]) | asdict(verdict) for verdict in verdicts]
    text = json.dumps([{k: _finite(x) for k, x in r.items() if k != "id"} for r in rows], indent=1)
    write_whole(Path(tables_dir) / "claims.json", lambda part: part.write_text(text + "\n"))
    return verdicts


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
