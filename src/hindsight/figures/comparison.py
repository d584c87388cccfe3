"""Results side by side, whoever made them: the figures of `hindsight compare`."""

from collections.abc import Callable

from matplotlib.figure import Figure

from hindsight.figures import beside, grids, success
from hindsight.figures.tables import Tables, arms_of, look_of


def curves(tables: Tables) -> Figure:
    """Return over steps in the papers' conditions, success in evaluation on other tasks."""
    plan = tables.plan
    if plan["entries"][0]["spawn"] is not None:
        return grids.experiment(tables)
    arms = arms_of(plan)
    places = list(dict.fromkeys(entry["condition"] for entry in plan["entries"]))
    keys = {("", place): {arm: (arm, "", place) for arm in arms} for place in places}
    looks = {arm: look_of(plan, arm) for arm in arms}
    title = f"Success by environment steps · {plan['title']}"
    course = success.evaluations(tables)
    return success.curves(plan, tables.fidelity, title, [""], places, keys, looks, course)[0]


#: By the names of their files.
FIGURES: dict[str, Callable[[Tables], Figure]] = {
    "curves": curves,
    "solved_share": beside.solved_share,
    "aggregate": beside.aggregate,
}
