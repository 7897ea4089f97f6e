"""Takes in all that waits, and says now and then how far it has come."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.lake.ingest.door import Door
from penstock.lake.storage.commit import ConflictError

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two lines."""


@dataclass
class Progress:
    """How far a source has been taken in, in lines of the log.

    Attributes:
        left: files that wait, and their bytes.
        clock: seconds, monotonic.
    """

    left: Callable[[], tuple[int, int]]
    clock: Callable[[], float] = time.monotonic
    _listed: tuple[float, int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """It begins now."""
        self._began = self._said = self.clock()

    def told(self, received: int) -> str:
        """What to say after so many records; empty: nothing yet.

        How long the rest takes is told by bytes, as soon as some of those that were listed are in.
        """
        now, (files, size) = self.clock(), self.left()
        if self._listed is None:
            self._listed = now, size
        if now - self._said < EVERY:
            return ""
        self._said = now
        said = f"{received:,} records taken in, {received / (now - self._began):,.0f} a second"
        if not files:
            return said
        said += f"; {files:,} files wait, {size / 1e6:,.0f} MB"
        since, whole = self._listed
        rest = f", about {(now - since) * size / (whole - size):,.0f} s" if whole > size else ""
        return said + rest


def run_through(door: Door, origin: str, since: int | None, until: int | None) -> int:
    """Take everything that waits; returns the records received."""
    total, progress = 0, Progress(lambda: door.left(origin))
    while True:
        try:
            received = door.work(origin, since, until)
        except ConflictError:
            continue
        if received < 0:
            return total
        total += received
        if said := progress.told(total):
            log.info("%s: %s", origin, said)
