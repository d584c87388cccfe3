"""What every registered environment must do, and tasks that meet all kinds of ends.

A new environment is tested as soon as its specification is registered.
"""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3
from torch import Tensor

import hindsight.envs  # noqa: F401  (registers the environments)
from hindsight.specs.base import GOAL_KEYS
from tests.support.native import EVERY, SEEDS, Case, Played, play


@pytest.fixture(params=EVERY)
def case(request: pytest.FixtureRequest) -> Case:
    return EVERY[request.param]


def test_what_it_says_of_itself_is_so(case: Case) -> None:
    """Sizes, bounds, the length of an episode, and where its goals stand."""
    env = case.make(SEEDS)
    g = env.goal_size
    size, limit = env.observation_size, case.spec.step_limit
    assert env.state.shape == (4, 2, size) and size == case.spec.observation_size
    assert env.action_size == case.spec.action_size and env.n_choices == case.spec.n_choices
    played = play(env, case.actions, 6 * limit)
    bounds = torch.tensor(env.limits())
    assert bounds.shape == (size,) and (played.states.abs() <= bounds + 1e-5).all()
    assert torch.equal(played.steps.next_obs[..., :g], played.steps.next_achieved)
    for run, one in np.ndindex(4, 2):
        ends = played.over[:, run, one].nonzero()[:, 0]
        lengths = torch.diff(ends, prepend=torch.tensor([-1]))
        assert len(ends) and lengths.max() <= limit
        cut = played.steps.truncated[ends, run, one]
        assert (lengths[cut] == limit).all()  # by the limit alone
    assert not (played.steps.terminated & played.steps.truncated).any()
    success, ended = played.steps.success, played.steps.terminated
    assert (ended[success] == env.task.terminates_on_success).all()


def test_actions_count_up_to_the_bounds_of_their_space(case: Case) -> None:
    """Continuous ones: beyond -1 and 1, they do what these do."""
    if case.spec.n_choices:
        pytest.skip("its actions are choices")

    def played(factor: float) -> Played:
        env = case.make(SEEDS)

        def actions(env: Any, t: int) -> Tensor:
            return factor * case.actions(env, t).sign()

        return play(env, actions, 3 * case.spec.step_limit)

    assert played(1.0).equals(played(2.0))


def test_other_libraries_find_nothing_and_it_pays_the_same(case: Case) -> None:
    """Its reward is that of the run axis, for one goal and for many."""
    keys = case.spec.model_dump(exclude={"id"})
    env = gymnasium.make(case.spec.id, **keys)
    with warnings.catch_warnings(action="error"):
        check_env(env.unwrapped)
        check_env_of_sb3(env.unwrapped)
    axis = case.make([0], 16)
    g = axis.goal_size
    achieved, other = (axis.beginnings[0, :, i, :g] for i in (0, 1))
    desired = torch.where(torch.arange(16)[:, None] % 2 == 0, achieved, other)
    expected, success = axis.task.reward(achieved, desired, torch.zeros(16, dtype=torch.bool))
    assert success[::2].all()
    face = env.unwrapped
    goals = achieved.numpy(), desired.numpy()
    found = face.compute_reward(*goals, [{}] * 16)
    np.testing.assert_allclose(found, expected)
    for i in range(4):
        assert face.compute_reward(goals[0][i], goals[1][i], {}) == expected[i]
    obs, _ = env.reset(seed=1)
    assert list(obs) == list(GOAL_KEYS)


def test_seeds_and_environments_differ(case: Case) -> None:
    """Those of evaluation, too."""
    envs = [case.make([0, 1, 2], 4, evaluation=evaluation) for evaluation in (False, True)]
    # Four episodes of 24 environments.
    beginnings = torch.stack([env.beginnings[:, :, :4] for env in envs]).flatten(3).flatten(0, 2)
    assert len(beginnings.unique(dim=0)) == 24


def beginnings(played: Played, run: int, env: int) -> Tensor:
    """First observations of the episodes in order."""
    starts = torch.cat([torch.ones_like(played.over[:1]), played.over[:-1]])[:, run, env]
    return played.states[starts, run, env]


def test_beginnings_are_those_of_their_number_through_many_blocks(case, monkeypatch):
    """Whatever was done before."""
    monkeypatch.setattr(case.kind, "block_size", 4)
    env = case.make(SEEDS)
    played = play(env, case.actions, 40 * case.spec.step_limit)
    assert int(env.episode[3].min()) >= 40  # ten blocks, and more
    for place in (0, 1):
        found = beginnings(played, 3, place)
        for number in (0, 3, 4, 8, 9, 36, 39):
            fresh = case.make(SEEDS)
            fresh.load_state_dict({"episode": torch.full((4, 2), number)})
            assert torch.equal(found[number], fresh._beginning()[3, place])


@pytest.mark.parametrize("episodes", [1, 9])
def test_a_rewound_evaluation_is_identical(case, episodes, monkeypatch):
    """Also if it was longer than the two blocks in memory."""
    monkeypatch.setattr(case.kind, "block_size", 4)
    env = case.make(SEEDS, 3, evaluation=True)
    n_steps = episodes * case.spec.step_limit
    first = play(env, case.actions, n_steps)
    for _ in range(2):
        env.rewind()
        assert first.equals(play(env, case.actions, n_steps))
    # Each number has episodes of its own, which do not depend on the way there.
    seen = []
    for number in (11, 3, 20, 0):
        direct = case.make(SEEDS, 3, evaluation=True)
        for one in (env, direct):
            one.rewind(number)
        assert torch.equal(env.state, direct.state)
        seen.append(env.state.flatten())
    assert len(torch.stack(seen).unique(dim=0)) == 4
