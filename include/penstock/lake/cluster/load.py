"""How busy the nodes are, and how far streams are behind: one table a pipeline.

Source: S2J's utilisation tau, the mean over workers of busy time over time.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from penstock.columns.types import INSTANT
from penstock.core import scaling
from penstock.core.scaling import Tau
from penstock.core.window import instant, micros
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.replace import literal, replace
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

APPLICATION = "load"
EVERY = timedelta(microseconds=scaling.EVERY)
"""Between two looks at a stream's nodes."""
FRESH = 3 * EVERY
"""A look that is older says nothing of now."""
KEPT = timedelta(days=7)
LAST = micros(datetime(9999, 12, 31, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class Load:
    """What one look at a stream found.

    Attributes:
        at: the instant, us.
        seconds: since the look before.
        node, host: what the row speaks of; node none: all of the stream.
        cores: that its executors have.
        busy: seconds of tasks.
        memory: most heap that an executor held, bytes.
        received, processed: records, a second.
        backlog: records that are sealed in the log and not answered.
        behind: seconds that they take at the present speed; none: nothing is processed.
    """

    at: int
    seconds: float
    node: str | None
    host: str | None
    cores: int
    busy: float
    memory: int
    received: float | None = None
    processed: float | None = None
    backlog: int | None = None
    behind: float | None = None


def load_spec(tables: Tables) -> TableSpec:
    """The table: one row for each node a stream runs on, and one for all of the stream."""
    schema = pa.schema(
        [
            ("at", INSTANT),
            ("seconds", pa.float64()),
            ("node", pa.string()),
            ("host", pa.string()),
            ("cores", pa.int64()),
            ("busy", pa.float64()),
            ("memory", pa.int64()),
            ("received", pa.float64()),
            ("processed", pa.float64()),
            ("backlog", pa.int64()),
            ("behind", pa.float64()),
        ]
    )
    return TableSpec(tables.uri("load"), schema, (), ("at",), "load")


class LoadTable:
    """Where a stream writes its load; of one process at a time."""

    def __init__(self, tables: Tables) -> None:
        self._table = Table(load_spec(tables))

    def append(self, rows: Sequence[Load]) -> None:
        """Write down one look."""
        if not rows:
            return
        schema = self._table.spec.schema
        content = pa.Table.from_pylist([_row(each, schema) for each in rows], schema)
        self._table.append(content, APPLICATION, rows[0].at)


def loads(tables: Tables, since: datetime) -> list[Load]:
    """What was found from an instant on, the oldest first."""
    within = Spans("at", ((micros(since), LAST),))
    rows = read_table(Table(load_spec(tables)), within=within).sort_by("at")
    return [Load(**row | {"at": micros(row["at"])}) for row in rows.to_pylist()]


def taus(found: Iterable[Iterable[Load]]) -> list[Tau]:
    """How busy the nodes were, all together.

    Args:
        found: looks by stream, each the oldest first.

    Returns:
        One for each ``EVERY``: busy cores of all streams over the cores of the nodes they run on.
    """
    step = micros(EVERY)
    busy: dict[int, float] = defaultdict(float)
    cores: dict[int, dict[str, int]] = defaultdict(dict)
    for stream in found:
        for load in stream:
            if load.node is None or load.seconds <= 0:
                continue
            at = load.at // step
            busy[at] += load.busy / load.seconds
            cores[at][load.node] = max(cores[at].get(load.node, 0), load.cores)
    return [
        Tau((at + 1) * step, busy[at] / total)
        for at in sorted(busy)
        if (total := sum(cores[at].values()))
    ]


def busy_now(found: Iterable[Iterable[Load]], now: datetime) -> dict[str, float]:
    """How busy each node was when each stream last looked, by name; old looks do not count.

    Args:
        found: looks by stream, each the oldest first.
        now: the present instant.
    """
    since = micros(now - FRESH)
    busy: dict[str, float] = defaultdict(float)
    cores: dict[str, int] = {}
    for stream in found:
        newest = {load.node: load for load in stream if load.node is not None and load.at >= since}
        for name, load in newest.items():
            busy[name] += load.busy / load.seconds
            cores[name] = max(cores.get(name, 0), load.cores)
    return {name: busy[name] / cores[name] for name in busy if cores[name]}


def forget(tables: Tables, now: datetime) -> int:
    """Take away what is older than ``KEPT``; returns how many rows."""
    table, until = Table(load_spec(tables)), micros(now - KEPT)
    if table.newest() is None:
        return 0
    gone = read_table(table, ["at"], within=Spans("at", ((0, until - 1),))).num_rows
    if not gone:
        return 0
    empty = pa.schema(table.refresh().schema()).empty_table()
    done = replace(table, empty, f"at < {literal(until)}", "forget", {"forget": until})
    return gone if done else 0


def _row(load: Load, schema: pa.Schema) -> dict[str, object]:
    row = {name: getattr(load, name) for name in schema.names}
    return row | {"at": instant(load.at)}
