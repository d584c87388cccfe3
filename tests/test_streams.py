"""Random streams: a function of their key, by the definition of their generator."""

import itertools

import numpy as np
import pytest

from hindsight.streams import Purpose, stream

MASK = 2**64 - 1
KEYS = list(itertools.product((0, 1, 42, 2**32 + 1), Purpose, (0, 1, 2, 1 << 40, (1 << 40) + 1)))


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x64-10 (Salmon et al. 2011)."""
    (x0, x1, x2, x3), (k0, k1) = counter, key
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * x0, 0xCA5A826395121157 * x2
        x0, x1, x2, x3 = (b >> 64) ^ x1 ^ k0, b & MASK, (a >> 64) ^ x3 ^ k1, a & MASK
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return [x0, x1, x2, x3]


@pytest.mark.parametrize(("seed", "purpose", "index"), KEYS)
def test_a_stream_is_philox_with_seed_and_purpose_as_key_and_the_index_as_highest_word(
    seed, purpose, index
):
    """So it is a function of its key, streams of different keys share no numbers, a long draw does
    not run into the next index, and neither changes between versions.
    """
    # NumPy counts up before it draws.
    expected = [philox([block, 0, 0, index], [seed, purpose]) for block in (1, 2)]
    drawn = stream(seed, purpose, index).integers(0, 2**64, 8, dtype=np.uint64)
    assert drawn.tolist() == [*expected[0], *expected[1]]
