"""Stable-Baselines3's side of a parity test of off-policy actor-critics, and what each must keep.

A twin is a model of Stable-Baselines3 with the parameters of one of our runs.  It does its own
update, on the batch and with the noise that it is given.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBufferSamples
from stable_baselines3.common.logger import configure
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch import Tensor, nn

from hindsight.replay.transitions import Batch

N_OBS, N_ACTIONS, HIDDEN, SAMPLES = 7, 3, (32, 24), 64


class Wrapper(gymnasium.Env):
    """Spaces, and nothing that is ever stepped: what Stable-Baselines3 wants to see."""

    observation_space = gymnasium.spaces.Box(-10, 10, (N_OBS,))
    action_space = gymnasium.spaces.Box(-1, 1, (N_ACTIONS,))


def starting_rows(agent: Any, *seeds: int) -> Tensor:
    """Parameters [run, parameter] away from the initial ones: targets differ from the learned."""
    rows = torch.stack([agent.initial_row(seed) for seed in seeds])
    return rows + 0.05 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))


def batches(n: int, runs: int, weights: bool = False) -> list[Batch]:
    """Batches of random transitions, a fifth of them terminated.

    Rewards grow from batch to batch, and gradients with them: Adam does not see a clipping that
    scales all of them alike.
    """
    generator = torch.Generator().manual_seed(1)

    def normal(*size: int) -> Tensor:
        return torch.randn(runs, SAMPLES, *size, generator=generator)

    return [
        Batch(
            normal(N_OBS),
            normal(N_ACTIONS).clamp(-1, 1),
            2**i * normal(),
            normal(N_OBS),
            normal() > 0.84,
            normal().abs() if weights else None,
        )
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


def put_row(parameters: Sequence[Tensor], row: Tensor) -> None:
    """Give a twin's parameters the values of a row."""
    pieces = row.split([p.numel() for p in parameters])
    with torch.no_grad():
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.copy_(piece.view_as(parameter))


def row_of(parameters: Sequence[Tensor]) -> Tensor:
    """The row that a twin's parameters make."""
    return torch.cat([p.detach().flatten() for p in parameters])


def build(algorithm: type[OffPolicyAlgorithm], spec: Any, learning_rate: float, **options: Any):
    """A twin whose networks and optimisers are as `spec` says."""
    model = algorithm(
        "MlpPolicy",
        Wrapper(),
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
    for network in (model.actor, model.critic):
        clip_before_step(network, spec.max_grad_norm)
    return model


def clip_before_step(network: nn.Module, max_norm: float | None) -> None:
    """Stable-Baselines3 does not clip off-policy gradients: PyTorch's own clipping does it here."""
    step = network.optimizer.step

    def clipped() -> None:
        nn.utils.clip_grad_norm_(network.parameters(), max_norm)
        step()

    if max_norm is not None:
        network.optimizer.step = clipped


def train(model: OffPolicyAlgorithm, batch: Batch, run: int) -> dict[str, float]:
    """Stable-Baselines3's own update on one run's part of a batch; what it logs."""
    data = ReplayBufferSamples(
        batch.obs[run],
        batch.actions[run],
        batch.next_obs[run],
        batch.terminated[run, :, None].float(),
        batch.rewards[run, :, None],
    )
    model.replay_buffer.sample = lambda *args, **kwargs: data
    model.logger.name_to_value.clear()
    model.train(1, SAMPLES)
    return dict(model.logger.name_to_value)


# --- what holds for every algorithm on the run axis -----------------------------------------------

LEARNING_RATES = (1e-3, 3e-4, 3e-3)


def of_three_runs(module: ModuleType, weight_decay: float = 0.0) -> Any:
    """A state of three runs with different learning rates."""
    agent = module.Agent.of(N_OBS, N_ACTIONS, HIDDEN)
    rows = starting_rows(agent, 4, 5, 6)
    return module.State(agent, rows, torch.tensor(LEARNING_RATES), weight_decay)


def part(batch: Batch, runs: slice) -> Batch:
    """The batch of some runs."""
    values = {f.name: getattr(batch, f.name) for f in fields(batch)}
    return replace(batch, **{name: v[runs] for name, v in values.items() if v is not None})


def assert_alone_equals_among_others(module: ModuleType, spec: Any) -> None:
    """A run by itself does what it does among others, however different these are."""
    data, noise = batches(4, 3, weights=True), noises(module, 4, 3)
    among = of_three_runs(module)
    alone = module.State(among.agent, among.rows[1:2], torch.tensor(LEARNING_RATES[1:2]))
    for batch, eps in zip(data, noise, strict=True):
        d = module.update(among, batch, eps, spec)
        d_alone = module.update(alone, part(batch, slice(1, 2)), eps[1:2], spec)
        for field in fields(d):
            ours, its = getattr(d, field.name)[1:2], getattr(d_alone, field.name)
            torch.testing.assert_close(ours, its, rtol=1e-5, atol=1e-5, equal_nan=True)
    torch.testing.assert_close(among.rows[1:2], alone.rows, rtol=0, atol=1e-6)
    assert float((among.rows - of_three_runs(module).rows).abs().amin(1).max()) < 1e-9
    assert all((among.rows - of_three_runs(module).rows).abs().amax(1) > 1e-4)


def assert_selected_and_resumed_runs_go_on(module: ModuleType, spec: Any) -> None:
    """Runs that leave the axis, or come back from a checkpoint, change nothing for the others."""
    data, noise = batches(6, 3), noises(module, 6, 3)
    through, state = of_three_runs(module), of_three_runs(module)
    updates: list[Callable[[Any], None]] = [
        lambda s, b=batch, e=eps: module.update(s, b, e, spec)
        for batch, eps in zip(data, noise, strict=True)
    ]
    for update in updates:
        update(through)
    for update in updates[:3]:
        update(state)
    resumed = of_three_runs(module)
    for update in updates[4:]:  # what it holds before loading must not matter
        update(resumed)
    resumed.load_state_dict(copy.deepcopy(state.state_dict()))
    updates[3](resumed)
    keep = torch.tensor([2, 0])
    resumed.select(keep)
    for batch, eps in zip(data[4:], noise[4:], strict=True):
        some = replace(
            batch,
            **{f.name: getattr(batch, f.name)[keep] for f in fields(batch) if f.name != "weight"},
        )
        module.update(resumed, some, eps[keep], spec)
    torch.testing.assert_close(resumed.rows, through.rows[keep], rtol=0, atol=1e-6)


def assert_initial_rows(module: ModuleType, n_critics: int, n_targets: int) -> None:
    """Layers are uniform within 1 / sqrt(inputs), all different, and the targets copies.

    Args:
        n_critics: critics, at the beginning of a row.
        n_targets: numbers of a row, at its end, that are the targets'.
    """
    hidden = (100, 50)
    agent = module.Agent.of(N_OBS, N_ACTIONS, hidden)
    row = agent.initial_row(3)
    assert row.dtype == torch.float32 and len(row) == sum(agent.sizes)
    assert torch.equal(row, agent.initial_row(3)) and not torch.equal(row, agent.initial_row(4))
    assert torch.equal(row[:n_targets], row[-n_targets:])
    critics = row[: n_critics * agent.critic.n_parameters].view(n_critics, -1)
    actor = row[critics.numel() :][: agent.actor.n_parameters][None]
    for mlp, rows in ((agent.critic, critics), (agent.actor, actor)):
        for (bias, weight), n_in in zip(mlp.layers(rows), mlp.sizes, strict=False):
            bound = n_in**-0.5
            for values in (bias, weight):
                assert float(values.abs().max()) <= bound
            if weight.numel() > 1000:
                uniform = (weight.flatten().sort().values / bound + 1) / 2
                expected = torch.linspace(0, 1, weight.numel())
                distance = float((uniform - expected).abs().max())
                assert distance < 1.63 / np.sqrt(weight.numel()), "Kolmogorov-Smirnov, 1 %"
    assert row[: len(row) - n_targets].unique().numel() > 0.999 * (len(row) - n_targets)


def network(mlp: Any, row: Tensor, x: Tensor) -> Tensor:
    """The plain network of one row, for automatic differentiation."""
    layers = mlp.layers(row[None])
    for i, (bias, weight) in enumerate(layers):
        x = torch.nn.functional.linear(x, weight[0], bias[0])
        x = x if i == len(layers) - 1 else x.relu()
    return x
