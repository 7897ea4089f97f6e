"""The thread of a stream host that takes in what waits at the door, or what a feed brings."""

import logging
import threading
import time

from penstock.lake.ingest.ahead import ClockError
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.reading import SourceError
from penstock.lake.over.feed import Feed
from penstock.lake.proof.unsettled import OVERDUE
from penstock.lake.storage.commit import ConflictError
from penstock.lake.storage.room import UnwrittenError
from penstock.spark.pulse import Pulse

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
AWAY_SECONDS = 2.0
"""Until a source that could not be read is tried again."""


class Ingest:
    """Takes in until it is told to halt.

    Args:
        door: of the log.
        pipeline: its name.
        pulse: told what is received, and waited for.
    """

    def __init__(self, door: Door | Feed, pipeline: str, pulse: Pulse) -> None:
        self.door, self.pipeline, self.pulse = door, pipeline, pulse
        self.failure: BaseException | None = None
        self.halt = threading.Event()
        self._thread = threading.Thread(target=self._take, name="ingest", daemon=True)
        self._received = 0
        self._waits_for: str | None = None
        self._away_since = 0.0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end, once it was told to halt."""
        self._thread.join(seconds)

    def _take(self) -> None:
        """Take what waits, else look again soon."""
        try:
            while not self.halt.is_set():
                try:
                    received = self.door.work()
                except ConflictError:
                    continue
                except (SourceError, ClockError, UnwrittenError) as away:
                    self._waits(str(away))
                    self.halt.wait(AWAY_SECONDS)
                    continue
                if self.door.away is None:
                    self._goes_on(received)
                else:  # other sources go on
                    self._received += max(received, 0)
                    self._waits(self.door.away)
                if received < 0:
                    self.halt.wait(max(POLL_SECONDS, self.door.rest))
        except BaseException as failed:  # noqa: BLE001  handed to the main thread, which raises it
            self.failure = failed

    def _waits(self, away: str) -> None:
        """Say what a source is waited for, and what to do once that lasts."""
        if self._waits_for != away:
            log.warning("ingest waits: %s", away)
        if self._waits_for is None:
            self._away_since = time.monotonic()
        self._waits_for = away
        fails = self._overdue(away, time.monotonic() - self._away_since)
        self.pulse.beat(waits_for=away, fails=fails)

    def _goes_on(self, received: int) -> None:
        if self._waits_for is not None:
            log.info("ingest goes on")
        self._waits_for = None
        self._received += max(received, 0)
        self.pulse.beat(
            received=self._received, waits_for=None, fails=None, changed=self._changed()
        )

    def _overdue(self, waits_for: str, seconds: float) -> str | None:
        """What is wrong where the same is waited for too long; none: it may pass."""
        if seconds < OVERDUE.total_seconds():
            return None
        return (
            f"nothing was taken for {seconds / 60:.0f} min: {waits_for}. If it does not pass by"
            " itself: mend what the system lacks, or move the file away and, where a plan waits for"
            f" it, penstock giveup {self.pipeline} FILE counts it as one unreadable record"
        )

    def _changed(self) -> str | None:
        """Files that are other than taken, in words; none: there is none."""
        found = self.door.changed
        if not found:
            return None
        return (
            f"{len(found):,} files were changed after they were taken, and are not read again; the"
            f" first: {found[0]}. penstock accept {self.pipeline} FILE settles it"
        )
