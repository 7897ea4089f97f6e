"""Takes the side data that a pipeline loads: whoever changes its files changes what holds.

Content is stored once, and proposed; the door adopts it with its next plan.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.core.place import path_of
from penstock.core.side import VERSION, SideTable
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.side_content import SidePlace, Stamp, UnfitError
from penstock.lake.ingest.side_declared import DeclaredPlace, OutdatedError
from penstock.lake.log import proposed
from penstock.lake.log.blocks import decisions_of
from penstock.lake.log.side import REFUSED, owner
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

SETTLED = timedelta(seconds=2)
"""Files that change are taken once they have not changed for so long: nobody writes them then."""
LASTING = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
"""What does not pass by itself."""


@dataclass
class _Seen:
    """What is known of the files of a side table.

    Attributes:
        stamps: as they were at the last look.
        since: since when they have been so.
        done: whether they were dealt with.
        version: what they hold, if that was taken.
        offered: version of ``decisions`` at which that was the last word.
        said: what was logged last.
    """

    stamps: list[Stamp] | None = None
    since: datetime | None = None
    done: bool = False
    version: str = ""
    offered: int = -1
    said: str = ""


def places_of(pipeline: Pipeline, home: Path) -> list[SidePlace | DeclaredPlace]:
    """Where the side data lies that some step looks up, and what steps hold of it.

    Args:
        pipeline: as its file says it.
        home: where relative places start.
    """
    used = {join.table.name: join.table for s in pipeline.specs for join in s.looked_up}
    files = (
        SidePlace(table, home / path_of(config.files), config.format, pipeline.tz)
        for name, table in used.items()
        for config in [pipeline.load[name]]
    )
    held = (DeclaredPlace(pipeline, s, own) for s in pipeline.specs for own in s.declares)
    return [*files, *held]


class SideFiles:
    """The side data of pipelines on one log: takes what its files hold.

    Args:
        tables: of the log.
        pipelines: their files.
        home: where relative places start.
        clock: tells when something was seen.
    """

    def __init__(
        self, tables: Tables, pipelines: Sequence[Pipeline], home: Path, clock: Clock
    ) -> None:
        self.tables, self.clock = tables, clock
        self.decisions = Table(tables.decisions())
        self.places = [place for each in pipelines for place in places_of(each, home)]
        self._seen = {place.table.name: _Seen() for place in self.places}

    def look(self) -> None:
        """Take what has changed; what cannot be used is noted, and the former content holds on.

        Raises:
            ConfigError: what is there cannot be used, and there is nothing to hold on to.
            SourceError: nothing is there, or it cannot be read now, and there is nothing to hold
                on to: it is waited for.
        """
        for place in self.places:
            self._look(place, self._seen[place.table.name])

    def _look(self, place: SidePlace | DeclaredPlace, seen: _Seen) -> None:
        try:
            self._take(place, seen)
        except OutdatedError:
            seen.version, seen.done = "", True
        except UnfitError as wrong:
            self._unfit(place.table, str(wrong))
            seen.version, seen.done = "", True
        except (OSError, SourceError) as away:
            self._away(place, seen, away)
        if seen.version:
            self._offer(place.table, seen)

    def _take(self, place: SidePlace | DeclaredPlace, seen: _Seen) -> None:
        """Store what the files hold, if they are others than were dealt with."""
        stamps = place.stamps()
        if not self._is_new(place.table, seen, stamps):
            return
        version, rows = place.read([path for path, *_ in stamps])
        if place.stamps() != stamps:
            return  # it changed meanwhile
        self._store(place.table, version, rows)
        self._note(place.table, "")
        seen.version, seen.offered, seen.done = version, -1, True

    def _away(
        self, place: SidePlace | DeclaredPlace, seen: _Seen, why: OSError | SourceError
    ) -> None:
        """The files are not there, which is noted, or cannot be read now, which passes."""
        table = place.table
        if not self._contents(table):
            raise SourceError(str(place.place), why) from why
        if isinstance(why, LASTING):
            said = f"{place.place}: {why.strerror}. Put it there, or name another place"
            self._unfit(table, said)
            seen.stamps, seen.version = None, ""
        elif seen.said != str(why):  # once: it is looked at again and again
            seen.said = str(why)
            log.warning("side data cannot be read now name=%s why=%s", table.name, why)

    def _is_new(self, table: SideTable, seen: _Seen, stamps: list[Stamp]) -> bool:
        """Whether files are to be read: they are others, and nobody writes them any more."""
        now = self.clock.now()
        if seen.stamps != stamps:
            seen.stamps, seen.since, seen.done = stamps, now, False
        elif seen.done:
            return False
        assert seen.since is not None  # noqa: S101  set with the stamps
        return now - seen.since >= SETTLED or not self._contents(table)

    def _store(self, table: SideTable, version: str, rows: pa.Table) -> None:
        rows = rows.append_column(VERSION, pa.repeat(version, rows.num_rows))
        if Table(self.tables.side(table)).append(rows, f"side:{version}", 0):
            log.info("side data taken name=%s version=%s rows=%d", table.name, version, len(rows))

    def _offer(self, table: SideTable, seen: _Seen) -> None:
        """See that what the files hold is the last that was decided or proposed, whoever did."""
        if self.decisions.refresh().version() != seen.offered:
            proposed.offer(self.tables, owner(table), seen.version, self.clock)
            seen.offered = self.decisions.refresh().version()

    def _contents(self, table: SideTable) -> list[str]:
        """Versions that were decided, or proposed since, in order."""
        return proposed.values(decisions_of(self.decisions, owner(table)))

    def _unfit(self, table: SideTable, why: str) -> None:
        if not self._contents(table):
            raise ConfigError(f"load.{table.name}: {why}")
        if self._note(table, why):
            log.warning("side data refused name=%s why=%s", table.name, why)

    def _note(self, table: SideTable, why: str) -> bool:
        return proposed.note(self.tables, owner(table), REFUSED, why, self.clock)
