"""What the loops, evaluation and export use of an algorithm's file, beside its specification."""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any, Protocol, Self, cast

import torch
from torch import Tensor

from hindsight.envs.rollout import Rollout, Trajectories
from hindsight.nn.adam import Adam
from hindsight.nn.mlp import MLP
from hindsight.replay.transitions import Batch
from hindsight.specs.base import AlgorithmSpec, EnvironmentSpec
from hindsight.specs.errors import SpecError

#: Columns of results that the training loops write: all of them, or on-policy, or off-policy.
OF_EVERY_ROW = {
    "phase", "seed", "iteration", "env_steps", "episodes", "return_mean", "success_rate",
    "episode_length", "wall_seconds", "cpu_seconds", "hindsight", "reward_rest",
}  # fmt: skip
OF_ON_POLICY = OF_EVERY_ROW | {
    "advantage", "goal_displacement", "goal_moved", "hindsight_log_ratio_max",
    "hindsight_log_ratio_mean", "log_std", "policy_entropy", "relabelled_advantage",
    "relabelled_share", "relabelled_z_squared", "s_ratio_after", "s_ratio_before", "z_squared",
}  # fmt: skip
OF_OFF_POLICY = OF_EVERY_ROW | {"episode_return", "episode_success", "updates"}


class Agent(Protocol):
    """The networks of a run, and their layout in its row of parameters."""

    @classmethod
    def of(cls, environment: EnvironmentSpec, algorithm: Any) -> Self:
        """The networks for a task, as the algorithm's specification describes them."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of a row's parts."""

    def initial_row(self, seed: int, *initialisation: float) -> Tensor:
        """Initial parameters of one run, [parameter]; see `AlgorithmSpec.initialisation`."""

    def acting(self, rows: Tensor) -> tuple[MLP, Tensor]:
        """The network that selects actions, and its parameters [run, parameter] within `rows`."""

    def actions(self, outputs: Tensor) -> Tensor:
        """Deterministic actions [..., action] from that network's outputs [..., output].

        Actions of continuous spaces count from -1 to 1; choices of discrete ones from 0, as
        integers [...], or [..., component] if an action has several.
        """


class OffPolicyAlgorithm(Protocol):
    """The file of an algorithm that learns from a replay buffer, such as `algorithms.td3`."""

    #: Standard normal numbers that an update needs per sample and action dimension.
    NOISES: int
    Agent: type[Agent]
    #: An `algorithms.learner.Learner`, made of agent, rows, learning rate and weight decay.
    TrainState: Callable[..., Any]
    #: A dataclass: what an update reports, [run], and `td_error` [run, sample].
    Diagnostics: type

    def act(self, state: Any, obs: Tensor, spec: Any, numbers: Tensor | None = None) -> Tensor:
        """Actions for obs [run, env, obs], exploratory with random `numbers` [run, env, ...]."""

    def update(self, state: Any, batch: Batch, noise: Tensor, spec: Any) -> Any:
        """One update of all runs, in place; returns its diagnostics."""


class OnPolicyAlgorithm(Protocol):
    """The file of an algorithm that learns from rollouts, such as `algorithms.ppo`."""

    Agent: type[Any]  # has the methods of `algorithms.ppo.Agent`
    Diagnostics: type  # has `updates`: gradient steps taken [run]

    def behaviour(
        self, agent: Any, rows: Tensor, spec: Any, generator: torch.Generator | None = None
    ) -> Callable[[Tensor], Tensor]:
        """The policy of rows, as a function of observations [run, env, obs]."""

    def collect(self, env: Any, agent: Any, rows: Tensor, noise: Tensor) -> Rollout:
        """One rollout; noise [step, run, env, output]."""

    def estimate(self, agent: Any, rows: Tensor, paths: Trajectories, spec: Any) -> Any:
        """The samples to learn from, with advantages and returns."""

    def orders(self, seeds: Sequence[int], iteration: int, valid: Tensor, n_epochs: int) -> Tensor:
        """Orders of the valid samples, [epoch, run, sample]."""

    def update(self, agent: Any, optimiser: Adam, samples: Any, order: Tensor, spec: Any) -> Any:
        """The epochs of one iteration, in place; returns diagnostics [run]."""


def off_policy(spec: AlgorithmSpec) -> OffPolicyAlgorithm:
    """Import an off-policy algorithm; SpecError if its file lacks a name."""
    return cast(OffPolicyAlgorithm, _checked(spec.module, OffPolicyAlgorithm, OF_OFF_POLICY))


def on_policy(spec: AlgorithmSpec) -> OnPolicyAlgorithm:
    """Import an on-policy algorithm; SpecError if its file lacks a name."""
    found = _checked(spec.module, OnPolicyAlgorithm, OF_ON_POLICY)
    if "updates" not in getattr(found.Diagnostics, "__dataclass_fields__", ()):
        raise SpecError(
            f"{spec.module}: Diagnostics must be a dataclass with `updates`, the number of "
            "gradient steps taken [run], which every results file has"
        )
    return cast(OnPolicyAlgorithm, found)


def columns_of(diagnostics: Any, *size: int, but: str = "") -> dict[str, Tensor]:
    """An update's diagnostics by name, each of this size: [run], or [run, update].

    `but` is left out.  Raises SpecError, naming it, for one that does not have a number for each.
    """
    names = (field.name for field in fields(diagnostics) if field.name != but)
    found = {name: torch.as_tensor(getattr(diagnostics, name)) for name in names}
    for name, values in found.items():
        if values.numel() != math.prod(size):
            raise SpecError(
                f"Diagnostics.{name}: has the shape {[*values.shape]}, but results have one number "
                "for each run, [run]"
            )
    return {name: values.view(size) for name, values in found.items()}


def _checked(module: str, kind: type, taken: set[str]) -> Any:
    found = import_module(module)
    names = {name for name in {**vars(kind), **kind.__annotations__} if not name.startswith("_")}
    if missing := sorted(name for name in names if not hasattr(found, name)):
        raise SpecError(
            f"{module} lacks {', '.join(missing)}, which algorithms.interface.{kind.__name__} "
            "describes"
        )
    if both := taken.intersection(getattr(found.Diagnostics, "__dataclass_fields__", ())):
        raise SpecError(
            f"{module}: Diagnostics.{min(both)} has the name of a column that every results file "
            "has already: choose another"
        )
    return found
