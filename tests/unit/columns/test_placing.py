"""Which shard has a key: it hangs on the key and the number of shards alone, and few keys move."""

import numpy as np
import pytest

from penstock.columns.groups import HASHES
from penstock.columns.placing import shard_of

KEYS = 1_000_000


def by_hand(key: int, count: int) -> int:
    """Lamping and Veach 2014, figure 1."""
    b, j = -1, 0
    while j < count:
        b = j
        key = (key * 2862933555777941757 + 1) % 2**64
        j = int((b + 1) * (float(1 << 31) / float((key >> 33) + 1)))
    return b


@pytest.fixture(scope="module")
def hashes() -> np.ndarray:
    return np.random.default_rng(5).integers(0, HASHES, KEYS)


def test_it_is_the_published_one(hashes: np.ndarray) -> None:
    for count in (1, 2, 3, 7, 64):
        some = hashes[:300]
        assert shard_of(some, count).tolist() == [by_hand(int(key), count) for key in some]
    assert shard_of(hashes[:0], 4).tolist() == []


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 15, 31, 63])
def test_from_n_to_n_plus_1_about_one_in_n_plus_1_keys_move(hashes: np.ndarray, count: int) -> None:
    before, after = shard_of(hashes, count), shard_of(hashes, count + 1)
    moved = before != after
    assert abs(moved.mean() - 1 / (count + 1)) < 0.002
    assert set(after[moved]) == {count}, "all that move go to the new one"
    by_modulo = hashes % count != hashes % (count + 1)
    assert by_modulo.mean() > moved.mean() * count * 0.98, "n times as many"
    each = np.bincount(after, minlength=count + 1) / KEYS
    assert np.abs(each * (count + 1) - 1).max() < 0.04, "each has its share"
