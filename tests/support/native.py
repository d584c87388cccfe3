"""Native tasks on the run axis, with policies that take actions of all kinds."""

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

import torch
from torch import Tensor

from hindsight.envs.bit_flipping import BitFlipping
from hindsight.envs.point_reach import PointReach
from hindsight.envs.predator_prey import PredatorPrey
from hindsight.envs.run_axis import Environments
from hindsight.envs.step import Step
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.environments.bit_flipping import BitFlippingSpec
from hindsight.specs.environments.point_reach import PointReachSpec
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.specs.errors import validated
from tests.contract.cells import TASKS


def steer(env: Environments[Any], t: int) -> Tensor:
    """Actions [run, env, 2] by state and step: towards the target, with a wobble."""
    toward = env.state[..., 2:4] - env.state[..., :2] - 0.3 * env.state[..., 6:]
    return 2 * toward + 0.5 * torch.sin(3 * env.state[..., :2] + t)


def first_difference(env: Environments[Any], t: int) -> Tensor:
    """The first wrong bit; now and then the first bit, wrong or not."""
    n = env.goal_size
    wrong = env.state[..., :n] != env.state[..., n : 2 * n]
    stray = (env.elapsed + t) % 7 == 3
    return torch.where(stray, 0, wrong.long().argmax(-1))


def half_of_the_differences(env: Environments[Any], t: int) -> Tensor:
    """Every second bit that is wrong is flipped, and the first one in every third step."""
    n = env.goal_size
    wrong = (env.state[..., :n] != env.state[..., n : 2 * n]).float()
    actions = wrong * (wrong.cumsum(-1) % 2) - 0.5
    actions[..., 0] += float(t % 3 == 0)
    return actions


def chase(env: Environments[Any], t: int) -> Tensor:
    """Towards the prey, or with the object towards it; it strays for a third of the time."""
    n = env.goal_size
    first, prey, last = env.state[..., :n], env.state[..., n : 2 * n], env.state[..., -n:]
    aim = prey - first
    if env.observation_size > 3 * n:
        touches = torch.linalg.vector_norm(last - first, dim=-1, keepdim=True) < 0.7
        aim = torch.where(touches, aim, first - last)
    return aim + 0.8 * torch.sin(5 * last + t) * (t % 30 < 20)


def anything(env: Environments[Any], t: int) -> Tensor:
    """Random actions, the same in every step of this number."""
    size, generator = env.elapsed.shape, torch.Generator().manual_seed(t)
    if env.n_choices:
        return torch.randint(env.n_choices, size, generator=generator)
    return 1.5 * torch.randn(*size, env.action_size, generator=generator)


@dataclass(frozen=True)
class Case:
    """A task with its parameters, and a policy that takes actions of all kinds."""

    kind: Any
    spec: Any
    actions: Any

    def make(self, seeds: list[int], n_envs: int = 2, **options: Any) -> Environments[Any]:
        return self.kind(self.spec, seeds, n_envs, **options)


def prey(**keys: Any) -> Case:
    return Case(PredatorPrey, PredatorPreySpec(**keys), chase)


def bits(actions: Any, **keys: Any) -> Case:
    return Case(BitFlipping, BitFlippingSpec(**keys), actions)


PUSHED = {"n_dims": 2, "pushes_object": True, "grid_size": 3.0}
CASES = {
    "point": Case(PointReach, PointReachSpec(max_steps=9, threshold=0.3), steer),
    "small square": Case(PointReach, PointReachSpec(range=0.5, threshold=0.2, max_steps=3), steer),
    "slow point": Case(PointReach, PointReachSpec(max_speed=0.3, threshold=0.4), steer),
    "bits": bits(first_difference, n_bits=4),
    "bits, two steps": bits(first_difference, n_bits=4, max_steps=2),
    "continuous bits": bits(half_of_the_differences, n_bits=5, continuous=True, max_steps=2),
    "attract": prey(prey="attract", fidelity="described", grid_size=4.0, max_steps=3),
    "straight_away": prey(prey="straight_away", grid_size=2.5, max_steps=2),
    "random_direction": prey(prey="random_direction", grid_size=5.0, interception_distance=0.5),
    "pushed": prey(prey="random", max_steps=12, **PUSHED),
    "pushed, repel": prey(prey="repel", max_steps=4, **PUSHED),
}
SEEDS = [5, 0, 5, 11]


def registered(**keys: Any) -> Case:
    spec = validated(ENVIRONMENTS[keys["id"]], keys)
    return Case(resolve_name(spec.entry_point), spec, anything)


#: Whatever is registered, with each of its switches, and the cases above.
EVERY = {name: registered(**keys) for name, keys in TASKS.items()} | CASES


def fields_of(step: Step) -> tuple[Tensor, ...]:
    """All fields but `rest`, which native tasks do not have."""
    assert step.rest is None
    return step[:-1]


@dataclass
class Played:
    """What happened; leading dimensions [step, run, env]."""

    states: Tensor  # before each step
    steps: Step
    rewards: Tensor

    @property
    def over(self) -> Tensor:
        return self.steps.terminated | self.steps.truncated

    def equals(self, other: "Played") -> bool:
        ours, theirs = ((x.states, x.rewards, *fields_of(x.steps)) for x in (self, other))
        return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def play(env: Environments[Any], actions: Any, n_steps: int, iteration: int = 1) -> Played:
    g = env.goal_size
    env.prepare_rollout(iteration, n_steps)
    states, steps, rewards = [], [], []
    for t in range(n_steps):
        states.append(env.state)  # a later step leaves it alone
        step = env.step(actions(env, t))
        reward, success = env.task.reward(
            step.next_achieved, states[-1][..., g : 2 * g], step.terminated
        )
        assert torch.equal(success, step.success) and torch.equal(reward, step.reward)
        steps.append(step)
        rewards.append(reward)
    together = Step(*(torch.stack(values) for values in zip(*map(fields_of, steps), strict=True)))
    return Played(torch.stack(states), together, torch.stack(rewards))
