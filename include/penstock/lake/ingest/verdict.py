"""The verdict on each received record: accepted, or refused with a reason.

A verdict is a function of the record, of the plan (its definition, its arrival instant) and, for a
repeated id, of the log before the plan: a replay decides the same. Lateness is no reason: it is
judged afterwards.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import ARROW, INSTANT
from penstock.config.intake import Ambiguous, Definition, Intake
from penstock.core.measure import ColumnType
from penstock.core.window import BEGINNING, micros
from penstock.lake.ingest.cast import Mask, cast, failed
from penstock.lake.ingest.instants import Instants, LocalTime, read_instants
from penstock.lake.ingest.received import MALFORMED, UNREADABLE, Received, as_json
from penstock.lake.ingest.text import plain
from penstock.lake.ingest.undeclared import Undeclared

EARLIEST = micros(datetime(1900, 1, 1, tzinfo=UTC))
"""Older instants mean other days to other calendars: refused, unless not_before is earlier."""

NOT_CASTABLE = "not castable"
UNCLEAR = "ambiguous clock reading"
NO_EVENT_TIME = "missing event time"
NO_KEY = "missing key"
NOT_ARRIVED = "arrival time ahead of ingest"
TOO_FAR_AHEAD = "event time ahead of arrival"
TOO_OLD = "event time before not_before"
IS_FROZEN = "event time before what is kept"
NOT_FINITE = "NaN or infinity"
REPEATED = "repeated id"


@dataclass(slots=True)
class Judged:
    """Records of one item with their verdicts.

    Attributes:
        columns: event_time, ingest_time, extra, read_as and the declared columns, shape (n,);
            fields of ``undeclared`` by their names in a row.
        verdicts: 0 for an accepted record, else which of ``why`` it is, from 1; shape (n,).
        why: reason, and which column or value.
        ids: the declared id of each record as text; none: the pipeline declares none.
    """

    columns: pa.Table
    verdicts: npt.NDArray[np.int32]
    why: list[tuple[str, str]]
    ids: pa.Array | None

    def __len__(self) -> int:
        """How many records."""
        return len(self.verdicts)

    @property
    def accepted(self) -> Mask:
        """Where no reason speaks against a record."""
        return self.verdicts == 0

    def because(self, reason: str) -> Mask:
        """Where this is the reason."""
        return np.isin(self.verdicts, [n for n, (r, _) in enumerate(self.why, 1) if r == reason])

    @property
    def newest(self) -> int:
        """Newest event time that is accepted, us."""
        times = pc.cast(self.columns["event_time"], pa.int64()).filter(pa.array(self.accepted))
        found = pc.max(times).as_py()
        return BEGINNING if found is None else int(found)

    def refuse(self, where: Mask, reason: str, detail: str = "") -> None:
        """Refuse these; the first reason stays."""
        if where.any():
            self.why.append((reason, detail))
            self.verdicts[where & self.accepted] = len(self.why)


def judge(
    received: Received,
    pipeline: Definition,
    arrived_at: int,
    newest: int = BEGINNING,
    undeclared: Undeclared | None = None,
    refused_before: int = BEGINNING,
) -> Judged:
    """Cast the columns of an item and judge each record, apart from repeated ids.

    Args:
        received: the records.
        pipeline: what the file declared when the plan was made.
        arrived_at: arrival instant of the plan, us.
        newest: newest event time before these records, us.
        undeclared: fields that there are before these records; none: no record will be kept.
        refused_before: earlier event times are refused: their windows are frozen, us.
    """
    raw = received.columns
    count = raw.num_rows
    read = _Reading(raw, pipeline)
    now, skew = pc.cast(pa.scalar(arrived_at, pa.int64()), INSTANT), micros(pipeline.skew)
    local = LocalTime(pipeline.tz, read.ambiguous, newest, arrived_at + skew)
    ingest_time = pc.coalesce(read.instants(pipeline.arrival_time, local).values, now)
    latest = np.asarray(pc.cast(ingest_time, pa.int64())) + skew
    event = read.instants(pipeline.event_time, replace(local, latest=latest))
    out: dict[str, pa.Array] = {}
    for name, declared in pipeline.columns.items():
        values = read.column(declared.source or name, declared.type)
        out[name] = pc.add(values, 0.0) if declared.type is ColumnType.DOUBLE else values
    typed, extra = _others(received, pipeline, undeclared)
    table = pa.table({"event_time": event.values, "ingest_time": ingest_time, "extra": extra,
                      "read_as": event.read_as, **out, **typed})  # fmt: skip
    ids = pc.cast(out[pipeline.id.column], pa.string()) if pipeline.id is not None else None
    judged = Judged(table, np.zeros(count, np.int32), [], ids)
    for row, said in received.malformed.items():
        reason = UNREADABLE if said.startswith(UNREADABLE) else MALFORMED
        judged.why.append((reason, said))
        judged.verdicts[row] = len(judged.why)
    for name, where in read.failed.items():
        judged.refuse(where, NOT_CASTABLE, name)
    if read.ambiguous is Ambiguous.QUARANTINE:
        for name, where in read.unclear.items():
            judged.refuse(where, UNCLEAR, name)
    _judge_values(judged, pipeline, arrived_at, refused_before)
    return judged


def instants(columns: pa.Table, pipeline: Intake) -> tuple[pa.Array, pa.Array]:
    """Event times and declared arrivals of source columns, null where there is none."""
    read, local = _Reading(columns, pipeline), LocalTime(pipeline.tz)
    event, arrival = (
        read.instants(name, local).values for name in (pipeline.event_time, pipeline.arrival_time)
    )
    return event, arrival


def _others(
    received: Received, pipeline: Definition, undeclared: Undeclared | None
) -> tuple[dict[str, pa.ChunkedArray], pa.Array]:
    """What the pipeline file does not name: in its own types, and as JSON."""
    raw = received.columns
    if undeclared is None:
        return {}, pa.nulls(raw.num_rows, pa.string())
    if received.extra is not None:
        return {}, received.extra
    others = [f.name for f in raw.schema if not pa.types.is_null(f.type) or f.name]
    rest = raw.select([name for name in others if name not in pipeline.wanted])
    return undeclared.parted(rest) if received.typed else ({}, as_json(rest))


class _Reading:
    """Source columns as declared ones, and where that fails or is not clear, by source column."""

    def __init__(self, raw: pa.Table, pipeline: Intake) -> None:
        self.raw, self.pipeline = raw, pipeline
        self.ambiguous = pipeline.ambiguous or Ambiguous.EARLIER
        self.failed: dict[str, Mask] = {}
        self.unclear: dict[str, Mask] = {}

    def column(self, name: str, kind: ColumnType) -> pa.Array:
        """Values of a type."""
        if name not in self.raw.column_names:
            return pa.nulls(self.raw.num_rows, ARROW[kind])
        if kind is ColumnType.TIMESTAMP:
            has_order = self.ambiguous is Ambiguous.BY_ORDER  # only event times and arrivals have
            rule = Ambiguous.EARLIER if has_order else self.ambiguous
            return self.instants(name, LocalTime(self.pipeline.tz, rule)).values
        values, bad = cast(self.raw[name], kind, self.pipeline.tz)
        self._note(name, bad)
        return values

    def instants(self, name: str | None, local: LocalTime) -> Instants:
        """Instants, with the column's own form."""
        count = self.raw.num_rows
        if name is None or name not in self.raw.column_names:
            return Instants(pa.nulls(count, INSTANT), pa.nulls(count, pa.string()))
        array = plain(self.raw[name])
        found = read_instants(array, local, self.pipeline.formats.get(name, ""))
        self._note(name, failed(array, found.values))
        self.unclear[name] = np.asarray(pc.is_valid(found.read_as))
        return found

    def _note(self, name: str, bad: Mask) -> None:  # several columns may come from one
        self.failed[name] = self.failed[name] | bad if name in self.failed else bad


def _judge_values(
    judged: Judged, pipeline: Definition, arrived_at: int, refused_before: int
) -> None:
    table = judged.columns
    judged.refuse(_mask(pc.is_null(table["event_time"])), NO_EVENT_TIME, pipeline.event_time)
    for key in pipeline.keys:
        judged.refuse(_mask(pc.is_null(table[key])), NO_KEY, key)
    times = _micros(table["event_time"])
    arrival, skew = _micros(table["ingest_time"]), micros(pipeline.skew)
    judged.refuse(arrival > arrived_at + skew, NOT_ARRIVED, pipeline.arrival_time or "")
    judged.refuse(times > arrival + skew, TOO_FAR_AHEAD, pipeline.event_time)
    earliest = EARLIEST if pipeline.not_before is None else micros(pipeline.not_before)
    judged.refuse(times < earliest, TOO_OLD, pipeline.event_time)
    judged.refuse(times < refused_before, IS_FROZEN, pipeline.event_time)
    for name, kind in pipeline.types.items():
        if kind is ColumnType.DOUBLE:
            strange = pc.invert(pc.fill_null(pc.is_finite(table[name]), True))
            judged.refuse(_mask(strange), NOT_FINITE, name)
    if judged.ids is not None and pipeline.id is not None:
        judged.refuse(_mask(pc.is_null(judged.ids)), NO_KEY, pipeline.id.column)


def _mask(values: pa.ChunkedArray) -> Mask:
    return np.asarray(values, dtype=bool)


def _micros(values: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(pc.cast(values, pa.int64()), 0))
