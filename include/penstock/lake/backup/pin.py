"""The versions of all tables of a lake at one instant, while it runs.

Tables refer to each other both ways (a plan adopts a proposal of ``decisions``, and the door writes
there what it adopted), so no order of looking at them is right for all. Nothing is concluded from
an order: all versions are looked at until two looks in a row are the same. Versions only rise, so
between the two nothing was committed. What is pinned is what a kill -9 of everything at that
instant would have left, and from that every pipeline goes on.
"""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.core.errors import TransientError
from penstock.lake.storage.damage import DamagedTableError, logged, require_log, told
from penstock.lake.storage.durable import LOG, take_back

PATIENCE = 60.0
"""Seconds; a look takes a millisecond, and between two commits of one table are five at least."""
DEPTH = 4
"""A table lies at pipeline/table or at pipeline/table/step/fingerprint."""
CHECKPOINTS = "checkpoints"


def pin(lake: Path, patience: float = PATIENCE) -> dict[str, int]:
    """Version of each table, by its path below the lake, all of one instant.

    Args:
        lake: the folder of all tables.
        patience: seconds to look for such an instant.

    Raises:
        DamagedTableError: a table's log has an empty or a missing entry.
        TableAwayError: the system does not give a table now.
        TransientError: commits came too fast all the time.
    """
    for table in tables_of(lake):
        with told(str(table)):
            take_back(str(table))
            require_log(str(table))
    until = time.monotonic() + patience
    before = look(lake, {})
    while (found := look(lake, before)) != before:
        if time.monotonic() > until:
            raise TransientError(
                f"{lake}: for {patience:.0f} s there was no instant between two commits. Try again"
            )
        before = found
    return found


def look(lake: Path, known: Mapping[str, int]) -> dict[str, int]:
    """The newest version of each table that has one, one table after the other.

    Args:
        lake: the folder of all tables.
        known: versions that were seen already: only later ones are looked for.
    """
    found = {}
    for table in tables_of(lake):
        name = str(table.relative_to(lake))
        newest = known[name] if name in known else _listed(table)
        while (table / LOG / f"{newest + 1:020d}.json").exists():
            newest += 1
        if newest >= 0:
            found[name] = newest
    return found


def log_files(table: Path, version: int) -> list[Path]:
    """What of a table's log says how it is at a version: a checkpoint and the entries from there.

    Raises:
        DamagedTableError: some of it is missing; perhaps it was cleaned away meanwhile.
    """
    entries, checkpoints = logged(table)
    start = max((v for v in checkpoints if v <= version), default=-1)
    for wanted in range(start + 1, version + 1):
        if wanted not in entries:
            raise DamagedTableError(str(table), "is missing", f"{LOG}/{wanted:020d}.json")
    files = [*checkpoints.get(start, ()), *(entries[v] for v in entries if start <= v <= version)]
    return sorted(files)


def tables_of(folder: Path, depth: int = 0) -> Iterator[Path]:
    """The folders of all tables below one, in order; Spark's checkpoints are none."""
    with os.scandir(folder) as found:
        below = sorted(entry.path for entry in found if entry.is_dir(follow_symlinks=False))
    for path in map(Path, below):
        if (path / LOG).is_dir():
            yield path
        elif depth + 1 < DEPTH and not (depth == 1 and path.name == CHECKPOINTS):
            yield from tables_of(path, depth + 1)


def _listed(table: Path) -> int:
    entries, checkpoints = logged(table)
    return max([*entries, *checkpoints], default=-1)
