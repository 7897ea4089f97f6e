"""Groups and hashes of rows: few and many combinations, and hashes that last."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.groups import encoded_of, group, hash_rows


def column(values: list, kind: pa.DataType | None = None) -> pa.ChunkedArray:
    """In two chunks, as files give them."""
    half = len(values) // 2
    return pa.chunked_array([pa.array(values[:half], kind), pa.array(values[half:], kind)], kind)


def checked(columns: list, rows: list[tuple]) -> tuple[list[int], list[int]]:
    """Groups as they are found, which are the distinct rows, each with its first one."""
    ids, first = group(columns, len(rows))
    assert len({*rows}) == len(first)
    assert [rows.index(row) for row in rows] == first[ids].tolist()
    return ids.tolist(), first.tolist()


def test_groups_by_hand_lie_in_order_of_the_first_column() -> None:
    times, texts = [30, 10, 30, 10, 20], ["b", "a", "b", None, "a"]
    found = checked([np.array(times, np.int64), column(texts, pa.string())],
                    list(zip(times, texts, strict=True)))  # fmt: skip
    assert found == ([3, 0, 3, 1, 2], [1, 3, 4, 0])


def test_no_column_is_one_group_and_no_row_is_none() -> None:
    assert checked([], [()] * 3) == ([0, 0, 0], [0])
    empty = np.array([], np.int64)
    for columns in ([empty], [column([], pa.string())], [empty, column([], pa.string())]):
        ids, first = group(columns, 0)
        assert (len(ids), len(first)) == (0, 0)


@pytest.mark.parametrize("span", [0, 1, 2**20 - 2, 2**20 - 1, 2**20, 2**20 + 1, 2**62])
def test_near_and_far_values_are_told_apart(span: int) -> None:
    values = [-5, span - 5, -5, span - 6, span // 2]
    others = [1, 1, 2, 1, 1]
    checked([np.array(values, np.int64), np.array(others, np.int64)],
            list(zip(values, others, strict=True)))  # fmt: skip


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_combinations_of_wide_columns_are_told_apart_beyond_64_bits(count: int) -> None:
    """A million values each; 16 x 2**60 + 0 would be 0 x 2**60 + 0 there."""
    last, rest = 2**20 - 1, count - 1
    rows = [(0,) * count, (last,) * count, (0,) * rest + (last,), (last,) + (0,) * rest,
            (16,) + (0,) * rest, (0,) * count]  # fmt: skip
    checked([np.array(each, np.int64) for each in zip(*rows, strict=True)], rows)


def test_values_as_far_apart_as_they_can_be_do_not_run_into_each_other() -> None:
    """In 64 bits 4 x (2**62 + 1) + 0 is 0 x (2**62 + 1) + 4."""
    far = 2**61
    rows = [(0, 4 - far), (1, far), (2, -far), (3, 0), (4, -far)]
    checked([np.array(each, np.int64) for each in zip(*rows, strict=True)], rows)


def test_many_rows_lie_in_order_of_the_first_column() -> None:
    times = np.arange(100_000) * 7_919 % 300_007
    ids, first = group([times, np.zeros(100_000, np.int64)], 100_000)
    assert times[first].tolist() == sorted(times.tolist()), "7,919 and 300,007 are primes"
    assert (times[first][ids] == times).all()


def test_columns_that_are_dictionaries_already_mean_the_same() -> None:
    values = ["x", "y", None, "x", "z", "y"]
    plain = column(values, pa.string())
    parts = [chunk.dictionary_encode() for chunk in plain.chunks]
    found = pa.chunked_array(parts)
    assert group([found], 6)[0].tolist() == group([plain], 6)[0].tolist() == [0, 1, 2, 0, 3, 1]
    assert [v.as_py() for v in encoded_of(found)] == values
    known = pa.chunked_array([pa.array(["x", "y"]).dictionary_encode(),
                              pa.array(["y", "z"]).dictionary_encode()])  # fmt: skip
    assert group([known], 4)[0].tolist() == [0, 1, 1, 2]
    assert hash_rows([known], 4).tolist() == hash_rows([column(["x", "y", "y", "z"])], 4).tolist()


def test_hashes_of_rows_are_what_lakes_hold() -> None:
    """Shards of a state hang on them: no version may give others."""
    noon = datetime(2026, 11, 24, 12, tzinfo=UTC)
    texts = column(["a", "b", None, "a"], pa.string())
    numbers = column([1, 2, 3, 1], pa.int64())
    truths = column([True, False, True, True], pa.bool_())
    instants = column([noon, noon, None, noon], pa.timestamp("us", "UTC"))
    assert [hash_rows([each], 4).tolist() for each in (texts, numbers, truths, instants)] == [
        [1_294_114_859, 91_986_792, 1_081_917_361, 1_294_114_859],
        [185_501_701, 474_717_461, 796_324_234, 185_501_701],
        [185_501_701, 0, 185_501_701, 185_501_701],
        [856_474_996, 856_474_996, 928_169_191, 856_474_996],
    ]
    assert hash_rows([texts, numbers], 4).tolist() == [
        736_476_451, 355_158_238, 168_906_040, 736_476_451,
    ]  # fmt: skip
    assert hash_rows([], 2).tolist() == [0, 0]


def test_a_hash_does_not_hang_on_a_null_beside_it() -> None:
    for values, kind in (([7, 2**53 + 1], pa.int64()), ([True, False], pa.bool_())):
        alone, beside = column(values, kind), column([*values, None], kind)
        assert hash_rows([beside], 3).tolist()[:2] == hash_rows([alone], 2).tolist()


def test_hashes_are_spread_over_31_bits() -> None:
    found = hash_rows([column([*range(10_000)], pa.int64())], 10_000)
    assert 0 <= found.min() <= found.max() < 2**31
    for parts in (found % 8, found >> 28):
        assert np.bincount(parts, minlength=8).min() > 1_100
        assert np.bincount(parts).max() < 1_400
