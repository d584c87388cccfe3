"""A trained policy as a self-contained `torch.nn.Module`, and its export to a file."""

import io
import logging
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn

from hindsight.io.files import FileError, write_whole
from hindsight.library.presets import called
from hindsight.specs.base import EnvironmentSpec
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import SpecError
from hindsight.specs.spaces import Actions, choices
from hindsight.training.policies import agent_of, n_bounds, networks_in


def spaces_of(where: EnvironmentSpec) -> tuple[dict[str, gymnasium.Space[Any]], Actions]:
    """Return an environment's observation spaces, in the order a policy sees them, and actions."""
    env = where.make()
    space, action = env.observation_space, env.action_space
    assert isinstance(space, gymnasium.spaces.Dict) and isinstance(action, Actions)
    env.close()
    return {key: space[key] for key in where.keys}, action


def must_fit(observation: Any, spaces: Mapping[str, gymnasium.Space[Any]]) -> None:
    """Raise SpecError unless `observation` is a single observation or a batch with a leading axis.

    spaces: of the parts of an observation, by key.
    """
    if not isinstance(observation, Mapping):
        raise SpecError(f"observation: it must be a dictionary of {', '.join(spaces)}")
    batched = set()
    for key, space in spaces.items():
        if key not in observation:
            raise SpecError(f"observation: {key!r} is missing; it needs {', '.join(spaces)}")
        shape = tuple(space.shape or ())
        try:
            values, most = np.asarray(observation[key]), np.finfo(np.float32).max
        except ValueError:
            raise SpecError(f"observation: {key} must be one array; its parts differ") from None
        found = values.shape
        if found not in (shape, (*found[:1], *shape)):
            more = ", ".join(map(str, ("n", *shape)))
            raise SpecError(
                f"observation: {key} has shape {found}; it must be {shape}, or ({more}) for a batch"
            )
        if values.dtype.kind not in "biuf" or not (np.abs(values) <= most).all():
            raise SpecError(f"observation: {key} must hold finite numbers, as float32 has them")
        allowed = choices(space) or ()
        chosen = values.reshape(-1, len(allowed)).T if allowed else ()
        if not all(np.isin(x, among).all() for x, among in zip(chosen, allowed, strict=False)):
            raise SpecError(f"observation: {key} is {values}, which is not in its space {space}")
        batched.add(found[: len(found) - len(shape)])
    if len(batched) > 1:
        raise SpecError(
            "observation: either all parts or none must have a leading axis, of the same length"
        )


class Policy(nn.Module):
    """A run's deterministic policy, from observations to actions.

        policy = model.policy()
        action = policy({key: torch.as_tensor(value)[None] for key, value in observation.items()})

    Observations are a dictionary of tensors [n, ...] as in the environment's observation space; the
    leading axis may be omitted.  Actions are float32 [n, ...] within the bounds of the action
    space, or int64 if it is discrete.  Standardisation, squashing and scaling are included.
    """

    low: Tensor
    high: Tensor
    first_choice: Tensor
    seen: Tensor | None  # [2, obs] bounds of what the network sees of observations

    def __init__(
        self,
        spec: CellSpec,
        row: Tensor,
        observations: Mapping[str, gymnasium.Space[Any]],
        actions: Actions,
    ) -> None:
        """Create the policy of a run of cell `spec` with parameters `row` [parameter]."""
        super().__init__()
        self.name = called(spec)
        self.shapes = {key: tuple(space.shape or ()) for key, space in observations.items()}
        #: The possible values of each discrete part of an observation; None: it is continuous.
        self.choices = {key: choices(space) for key, space in observations.items()}
        row, n = row.detach().cpu(), n_bounds(spec)
        self.register_buffer("seen", row[-n:].view(2, -1).clone() if n else None)
        self.agent = agent_of(spec)
        mlp, rows = self.agent.acting(networks_in(spec, row[None])[0])
        layers: list[nn.Module] = []
        for bias, weight in mlp.layers(rows):
            linear = nn.Linear(weight.shape[2], weight.shape[1])
            linear.weight = nn.Parameter(weight[0].clone())
            linear.bias = nn.Parameter(bias[0].clone())
            layers += [linear, nn.ReLU() if mlp.activation == "relu" else nn.Tanh()]
        self.network = nn.Sequential(*layers[:-1])
        self.is_box, self.is_one = isinstance(actions, Box), isinstance(actions, Discrete)
        self.action_shape = tuple(actions.shape or ())
        self.space = actions
        bounds: Any = (actions.low, actions.high) if isinstance(actions, Box) else (0.0, 0.0)
        for name, bound in zip(("low", "high"), bounds, strict=True):
            self.register_buffer(name, torch.tensor(np.ravel(bound), dtype=torch.float64))
        starts = np.ravel(getattr(actions, "start", 0)).astype(np.int64)
        self.register_buffer("first_choice", torch.from_numpy(starts))

    def __repr__(self) -> str:
        return f"<policy of {self.name}>"

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Return the actions [n, ...] for observations; see the class."""
        first = next(iter(self.shapes))
        alone = observations[first].ndim == len(self.shapes[first])
        given = {key: observations[key] for key in self.shapes}
        parts = [self._row(key, x[None] if alone else x) for key, x in given.items()]
        seen = torch.cat(parts, dim=1).float()
        if self.seen is not None:
            seen = torch.minimum(torch.maximum(seen, self.seen[0]), self.seen[1])
        actions = self._actions(self.network(seen))
        return actions[0] if alone else actions

    def _row(self, key: str, values: Tensor) -> Tensor:
        """Encode a part of observations [n, ...] as numbers [n, size] (`specs.spaces`)."""
        among = self.choices[key]
        if among is None:
            return values.reshape(values.shape[0], math.prod(self.shapes[key]))
        columns = values.reshape(values.shape[0], len(among)).unbind(1)
        pairs = zip(columns, among, strict=True)
        return torch.cat([x[:, None] == torch.from_numpy(each) for x, each in pairs], 1).float()

    @torch.no_grad()
    def numpy(self, observations: Mapping[str, Any]) -> Any:
        """Return actions for NumPy arrays, in the action space's type; one choice is an int."""
        given = {key: torch.as_tensor(np.asarray(observations[key])) for key in self.shapes}
        actions = self(given).numpy()
        if self.is_one and actions.ndim == 0:
            return int(actions)
        made = actions.astype(self.space.dtype, copy=False)
        if isinstance(self.space, Box):  # float32's 0.2 is above float64's
            return np.clip(made, self.space.low, self.space.high)
        return made

    def _actions(self, outputs: Tensor) -> Tensor:
        actions = self.agent.actions(outputs)
        if not self.is_box:
            components = actions.reshape(-1, len(self.first_choice)) + self.first_choice
            return components.reshape(-1, *self.action_shape)
        actions = actions.double().clamp(-1, 1)  # as for the environments, `specs.spaces.action_of`
        scaled = (self.low + self.high) / 2 + (self.high - self.low) / 2 * actions
        inside = torch.minimum(torch.maximum(scaled, self.low), self.high)  # despite rounding
        inside = inside if self.space.dtype == np.float64 else inside.float()
        return inside.reshape(-1, *self.action_shape)


class _ByPosition(nn.Module):
    """Takes the parts of observations as positional arguments, as exported models do."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, *observations: Tensor) -> Tensor:
        actions: Tensor = self.policy(dict(zip(self.policy.shapes, observations, strict=True)))
        return actions


def export(policy: Any, path: Path) -> Path:
    """Export a policy, with its `shapes` and `choices`, to a file; see `Model.export`."""
    if path.suffix not in (".onnx", ".pt2"):
        raise FileError(f"{path}: a policy is exported as .onnx or .pt2")
    positional = _ByPosition(policy).eval()
    examples = tuple(
        torch.zeros(2, *shape, dtype=torch.float32 if policy.choices[key] is None else torch.int64)
        for key, shape in policy.shapes.items()
    )
    batch = torch.export.Dim("n", max=2**31 - 1)  # torch 2.6 requires a bound
    dynamic = (tuple({0: batch} for _ in examples),)
    if path.suffix == ".pt2":
        program = torch.export.export(positional, examples, dynamic_shapes=dynamic)
        content = io.BytesIO()  # on a full disk, torch's own writer ends the process
        torch.export.save(program, content)
        write_whole(path, lambda beside: beside.write_bytes(content.getbuffer()))
        return path
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        raise SpecError(
            "ONNX needs the packages onnx and onnxscript: pip install onnx onnxscript"
        ) from None
    with warnings.catch_warnings():
        # They concern the exporter itself and optional packages.
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        exported = torch.onnx.export(
            positional,
            examples,
            dynamo=True,
            dynamic_shapes=dynamic,
            input_names=list(policy.shapes),
            output_names=["action"],
            verbose=False,
        )
    assert exported is not None
    write_whole(path, lambda beside: exported.save(str(beside)))
    return path
