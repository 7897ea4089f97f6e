"""What waits and is ahead of this machine's clock: it is not planned, but waits, and is said.

Refusing a record as ahead is for good, and to a clock that is slow every record is ahead. So files
at the end of what waits, of whose last records most would be refused as ahead, stay there until the
clock has reached them, or a file behind them is not ahead: then the clock is right, and the file
wrong. This is decided before a plan is made, so it changes no verdict.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from penstock.config.intake import FileFormat, Intake
from penstock.control.spoken import spoken
from penstock.core.errors import TransientError
from penstock.core.window import BEGINNING, micros
from penstock.lake.ingest.item import Item, opened
from penstock.lake.ingest.parquet import INT96, readable, rows_of, with_parts
from penstock.lake.ingest.reading import BROKEN, SourceError, is_of_system
from penstock.lake.ingest.received import receive
from penstock.lake.ingest.verdict import instants

TAIL_BYTES = 64 << 10
TAIL_ROWS = 1_000


class ClockError(TransientError):
    """Most of what waits is ahead of the clock; it stays where it is.

    Attributes:
        path: the last file.
        ahead: by how much it is beyond the clock, at its middle record.
    """

    def __init__(self, item: Item, ahead: timedelta, skew: timedelta) -> None:
        self.path, self.ahead = item.path, ahead
        mend = "mend the file or move it out of the source"
        if item.version >= 0:
            which = "the version it came with" if item.snapshot else item.version
            mend = f"write skip: [{which}] beside delta: and what is right as a new commit"
        super().__init__(
            f"{self.path}: most of its records are {spoken(ahead)} ahead of this machine's clock,"
            f" and skew allows {spoken(skew)}. They wait until the clock is there. If the clock is"
            " wrong, set it; if these times are right, raise skew in the pipeline file; if they"
            f" are wrong, {mend}"
        )


class Outlook:
    """Whether waiting items are ahead; each is looked at once.

    Args:
        pipeline: which columns hold the instants, and how far ahead they may be.
    """

    def __init__(self, pipeline: Intake) -> None:
        self.pipeline = pipeline
        self._due: dict[Item, int | None] = {}

    def reached(
        self, items: Sequence[Item], filesystem: pa.fs.FileSystem, now: int
    ) -> tuple[Item, ...]:
        """The items without those at their end that are ahead.

        Args:
            items: what waits, in order.
            filesystem: where it lies.
            now: the instant a plan would have, us.
        """
        end = len(items)
        for at in range(end - 1, -1, -1):
            item = items[at]
            if item.until is not None and item.until <= now:  # of what is ahead it takes nothing
                continue
            due = self.due(item, filesystem)
            if due is not None and due > now:
                end = at
            elif due is not None:  # the clock is right
                break
        if end:
            self._due = {}
        return tuple(items[:end])

    def due(self, item: Item, filesystem: pa.fs.FileSystem) -> int | None:
        """The instant, us, from which at most half of an item's last records are ahead.

        None: most of them say nothing of the time.
        """
        if item not in self._due:
            self._due[item] = self._looked_up(item, filesystem)
        return self._due[item]

    def error(self, items: Sequence[Item], filesystem: pa.fs.FileSystem, now: int) -> ClockError:
        """What to say of items of which the first is ahead."""
        skew, item = self.pipeline.skew, items[0]
        due = self.due(item, filesystem)
        ahead = timedelta(microseconds=(now if due is None else due) - now) + skew
        return ClockError(item, ahead, skew)

    def _looked_up(self, item: Item, filesystem: pa.fs.FileSystem) -> int | None:
        try:
            columns = _last(item, filesystem, self.pipeline)
            event_time, arrival = instants(columns, self.pipeline)
        except (*BROKEN, LookupError) as broken:  # the plan's reader will say so
            if is_of_system(broken):
                raise SourceError(item.path, broken) from broken
            return None
        known = pc.cast(pc.coalesce(arrival, event_time), pa.int64())
        times = np.sort(np.asarray(pc.fill_null(known, BEGINNING)))
        middle = int(times[(len(times) - 1) // 2]) if len(times) else BEGINNING
        return None if middle == BEGINNING else middle - micros(self.pipeline.skew)


def _last(item: Item, filesystem: pa.fs.FileSystem, pipeline: Intake) -> pa.Table:
    """Source columns of the last records of an item."""
    with opened(item) as stream:
        if item.format == FileFormat.PARQUET.value:
            wanted = {pipeline.event_time, pipeline.arrival_time}
            return _last_rows(item, pa.PythonFile(stream, mode="r"), wanted)
        end = item.size if item.end < 0 else item.end
        first = max(item.first, end - TAIL_BYTES)
        if first > item.first:
            stream.seek(first)
            first += stream.read(end - first).find(b"\n") + 1
    return receive(replace(item, first=first), filesystem, pipeline).columns


def _last_rows(item: Item, stream: pa.NativeFile, wanted: Collection[str | None]) -> pa.Table:
    file = pq.ParquetFile(stream, **INT96)
    end = rows_of(file.metadata) if item.end < 0 else item.end
    group, first = 0, 0
    if file.metadata.num_row_groups == 0:
        return file.schema_arrow.empty_table()
    while first + file.metadata.row_group(group).num_rows < end:
        first += file.metadata.row_group(group).num_rows
        group += 1
    names = [name for name in file.schema_arrow.names if name in wanted]
    rows = file.read_row_group(group, columns=names)
    begin = max(0, end - first - TAIL_ROWS)
    return with_parts(readable(rows.slice(begin, end - first - begin)), item)
