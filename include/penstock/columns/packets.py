"""What travels between source, reducer and sink: packets of columns that Spark need not look into.

A packet is one row: which shard, what kind, and either a table (Arrow's stream format) or a
message (JSON). Rows of their own cost Spark and pandas about 1 us each way; a packet costs its
bytes (docs/concepts/speed.md).
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

PARTIAL, SEED, TICK = 0, 1, 2
ANSWER, LATE, STATUS, CLASSES, WRITTEN, EXCLUDED, STEP, MOVED = 3, 4, 5, 6, 7, 8, 9, 10
PACKET = pa.schema(
    [pa.field("shard", pa.int64()), pa.field("kind", pa.int64()), pa.field("content", pa.binary())]
)
COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
ROWS = 262_144
"""Most rows a packet; Spark keeps a packet in one piece."""


def message(shard: int, kind: int, content: dict[str, Any]) -> pa.Table:
    """A packet that holds a message."""
    return _packets(shard, kind, [json.dumps(content).encode()])


def packets(shard: int, kind: int, table: pa.Table) -> pa.Table:
    """A table as packets; none when it is empty."""
    pieces = range(0, table.num_rows, ROWS)
    return _packets(shard, kind, [packed(table.slice(at, ROWS)) for at in pieces])


def _packets(shard: int, kind: int, contents: list[bytes]) -> pa.Table:
    count = len(contents)
    columns = [pa.repeat(shard, count), pa.repeat(kind, count), pa.array(contents, pa.binary())]
    return pa.table(columns, schema=PACKET)


def messages_in(received: pa.Table, kind: int) -> list[dict[str, Any]]:
    """The messages of one kind."""
    return [json.loads(bytes(content)) for content in _contents(received, kind)]


def table_in(received: pa.Table, kind: int, schema: pa.Schema) -> pa.Table:
    """All rows in the packets of one kind."""
    tables = [unpacked(content) for content in _contents(received, kind)]
    return pa.concat_tables([schema.empty_table(), *tables])


def _contents(received: pa.Table, kind: int) -> Iterator[pa.Buffer]:
    found = received.filter(pc.equal(received["kind"], kind))["content"]
    for chunk in found.chunks:
        for value in chunk:
            yield value.as_buffer()


def packed(table: pa.Table) -> bytes:
    """A table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=COMPRESSED) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def unpacked(content: bytes | pa.Buffer) -> pa.Table:
    """A table that ``packed`` wrote."""
    return pa.ipc.open_stream(content).read_all()
