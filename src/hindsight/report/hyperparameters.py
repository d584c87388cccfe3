"""Every hyperparameter of an off-policy experiment, its value in each arm, and what it means.

Values are read from the cells' own metadata: what was trained, not what was asked for.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hindsight.report.present import NOTHING, Table, number
from hindsight.report.provenance import metadata_of

#: Experiments whose hyperparameters are listed.
LISTED = ("point_reach",)
#: Part of a specification -> key -> what it means.  A test holds this to the specifications.
MEANINGS = {
    "environment": {
        "id": "the task",
        "max_steps": "steps of an episode: then it is cut, whether or not the target is reached",
        "dt": "seconds that pass in a step",
        "range": "positions and targets lie within this distance of the centre, in each coordinate",
        "max_speed": "largest speed in each coordinate, per second",
        "threshold": "distance at which the target counts as reached",
        "action_scale": "acceleration by an action of 1, per second squared",
    },
    "algorithm": {
        "name": "the learning algorithm",
        "hidden": "widths of the hidden layers, of actor and critic alike",
        "gamma": "discount of the reward of each further step",
        "tau": "share of the way that the target networks move to the others at each update",
        "batch_size": "transitions of an update",
        "epsilon": "share of actions that are drawn uniformly, further noise left out",
        "normalize_observations": "whether networks see observations in units of their spread",
        "buffer_size": "transitions that the replay keeps; then the oldest give way",
        "learning_starts": "steps before the first update",
        "random_warm_up": "whether actions are uniform until then, or the policy's",
        "n_envs": "environments that a run steps at once",
        "train_freq": "steps of each environment between two rounds of updates",
        "gradient_steps": "updates of a round",
        "weight_decay": "this times the weights is added to the gradient (an L2 penalty)",
        "max_grad_norm": "longest gradient; longer ones are scaled down to it",
        "log_interval": "steps of each environment between two rows of the curves",
        "learning_rate": "step size of Adam, of actor and critic alike",
        "exploration_noise": "standard deviation of the Gaussian noise on actions in [-1, 1]",
    },
    "replay": {
        "strategy": "which achieved goals take the place of the desired one",
        "k": "a transition of a batch is relabelled with probability k / (k + 1)",
        "fidelity": "described: whether an episode ends is decided anew for the new goal; "
        "released: it is left as it was",
        "time_limit_terminates": "whether a cut episode counts as ended, so that no value follows",
        "prioritized": "whether transitions of larger error are sampled more often",
        "alpha": "how much more often: exponent of the priorities",
        "beta": "exponent of the importance weights at the beginning; it goes to 1",
        "until_success": "success rate at which relabelling stops",
    },
    "evaluation": {
        "points": "evaluations, equally spaced over the steps",
        "episodes": "episodes of an evaluation, without exploration noise",
    },
    "": {
        "seeds": "runs, each with random numbers of its own",
        "first_seed": "the seed of the first run; the others follow it",
        "steps": "environment steps of a run",
        "end_test": "an evaluation of its own that may end a run (SAC, as released)",
        "early_end": "a run ends at this times the steps to its first perfect hundred episodes",
    },
}


def table_of(plan: dict[str, Any]) -> Table | None:
    """The arms' hyperparameters side by side, those of the first cell of each that is there; None
    if there is none.

    An arm without hindsight has no strategy and k; what is not used is not shown as if it were.
    """
    specs: dict[str, dict[str, Any]] = {}
    for entry in plan["entries"]:
        path = Path(entry["cell"])
        if entry["arm"] not in specs and path.exists():
            specs[entry["arm"]] = metadata_of(path)["spec"]
    if not specs:
        return None
    arms = [arm for arm in plan["arms"] if arm in specs]
    rows = [
        [f"{part}.{key}" if part else key, *(_value(specs[arm], part, key) for arm in arms), text]
        for part, meanings in MEANINGS.items()
        for key, text in meanings.items()
    ]
    return Table("Hyperparameters", ["hyperparameter", *arms, "meaning"], rows)


def _value(spec: dict[str, Any], part: str, key: str) -> str:
    values = (spec.get(part) or {}) if part else spec
    if part == "replay":
        unused = {"strategy": ("k", "fidelity", "until_success"), "prioritized": ("alpha", "beta")}
        if any(key in keys and not values.get(needs) for needs, keys in unused.items()):
            return NOTHING
    value = values.get(key)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " × ".join(map(str, value))
    if isinstance(value, int):
        return number(value, 0)
    return f"{value:g}" if isinstance(value, float) else str(value)
