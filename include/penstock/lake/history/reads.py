"""How much time merging at read takes from readers: what a merge by maintenance would spare them.

A read of few answers, of a small table or of a large one, is not counted: counting it would take
longer.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from deltalake.exceptions import DeltaError

from penstock.core.clock import SystemClock
from penstock.core.errors import PenstockError
from penstock.lake.storage.commit import Table
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.spec import TableSpec

log = logging.getLogger(__name__)

READ = "read"
NOTE = "note"
LEAST = 250_000
"""Rows; to count a read takes as long as to merge so many."""
COST = 0.05
"""Seconds of all processors that it takes to count a read."""
FEW = 0.25
"""Of the time that all answers take to be read: who takes less asked for few of them."""
ROW = 3e-7
"""Seconds that a row takes to be merged and read (benchmarks/folding.py)."""
LEFT = 0.12
"""Of the time that a row takes to be merged at read, what a merged one takes to be read: 0.22 where
none is merged, 0.1 where most are (benchmarks/folding.py)."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a read of a step's answers in force has before it.

    Attributes:
        spec: of the table of reads.
        name, fingerprint: of the step.
        merged, unmerged: so many rows of each sort.
    """

    spec: TableSpec
    name: str
    fingerprint: str
    merged: int
    unmerged: int


def spared(reads: Sequence[Read], seconds: float) -> list[float]:
    """Of the time that some reads took together, what each would have been spared by a merge, s."""
    whole = weight(reads)
    return [(1 - LEFT) * seconds * read.unmerged / whole if whole else 0.0 for read in reads]


def weight(reads: Sequence[Read]) -> float:
    """Rows to be merged at read that would take as long as all that some reads have before them."""
    return sum(read.unmerged + LEFT * read.merged for read in reads)


@contextmanager
def counted(reads: Sequence[Read], narrow: Callable[[], bool]) -> Iterator[None]:
    """Count some reads that are done meanwhile, by the time all processors spend on them.

    Whoever may read but not write is not counted.

    Args:
        reads: what they have before them.
        narrow: whether they asked for some answers only; then they are not counted if quick.
    """
    began = time.process_time()
    yield
    took = time.process_time() - began
    if narrow() and took < max(COST, FEW * ROW * weight(reads)):
        return
    times = spared(reads, took)
    for read, seconds in zip(reads, times, strict=True):
        if read.merged + read.unmerged < LEAST:
            continue
        try:
            note(read.spec, read, READ, read.unmerged, seconds)
        except (OSError, DeltaError, PenstockError) as failed:
            log.warning("a read was not counted step=%s: %s", read.name, failed)


def note(
    spec: TableSpec, of: Definition | Read, what: str, rows: int, seconds: float, reason: str = ""
) -> None:
    """Append a row to ``merges``."""
    table, done = Table(spec), False
    table.refresh()
    while not done:  # another process may take the number
        number = (table.last(NOTE) or 0) + 1
        row = {
            "number": number, "step": of.name, "fingerprint": of.fingerprint, "what": what,
            "rows": rows, "seconds": seconds, "reason": reason,
            "recorded_at": SystemClock().now(),
        }  # fmt: skip
        done = table.append(pa.Table.from_pylist([row], spec.schema), NOTE, number)
