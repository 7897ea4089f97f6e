"""Moments of a log: a record's number, an event time, or a record that the pipeline file names.

What a reader sees as of one is what the steps had said when the log ended there: a consistent
picture of all of them, the same whenever it is asked for (S2J, snapshots with a common identifier).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.expressions import true_for
from penstock.columns.types import INSTANT
from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.expression import columns_of
from penstock.core.slack import BlockKind
from penstock.core.step import STREAM
from penstock.core.window import instant, micros, read_instant
from penstock.lake.history.unread import whole
from penstock.lake.log.blocks import LIVE, event_times, newest_seq
from penstock.lake.log.freezes import frozen
from penstock.lake.serve.views import View
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables

NAME = "snapshots"
"""Of the view."""
SCHEMA = pa.schema([("snapshot", pa.string()), ("record", pa.int64()), ("event_time", INSTANT)])
"""``record``: a number as people count, from 1."""


def moment(tables: Tables, pipeline: Pipeline, asked: str, newest: int) -> int:
    """The last record of the log at a moment, its ``arrival_seq``; -1: before the first one.

    Args:
        tables: of the pipeline.
        pipeline: its file.
        asked: a record's number, from 1; an instant; or the name of a snapshot.
        newest: the record that everything is as of otherwise.

    Raises:
        ConfigError: there is no such moment, it is not over, or its answers are gone.
    """
    digits = asked.replace(",", "").replace("_", "")
    if asked in pipeline.snapshots:
        seq = _newest_named(tables, pipeline, asked, newest)
    elif digits.isdecimal():
        seq = _numbered(asked, int(digits))
    else:
        seq = _at_time(tables, pipeline, asked, _instant(asked, pipeline))
    if seq > newest:
        said = f"record {seq + 1:,} is not answered yet: all asked for is as of {newest + 1:,}"
        raise ConfigError(f"as of {asked}: {said}. Ask again later, or for an earlier one")
    if seq < (gone := frozen(tables).seq):
        said = f"of the log up to record {gone + 1:,} only the last answers are kept (keep)"
        raise ConfigError(f"as of {asked}: {said}. Ask for a later moment")
    return seq


def up_to(known: Mapping[str, View], seq: int) -> dict[str, View]:
    """Views as of an earlier record."""
    return {
        name: view if view.seq is None else replace(view, seq=min(view.seq, seq))
        for name, view in known.items()
    }


def snapshots(tables: Tables, pipeline: Pipeline) -> View:
    """The view of all moments that the pipeline file names."""

    def content(seq: int | None) -> pa.Table:
        last = newest_seq(tables) if seq is None else seq
        found = [_named(tables, pipeline, name, last) for name in pipeline.snapshots]
        return pa.concat_tables([SCHEMA.empty_table(), *found]).sort_by("record")

    last = newest_seq(tables)
    return View("one moment that the file names", SCHEMA, content, last if last >= 0 else None)


def _named(tables: Tables, pipeline: Pipeline, name: str, last: int) -> pa.Table:
    snapshot = pipeline.snapshots[name]
    condition = snapshot.condition(pipeline.intakes[snapshot.of].types)
    columns = [*{"arrival_seq", "event_time", *columns_of(condition)}]
    spec = tables.events(pipeline.types, (snapshot.of,) if snapshot.stream else ())
    rows = whole(Table(spec), spec.schema).filter(pc.field("arrival_seq") <= last)
    rows = rows if spec.mine is None else rows.filter(spec.mine)
    found = [SCHEMA.empty_table()]
    for batch in rows.scanner(columns=columns).to_batches():
        some = pa.table(batch)
        some = some.filter(true_for(condition, some))
        numbers = pc.add(some["arrival_seq"], 1)
        names = pa.array([name] * some.num_rows, pa.string())
        found.append(pa.table([names, numbers, some["event_time"]], schema=SCHEMA))
    return pa.concat_tables(found)


def _numbered(asked: str, number: int) -> int:
    if number == 0:
        raise ConfigError(f"as of {asked}: records are counted from 1. Name another one")
    return number - 1


def _newest_named(tables: Tables, pipeline: Pipeline, name: str, newest: int) -> int:
    found = pc.max(_named(tables, pipeline, name, newest)["record"]).as_py()
    if found is None:
        where = pipeline.snapshots[name].where
        raise ConfigError(f"as of {name}: no record is one yet ({where}). Ask for another moment")
    return int(found) - 1


def _at_time(tables: Tables, pipeline: Pipeline, asked: str, at: datetime) -> int:
    """The last record before the first one of a stream that is later than an instant.

    What was preloaded came at once: of it no moment is told by event time.
    """
    columns = ["kind", "first_seq", "last_seq", "t_max", STREAM]
    rows = read_table(Table(tables.blocks()), columns, pc.field("origin") == LIVE)
    data = rows.filter(pc.field("t_max").is_valid()).sort_by("first_seq")
    later = data.filter(pc.field("t_max") > pa.scalar(at, INSTANT)).slice(0, 1).to_pylist()
    if not later:
        ended = {*rows.filter(pc.field("kind") == BlockKind.END)[STREAM].to_pylist()}
        if len(ended) == len(pipeline.intakes):
            return newest_seq(tables)
        there = pc.max(data["t_max"]).as_py()
        said = "no record came yet" if there is None else f"the newest record is of {there:%F %T}"
        raise ConfigError(f"as of {asked}: {said}: that moment is not over. Ask for another one")
    span = later[0]["first_seq"], later[0]["last_seq"]
    ((seqs, times),) = event_times(Table(tables.events(pipeline.types)), [span])
    place = int(np.argmax(times > micros(at)))
    if place == 0 and span[0] == data["first_seq"][0].as_py() and frozen(tables).seq < 0:
        first = instant(int(times[0]))
        said = f"the stream begins later, with a record of {first:%F %T}"
        raise ConfigError(f"as of {asked}: {said}. Ask for another moment")
    return int(seqs[place]) - 1


def _instant(asked: str, pipeline: Pipeline) -> datetime:
    try:
        return read_instant(asked)
    except ValueError:
        names = ", ".join(pipeline.snapshots) or "none in this file"
        raise ConfigError(
            f"as of {asked}: that is no moment. Name a record by its number (1234), an event time"
            f" (2014-01-31T12:00Z), or a snapshot ({names})"
        ) from None
