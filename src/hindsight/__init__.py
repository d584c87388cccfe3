"""Hindsight replay for reinforcement learning, and a replication of PPO-HER and MEHER.

    from hindsight import SAC

    model = SAC("FetchReach-v4", her="future", seeds=4).learn(20_000)

Floors, each importing only from those before it: streams, io -> specs -> nn -> envs -> relabel ->
replay -> algorithms -> training -> (files) -> analysis -> claims -> figures -> report.  The two
halves meet only in files: nothing from analysis on imports torch.  Above both: `library`, what
others import, `pipeline` and `cli`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hindsight import specs

if TYPE_CHECKING:
    from hindsight.envs.gymnasium.goal_wrapper import GoalEnvironment
    from hindsight.library.model import DDPG, DQN, PPO, SAC, TD3, Model

    load = Model.load

# Other people's environments are tried before anything is trained.
specs.trials = lambda: import_module("hindsight.envs.gymnasium.facts")

__version__ = "1.1.0"

__all__ = ["DDPG", "DQN", "PPO", "SAC", "TD3", "GoalEnvironment", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """What to import, when asked for: drawing a figure does not wait for torch."""
    if name == "GoalEnvironment":
        return import_module("hindsight.envs.gymnasium.goal_wrapper").GoalEnvironment
    if name == "load":
        return import_module("hindsight.library.model").Model.load
    if name.isupper() and name.lower() in import_module("hindsight.specs.algorithms").ALGORITHMS:
        return import_module("hindsight.library.model").model_of(name.lower())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
