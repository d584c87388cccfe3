"""From a specification to its agent, and from a row of parameters to what it does."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from hindsight.algorithms import ddpg, dqn, ppo, sac, td3
from hindsight.specs.cell import CellSpec, EnvironmentSpec, PPOSpec, PredatorPreySpec
from hindsight.specs.tasks import BitFlippingSpec

#: Observations [run, env, obs] to actions [run, env, ...].
Policy = Callable[[Tensor], Tensor]
#: The off-policy algorithms, alike in what they are called by.
MODULES: dict[str, ModuleType] = {"sac": sac, "td3": td3, "ddpg": ddpg, "dqn": dqn}


def n_outputs(environment: EnvironmentSpec) -> int:
    """Numbers of an action, or choices where actions are discrete."""
    if isinstance(environment, PredatorPreySpec):
        return environment.n_dims
    return environment.n_bits if isinstance(environment, BitFlippingSpec) else 2


def is_discrete(environment: EnvironmentSpec) -> bool:
    """Whether an action is a choice."""
    return isinstance(environment, BitFlippingSpec) and not environment.continuous


def agent_of(spec: CellSpec) -> Any:
    """Where a run's networks lie in its row."""
    algorithm, where = spec.algorithm, spec.environment
    sizes = (where.observation_size, n_outputs(where), algorithm.hidden)
    if isinstance(algorithm, PPOSpec):
        return ppo.ActorCritic.of(*sizes, is_discrete(where))
    return MODULES[algorithm.name].Agent.of(*sizes)


def initial_row(spec: CellSpec, seed: int = 0) -> Tensor:
    """A run's first parameters, [parameter]."""
    agent, algorithm = agent_of(spec), spec.algorithm
    if isinstance(algorithm, PPOSpec):
        row: Tensor = agent.initial_row(seed, algorithm.sigma_init)
        return row
    row = agent.initial_row(seed)
    return row


def policy_of(spec: CellSpec, rows: Tensor) -> Policy:
    """What `rows` [run, parameter] do, without randomness: SAC and PPO their mode."""
    agent, algorithm = agent_of(spec), spec.algorithm
    if isinstance(algorithm, PPOSpec):
        outputs_of = agent.policy.frozen(agent.split(rows)[0])
        if agent.discrete:
            return lambda obs: outputs_of(obs).argmax(-1)
        return lambda obs: ppo.executed(outputs_of(obs), algorithm.exploration)
    module = MODULES[algorithm.name]
    state = module.State(agent, rows, torch.zeros(len(rows)))
    return partial(module.act, state)
