"""Predator-prey on the run axis: the agent is a predator that must intercept a prey in a box.

The state of an environment is its observation, a row of 3 n numbers: achieved goal (the predator's
position), desired goal (the prey's position), observation (the velocity with which the prey will
move in this step).

In the variant `pushes_object`, the achieved goal is the position of an object, which does not move
until the predator touches it and then moves with the predator.  The observation is the prey's
velocity and the predator's position, so a state has 4 n numbers.  Hindsight cannot learn from an
episode in which the object is never touched.

In each step, the predator moves, the reward is computed, the prey moves, and both are observed.
"""

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.prey import n_uniform, numbers_of, policy_of, top_speed, velocities
from hindsight.envs.run_axis import Environments
from hindsight.envs.step import STEP, SUCCESS, TERMINATED, Numbers, Pay, is_near, within
from hindsight.nn.numba_cache import FirstClass, first_class
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.streams import Purpose, stream

#: Indices of `parameters` in `step`.
R, BOX, MAX_STEPS, PUSHES_OBJECT, DESCRIBED, KEEPS_VELOCITY = range(6)


@first_class(STEP)
def step(
    goal_policy: Any,
    parameters: NDArray[np.float64],
    state: Numbers,
    elapsed: int,
    action: Numbers,
    noise: Numbers,
    after: Numbers,
) -> int:
    """One step of the physics (PPO-HER section 4); see `envs.step.STEP` for the arguments.

    state: [3 n or 4 n].
    action: [n], clipped here to [-1, 1].
    """
    n, box = len(action), parameters[BOX]
    pushes = parameters[PUSHES_OBJECT] > 0
    predator = 3 * n if pushes else 0  # index of the predator's position
    # Whether the achieved goal moves.
    moves = not pushes or is_near(parameters, state[predator : predator + n], state[:n])
    for i in range(n):
        moved = within(state[predator + i] + within(action[i], 1), box)
        if moves and not pushes:
            after[i] = moved
        elif moves:
            after[i] = within(state[i] + (moved - state[predator + i]), box)
        else:
            after[i] = state[i]
        after[predator + i] = moved
    success = is_near(parameters, after[:n], state[n : 2 * n])
    for i in range(n):
        after[n + i] = within(state[n + i] + state[2 * n + i], box)
    velocity = after[2 * n : 3 * n]
    if parameters[KEEPS_VELOCITY] > 0:
        for i in range(n):
            velocity[i] = state[2 * n + i]
    else:
        d = after[predator : predator + n] - after[n : 2 * n]
        goal_policy(d, noise, parameters[DESCRIBED] > 0, velocity)
    if success:
        return TERMINATED | SUCCESS
    return TERMINATED if elapsed >= parameters[MAX_STEPS] else 0


def spawn(spec: PredatorPreySpec, size: int, generator: np.random.Generator) -> np.ndarray:
    """Initial positions [size, 2 n] of predator and prey, float32, more than r apart.

    With an object [size, 3 n]: object, prey, predator; the object is more than r away from both.
    """
    n, box, r = spec.n_dims, spec.grid_size, spec.interception_distance
    bodies = 3 if spec.pushes_object else 2
    if spec.spawn == "apart":
        positions = np.zeros((size, bodies * n), dtype=np.float32)
        positions[:, 2 * n - 1] = box / 2
        if spec.pushes_object:
            positions[:, 0] = box / 2
        return positions
    positions = generator.uniform(-box, box, (size, bodies * n)).astype(np.float32)
    while True:
        first, *others = np.split(positions, bodies, axis=-1)
        near = np.any([np.linalg.norm(first - other, axis=-1) <= r for other in others], axis=0)
        if not near.any():
            return positions
        positions[near] = generator.uniform(-box, box, (int(near.sum()), bodies * n))


class PredatorPrey(Environments[PredatorPreySpec]):
    """Predator-prey environments with observations [run, env, 3 n or 4 n].

    Actions [-1, 1]^n are added to the predator's position.  The reward is +1 at interception, -1
    when the step limit is exceeded, else 0.  Both terminate the episode, as in the papers.

    With the same seed, step t of a run uses the same random numbers for the prey under every
    algorithm with rollouts of the same length, so that comparisons between its arms are paired.
    """

    step_function = step
    pay = Pay(success=1.0, failure=-1.0, step=0.0)
    terminates_on_success = True
    goals_move = True

    @property
    def goal_size(self) -> int:
        return self.spec.n_dims

    @property
    def block_size(self) -> int:
        # An evaluation lasts as long as the longest episode, so one block suffices.
        return 1 + self.spec.max_steps if self.evaluation else 256

    def _draw(self, size: int, generator: np.random.Generator) -> Tensor:
        uniform = self._uniform(size, generator)
        return self._beginnings(spawn(self.spec, size, generator), uniform)

    def draw_first(self, generator: np.random.Generator) -> Tensor:
        """See `Environments.draw_first`; draws in another order than `_draw`."""
        positions = spawn(self.spec, 1, generator)
        return self._beginnings(positions, self._uniform(1, generator))[0]

    def _uniform(self, size: int, generator: np.random.Generator) -> Numbers:
        return generator.random((size, n_uniform(self.goal_size)), dtype=np.float32)

    def _beginnings(self, positions: Numbers, uniform: Numbers) -> Tensor:
        """First observations [size, obs] from initial positions and the prey's random numbers."""
        n, spec = self.goal_size, self.spec
        goals, predator = positions[:, : 2 * n], positions[:, 2 * n :]
        seen = predator if spec.pushes_object else goals[:, :n]
        described = spec.fidelity == "described"
        velocity = velocities(spec.prey, seen - goals[:, n:], uniform, described)
        return torch.from_numpy(np.concatenate([goals, velocity, predator], axis=-1))

    @property
    def goal_policy(self) -> FirstClass:
        return policy_of(self.spec.prey).velocity

    def numbers(self) -> list[float]:
        spec = self.spec
        flags = spec.pushes_object, spec.fidelity == "described", policy_of(spec.prey).keeps
        return [spec.interception_distance, spec.grid_size, spec.max_steps, *flags]

    def limits(self) -> list[float]:
        n, box = self.goal_size, self.spec.grid_size
        return [box] * 2 * n + [top_speed(n)] * n + [box] * (self.observation_size - 3 * n)

    @property
    def observation_space(self) -> Dict:
        """Boxes; the bounds of the prey's velocity allow for the rounding error of v_max."""
        spaces, n = super().observation_space, self.goal_size
        bounds = np.array(self.limits()[2 * n :], np.float32)
        bounds[:n] = top_speed(n) * (1 + 1e-6)
        return Dict({**spaces.spaces, "observation": Box(-bounds, bounds, dtype=np.float32)})

    def draw_step(self, generator: np.random.Generator) -> None:
        self._make_ready(generator.random((1, 1, 1, self._n_uniform), dtype=np.float32))

    def prepare_rollout(self, iteration: int, n_steps: int) -> None:
        size = (n_steps, self.n_envs, self._n_uniform)
        purpose = Purpose.EVALUATION_PREY if self.evaluation else Purpose.PREY
        streams = [stream(seed, purpose, iteration) for seed in self.seeds]
        self._make_ready(np.stack([s.random(size, np.float32) for s in streams]))

    @property
    def _n_uniform(self) -> int:
        """Random numbers per step; none if the prey draws its velocity only once per episode."""
        return 0 if policy_of(self.spec.prey).keeps else n_uniform(self.goal_size)

    def _make_ready(self, uniform: Numbers) -> None:
        """Use uniform numbers [run, step, env, number] for the coming steps."""
        self.noise, self._t = numbers_of(uniform) if uniform.shape[-1] else uniform, 0
