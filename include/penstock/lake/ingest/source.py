"""Sources: which items wait, in which order. Neither reads records."""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from stat import S_ISREG

from penstock.config.intake import After, FileFormat, FileOrder, History, Source
from penstock.core.errors import ConfigError
from penstock.core.place import uri_of
from penstock.core.window import FOREVER
from penstock.lake.ingest import notices
from penstock.lake.ingest.born import born
from penstock.lake.ingest.delta_feed import APART, DeltaFeed
from penstock.lake.ingest.delta_log import DeltaSourceError
from penstock.lake.ingest.ending import line_end
from penstock.lake.ingest.footers import Footers
from penstock.lake.ingest.gone import emptied, gone, lost, not_there, partly, refuse_rests
from penstock.lake.ingest.item import Item, opened
from penstock.lake.ingest.known import Known
from penstock.lake.ingest.listing import Apart, Found, Listing
from penstock.lake.ingest.notices import Notices
from penstock.lake.ingest.place import said
from penstock.lake.ingest.quiet import Quiet
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.spans import Span, extent_of, is_span, is_stopped, minus, span_of, wanted
from penstock.lake.ingest.taken import READ, Had, How, Like, TakenFile, once
from penstock.lake.ingest.whereabouts import Whereabouts
from penstock.lake.log.files import Decided, State
from penstock.lake.storage.commit import ConflictError
from penstock.lake.storage.spec import opened as opened_place

RECORDS_PER_PLAN = 250_000
BYTES_PER_PLAN = 64 << 20
FILES_PER_PLAN = 256


class Waiting:
    """Items of a source that no plan has taken yet.

    A folder is listed when what was listed before has been taken: a long queue costs one listing.

    Args:
        config: the source or history of a pipeline file.
        home: where relative places start.
        apart: folders that nothing in the source may lead to.

    Attributes:
        changed: files, by their paths in the folder, that were other than taken when last listed.
        reading: how event times are read now; empty: not known.
        feed: of a Delta table; none: it is a folder of files.
        places: where its files lie.
        notices: what is odd about which files, by their paths in the folder; likewise.
        listing: what lay there when it was listed last.
        queue: of that the files that wait still.
        clears: its files go once their records are sealed.
        emptied: folders that held files that were taken, and hold nothing now; likewise.
    """

    def __init__(self, config: History, home: Path, apart: Sequence[Apart] = ()) -> None:
        self.config = config
        self.places = Whereabouts(config, home, apart)
        self.root = self.places.root
        self.uri = uri_of(self.root)
        self.filesystem, _ = opened_place(self.uri)
        self.known = Known(self.places.folder(), self.places.ending, self.places.born)
        self.clears = clears(config)
        self.known.cleared_upto = FOREVER if self.clears else -1
        self.changed: list[str] = []
        self.emptied: dict[str, int] = {}
        self.queue: deque[Found] = deque()
        self._missed: list[Found] = []
        self._missing: list[list[Had]] = []
        self.listing = Listing()
        self._removed: set[Found] = set()
        self._quiet = Quiet(self.root)
        self._asked: Span | None = None
        self._footers = Footers(self.places, self.filesystem)
        self.notices = Notices(self.root)
        self.reading = ""
        self.feed: DeltaFeed | None = None
        if config.delta is not None:
            folder = self.known.folder
            self.feed = DeltaFeed(self.uri, self.filesystem, self.root, config.skip, folder)
            self.places.feed = self.feed

    def take(
        self, items: Sequence[Item], number: int = -1, *, own: bool = True, reading: str = "",
        cleared: bool = False,
    ) -> None:  # fmt: skip
        """Note that these were taken.

        Args:
            items: as plans name them.
            number: of the plan.
            own: of this source; else of the pipeline's other one.
            reading: how event times were read.
            cleared: files that were taken by then are not kept.
        """
        if cleared and own and isinstance(self.config, Source):
            self.known.cleared_upto = max(self.known.cleared_upto, number)
        if self.feed is not None:
            self.feed.take(map(self.places.own, items), own=own)
        for item in items:
            named = self.places.own(item) if own else item
            self.known.take(named, number, own=own, named=item.path, reading=reading)

    def items(
        self, since: int | None = None, until: int | None = None, *, closely: bool = True,
        times: float = 1.0,
    ) -> list[Item]:  # fmt: skip
        """What waits, in order, at most as much as one plan may hold.

        Args:
            since: only records with an event time at or after it, us.
            until: only records with an earlier event time, us.
            closely: list the folder also where it says that nothing came.
            times: so many times what a plan of one process may hold.

        Raises:
            SourceError: the source cannot be looked at now; what waits is not known.
        """
        if self.feed is not None:
            if self.known.is_others_folder():
                raise DeltaSourceError(self.root, notices.OTHERS_FOLDER, APART)
            parts = (self._parts(self._located(i), since, until) for i in self.feed.left())
            return _one_plan(chain.from_iterable(parts), times)
        asked, listed, self._asked = wanted(since, until), self._asked, None
        chosen = _one_plan(self._queued(since, until), times) if asked == listed else []
        if not chosen and (closely or self.listing.astray or not self._quiet.holds()):
            self._list()
            chosen = _one_plan(self._queued(since, until), times)
        if not chosen:
            refuse_rests(self.known, self._missing, self.listing, self.root)
        self._asked = asked
        return chosen

    def _located(self, item: Item) -> Item:
        """A file of the table, as it lies on the disk: it may be known from elsewhere.

        Raises:
            DeltaSourceError: the pipeline's other source has taken it.
        """
        try:
            about = os.stat(self.places.full(item).path)  # noqa: PTH116
        except OSError:  # who reads it says so
            return item
        on_disk = {"device": about.st_dev, "inode": about.st_ino, "modified": about.st_mtime_ns}
        item = replace(item, root=self.known.folder, **on_disk)
        if self.known.is_others(item):
            raise DeltaSourceError(self.root, notices.OTHERS.format(file=said(item.path)), APART)
        return item

    def removed(self, file: Found, taken: TakenFile) -> None:
        """Take note that a file that was taken is not there any more, since it was listed."""
        self._removed.add(file)
        self.known.forget(taken)

    def refuse_emptied(self) -> None:
        """See that nothing that may be to come is away, as far as it was listed last.

        Raises:
            SourceError: everything that was taken from a folder is gone, or a file that waited.
        """
        for folder, count in self.emptied.items():
            whole = os.path.normpath(f"{self.root}/{folder}")
            raise SourceError(whole, notices.AWAY.format(count=count, folder=said(whole)))
        for file in self._missed:
            raise SourceError(f"{self.root}/{file.path}", notices.WENT)

    def refuse_end(self) -> None:
        """See that a bounded source may end.

        Raises:
            SourceError: as of ``refuse_emptied``.
            ConflictError: a file came, or was moved, while its folder was listed.
        """
        self.refuse_emptied()
        if self.items():
            raise ConflictError(f"{self.root}: files came while it was listed; call again")

    def _list(self) -> None:
        self._quiet.begin()
        if self.known.folder != (folder := self.places.folder()):
            self.known.folder = folder
            self.known.keys.look_at_all()
        found = self.places.listed(self.listing)
        if not found.files and self.listing.files and found.folder != self.listing.folder:
            why = "an empty folder stands where there was another one: is what was mounted away?"
            raise SourceError(self.root, why)
        if (away := found.away(self.listing)) is not None:
            why = "what was mounted there is away: mount it again, or remove the folder"
            raise SourceError(away, why)
        files = self.known.keys.to_look_at(found.files, folder)
        by_name = self.config.order is FileOrder.NAME
        files.sort(key=lambda f: f.path if by_name else (f.modified, f.path))
        fresh = self._told_apart(files)
        self.listing, self.queue = found, deque(fresh)
        self._footers.forget()
        self._removed.clear()
        for why, paths in found.odd.items():
            self.notices.say(f"left alone: {why}", paths, growth=2)  # one may come beside each file
        self._missing = [*gone(self.known)]
        self.emptied = emptied(self._missing, found.files)
        self.notices.say(notices.ASTRAY, found.astray)
        self.notices.say(notices.EMPTIED, [*self.emptied])
        self.notices.say(notices.PARTLY, partly(self._missing))
        self._missed = not_there(self._missed, found.files, self.known)
        self.notices.say(notices.MISSED, [file.path for file in self._missed])
        self._quiet.listed(found.folders)

    def decide(self, decided: Decided) -> None:
        """Take note of what a person decided about its files."""
        self._quiet.forget()
        self.known.decide(decided)
        if self.feed is not None:
            self.feed.again = {path for _, path in decided.again}

    def look(self) -> list[tuple[Found, State]]:
        """Files of a folder that are not any more what was taken of them, and what that was.

        Raises:
            SourceError: it cannot be listed now.
        """
        if self.feed is None:
            self._list()
        changed = {*self.changed}
        return [(f, self.known.states(f)[-1]) for f in self.listing.files if f.path in changed]

    def unlike(self) -> list[tuple[Found | None, TakenFile]]:
        """What lies there otherwise than it was taken, or does not any more, and what was taken.

        Raises:
            SourceError: it cannot be listed now.
        """
        self._list()
        found = [(file, *self.known.match(file)) for file in self.listing.files]
        other = [(f, taken) for f, taken, like in found if taken and like is not Like.SAME]
        return [*other, *((None, file) for file in lost(self.known, self._missing))]

    def unclear(self) -> list[Found]:
        """Files with names of others that were taken from another folder.

        Raises:
            SourceError: it cannot be listed now.
        """
        found = self.places.listed()
        hows = self.known.look(found.files)
        return [file for how, file in zip(hows, found.files, strict=True) if how is How.UNCLEAR]

    def _told_apart(self, files: Sequence[Found]) -> list[Found]:
        """What may wait; of names of one file on the disk one is enough.

        Raises:
            SourceError: of some nobody can tell whether they are new.
        """
        hows = [*zip(self.known.look(files), files, strict=True)]
        unclear = [f.path for how, f in hows if how is How.UNCLEAR]
        if unclear:
            raise SourceError(self.root, notices.UNCLEAR.format(
                count=len(unclear), first=said(min(unclear)), folder=said(self.root)
            ))  # fmt: skip
        self.changed = sorted(f.path for how, f in hows if how in {How.CHANGED, How.REPLACED})
        self.notices.say(notices.CHANGED, self.changed)
        given_up = {f for how, f in hows if how in READ and self.known.is_given_up(f)}
        fresh, new, elsewhere = once(hows, given_up)
        self.notices.say(notices.RENAMED, [f.path for f in new if self.known.is_renamed(f)])
        self.notices.say(notices.COPIES, [f.path for f in new if self.known.is_alike(f)])
        self.notices.say(notices.ELSEWHERE, elsewhere)
        return fresh

    def _queued(self, since: int | None, until: int | None) -> Iterator[Item]:
        """Parts that wait, of the files that were listed."""
        queue = self.queue
        while queue and self._is_done(queue[0], since, until):
            queue.popleft()
        for at in range(0, len(queue), FILES_PER_PLAN):
            some = [*islice(queue, at, at + FILES_PER_PLAN)]
            items = [i for f in some if not self._is_done(f, since, until) for i in self._now(f)]
            if since is None and until is None:
                self._footers.count(items)
            for item in items:
                yield from self._parts(item, since, until)

    def _is_done(self, found: Found, since: int | None, until: int | None) -> bool:
        if found in self._removed:
            return True
        taken = self.known.had(found)
        if not taken or is_stopped(taken, since, until):
            return False
        if since is not None or until is not None or any(map(is_span, taken)):
            return not minus(wanted(since, until), [span_of(t) for t in taken])
        return not minus((0, FOREVER), [extent_of(t) for t in taken])

    def _now(self, found: Found) -> Iterator[Item]:
        """The file as it is now; nothing if it went before it was planned."""
        try:
            real = self.places.real(found, self.known.folder)
            about = os.stat(real)  # noqa: PTH116
        except FileNotFoundError:
            self._missed.append(found)
            return
        except OSError as away:
            raise SourceError(f"{self.root}/{found.path}", away) from away
        if S_ISREG(about.st_mode):
            yield Item(
                found.path, self.config.format.value, about.st_size, about.st_mtime_ns,
                real="" if found.real == found.path else found.real, root=self.known.folder,
                device=about.st_dev, inode=about.st_ino,
                ending=self.places.end_of(real, about.st_size),
                born=born(real) if self.clears else 0,
            )  # fmt: skip

    def _parts(self, item: Item, since: int | None, until: int | None) -> Iterator[Item]:
        head = self.known.head(item)
        for part in self._cut(item, since, until):
            yield replace(part, head=head)

    def _cut(self, item: Item, since: int | None, until: int | None) -> Iterator[Item]:
        taken = self.known.had(item)
        if since is not None or until is not None or any(map(is_span, taken)):
            spans = minus(wanted(since, until), [span_of(t) for t in taken])
            self._check_spans(item, taken, since, until, is_any=bool(spans))
            for low, high in spans:
                yield replace(item, since=low, until=high, rest=not taken)
                taken = [*taken, item]
            return
        left = minus((0, FOREVER), [extent_of(t) for t in taken])
        if taken and left and self.feed is None and not self.known.goes_on(item):
            raise SourceError(f"{self.root}/{item.path}", notices.REST)
        if item.format != FileFormat.PARQUET.value:
            for low, high in left:
                yield from self._byte_parts(item, low, high)
        elif left:
            yield from self._row_parts(item, left, fresh=not taken)

    def _check_spans(
        self, item: Item, taken: Sequence[Item], since: int | None, until: int | None,
        *, is_any: bool,
    ) -> None:  # fmt: skip
        """See that an interval of a file is what the intervals before left of it.

        Raises:
            SourceError: it was changed since they were taken.
            ConfigError: they were read otherwise, or it was begun as a whole.
        """
        place = f"{self.root}/{item.path}"
        if is_stopped(taken, since, until):
            raise ConfigError(notices.BEGUN_WHOLE.format(file=place))
        if not is_any or not taken:
            return
        if self.reading and self.known.read_otherwise(item, self.reading):
            raise ConfigError(notices.OTHERWISE.format(file=place))
        if self.feed is None and self.known.match(item)[1] is not Like.SAME:
            raise SourceError(place, notices.REST)

    def _row_parts(self, item: Item, left: Sequence[Span], *, fresh: bool) -> Iterable[Item]:
        total = self._footers.rows(item)
        if total is None:  # the plan's reader will say so, once
            yield replace(item, first=left[0][0])
            return
        for low, high in left:
            end = min(high, total)
            for at in range(low, end, RECORDS_PER_PLAN):
                to = min(at + RECORDS_PER_PLAN, end)
                yield replace(item, first=at, end=-1 if to == total else to, records=to - at)
        if not total and fresh:
            yield replace(item, records=0)

    def _byte_parts(self, item: Item, at: int, until: int) -> Iterable[Item]:
        size = min(until, item.size)
        while size - at > BYTES_PER_PLAN:
            with opened(self.places.full(item)) as file:
                end = line_end(file, at + BYTES_PER_PLAN)
            if end >= size:
                break
            yield replace(item, first=at, end=end)
            at = end
        yield replace(item, first=at, end=-1 if until == FOREVER else until)


def clears(config: History) -> bool:
    """Whether a source's files go once their records are sealed."""
    return isinstance(config, Source) and config.after is not After.KEEP


def _one_plan(parts: Iterable[Item], times: float) -> list[Item]:
    """As much as one plan may hold."""
    chosen, records, size = list[Item](), 0, 0
    for item in parts:
        chosen.append(item)
        records += max(item.records, 0)
        size += item.extent if item.records < 0 else 0
        held = records / RECORDS_PER_PLAN, size / BYTES_PER_PLAN, len(chosen) / FILES_PER_PLAN
        if max(held) >= times:
            break
    return chosen
