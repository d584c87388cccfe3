"""Predator-prey against a reference in NumPy."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from hindsight.envs.predator_prey import PredatorPrey, step
from hindsight.envs.prey import (
    INDEX,
    MIX,
    SPEED,
    VECTOR,
    described_orthogonal,
    n_uniform,
    numbers_of,
    policy_of,
    velocities,
)
from hindsight.envs.step import SUCCESS, TERMINATED
from hindsight.specs.environments.predator_prey import PREYS as NAMES
from hindsight.specs.environments.predator_prey import PredatorPreySpec, Prey

# -- the reference: the papers' physics, one environment, NumPy ------------------------------------


#: Preys that keep the velocity that they begin with.
KEPT = ("static", "random_direction")


@np.errstate(over="ignore")
def at_speed(direction: np.ndarray, speed: float) -> np.ndarray:
    length = np.linalg.norm(direction)
    return speed * direction / length if length else 0 * direction


def reference_orthogonal(v: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The released, roughly orthogonal vector; `u` uniform in [0, 1)."""
    n = len(v)
    if not v.any():
        v = 0.01 + 0.99 * u[VECTOR + n :]
    o = u[VECTOR : VECTOR + n].copy()
    candidates = np.flatnonzero(v)
    j = candidates[int(u[INDEX] * len(candidates))]
    o[j] = -(v[:-1] @ o[:-1]) / v[j]
    return at_speed(o, np.linalg.norm(v))


def reference_velocity(prey: Prey, d: np.ndarray, u: np.ndarray) -> np.ndarray:
    n, v_max = len(d), len(d) ** 0.5 / 2
    anywhere = 2 * u[VECTOR : VECTOR + n] - 1
    match prey:
        case "static":
            return 0 * d
        case "random":
            return at_speed(anywhere, v_max * u[SPEED])
        case "attract":
            m = 0.1 + 0.9 * u[MIX]
            return at_speed(m * reference_orthogonal(d, u) + (1 - m) * d, v_max)
        case "repel":
            m = u[MIX]
            return at_speed(m * reference_orthogonal(-d, u) - (1 - m) * d, v_max)
        case "straight_away":
            return at_speed(-d, v_max)
        case "random_direction":
            return at_speed(anywhere, v_max)
    raise AssertionError(f"the prey {prey!r} has no reference: add a case to reference_velocity")


def reference_step(
    spec: PredatorPreySpec, state: np.ndarray, elapsed: int, action: np.ndarray, u: np.ndarray
) -> tuple[np.ndarray, float, bool]:
    """State, reward and end after one step."""
    n, g, r = spec.n_dims, spec.grid_size, spec.interception_distance
    achieved, prey, velocity, *pushing = np.split(state, range(n, len(state), n))
    before = pushing[0] if pushing else achieved
    predator = np.clip(before + np.clip(action, -1, 1), -g, g)
    if not pushing:
        achieved = predator
    elif math.dist(before, achieved) <= r:  # touched: it moves along
        achieved = np.clip(achieved + predator - before, -g, g)
    reward, done = 0.0, False
    if math.dist(achieved, prey) <= r:
        reward, done = 1.0, True
    elif elapsed + 1 > spec.max_steps:
        reward, done = -1.0, True
    prey = np.clip(prey + velocity, -g, g)
    kept = spec.prey in KEPT
    assert kept == policy_of(spec.prey).keeps, f"the reference of {spec.prey!r}: see KEPT"
    if not kept:
        velocity = reference_velocity(spec.prey, predator - prey, u)
    last = [predator] if pushing else []
    return np.concatenate([achieved, prey, velocity, *last]), reward, done


@st.composite
def situations(draw: st.DrawFn) -> Any:
    """An environment, its state, counter, an action, uniform draws; walls and zeros are likely.

    An object to push is often within the predator's reach.
    """
    n = draw(st.integers(2, 5))
    # Exact in binary, so that both sides compare the same numbers.
    g, r = draw(st.sampled_from([4.0, 10.0])), draw(st.sampled_from([0.125, 0.5, 1.5]))
    prey, pushes = draw(st.sampled_from(list(NAMES))), draw(st.booleans())
    spec = PredatorPreySpec(
        n_dims=n, grid_size=g, interception_distance=r, prey=prey, pushes_object=pushes
    )
    place = st.sampled_from([-g, 0.0, 0.5, g]) | st.floats(-g, g).map(lambda x: round(x, 3))
    positions = draw(st.lists(place, min_size=2 * n, max_size=2 * n))
    velocity = draw(st.lists(st.floats(-0.5, 0.5), min_size=n, max_size=n))
    action = draw(st.lists(st.floats(-1.5, 1.5), min_size=n, max_size=n))
    uniform = st.floats(0, 1, exclude_max=True).map(lambda x: round(x, 4) % 1)
    u = draw(st.lists(uniform, min_size=n_uniform(n), max_size=n_uniform(n)))
    predator = draw(st.lists(place, min_size=n, max_size=n)) if pushes else []
    if pushes and draw(st.booleans()):
        predator = [positions[0] / 2, *positions[1:n]]
        positions[0] = predator[0] + 0.0625
    state = np.array([*positions, *velocity, *predator])
    return spec, state, draw(st.integers(0, 20)), np.array(action), np.array(u)


@settings(max_examples=300, deadline=None)
@given(situations())
def test_a_step_is_that_of_the_reference(situation):
    """In float64, and on the run axis, in float32."""
    spec, before, counter, action, u = situation
    n = spec.n_dims
    expected, reward, done = reference_step(spec, before, counter, action, u)
    distances = [math.dist(expected[:n], before[n : 2 * n])]
    if spec.pushes_object:
        distances.append(math.dist(before[:n], before[3 * n :]))
    assume(min(abs(x - spec.interception_distance) for x in distances) > 1e-5)
    env = PredatorPrey(spec, [0], evaluation=True)  # with few beginnings
    state, after = before.copy(), np.zeros(len(before))
    drawn = np.concatenate([u, np.zeros(n)])  # the last are of described preys
    flags = step(env.goal_policy, env.parameters, state, counter, action, drawn, after)
    np.testing.assert_allclose(after, expected, rtol=1e-7, atol=1e-9)
    assert (state == before).all()
    assert bool(flags & TERMINATED) == done
    assert bool(flags & SUCCESS) == (reward == 1.0)
    achieved, desired = (torch.tensor(goal)[None, None] for goal in (after[:n], before[n : 2 * n]))
    assert float(env.task.reward(achieved, desired, torch.tensor([[done]]))[0]) == reward

    env.state = torch.from_numpy(before).float()[None, None]
    env.elapsed.fill_(counter)
    env._make_ready(u.astype(np.float32)[None, None, None])
    found = env.advance(torch.from_numpy(action)[None, None])
    assert bool(found.terminated) == done
    assert bool(found.success) == (reward == 1.0)
    next_obs = found.next_obs[0, 0].numpy()
    np.testing.assert_allclose(next_obs[: 2 * n], expected[: 2 * n], atol=1e-5)
    np.testing.assert_allclose(next_obs[3 * n :], expected[3 * n :], atol=1e-5)
    # If predator and prey coincide up to rounding, their direction is rounding; two of the preys
    # treat zero entries differently.
    predator = expected[3 * n :] if spec.pushes_object else expected[:n]
    apart = math.dist(predator, expected[n : 2 * n])
    close = spec.prey == "straight_away" and 0 < apart <= 1e-3
    if spec.prey not in ("attract", "repel") and not close:
        np.testing.assert_allclose(next_obs[2 * n : 3 * n], expected[2 * n : 3 * n], atol=1e-3)


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(2, 6),
    g=st.floats(0.5, 50),
    share=st.floats(0.01, 0.49),
    prey=st.sampled_from(list(NAMES)),
    pushes=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_random_spawns_lie_in_the_box_and_more_than_r_apart(n, g, share, prey, pushes, seed):
    spec = PredatorPreySpec(
        n_dims=n, grid_size=g, interception_distance=share * g, prey=prey, pushes_object=pushes
    )
    state = PredatorPrey(spec, [seed], n_envs=5, evaluation=True).beginnings
    achieved, prey_at, _, *predator = state.split(n, dim=-1)
    for other in (prey_at, *predator):
        assert (other.abs() <= torch.tensor(g)).all()
        distance = torch.linalg.vector_norm(achieved - other, dim=-1)
        assert (distance > torch.tensor(share * g)).all()


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("pushes", [False, True])
def test_random_spawns_fill_the_box(n: int, pushes: bool) -> None:
    """As U(-10, 10), which has quartiles at -5, 0 and 5."""
    keys = {"interception_distance": 0.1, "pushes_object": pushes, "prey": "straight_away"}
    spec = PredatorPreySpec.model_validate({"n_dims": n, **keys})
    state = PredatorPrey(spec, [1], 4).beginnings.flatten(0, 2)
    achieved, prey, velocity, *predator = state.split(n, dim=1)
    quartiles = np.quantile(torch.cat([achieved, prey, *predator], 1), [0.25, 0.5, 0.75], axis=0)
    expected = np.broadcast_to([[-5.0], [0.0], [5.0]], quartiles.shape)
    np.testing.assert_allclose(quartiles, expected, atol=0.8)
    assert state.unique().numel() > 0.99 * (3 if pushes else 2) * n * len(state)
    # The prey flees from the predator at once.
    away = torch.nn.functional.cosine_similarity(velocity, prey - [achieved, *predator][-1], dim=1)
    np.testing.assert_allclose(away.numpy(), 1, atol=1e-4)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("pushes", [False, True])
def test_apart_spawns_have_their_places(n: int, pushes: bool) -> None:
    keys = {"spawn": "apart", "prey": "random_direction", "pushes_object": pushes}
    spec = PredatorPreySpec.model_validate({"n_dims": n, "grid_size": 30.0, **keys})
    state = PredatorPrey(spec, [3], n_envs=5).beginnings.flatten(0, 2)
    achieved, prey, velocity, *predator = state.split(n, dim=1)
    places = np.zeros((2, n))  # the predator's, at the origin, and the prey's
    places[1, -1] = 15.0
    for found, place in zip([predator[0] if pushes else achieved, prey], places, strict=True):
        np.testing.assert_array_equal(found, np.tile(place, (len(state), 1)))
    if pushes:
        assert (achieved == torch.tensor([15.0] + [0.0] * (n - 1))).all()
    assert torch.linalg.vector_norm(velocity, dim=-1).numpy() == pytest.approx(n**0.5 / 2)
    assert len(velocity.unique(dim=0)) == len(state)


def drawn(n: int, count: int = 20_000) -> Tensor:
    generator = np.random.default_rng(0)
    return torch.from_numpy(generator.random((count, n_uniform(n)), dtype=np.float32))


def directions(prey: Prey, d: Tensor, draws: Tensor, fidelity: str) -> Tensor:
    """Velocities [size, n] of the compiled prey."""
    lines = d.float().contiguous().numpy()
    return torch.from_numpy(velocities(prey, lines, draws.numpy(), fidelity == "described"))


def cosines(a: Tensor, b: Tensor) -> Tensor:
    return torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=-1)


@pytest.mark.parametrize(
    ("prey", "quantiles", "mean"),
    [
        ("attract", [0.05, 0.37, 0.70, 0.92, 0.99], 0.62),
        ("repel", [-1.00, -0.95, -0.69, -0.26, 0.13], -0.58),
    ],
)
def test_released_directions_are_those_measured_from_the_released_code(prey, quantiles, mean):
    d = torch.tensor([1.5, 2.5, 3.5]).expand(20_000, 3)  # predator (1, 2, 3), prey (-1/2, ...)
    cosine = cosines(directions(prey, d, drawn(3), "released"), d)
    found = np.quantile(cosine.numpy(), [0.05, 0.25, 0.5, 0.75, 0.95])
    np.testing.assert_allclose(found, quantiles, atol=0.02)
    assert float(cosine.mean()) == pytest.approx(mean, abs=0.02)


@pytest.mark.parametrize(("prey", "sign", "low"), [("attract", 1, 0.1), ("repel", -1, 0.0)])
def test_described_velocities_follow_from_the_mixture(prey: Prey, sign: int, low: float) -> None:
    d = torch.tensor([1.5, 2.5, 3.5]).expand(20_000, 3)
    draws = drawn(3)
    velocity = directions(prey, d, draws, "described")
    speed = torch.linalg.vector_norm(velocity, dim=-1)
    np.testing.assert_allclose(speed.numpy(), 3**0.5 / 2, rtol=1e-5)
    cosine = cosines(velocity, d)
    # With o orthogonal to d and as long, the cosine is a function of m alone.
    m = low + (1 - low) * draws[:, MIX].double()
    expected = sign * (1 - m) / (m.square() + (1 - m).square()).sqrt()
    np.testing.assert_allclose(cosine.numpy(), expected.numpy(), atol=1e-5)


def test_a_prey_without_a_reference_is_named():
    with pytest.raises(AssertionError, match="'to_and_fro' has no reference: add a case"):
        reference_velocity("to_and_fro", np.ones(3), np.ones(8))


@pytest.mark.parametrize(("prey", "fidelities"), NAMES.items())
def test_a_prey_with_one_fidelity_moves_alike_under_both(prey, fidelities):
    """Else both would train the same numbers, or one of two different preys would be lost."""
    d, draws = torch.randn(1000, 3, generator=torch.manual_seed(0)), drawn(3)[:1000]
    released, described = (directions(prey, d, draws, x) for x in ("released", "described"))
    assert (len(fidelities) == 1) == torch.equal(released, described)
    specs = {PredatorPreySpec(prey=prey, fidelity=x) for x in ("released", "described")}
    assert len(specs) == len(fidelities)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_described_orthogonal_has_no_preference(n: int) -> None:
    chances, axis = numbers_of(drawn(n).numpy()).astype(np.float64), np.eye(n)[0]
    along = np.array([described_orthogonal(axis, numbers) for numbers in chances])
    np.testing.assert_allclose(along[:, 0], 0, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(along, axis=1), 1)
    # Uniform on the sphere of the other m = n - 1 dimensions: moments 0, 1 / m, 3 / (m (m + 2)).
    np.testing.assert_allclose(along.mean(0), 0, atol=0.03)
    m, others = n - 1, along[:, 1:]
    np.testing.assert_allclose((others**2).mean(0), 1 / m, atol=0.015)
    np.testing.assert_allclose((others**4).mean(0), 3 / (m * (m + 2)), atol=0.008)


@pytest.mark.parametrize("r", [1.0, 0.5, 0.2, 0.1])
def test_at_the_very_threshold_an_episode_is_over_where_its_goal_is_achieved(r: float) -> None:
    """Positions whose float32 is the last within r of the prey, or the first beyond it.

    If reward and end disagreed, an episode would continue and be rewarded twice.
    """
    n_envs, chance = 500, np.random.default_rng(0)
    spec = PredatorPreySpec(prey="static", interception_distance=r)
    env = PredatorPrey(spec, [0], n_envs, evaluation=True)  # with few beginnings
    direction = chance.normal(size=(1, n_envs, 3))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    prey = chance.uniform(-5, 5, direction.shape).astype(np.float32)
    away = r * (1 + chance.uniform(-1e-7, 1e-7, (1, n_envs, 1)))
    predator = (prey + away * direction).astype(np.float32)
    env.state = torch.from_numpy(np.concatenate([predator, prey, np.zeros_like(prey)], axis=-1))
    step = env.advance(torch.zeros(1, n_envs, 3))
    rewards, success = env.task.reward(step.next_achieved, env.state[..., 3:6], step.terminated)
    assert (success == step.success).all() and (step.terminated == step.success).all()
    assert (rewards == step.success.float()).all()
    assert 0.2 < success.double().mean() < 0.8
