"""Which files of a source go once their records are sealed (``after`` of the pipeline file).

A file goes when every part of it stands in blocks that are on the disk, and it is still the very
file that was taken: number, size and time. Nothing of this is written down: what was sealed is a
function of the plans, and what is left to do is what still lies there. So a process that is killed
leaves nothing that the next one would not find.
"""

import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc

from penstock.config.intake import FileFormat, Source
from penstock.core.clock import Clock
from penstock.core.window import FOREVER, micros
from penstock.lake.ingest import notices
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.listing import Found, Listing
from penstock.lake.ingest.place import archive_of
from penstock.lake.ingest.plan import APPLICATION, Plan
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.received import UNREADABLE
from penstock.lake.ingest.removal import Removal, put_back
from penstock.lake.ingest.source import Waiting
from penstock.lake.ingest.spans import is_whole
from penstock.lake.ingest.taken import Had, Like, TakenFile, as_read
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

AT_ONCE = 256
"""Files that go between two plans."""
LOOKED_AT = 4_096
"""Files of a listing that are looked at between two plans."""
STILL = 60_000_000
"""Microseconds since a text was last written on: it may still grow, and would go on growing
where nobody looks."""


class Clearing:
    """Removes what was taken from a live source.

    Args:
        source: says what becomes of files.
        home: where relative places start.
        waiting: the same, by what plans took of it.
        tables: of the pipeline.
        clock: for texts that may still grow.

    Attributes:
        count: files that went since this process began.
    """

    def __init__(
        self, source: Source, home: Path, waiting: Waiting, tables: Tables, clock: Clock
    ) -> None:
        self.waiting, self.clock, self.count = waiting, clock, 0
        self.blocks, self.quarantine = Table(tables.blocks()), Table(tables.quarantine())
        self._archive = archive_of(source, home)
        self._removal = Removal(self._archive)
        self._firsts: list[int] = []
        self._unread: dict[int, set[str]] = {}
        self._known_upto = 0
        self._sealed_files: deque[Found] = deque()
        self._listing: Listing | None = None
        self._lying: deque[Found] = deque()
        self._stay: dict[str, set[str]] = {}
        self._said: set[str] = set()

    def planned(self, plan: Plan) -> None:
        """Note a plan, of whatever stream and origin; they come in order."""
        self._firsts.append(plan.first_seq)

    def work(self, items: Sequence[Item] = ()) -> None:
        """Remove some of what may go; what fails passes, is said, and tried again.

        Args:
            items: of a plan that was sealed just now.
        """
        self._begin()
        if not self.waiting.clears or self.waiting.feed is not None:
            return
        self._sealed_files.extend(map(_found, items))
        some = _popped(self._sealed_files, AT_ONCE)
        some += _popped(self._lying, LOOKED_AT) if len(some) < AT_ONCE else []
        for at in range(0, len(may := self._that_may_go(some)), AT_ONCE):
            self._remove(may[at : at + AT_ONCE])

    def _begin(self) -> None:
        """Begin with a new listing, once the last one was gone through."""
        if self._lying or self._listing is self.waiting.listing:
            return
        for what in self._said | self._stay.keys():
            self.waiting.notices.say(what, sorted(self._stay.get(what, ())))
        self._said, self._stay = {*self._stay}, {}
        self._listing = self.waiting.listing
        self._lying = deque(self._listing.files if self.waiting.clears else ())
        for cell in self._listing.cells:
            try:
                put_back(cell)
            except OSError as failed:
                log.warning("what a killed process left cannot be put back: %s", failed)

    def _that_may_go(self, files: Sequence[Found]) -> list[tuple[Found, TakenFile]]:
        """Files whose records are sealed and last, and that are still what was taken."""
        found = []
        for file in files:
            try:
                taken, like = self.waiting.known.match(file)
            except SourceError:  # it cannot be looked at now
                continue
            if taken is not None and like is Like.SAME and taken.own:
                found.append((file, taken))
        if not found:
            return []
        sealed = self._sealed()
        return [(f, taken) for f, taken in found if self._goes(f, taken, sealed)]

    def _sealed(self) -> int:
        """Number of the last plan whose records last, with what could not be read of them."""
        self.blocks.refresh()
        last = self.blocks.last(APPLICATION)
        if last is None:
            return -1
        last = min(last, len(self._firsts) - 1)  # another process may be ahead
        self.blocks.settle()  # all that it speaks for lasted before it
        since = Spans("arrival_seq", ((self._known_upto, FOREVER),))
        where = pc.field("reason") == UNREADABLE
        for row in read_table(self.quarantine, ["arrival_seq", "place"], where, since).to_pylist():
            plan = bisect_right(self._firsts, row["arrival_seq"]) - 1
            self._unread.setdefault(plan, set()).add(row["place"])
        self._known_upto = self._firsts[last]
        return last

    def _goes(self, file: Found, taken: TakenFile, sealed: int) -> bool:
        known = self.waiting.known
        parts = known.counting(taken)
        if not (
            is_whole([had.item for had in parts]) and all(had.place[0] <= sealed for had in parts)
        ):
            return False
        stays = self._stays(file, parts)
        if stays:
            self._stay.setdefault(stays, set()).add(file.path)
        return stays is None

    def _stays(self, file: Found, parts: Sequence[Had]) -> str | None:
        """Why a file stays whose records are sealed; empty: it may go soon; none: it goes."""
        decided = self.waiting.known.decided
        if any(had.place in decided.given_up or self._is_unread(had) for had in parts):
            return notices.UNREAD
        if file.real != file.path:
            return notices.LINKED
        state = file.inode, file.size, file.modified
        items = [as_read(had, decided) for had in parts]
        if any((item.inode, item.size, item.modified) != state for item in items):
            return notices.PUT_BACK if any(i.inode != file.inode for i in items) else ""
        is_text = items[0].format != FileFormat.PARQUET.value
        age = micros(self.clock.now()) - file.modified // 1_000
        return "" if is_text and age < STILL else None

    def _is_unread(self, had: Had) -> bool:
        number, path = had.place
        ending = f"/{path.lstrip('/')}"
        return any(place.endswith(ending) for place in self._unread.get(number, ()))

    def _remove(self, some: Sequence[tuple[Found, TakenFile]]) -> None:
        places = [(self.waiting.places.real(file), file) for file, _ in some]
        gone = []
        archived = self._removal.archived(places)
        for (place, file), (_, taken), failed in zip(places, some, archived, strict=True):
            if isinstance(failed, OSError):
                self._failed(notices.NOT_ARCHIVED, failed, file)
            if failed is not None:
                continue
            try:
                if self._removal.removed(place, file):
                    self.waiting.removed(file, taken)
                    gone.append(file)
            except OSError as wrong:
                self._failed(notices.NOT_REMOVED, wrong, file)
        if gone:
            self.count += len(gone)
            log.info(
                "%s files=%d in=%s first=%s all=%d",
                "deleted" if self._archive is None else f"archived to={self._archive}",
                len(gone), self.waiting.root, gone[0].path, self.count,
            )  # fmt: skip

    def _failed(self, what: str, failed: OSError, file: Found) -> None:
        why = f"{type(failed).__name__}: {failed.strerror}"
        self._stay.setdefault(what.format(why=why), set()).add(file.path)


def _found(item: Item) -> Found:
    """The file of an item, as it was planned."""
    state = item.size, item.modified, item.device, item.inode
    return Found(item.path, item.real or item.path, *state)


def _popped(files: deque[Found], most: int) -> list[Found]:
    return [files.popleft() for _ in range(min(most, len(files)))]
