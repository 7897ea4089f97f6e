"""What is kept of each key, in files that never change, sorted by a hash of the keys.

A micro-batch adds one file, a *run*, and reads only what it asks for: a key is found by bisection,
in pages that the operating system keeps in memory while there is room. So a state may be larger
than memory, and a restart reads nothing. Runs of about one size are merged, as their
kind says: what need not be kept any more goes then. Source: log-structured merge trees, tiered.

What is merged, is merged by ranges of hashes, and what is found is copied: so memory is taken for a
piece of a state, however large it is.

A manifest says which runs there are. Whoever keeps it keeps the state. A run that was merged stays
for a while, for a micro-batch that is repeated; one that none names is of a writer that was killed,
and goes when it is old.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.groups import HASHES

HASH, TIME, SEQ = "hash", "time_us", "arrival_seq"
"""Columns of runs beside those of the step: keys, and what is kept."""
FAN = 8
"""So many runs of one size become one."""
SMALL = 4_096
"""Rows; smaller runs are of one size."""
PIECE = 1 << 19
"""Rows that are merged at once, and written as one batch, about: keys fall evenly on hashes."""
REPEATED = 16
"""Micro-batches for which a merged run stays."""
OLD = 86_400.0
"""Seconds; whoever wrote a run and could yet name it has ended by then."""


@dataclass(frozen=True, slots=True)
class Run:
    """A file, below the folder of all states, and how many rows it holds."""

    name: str
    rows: int

    @property
    def size(self) -> int:
        """Its class."""
        size, limit = 0, SMALL
        while self.rows > limit:
            size, limit = size + 1, limit * FAN
        return size


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which runs are a state.

    Attributes:
        runs: those that count, the oldest first.
        merged: those that do no more, each with the micro-batch that merged it.
        folder: where only this state's runs lie.
    """

    runs: tuple[Run, ...] = ()
    merged: tuple[tuple[int, str], ...] = ()
    folder: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def rows(self) -> int:
        """That it holds, merged or not."""
        return sum(run.rows for run in self.runs)


class Runs:
    """Reads and writes the runs of one shard of a step.

    Args:
        folder: where they lie; all nodes see it.
        merged: what is kept of the rows of several runs.
    """

    def __init__(self, folder: Path, merged: Callable[[pa.Table], pa.Table]) -> None:
        self.folder, self.merged = folder, merged

    def found(self, manifest: Manifest, hashes: Longs, schema: pa.Schema) -> pa.Table:
        """Rows of the keys with some hashes, merged or not.

        Args:
            manifest: of the state.
            hashes: in order, each once.
            schema: of a run.
        """
        return pa.concat_tables([schema.empty_table(), *self._found(manifest.runs, hashes)])

    def rows(self, manifest: Manifest, schema: pa.Schema) -> pa.Table:
        """All rows, merged or not."""
        batches = [batch for run in manifest.runs for batch in self._opened(run)]
        return pa.Table.from_batches(batches, schema)

    def emptied(self, manifest: Manifest, number: int) -> Manifest:
        """The state without rows, after a micro-batch."""
        gone = tuple((number, run.name) for run in manifest.runs)
        return replace(manifest, runs=(), merged=(*manifest.merged, *gone))

    def _found(self, runs: Sequence[Run], hashes: Longs) -> Iterator[pa.Table]:
        for batch in (batch for run in runs for batch in self._opened(run)):
            there = np.asarray(batch[HASH])
            asked = hashes[_rows(hashes, int(there[0]), int(there[-1]))]
            low, high = (np.searchsorted(there, asked, side) for side in ("left", "right"))
            count = high - low
            nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            yield pa.table(batch.take(pa.array(np.repeat(low, count) + nth)))

    def added(self, manifest: Manifest, fresh: pa.Table, number: int) -> Manifest:
        """The state with more rows; runs are merged where there are many of one size.

        Args:
            manifest: of the state before.
            fresh: the rows, merged or not, in any order.
            number: of the micro-batch.
        """
        manifest = self._forgotten(manifest, number)
        write, former = partial(self._written, manifest.folder), manifest
        if fresh.num_rows and (run := write(fresh.num_rows, partial(_within, fresh))):
            manifest = replace(manifest, runs=(*manifest.runs, run))
        while some := _too_many(manifest.runs):
            batches = [batch for run in some for batch in self._opened(run)]
            run = write(sum(run.rows for run in some), partial(_between, batches))
            left = tuple(run for run in manifest.runs if run not in some)
            merged = (*manifest.merged, *((number, run.name) for run in some))
            manifest = replace(manifest, runs=(*([run] if run else []), *left), merged=merged)
        if manifest.merged != former.merged:
            self._sweep(manifest)
        return manifest

    def _written(
        self, folder: str, rows: int, within: Callable[[int, int], pa.Table]
    ) -> Run | None:
        """A run of some rows, or none if nothing is left of them.

        Args:
            folder: of the state.
            rows: how many there are, merged or not.
            within: those whose hashes are of a range: the least, and the greatest.
        """
        pieces = (self._piece(within(*each)) for each in ranges(-(-rows // PIECE)))
        some = (piece for piece in pieces if piece.num_rows)
        if (first := next(some, None)) is None:
            return None
        name, count = f"{folder}/{uuid.uuid4().hex}.arrow", 0
        (self.folder / folder).mkdir(parents=True, exist_ok=True)
        with (self.folder / name).open("xb") as file:
            with pa.ipc.new_file(file, first.schema) as writer:
                for piece in chain([first], some):
                    writer.write_table(piece)
                    count += piece.num_rows
            file.flush()
            os.fsync(file.fileno())
        return Run(name, count)

    def _piece(self, rows: pa.Table) -> pa.Table:
        """What is kept of them, in order, as one batch."""
        kept = self.merged(rows)
        order = np.argsort(np.asarray(kept[HASH]), kind="stable")
        return kept.take(pa.array(order)).combine_chunks()

    def _opened(self, run: Run) -> list[pa.RecordBatch]:
        reader = pa.ipc.open_file(pa.memory_map(str(self.folder / run.name)))
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]

    def _forgotten(self, manifest: Manifest, number: int) -> Manifest:
        """Remove files of runs that were merged long ago."""
        old = {name for at, name in manifest.merged if at <= number - REPEATED}
        for name in old:
            (self.folder / name).unlink(missing_ok=True)
        left = tuple(each for each in manifest.merged if each[1] not in old)
        return replace(manifest, merged=left)

    def _sweep(self, manifest: Manifest) -> None:
        """Remove what no manifest names and nobody writes any more."""
        known = {run.name for run in manifest.runs} | {name for _, name in manifest.merged}
        there = {path: path.stat().st_mtime for path in (self.folder / manifest.folder).iterdir()}
        for path, when in there.items():
            if f"{manifest.folder}/{path.name}" not in known and when < max(there.values()) - OLD:
                path.unlink(missing_ok=True)


def ranges(count: int) -> list[tuple[int, int]]:
    """Cut all hashes into so many ranges: the least and the greatest of each."""
    cuts = [nth * HASHES // count for nth in range(count + 1)]
    return [(low, high - 1) for low, high in pairwise(cuts)]


def _rows(hashes: Longs, least: int, greatest: int) -> slice:
    """Those of a range, of hashes in order."""
    return slice(hashes.searchsorted(least), hashes.searchsorted(greatest, "right"))


def _within(table: pa.Table, least: int, greatest: int) -> pa.Table:
    """Rows with hashes of a range, in any order."""
    hashes = table[HASH]
    return table.filter(pc.and_(pc.less_equal(least, hashes), pc.less_equal(hashes, greatest)))


def _between(batches: Sequence[pa.RecordBatch], least: int, greatest: int) -> pa.Table:
    """Rows with hashes of a range, of batches in order."""
    found = []
    for batch in batches:
        mine = _rows(np.asarray(batch[HASH]), least, greatest)
        found.append(batch.slice(mine.start, mine.stop - mine.start))
    return pa.Table.from_batches(found)


def _too_many(runs: Sequence[Run]) -> list[Run]:
    """Runs of one size that should be one."""
    for _, some in groupby(sorted(runs, key=lambda run: run.size), key=lambda run: run.size):
        if len(same := [*some]) >= FAN:
            return same
    return []
