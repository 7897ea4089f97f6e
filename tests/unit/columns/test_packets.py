"""Packets: what was put in comes out, by kind, in pieces of a bounded size."""

from unittest import mock

import pyarrow as pa

from penstock.columns import packets as module
from penstock.columns.packets import (
    ANSWER,
    CLASSES,
    LATE,
    PACKET,
    PARTIAL,
    SEED,
    STATUS,
    TICK,
    message,
    messages_in,
    packed,
    packets,
    table_in,
    unpacked,
)

TABLE = pa.table({"n": [*range(10)], "s": ["ü", None] * 5})


def test_tables_and_messages_of_each_kind_come_out_again() -> None:
    received = pa.concat_tables([
        packets(3, PARTIAL, TABLE.slice(0, 4)), message(1, TICK, {"a": [1, None]}),
        packets(4, PARTIAL, TABLE.slice(4)), packets(3, SEED, TABLE.slice(0, 1)),
        message(2, TICK, {}),
    ])  # fmt: skip
    assert received.schema == PACKET
    assert received["shard"].to_pylist() == [3, 1, 4, 3, 2]
    assert table_in(received, PARTIAL, TABLE.schema) == TABLE
    assert table_in(received, SEED, TABLE.schema) == TABLE.slice(0, 1)
    assert table_in(received, LATE, TABLE.schema) == TABLE.slice(0, 0)
    assert messages_in(received, TICK) == [{"a": [1, None]}, {}]
    assert messages_in(received, STATUS) == []


def test_a_long_table_is_cut_and_an_empty_one_is_no_packet() -> None:
    with mock.patch.object(module, "ROWS", 4):
        found = packets(0, ANSWER, TABLE)
    assert [unpacked(c.as_buffer()).num_rows for c in found["content"]] == [4, 4, 2]
    assert table_in(found, ANSWER, TABLE.schema) == TABLE
    assert packets(0, ANSWER, TABLE.slice(0, 0)).num_rows == 0
    assert packets(0, ANSWER, TABLE).num_rows == 1


def test_every_kind_has_a_number_of_its_own() -> None:
    assert len({PARTIAL, SEED, TICK, ANSWER, LATE, STATUS, CLASSES}) == 7


def test_what_is_packed_is_compressed() -> None:
    table = pa.table({"n": [7] * 100_000})
    assert len(packed(table)) < 100_000
    assert unpacked(packed(table)) == table
