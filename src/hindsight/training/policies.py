"""Agents and policies: from a specification to its networks, from parameters to actions."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from hindsight.specs.cell import CellSpec

#: Observations [run, env, obs] to actions [run, env, ...].
Policy = Callable[[Tensor], Tensor]


def agent_of(spec: CellSpec) -> Any:
    """Return the layout of a run's networks in its row of parameters."""
    algorithm, where = spec.algorithm, spec.environment
    module = import_module(algorithm.module)  # modules of one kind share an interface
    sizes = (where.observation_size, where.n_outputs, algorithm.hidden)
    if algorithm.on_policy:
        return module.ActorCritic.of(*sizes, where.choices)
    return module.Agent.of(*sizes)


def n_parameters(spec: CellSpec) -> int:
    """Return the number of parameters of a run, without creating them."""
    return sum(agent_of(spec).sizes)


def acting_places(spec: CellSpec) -> Tensor:
    """Return the indices of the parameters that determine deterministic actions, int64 [n]."""
    agent = agent_of(spec)
    return agent.acting(torch.arange(n_parameters(spec))[None])[1][0]


def initial_row(spec: CellSpec, seed: int = 0) -> Tensor:
    """Return a run's initial parameters, [parameter]."""
    return agent_of(spec).initial_row(seed, *spec.algorithm.initialisation)


def policy_of(spec: CellSpec, rows: Tensor, generator: torch.Generator | None = None) -> Policy:
    """Return the policy of `rows` [run, parameter].

    generator: samples actions as in training; None: deterministic actions, of SAC and PPO the mode.
        TD3 and DDPG are always deterministic, without the noise that their training loop adds.
    """
    agent, algorithm, where = agent_of(spec), spec.algorithm, spec.environment
    module = import_module(algorithm.module)
    if algorithm.on_policy:
        return module.behaviour(agent, rows, algorithm, generator)
    state = module.State(agent, rows, 0.0)
    if generator is None or not algorithm.stochastic:
        return lambda obs: module.act(state, obs, algorithm)

    def explore(obs: Tensor) -> Tensor:
        size = obs.shape[:-1]
        if where.n_choices is None:
            numbers = torch.randn(*size, where.action_size, generator=generator)
        else:
            numbers = torch.rand(*size, 2, generator=generator)
        return module.act(state, obs, algorithm, numbers)

    return explore
