"""The gymnasium wrapper against the run axis; other libraries' checks: tests/contract."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from hindsight.envs.wrapper import GoalEnv
from hindsight.specs.environments.predator_prey import PREYS
from hindsight.streams import Purpose, stream
from tests.support.native import CASES, prey

PREY, POINT, BITS = "PredatorPrey-v0", "PointReach-v0", "BitFlipping-v0"


def made(name: str, **parameters: Any) -> GoalEnv:
    env = gymnasium.make(name, **parameters).unwrapped
    assert isinstance(env, GoalEnv)
    return env


def concatenated(obs: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([obs["achieved_goal"], obs["desired_goal"], obs["observation"]])


AXIS = CASES | {
    f"{name}, {fidelity}": prey(prey=name, fidelity=fidelity, grid_size=4.0, max_steps=4)
    for name in PREYS
    for fidelity in ("released", "described")
}


@pytest.mark.parametrize("case", AXIS)
def test_the_face_is_the_environment_of_the_run_axis(case: str) -> None:
    """Step for step, through the ends of episodes; its goal functions say what happened."""
    kind, spec, actions = (getattr(AXIS[case], name) for name in ("kind", "spec", "actions"))
    axis, wrapper = kind(spec, [5]), made(spec.id, **spec.model_dump(exclude={"id"}))
    methods = wrapper.compute_reward, wrapper.compute_terminated
    steps, g = 150, axis.goal_size
    axis.prepare_rollout(1, steps)
    generator = stream(5, Purpose.PREY, 1)  # what the run draws the prey's numbers from
    begins, taken = True, []
    for t in range(steps):
        state = axis.state[0, 0].numpy().copy()
        if begins:
            obs, info = wrapper.reset(seed=0, options={"state": state})
            assert info == {"is_success": False, "timed_out": False}
            wrapper.np_random = generator
        np.testing.assert_array_equal(concatenated(obs), state)
        assert wrapper.observation_space.contains(obs)
        action = actions(axis, t)
        step = axis.step(action)
        desired = torch.from_numpy(state[g : 2 * g])[None, None]
        expected, success = axis.task.reward(step.next_achieved, desired, step.terminated)
        obs, reward, *ends, info = wrapper.step(action[0, 0].numpy())
        np.testing.assert_array_equal(concatenated(obs), step.next_obs[0, 0].numpy())
        if axis.goals_move:
            np.testing.assert_array_equal(info["desired_goal_at_reward"], desired[0, 0].numpy())
        assert reward == float(expected) and info["is_success"] == bool(success)
        assert ends == [bool(step.terminated), bool(step.truncated)]
        begins = any(ends)
        # The prey has moved since.
        goals = obs["achieved_goal"], info.get("desired_goal_at_reward", obs["desired_goal"])
        found = [method(*goals, info) for method in methods]
        assert found == [reward, ends[0]] and list(map(type, found)) == [float, bool]
        taken.append((*goals, info, found))
    achieved, desired, infos, outcomes = zip(*taken, strict=True)
    late = np.array([info["timed_out"] for info in infos])
    assert len({(over, cut) for (_, over), cut in zip(outcomes, late, strict=True)}) > 1
    assert len({reward for reward, *_ in outcomes}) > 1
    # In batches, with infos in every accepted form.
    for said in (list(infos), np.array(infos), infos, {"timed_out": late}):
        batch = [method(np.array(achieved), np.array(desired), said) for method in methods]
        assert [x.dtype for x in batch] == [np.float32, bool]  # type: ignore[union-attr]
        np.testing.assert_array_equal(np.stack(batch, -1), outcomes)
    shaped = [np.reshape(goals, (10, 15, -1)) for goals in (achieved, desired)]
    in_time = ~late.reshape(10, 15)
    for said in ({}, None, [{}] * steps):  # the limit is not reached
        batch = [method(*shaped, said)[in_time] for method in methods]
        expected = np.reshape(outcomes, (10, 15, 2))[in_time]
        np.testing.assert_array_equal(np.stack(batch, -1), expected)


def begun(state: Any, name: str = PREY, **parameters: Any) -> None:
    made(name, **parameters).reset(options={"state": state})


def acted(action: Any, name: str = PREY, **parameters: Any) -> None:
    env = made(name, **parameters)
    env.reset(seed=0)
    env.step(action)


def test_other_names_of_the_point_mass() -> None:
    """`goal_range`, `distance_threshold`, a seed when it is made, and `compute_success`."""
    make = partial(gymnasium.make, POINT)
    env = make(goal_range=2.0, distance_threshold=0.25, seed=7)
    assert (env.unwrapped.parameters.range, env.unwrapped.parameters.threshold) == (2, 0.25)
    first, second = env.reset()[0], env.reset()[0]
    np.testing.assert_equal(first, make(range=2.0).reset(seed=7)[0])
    assert (first["desired_goal"] != second["desired_goal"]).any()
    env = env.unwrapped
    achieved, desired = np.zeros((3, 2)), np.array([[0.2, 0.1], [0.2, 0.2], [0, 0]])
    assert env.compute_success(achieved, desired).tolist() == [True, False, True]
    assert env.compute_success(achieved[0], desired[0]) is True
    bits = gymnasium.make(BITS, n_bits=2).unwrapped
    assert bits.compute_success([[0, 1], [0, 1]], [[0, 1], [1, 1]]).tolist() == [True, False]


NUMBERS = "action: .* is not allowed; it takes 3 finite numbers"
CHOICE = "action: .* not allowed; it is a whole number from 0 to 2"


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        (lambda: GoalEnv(PREY, "ascii"), "render_mode: 'ascii' is not allowed; it is 'rgb_array'"),
        (lambda: GoalEnv(POINT, threshold=1.5), r"threshold 1\.5 must be below range 1: otherwise"),
        (lambda: made(PREY).reset(options={"hunter": 0}), "unknown option 'hunter' of reset; the"),
        (lambda: begun([0, 0]), r"'state' of reset: \[0, 0\] .*; it takes 9 finite numbers"),
        (lambda: begun("here"), "'here' is not allowed; it takes 9 finite numbers"),
        (lambda: begun([0, 0, 10.5, *[0] * 6]), r"achieved_goal in Box\(-10.0, 10.0, \(3,"),
        (lambda: begun([*[0] * 8, 0.9]), r"observation in Box\(-0.866"),
        (lambda: begun([*[0] * 6, 0.3, 0], POINT, max_speed=0.25), r"0.3.*\[1. +1. +0.25 0.25\]"),
        (lambda: begun([0, 0.5, 0, 0, 0, 0.5], BITS, n_bits=2), "is not allowed; .*MultiBinary"),
        *((partial(acted, x), NUMBERS) for x in ([0.0] * 2, [[0.0] * 3], [0, 0, np.inf], None)),
        *((partial(acted, x, BITS, n_bits=3), CHOICE) for x in (3, -1, 1.0, [0], None)),
    ],
)
def test_what_is_not_allowed_is_named(refused: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        refused()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [PREY, POINT, BITS])
def test_steps_and_pictures_belong_to_an_episode(name: str) -> None:
    env = made(name)
    action = env.action_space.sample()
    with pytest.raises(gymnasium.error.ResetNeeded, match="has not begun"):
        env.step(action)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="draws nothing without a render mode"):
        assert env.render() is None
    while not any(env.step(action)[2:4]):
        pass
    with pytest.raises(gymnasium.error.ResetNeeded, match="is over"):
        env.step(action)
    draws = gymnasium.make(name, render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded):
        draws.render()
