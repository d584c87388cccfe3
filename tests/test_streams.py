"""Random streams: equal for equal keys, and independent for different ones."""

import itertools

import numpy as np
import pytest
from scipy import stats

from hindsight.streams import Purpose, stream

KEYS = list(itertools.product((0, 1, 2**32 + 1), Purpose, (0, 1, 2, 1 << 40, (1 << 40) + 1)))


def test_a_stream_is_a_function_of_its_key():
    for seed, purpose, index in KEYS:
        first, again = stream(seed, purpose, index), stream(seed, purpose, index)
        first_numbers = first.random(10)
        stream(seed, purpose, index + 1).random(1000)  # whatever is drawn elsewhere
        assert np.array_equal(first_numbers, again.random(10))


def test_streams_of_different_keys_share_no_numbers():
    """A hundred 64-bit numbers of each of 120 streams: no two are equal."""
    numbers = [stream(*key).integers(0, 2**64, 100, dtype=np.uint64) for key in KEYS]
    together = np.concatenate(numbers)
    assert len(np.unique(together)) == len(together)


def test_a_long_draw_does_not_run_into_the_next_index():
    """Where indices counted numbers and not blocks of them, index 1 would be a shift of index 0."""
    long = stream(3, Purpose.POLICY, 0).integers(0, 2**64, 50_000, dtype=np.uint64)
    following = stream(3, Purpose.POLICY, 1).integers(0, 2**64, 50_000, dtype=np.uint64)
    assert not np.isin(following, long).any()


def test_the_numbers_do_not_change_between_versions():
    """Philox4x64-10 with this key and counter, by definition (Salmon et al. 2011)."""

    def philox(counter: list[int], key: list[int]) -> list[int]:
        mask = 2**64 - 1
        (x0, x1, x2, x3), (k0, k1) = counter, key
        for _ in range(10):
            a, b = 0xD2E7470EE14C6C93 * x0, 0xCA5A826395121157 * x2
            x0, x1, x2, x3 = (b >> 64) ^ x1 ^ k0, b & mask, (a >> 64) ^ x3 ^ k1, a & mask
            k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
        return [x0, x1, x2, x3]

    # NumPy counts up before it draws.
    expected = philox([1, 0, 0, 9], [42, Purpose.PREY])
    drawn = stream(42, Purpose.PREY, 9).integers(0, 2**64, 4, dtype=np.uint64)
    assert [int(x) for x in drawn] == expected


@pytest.mark.parametrize("purpose", [Purpose.SPAWN, Purpose.RELABEL])
def test_neighbouring_seeds_and_indices_are_independent(purpose):
    first = np.array([[stream(s, purpose, i).random() for i in range(40)] for s in range(40)])
    assert stats.kstest(first.ravel(), "uniform").pvalue > 1e-3
    for a, b in ((first[1:], first[:-1]), (first[:, 1:], first[:, :-1])):
        assert stats.pearsonr(a.ravel(), b.ravel()).pvalue > 1e-3


def test_purposes_keep_their_numbers():
    """They are part of every random draw: renumbering one changes every published result."""
    assert {p.name: p.value for p in Purpose} == {
        "INITIALISATION": 0,
        "SPAWN": 1,
        "PREY": 2,
        "POLICY": 3,
        "MINIBATCH": 4,
        "RELABEL": 5,
        "EVALUATION_SPAWN": 6,
        "EVALUATION_PREY": 7,
        "UPDATE": 8,
        "UNIFORM_ACTIONS": 9,
    }
