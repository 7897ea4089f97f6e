"""What a one-time query finds: pairs of a past period, from the log, asked for then or not."""

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.marks import NO_MARKS
from penstock.config.catalog import spec_of
from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.kinds import has_part, part
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER, instant, micros
from penstock.kinds.frame import Asked, frame_of
from penstock.lake.log.blocks import newest_seq
from penstock.lake.log.freezes import frozen
from penstock.lake.log.revisions import known_by, newest_of, revisions
from penstock.lake.log.side import SideReader
from penstock.lake.serve.views import View
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

AT_ONCE = 500_000
"""Records of left ones, about, whose pairs are found at once."""
NAME = "asked"
"""Of the view."""


def asked(
    tables: Tables,
    pipeline: Pipeline,
    name: str,
    where: str | None,
    between: tuple[datetime | None, datetime | None],
) -> View:
    """The view of a one-time query.

    Args:
        tables: of the pipeline.
        pipeline: its file.
        name: of the join whose keys, reach and columns are asked for.
        where: the condition, in place of the join's own and of its queries; none: none.
        between: left records from an event time on, and before another one; none: all that have
            their partners.

    Raises:
        ConfigError: there is no such step, it is no join, the condition cannot be read, or some
            partners may have gone.
    """
    step = spec_of(pipeline, name)
    if not has_part(step.kind, NAME):
        raise ConfigError(f"{name} is no join: only of pairs the log can be asked. Write SQL alone")
    try:
        once = part(step.kind, NAME).asked(step, where, pipeline.given_to(pipeline.steps[name]))
    except ValueError as wrong:
        raise ConfigError(f"condition: {wrong}") from wrong
    low, high = (None if each is None else micros(each) for each in between)
    low = _kept_from(frozen(tables).begin_of(step), low)
    last, schema = newest_seq(tables), _schema(once, tables)
    log = _Log(tables, pipeline, once)

    def content(seq: int | None) -> pa.Table:
        through = last if seq is None else min(last, seq)
        found = [schema.empty_table(), *log.pairs(through, low, high)]
        return pa.concat_tables(found)

    return View("one pair that was asked for", schema, content, last if last >= 0 else None)


def _kept_from(least: int, low: int | None) -> int | None:
    """From where on left records are asked for, us: all of their partners are there."""
    if low is None or low >= least:
        return least if low is None and least > BEGINNING else low
    raise ConfigError(
        f"of left records before {instant(least):%F %T} UTC some partners have gone (keep). Ask for"
        " those from then on; what the join's own queries found before stays in its answers"
    )


def _schema(step: StepSpec, tables: Tables) -> pa.Schema:
    names = [*step.identity_names, *(value.name for value in step.values)]
    answers = tables.answers(step).schema
    return pa.schema([answers.field(name) for name in names])


class _Log:
    """Records of the log, as a join has them."""

    def __init__(self, tables: Tables, pipeline: Pipeline, step: StepSpec) -> None:
        self.events = Table(tables.events(pipeline.types, step.streams))
        self.step, self.frame, self.sides = step, frame_of(step), SideReader(tables)
        self.wire, self.schema = self.frame.wire(step), _schema(step, tables)

    def pairs(self, last: int, low: int | None, high: int | None) -> Iterator[pa.Table]:
        """Pairs of left records in [low, high), us, up to a position."""
        times = self._times(last, low, high)
        if not len(times):
            return
        cuts = times[:: max(len(times) // (1 + len(times) // AT_ONCE), 1)]
        edges = [*np.unique(cuts).tolist(), int(times[-1]) + 1]
        above = self.step.above
        revised = None if above is None else revisions(self.events, above, last)
        for begin, end in pairwise(edges):
            yield self._found(last, begin, end, revised)

    def _times(self, last: int, low: int | None, high: int | None) -> np.ndarray:
        ends = BEGINNING if low is None else low, FOREVER if high is None else high
        span = Spans("event_time", ((ends[0], ends[1] - 1),))
        rows = read_table(self.events, ["event_time"], pc.field("arrival_seq") <= last, span)
        return np.sort(np.asarray(pc.cast(rows["event_time"], pa.int64())))

    def _found(self, last: int, begin: int, end: int, revised: pa.Table | None) -> pa.Table:
        step, frame, size = self.step, self.frame, self.step.window.size
        assert frame.near is not None  # noqa: S101  of a join
        since, until = frame.near[0](step, begin, end)
        spans = Spans("event_time", ((begin, end - 1), (since, until - 1)))
        columns, there = frame.columns(step), pc.field("arrival_seq") <= last
        known = [] if step.above is None else known_by(step.above)
        rows = read_table(self.events, [*dict.fromkeys([*columns, *known])], there, spans)
        if step.above is not None and revised is not None:
            rows = newest_of(rows, revised, step.above)
        mapper = frame.mapper(step, NO_MARKS, None, self.sides)
        mapper.take(rows)
        asked = Asked(begin - size, end + size, None, FOREVER, -1, BEGINNING)
        found = frame.again(step, mapper.parts(), asked, self.sides)
        columns = {**self.wire.known_by(found), **self.wire.layout.finish(found)}
        pairs = pa.table({name: columns[name] for name in self.schema.names}).cast(self.schema)
        left = np.asarray(pc.cast(pairs["left_time"], pa.int64()))
        return pairs.filter(pa.array((left >= begin) & (left < end)))
