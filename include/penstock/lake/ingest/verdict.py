"""The verdict on each received record: accepted, or refused with a reason.

A verdict is a function of the record, the pipeline file, the plan's arrival instant and, for a
repeated id, of the log before the plan: a replay decides the same. Lateness is no reason: it is
judged afterwards.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.pipeline import Pipeline
from penstock.core.measure import ColumnType
from penstock.core.window import micros
from penstock.lake.ingest.cast import Mask, cast
from penstock.lake.ingest.received import MALFORMED, UNREADABLE, Received, as_json
from penstock.lake.tables import ARROW, INSTANT

EARLIEST = micros(datetime(1900, 1, 1, tzinfo=UTC))
"""Older instants mean other days to other calendars: refused, unless not_before is earlier."""

NOT_CASTABLE = "not castable"
NO_EVENT_TIME = "missing event time"
NO_KEY = "missing key"
TOO_FAR_AHEAD = "event time ahead of arrival"
TOO_OLD = "event time before not_before"
NOT_FINITE = "NaN or infinity"
REPEATED = "repeated id"


@dataclass(slots=True)
class Judged:
    """Records of one item with their verdicts.

    Attributes:
        columns: event_time, ingest_time, extra and the declared columns, shape (n,).
        reason: none for an accepted record, shape (n,).
        detail: which column, which value.
        ids: the declared id of each record as text; none: the pipeline declares none.
    """

    columns: pa.Table
    reason: npt.NDArray[np.object_]
    detail: npt.NDArray[np.object_]
    ids: pa.Array | None

    @property
    def accepted(self) -> Mask:
        """Where no reason speaks against a record."""
        return np.equal(self.reason, None)

    def refuse(self, where: Mask, reason: str, detail: str = "") -> None:
        """Refuse these; the first reason stays."""
        fresh = where & self.accepted
        self.reason[fresh] = reason
        self.detail[fresh] = detail


def judge(received: Received, pipeline: Pipeline, arrived_at: int) -> Judged:
    """Cast the columns of an item and judge each record, apart from repeated ids.

    Args:
        received: the records.
        pipeline: what the file declares.
        arrived_at: arrival instant of the plan, us.
    """
    raw = received.columns
    count = raw.num_rows
    out: dict[str, pa.Array] = {}
    failed: dict[str, Mask] = {}
    zone = pipeline.tz

    def column(name: str, kind: ColumnType) -> pa.Array:
        if name not in raw.column_names:
            return pa.nulls(count, ARROW[kind])
        values, bad = cast(raw[name].combine_chunks(), kind, zone)
        failed[name] = failed[name] | bad if name in failed else bad  # several may come from one
        return values

    event_time = column(pipeline.event_time, ColumnType.TIMESTAMP)
    arrival = pa.scalar(arrived_at, pa.int64())
    ingest_time = pc.cast(arrival, INSTANT)
    if pipeline.arrival_time is not None:
        ingest_time = pc.coalesce(column(pipeline.arrival_time, ColumnType.TIMESTAMP), ingest_time)
    else:
        ingest_time = pa.repeat(ingest_time, count)
    for name, declared in pipeline.columns.items():
        values = column(declared.source or name, declared.type)
        out[name] = pc.add(values, 0.0) if declared.type is ColumnType.DOUBLE else values
    used = {pipeline.event_time, pipeline.arrival_time}
    used |= {c.source or n for n, c in pipeline.columns.items()}
    others = raw.select([n for n in raw.column_names if n not in used and n])
    table = pa.table(
        {"event_time": event_time, "ingest_time": ingest_time, "extra": as_json(others), **out}
    )
    ids = pc.cast(out[pipeline.id.column], pa.string()) if pipeline.id is not None else None
    nobody = np.full(count, None, dtype=object)
    judged = Judged(table, nobody, np.full(count, "", dtype=object), ids)
    for row, said in received.malformed.items():
        reason = UNREADABLE if said.startswith(UNREADABLE) else MALFORMED
        judged.reason[row], judged.detail[row] = reason, said
    for name, where in failed.items():
        judged.refuse(where, NOT_CASTABLE, name)
    _judge_values(judged, pipeline)
    return judged


def _judge_values(judged: Judged, pipeline: Pipeline) -> None:
    table = judged.columns
    judged.refuse(_mask(pc.is_null(table["event_time"])), NO_EVENT_TIME, pipeline.event_time)
    for key in pipeline.keys:
        judged.refuse(_mask(pc.is_null(table[key])), NO_KEY, key)
    times = _micros(table["event_time"])
    arrival = _micros(table["ingest_time"])
    judged.refuse(times > arrival + micros(pipeline.skew), TOO_FAR_AHEAD, pipeline.event_time)
    earliest = EARLIEST if pipeline.not_before is None else micros(pipeline.not_before)
    judged.refuse(times < earliest, TOO_OLD, pipeline.event_time)
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
