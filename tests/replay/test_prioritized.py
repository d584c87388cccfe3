"""Proportional priorities against cumulative sums, closed forms and a buffer of plain lists."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hindsight.replay.buffer import Relabelling
from hindsight.replay.prioritized import PrioritizedReplayBuffer, SumTree, annealed
from tests.replay.numbered import GOAL, ROW, add, numbers, reward
from tests.support.examples import quick

# --- the tree -------------------------------------------------------------------------------------


@quick(80)
@given(
    leaves=st.integers(1, 600),
    runs=st.integers(1, 3),
    zeros=st.sampled_from([0.0, 0.5, 0.95]),
    samples=st.sampled_from([1, 7, 64]),
    seed=st.integers(0, 10**6),
)
def test_the_tree_draws_as_a_cumulative_sum_does(leaves, runs, zeros, samples, seed):
    """Values of very different sizes, set in several steps; zeros are never drawn.

    The first run's are so large that a sum over runs would forget the others.
    """
    rng = np.random.default_rng(seed)
    tree, scale = SumTree(runs, leaves), 1e-18 ** np.arange(runs)
    values = np.zeros((runs, leaves))
    for _ in range(3):
        run, leaf = rng.integers(runs, size=leaves), rng.integers(leaves, size=leaves)
        new = np.exp(rng.normal(0, 4, leaves)) * (rng.random(leaves) >= zeros) * scale[run]
        tree.set(run, leaf, new)
        for r, i, value in zip(run, leaf, new, strict=True):
            values[r, i] = value
    values[:, rng.integers(leaves)] = scale
    tree.set(*np.indices(values.shape).reshape(2, -1), values.ravel())
    np.testing.assert_array_equal(tree.leaves, values)
    np.testing.assert_allclose(tree.sums[:, 1], values.sum(1), rtol=1e-12)
    # At the ends of the parts a rounding error could select a neighbour, or no leaf.
    uniform = rng.choice([0.0, np.nextafter(1, 0), 0.5, *rng.random(5)], (runs, samples))
    drawn = tree.draw(uniform)
    assert (tree.leaves[np.arange(runs)[:, None], drawn] > 0).all()
    up_to = values.cumsum(1)
    wanted = (np.arange(samples) + uniform) / samples * up_to[:, -1:]
    low = np.where(drawn > 0, np.take_along_axis(up_to, drawn - 1, 1), 0)
    high = np.take_along_axis(up_to, drawn, 1)
    slack = 1e-9 * up_to[:, -1:]
    assert ((low - slack <= wanted) & (wanted <= high + slack)).all()


def test_rounding_does_not_select_a_leaf_of_another_node():
    """The largest number below 1 draws the last leaf, in whatever order children were added up."""
    values = np.random.default_rng(0).exponential(1, (500, 32))
    values[:, [0, 16]] = 0
    tree = SumTree(500, 32)
    tree.set(*np.indices(values.shape).reshape(2, -1), values.ravel())
    drawn = tree.draw(np.full((500, 1), np.nextafter(1, 0)))
    assert (drawn == 31).all()
    values[:, 16:] = 0
    tree.set(*np.indices(values.shape).reshape(2, -1), values.ravel())
    assert (tree.draw(np.full((500, 1), np.nextafter(1, 0))) == 15).all()


# --- the buffer -----------------------------------------------------------------------------------


def add_steps(buffer: PrioritizedReplayBuffer, first: int, steps: int, ends: bool = True) -> None:
    """Transitions with numbers from `first` on; `ends`: the last one ends the episode."""
    for number in range(first, first + steps):
        never = np.zeros((1, 1), bool)
        over = never | (ends and number == first + steps - 1)
        add(buffer, np.full((1, 1), number), never, over, never)


def filled() -> PrioritizedReplayBuffer:
    """Ten slots with an episode of four steps and one of three."""
    buffer = PrioritizedReplayBuffer(1, 1, 10, ROW, Relabelling(k=0))
    add_steps(buffer, 0, 4)
    add_steps(buffer, 4, 3)
    return buffer


def number_of(obs: torch.Tensor) -> np.ndarray:
    return np.floor(obs[..., 0].numpy() / 10).astype(int)


def test_dropped_transitions_are_not_sampled_and_get_no_priority():
    buffer = filled()

    def sampled_numbers() -> set[int]:
        uniform = np.random.default_rng(0).random((1, 4000, 3))
        return set(number_of(buffer.sample(uniform, reward).obs[0]))

    assert sampled_numbers() == set(range(7))
    add_steps(buffer, 7, 4, ends=False)  # the fourth overwrites the first slot
    buffer.update_priorities(np.arange(4)[None], np.ones((1, 4)))
    assert sampled_numbers() == {4, 5, 6}
    add_steps(buffer, 11, 1)
    assert sampled_numbers() == set(range(4, 12))


@quick(80)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=12),
    alpha=st.sampled_from([0.0, 0.7, 1.0]),
    beta=st.sampled_from([0.0, 0.4, 1.0, np.True_]),  # a boolean, as in cpprb
    eps=st.sampled_from([0.0, 1e-9, 0.1]),
    seed=st.integers(0, 10**6),
)
def test_priorities_follow_their_transitions(lengths, alpha, beta, eps, seed):
    """Against a dictionary from transition to priority, through wrap-around and updates.

    P(i) = p_i^alpha / sum, p_i = |TD error| + eps, and w_i = (N P(i))^-beta / max over the batch.
    Some errors are 0; a priority of 0 is raised to 1e-200, from which it can come back.
    """
    rng = np.random.default_rng(seed)
    buffer = PrioritizedReplayBuffer(1, 1, 16, ROW, Relabelling(k=4), alpha=alpha, eps=eps)
    known: dict[int, float] = {}
    largest, steps, episodes = 1.0, 0, []
    for length in lengths:
        add_steps(buffer, steps, length)
        episodes.append(range(steps, steps + length))
        steps += length
        episodes = [e for e in episodes if e[0] >= steps - 16]
        known = {i: known.get(i, largest) for episode in episodes for i in episode}
        uniform = rng.random((1, 40, 3))
        index, weights = buffer.draw(uniform[..., 0], beta)
        batch = buffer.sample_at(index, uniform[..., 1:], reward, weights)
        number = number_of(batch.obs[0])
        stored = dict(zip(known, buffer.stored().tolist(), strict=True))
        assert index[0].tolist() == [stored[i] for i in number.tolist()]
        # Stratified: how often each is drawn differs from its share by less than two.
        counts = np.array([(number == i).sum() for i in known])
        shares = np.array([*known.values()]) / sum(known.values())
        assert np.abs(counts - 40 * shares).max() < 2
        share = np.array([known[i] for i in number]) / sum(known.values())
        weight = (len(known) * share) ** -float(beta)
        np.testing.assert_allclose(batch.weight[0], weight / weight.max(), rtol=1e-5)
        desired = batch.obs[0].numpy()[:, GOAL : 2 * GOAL]
        relabelled = (desired != numbers(number, "desired")).any(-1)
        np.testing.assert_array_equal(relabelled, uniform[0, :, 1] < 0.8)
        assert (desired[relabelled, 0] // 10 >= number[relabelled]).all()
        chosen = rng.permutation([*known])[: 1 + len(known) // 2].tolist()
        errors = rng.normal(0, 2, len(chosen)).round()
        buffer.update_priorities(np.array([[stored[i] for i in chosen]]), errors[None])
        new = np.maximum((np.abs(errors) + eps) ** alpha, 1e-200)
        known |= dict(zip(chosen, new.tolist(), strict=True))
        largest = max(largest, new.max())


@pytest.mark.filterwarnings("ignore:overflow")
def test_errors_whose_sum_is_infinite():
    buffer = PrioritizedReplayBuffer(1, 1, 16, ROW, Relabelling(k=4), alpha=1.0, eps=1e308)
    add_steps(buffer, 0, 7)
    buffer.update_priorities(np.arange(5)[None], np.full((1, 5), 1.7e308))
    index, weights = buffer.draw((np.arange(40)[None] + 0.5) / 40, 0.4)
    assert set(index[0]) == set(range(5)), "equal, and far above the other two"
    assert torch.equal(weights, torch.ones(1, 40))


@pytest.mark.parametrize(
    ("share", "beta"), [(-1, 0.4), (0, 0.4), (0.25, 0.55), (0.5, 0.7), (1, 1.0), (7, 1.0)]
)
def test_beta_is_annealed_to_one(share, beta):
    assert annealed(0.4, share) == pytest.approx(beta)


@pytest.mark.parametrize("value", [2, np.nan, "half", np.array([0.1, 0.2])])
def test_an_invalid_alpha_or_beta_is_an_error(value):
    for name, function in (
        ("alpha", lambda x: PrioritizedReplayBuffer(1, 1, 10, ROW, Relabelling(), alpha=x)),
        ("beta", lambda x: filled().draw(np.zeros((1, 2)), x)),
        ("beta", lambda x: annealed(x, 0.5)),
    ):
        with pytest.raises(ValueError, match=rf"{name}: .* is not allowed; it must lie in \[0, 1"):
            function(value)


def test_errors_leave_the_priorities_as_they_were():
    with pytest.raises(ValueError, match="eps: 'small' is not allowed; it must be a number, 0 or"):
        PrioritizedReplayBuffer(1, 1, 10, ROW, Relabelling(), eps="small")
    buffer = filled()
    before = buffer.state_dict()["priorities"]
    for index, errors, message in (
        ([[0, 1]], [[1.0]], "priorities: shape"),
        ([[0, 1]], [[1.0, np.nan]], "priorities: nan is not allowed; every number must be finite"),
        (
            [[0, 1]],
            [[1.0, 1j]],
            "priorities: a complex number is not allowed; every number must be",
        ),
        ([[0, 100]], [[1.0, 1.0]], "indexes: each row must hold indexes"),
        ([[-1]], [[1.0]], "indexes: each row must hold indexes"),
    ):
        with pytest.raises(ValueError, match=message):
            buffer.update_priorities(np.array(index), errors)
    assert torch.equal(buffer.state_dict()["priorities"], before)
