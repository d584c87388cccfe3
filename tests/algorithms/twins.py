"""Stable-Baselines3's side of a parity test of off-policy algorithms, and what each must keep.

A twin is a model of Stable-Baselines3 with the parameters of one of our runs.  It does its own
update, on the batch and with the noise that it is given.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import gymnasium
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBufferSamples
from stable_baselines3.common.logger import configure
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch import Tensor, nn

from hindsight.replay.transitions import Batch
from tests.support.agents import agent as agent_for

N_OBS, N_ACTIONS, HIDDEN, SAMPLES = 7, 3, (32, 24), 64


class Wrapper(gymnasium.Env):
    """Spaces, and nothing that is ever stepped: what Stable-Baselines3 wants to see."""

    def __init__(self, discrete: bool) -> None:
        self.observation_space = gymnasium.spaces.Box(-10, 10, (N_OBS,))
        self.action_space = gymnasium.spaces.Box(-1, 1, (N_ACTIONS,))
        if discrete:
            self.action_space = gymnasium.spaces.Discrete(N_ACTIONS)


def starting_rows(agent: Any, *seeds: int) -> Tensor:
    """Parameters [run, parameter] away from the initial ones: targets differ from the learned."""
    rows = torch.stack([agent.initial_row(seed) for seed in seeds])
    return rows + 0.05 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))


def batches(n: int, runs: int = 1, discrete: bool = False) -> list[Batch]:
    """Batches of random transitions, a fifth of them terminated, with actions or choices.

    Rewards grow from batch to batch, and gradients with them: Adam does not see a clipping that
    scales all of them alike.
    """
    generator = torch.Generator().manual_seed(1)

    def normal(*size: int) -> Tensor:
        return torch.randn(runs, SAMPLES, *size, generator=generator)

    def actions() -> Tensor:
        if discrete:
            return torch.randint(N_ACTIONS, (runs, SAMPLES), generator=generator)
        return normal(N_ACTIONS).clamp(-1, 1)

    return [
        Batch(normal(N_OBS), actions(), 2**i * normal(), normal(N_OBS), normal() > 0.84)
        for i in range(n)
    ]


def noises(module: ModuleType, n: int, runs: int) -> Tensor:
    """Standard normal noise of n updates, [update, run, number, action]."""
    generator = torch.Generator().manual_seed(2)
    return torch.randn(n, runs, module.NOISES * SAMPLES, N_ACTIONS, generator=generator)


def linear(*modules: nn.Module) -> list[Tensor]:
    """Parameters of these modules' linear layers in the order of a row: bias, weight."""
    layers = [m for module in modules for m in module.modules() if isinstance(m, nn.Linear)]
    return [p for layer in layers for p in (layer.bias, layer.weight)]


def of_dqn(model: Any) -> list[Tensor]:
    """A DQN twin's parameters in the order of a row."""
    return linear(model.q_net, model.q_net_target)


def of_deterministic(model: Any) -> list[Tensor]:
    """A DDPG or TD3 twin's parameters in the order of a row."""
    return linear(model.critic, model.actor, model.critic_target, model.actor_target)


def of_sac(model: Any) -> list[Tensor]:
    """A SAC twin's parameters in the order of a row; mu and log sigma are one layer of ours."""
    actor, heads = model.actor, (model.actor.mu, model.actor.log_std)
    return [
        *linear(model.critic),
        *linear(actor.latent_pi),
        *(h.bias for h in heads),
        *(h.weight for h in heads),
        model.log_ent_coef if model.log_ent_coef is not None else model.ent_coef_tensor.log()[None],
        *linear(model.critic_target),
    ]


def put_row(parameters: Sequence[Tensor], row: Tensor) -> None:
    """Give a twin's parameters the values of a row."""
    pieces = row.split([p.numel() for p in parameters])
    with torch.no_grad():
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.copy_(piece.view_as(parameter))


def row_of(parameters: Sequence[Tensor]) -> Tensor:
    """The row that a twin's parameters make."""
    return torch.cat([p.detach().flatten() for p in parameters])


def networks(model: Any) -> dict[str, nn.Module]:
    """What a twin has an optimiser for, by the first word of our diagnostics of it."""
    if isinstance(model, DQN):
        return {"": model.policy}
    return {"critic_": model.critic, "actor_": model.actor}


def build(
    algorithm: type[OffPolicyAlgorithm], spec: Any, learning_rate: float, **options: Any
) -> Any:
    """A twin whose networks and optimisers are as `spec` says."""
    model = algorithm(
        "MlpPolicy",
        Wrapper(discrete=algorithm is DQN),
        learning_rate=learning_rate,
        buffer_size=1,
        gamma=spec.gamma,
        tau=spec.tau,
        policy_kwargs={
            "net_arch": list(HIDDEN),
            "optimizer_kwargs": {"weight_decay": spec.weight_decay},
        },
        device="cpu",
        **options,
    )
    model.set_logger(configure(None, []))
    for network in networks(model).values():
        clip_before_step(network, spec.max_grad_norm)
    return model


def clip_before_step(network: nn.Module, max_norm: float | None) -> None:
    """Stable-Baselines3 clips no gradients of an actor-critic: PyTorch's own clipping does it here.

    It leaves the gradient's norm in `network.norm`.
    """
    step = network.optimizer.step

    def clipped() -> None:
        norm = nn.utils.clip_grad_norm_(network.parameters(), max_norm or torch.inf)
        network.norm = float(norm)
        step()

    network.optimizer.step = clipped


def train(model: OffPolicyAlgorithm, batch: Batch, run: int) -> dict[str, float]:
    """Stable-Baselines3's own update on one run's part of a batch; what it logs."""
    actions = batch.actions[run]
    data = ReplayBufferSamples(
        batch.obs[run],
        actions if actions.ndim == 2 else actions[:, None],
        batch.next_obs[run],
        batch.terminated[run, :, None].float(),
        batch.rewards[run, :, None],
    )
    model.replay_buffer.sample = lambda *args, **kwargs: data
    model.logger.name_to_value.clear()
    model.train(1, len(data.rewards))
    model._on_step()  # where DQN moves its target
    return dict(model.logger.name_to_value)


# --- what holds for every algorithm on the run axis -----------------------------------------------

LEARNING_RATES = (1e-3, 3e-4, 3e-3)


def of_three_runs(module: ModuleType) -> Any:
    """A state of three runs with different learning rates."""
    agent = agent_for(module.Agent, N_OBS, N_ACTIONS, HIDDEN)
    return module.TrainState(agent, starting_rows(agent, 4, 5, 6), torch.tensor(LEARNING_RATES))


def network(mlp: Any, row: Tensor, x: Tensor) -> Tensor:
    """The plain network of one row, for automatic differentiation."""
    layers = mlp.layers(row[None])
    for i, (bias, weight) in enumerate(layers):
        x = torch.nn.functional.linear(x, weight[0], bias[0])
        x = x if i == len(layers) - 1 else x.relu()
    return x
