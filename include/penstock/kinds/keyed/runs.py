"""What is kept of each key, in files that never change, sorted by a hash of the keys.

A micro-batch adds one file, a *run*, and reads only what it asks for: a key is found by bisection,
in pages that the operating system keeps in memory while there is room. So a state may be larger
than memory, and a restart reads nothing. Runs of about one size are merged, as their
kind says: what need not be kept any more goes then. Source: log-structured merge trees, tiered.

A manifest says which runs there are. Whoever keeps it keeps the state: a run that none names is
nothing, and one that was merged stays for a while, for a micro-batch that is repeated.
"""

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Longs

HASH, TIME, SEQ = "hash", "time_us", "arrival_seq"
"""Columns of runs beside those of the step: keys, and what is kept."""
FAN = 8
"""So many runs of one size become one."""
SMALL = 4_096
"""Rows; smaller runs are of one size."""
REPEATED = 16
"""Micro-batches for which a merged run stays."""


@dataclass(frozen=True, slots=True)
class Run:
    """A file, and how many rows it holds."""

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
    """

    runs: tuple[Run, ...] = ()
    merged: tuple[tuple[int, str], ...] = field(default=())


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
        tables = [self._found(run, hashes) for run in manifest.runs]
        return pa.concat_tables([schema.empty_table(), *tables])

    def rows(self, manifest: Manifest, schema: pa.Schema) -> pa.Table:
        """All rows, merged or not."""
        tables = [self._opened(run) for run in manifest.runs]
        return pa.concat_tables([schema.empty_table(), *tables])

    def emptied(self, manifest: Manifest, number: int) -> Manifest:
        """The state without rows, after a micro-batch."""
        gone = tuple((number, run.name) for run in manifest.runs)
        return Manifest((), (*manifest.merged, *gone))

    def _found(self, run: Run, hashes: Longs) -> pa.Table:
        table = self._opened(run)
        there = np.asarray(table[HASH].chunk(0))
        low, high = (np.searchsorted(there, hashes, side) for side in ("left", "right"))
        count = high - low
        nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return table.take(pa.array(np.repeat(low, count) + nth))

    def added(self, manifest: Manifest, fresh: pa.Table, number: int) -> Manifest:
        """The state with more rows; runs are merged where there are many of one size.

        Args:
            manifest: of the state before.
            fresh: the rows.
            number: of the micro-batch.
        """
        manifest = self._forgotten(manifest, number)
        if not fresh.num_rows:
            return manifest
        manifest = replace(manifest, runs=(*manifest.runs, self._written(fresh)))
        while some := _too_many(manifest.runs):
            table = self.merged(pa.concat_tables([self._opened(run) for run in some]))
            left = tuple(run for run in manifest.runs if run not in some)
            merged = (*manifest.merged, *((number, run.name) for run in some))
            manifest = Manifest((self._written(table), *left), merged)
        return manifest

    def _written(self, table: pa.Table) -> Run:
        order = np.argsort(np.asarray(table[HASH]), kind="stable")
        table = table.take(pa.array(order)).combine_chunks()
        name = f"{uuid.uuid4().hex}.arrow"
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / name).open("xb") as file:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            file.flush()
            os.fsync(file.fileno())
        return Run(name, table.num_rows)

    def _opened(self, run: Run) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(str(self.folder / run.name))).read_all()

    def _forgotten(self, manifest: Manifest, number: int) -> Manifest:
        """Remove files of runs that were merged long ago."""
        old = {name for at, name in manifest.merged if at <= number - REPEATED}
        for name in old:
            (self.folder / name).unlink(missing_ok=True)
        left = tuple(each for each in manifest.merged if each[1] not in old)
        return replace(manifest, merged=left)


def _too_many(runs: Sequence[Run]) -> list[Run]:
    """Runs of one size that should be one."""
    for _, some in groupby(sorted(runs, key=lambda run: run.size), key=lambda run: run.size):
        if len(same := [*some]) >= FAN:
            return same
    return []
