"""Agents and policies: from a specification to its networks, from parameters to actions."""

from collections.abc import Callable

import torch
from torch import Tensor

from hindsight.algorithms.interface import Agent, off_policy, on_policy
from hindsight.specs.cell import CellSpec

#: Observations [run, env, obs] to actions [run, env, ...].
Policy = Callable[[Tensor], Tensor]
#: The bound of an observation that is not bounded; infinite numbers would mean divergence.
UNBOUNDED = torch.finfo(torch.float32).max


def agent_of(spec: CellSpec) -> Agent:
    """Return a run's networks, and their layout in its row of parameters."""
    algorithm = spec.algorithm
    module = on_policy(algorithm) if algorithm.on_policy else off_policy(algorithm)
    return module.Agent.of(spec.environment, algorithm)


def n_bounds(spec: CellSpec) -> int:
    """Return how many of a run's last parameters bound what its networks see of observations.

    These are the lower bounds [obs], then the upper ones, if observations are standardised.
    """
    standardised = getattr(spec.algorithm, "normalize_observations", False)
    return 2 * spec.environment.observation_size * standardised


def n_parameters(spec: CellSpec) -> int:
    return sum(agent_of(spec).sizes) + n_bounds(spec)


def networks_in(spec: CellSpec, rows: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return the networks' part of `rows` [run, parameter], and what clips observations.

    A function of observations [run, n, obs], which the rows' bounds limit, if there are any.
    """
    if not (n := n_bounds(spec)):
        return rows, lambda obs: obs
    low, high = rows[:, None, -n:].chunk(2, dim=-1)
    return rows[:, :-n], lambda obs: torch.clamp(obs, low, high)


def acting_places(spec: CellSpec) -> Tensor:
    """Return the indices of the parameters that determine deterministic actions, int64 [n]."""
    places, n = torch.arange(n_parameters(spec)), n_bounds(spec)
    networks, bounds = places.tensor_split([len(places) - n])
    return torch.cat([agent_of(spec).acting(networks[None])[1][0], bounds])


def initial_row(spec: CellSpec, seed: int = 0) -> Tensor:
    """Return a run's initial parameters, [parameter]."""
    networks = agent_of(spec).initial_row(seed, *spec.algorithm.initialisation)
    above = torch.full((n_bounds(spec) // 2,), UNBOUNDED)
    return torch.cat([networks, -above, above])


def policy_of(spec: CellSpec, rows: Tensor, generator: torch.Generator | None = None) -> Policy:
    """Return the policy of `rows` [run, parameter].

    generator: samples actions as in training; None: deterministic actions, of SAC and PPO the mode.
        TD3 and DDPG are always deterministic, without the noise that their training loop adds.
    """
    agent, algorithm, where = agent_of(spec), spec.algorithm, spec.environment
    if algorithm.on_policy:
        return on_policy(algorithm).behaviour(agent, rows, algorithm, generator)
    module = off_policy(algorithm)
    networks, clipped = networks_in(spec, rows)
    state = module.TrainState(agent, networks, 0.0)
    if generator is None or not algorithm.stochastic:
        return lambda obs: module.act(state, clipped(obs), algorithm)

    def explore(obs: Tensor) -> Tensor:
        size = obs.shape[:-1]
        if where.n_choices is None:
            numbers = torch.randn(*size, where.action_size, generator=generator)
        else:
            numbers = torch.rand(*size, 2, generator=generator)
        return module.act(state, clipped(obs), algorithm, numbers)

    return explore
