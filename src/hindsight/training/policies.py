"""From a specification to its agent, and from a row of parameters to what it does."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hindsight.specs.base import AlgorithmSpec

if TYPE_CHECKING:
    from hindsight.specs.cell import CellSpec

#: Observations [run, env, obs] to actions [run, env, ...].
Policy = Callable[[Tensor], Tensor]


def module_of(algorithm: AlgorithmSpec) -> Any:
    """The file of an algorithm; those of a kind are alike in what they are called by."""
    return importlib.import_module(algorithm.module)


def agent_of(spec: "CellSpec") -> Any:
    """Where a run's networks lie in its row."""
    algorithm, where = spec.algorithm, spec.environment
    sizes = (where.observation_size, where.n_outputs, algorithm.hidden)
    if algorithm.on_policy:
        return module_of(algorithm).ActorCritic.of(*sizes, where.n_choices is not None)
    return module_of(algorithm).Agent.of(*sizes)


def n_parameters(spec: "CellSpec") -> int:
    """Length of a run's row, which need not be made for that."""
    return int(agent_of(spec).n_parameters)


def acting_places(spec: "CellSpec") -> Tensor:
    """Which parameters of a run's row decide what it does without randomness, int64 [n]."""
    agent = agent_of(spec)
    places: Tensor = agent.acting(torch.arange(agent.n_parameters)[None])[1][0]
    return places


def initial_row(spec: "CellSpec", seed: int = 0) -> Tensor:
    """A run's first parameters, [parameter]."""
    agent, algorithm = agent_of(spec), spec.algorithm
    row: Tensor = agent.initial_row(seed, *algorithm.initialisation)
    return row


def policy_of(spec: "CellSpec", rows: Tensor) -> Policy:
    """What `rows` [run, parameter] do, without randomness: SAC and PPO their mode."""
    agent, algorithm = agent_of(spec), spec.algorithm
    module = module_of(algorithm)
    if algorithm.on_policy:
        mode: Policy = module.mode(agent, rows, algorithm)
        return mode
    return partial(module.act, module.State(agent, rows, torch.zeros(len(rows))))


def random_policy_of(spec: "CellSpec", rows: Tensor, generator: torch.Generator) -> Policy:
    """What `rows` [run, parameter] do while they learn, drawn anew at each call.

    Of a deterministic policy: what it does without the noise that its loop adds.
    """
    agent, algorithm, where = agent_of(spec), spec.algorithm, spec.environment
    module = module_of(algorithm)
    if not algorithm.stochastic:
        return policy_of(spec, rows)
    if algorithm.on_policy:
        sampler: Policy = module.sampler(agent, rows, algorithm, generator)
        return sampler
    state = module.State(agent, rows, torch.zeros(len(rows)))

    def explore(obs: Tensor) -> Tensor:
        size = obs.shape[:-1]
        if where.n_choices is None:
            numbers = torch.randn(*size, where.action_size, generator=generator)
        else:
            numbers = torch.rand(*size, 2, generator=generator)
        actions: Tensor = module.explore(state, obs, numbers, algorithm)
        return actions

    return explore
