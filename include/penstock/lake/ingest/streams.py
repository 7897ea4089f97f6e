"""The streams of a pipeline as its door sees them, and which of them is taken from next."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from penstock.config.intake import Mode
from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import TransientError
from penstock.core.slack import BlockKind
from penstock.core.window import micros
from penstock.lake.ingest.ahead import ClockError, Outlook
from penstock.lake.ingest.clearing import Clearing
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.origins import waiting_of
from penstock.lake.ingest.plan import Plan, clears_by, definition_of
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.source import Waiting
from penstock.lake.log.blocks import LIVE
from penstock.lake.storage.tables import Tables


@dataclass(slots=True)
class Asked:
    """What a plan is to take.

    Attributes:
        origin: live or history.
        since, until: only records with an event time in [since, until), us; none: unbounded.
        now: the plan's instant, us.
        times: as many times what a plan of one process may hold.
    """

    origin: str
    since: int | None
    until: int | None
    now: int
    times: float


@dataclass(frozen=True, slots=True)
class Next:
    """What a plan takes.

    Attributes:
        stream: whose.
        kind: of its blocks.
        items: to be read.
    """

    stream: "Stream"
    kind: BlockKind
    items: tuple[Item, ...]


class Stream:
    """One of the streams.

    Attributes:
        name: of the stream; empty: it is the only one.
        text: of the definition its next plan is carried out by.
        waiting: its source and history, by origin.
        last_live: its newest live plan.
    """

    def __init__(
        self, name: str, pipeline: Pipeline, waiting: dict[str, Waiting], home: Path,
        tables: Tables, clock: Clock,
    ) -> None:  # fmt: skip
        self.name, self.intake = name, pipeline.intakes[name]
        self.definition = pipeline.definitions[name]
        self.waiting = waiting
        self.last_live: Plan | None = None
        self._clearing = Clearing(self.intake.source, home, waiting[LIVE], tables, clock)
        self._outlook = Outlook(self.intake)

    @cached_property
    def text(self) -> str:
        """As plans write it down."""
        return self.definition.to_text()

    @property
    def ended(self) -> bool:
        """Whether its bounded source was said to be at its end."""
        return self.last_live is not None and self.last_live.kind is BlockKind.END

    def planned(self, plan: Plan) -> None:
        """Note a plan of the pipeline; they come in order."""
        self._clearing.planned(plan)
        if plan.stream != self.name:
            return
        if plan.origin == LIVE:
            self.last_live = plan
        for origin, waiting in self.waiting.items():
            waiting.take(
                plan.items, plan.number, own=origin == plan.origin,
                reading=definition_of(plan.definition).reading,
                cleared=clears_by(plan.definition),
            )  # fmt: skip

    def clear(self, plan: Plan | None) -> None:
        """Let some files go whose records are sealed; ``plan``: what was sealed just now."""
        is_own = plan is not None and (plan.stream, plan.origin) == (self.name, LIVE)
        self._clearing.work(plan.items if plan is not None and is_own else ())

    def left(self, origin: str, last: Plan | None) -> list[int]:
        """Sizes of the files that wait, after the last plan and as of the last listing; bytes."""
        if origin not in self.waiting:  # another process may have a plan of it still
            return []
        is_own = last is not None and last.stream == self.name
        taken = {item.path for item in last.items} if last is not None and is_own else set()
        return [f.size for f in self.waiting[origin].queue if f.path not in taken]

    def next(self, asked: Asked) -> Next | None:
        """What a plan would take of it; none: nothing, and there is nothing to say.

        Raises:
            SourceError: the source cannot be read now.
            ClockError: most of what waits is ahead of the clock.
            ConflictError: files came meanwhile; call again.
        """
        origin, now = asked.origin, asked.now
        waiting = self.waiting[origin]
        closely = origin != LIVE or self._silence(origin, now) is not None
        found = waiting.items(asked.since, asked.until, closely=closely, times=asked.times)
        whole = [waiting.places.full(item) for item in found]
        reached = self._outlook.reached(whole, waiting.filesystem, now)
        items = tuple(found[: len(reached)])
        kind = BlockKind.DATA if items else self._silence(origin, now)
        if found and not items and kind is not BlockKind.IDLE:
            raise self._outlook.error(whole, waiting.filesystem, now)
        if kind is BlockKind.END:
            waiting.refuse_end()
        return None if kind is None else Next(self, kind, items)

    def _silence(self, origin: str, now: int) -> BlockKind | None:
        """What an empty source means: the end, idleness, or nothing new to say."""
        if origin != LIVE:
            self.waiting[origin].refuse_emptied()
            return None
        source, last = self.intake.source, self.last_live
        if source.mode is Mode.BOUNDED:
            return None if self.ended else BlockKind.END
        if last is None or last.kind is not BlockKind.DATA:
            return None
        return BlockKind.IDLE if now - last.arrived_at >= micros(source.idle_after) else None


def streams_of(pipeline: Pipeline, home: Path, tables: Tables, clock: Clock) -> dict[str, Stream]:
    """The streams of a pipeline, by name."""
    every = waiting_of(pipeline, home, tables.lake)
    found = {}
    for name in pipeline.intakes:
        mine = {origin: waiting for (stream, origin), waiting in every.items() if stream == name}
        found[name] = Stream(name, pipeline, mine, home, tables, clock)
    return found


def next_of(
    streams: Iterable[Stream], newest: Callable[[str], int], look: Callable[[Stream], Next | None]
) -> tuple[Next | None, TransientError | None]:
    """What the next plan takes, and why some stream could not be looked at.

    A stream that is silent or ends says so first: it takes no time. Of those with something waiting
    it is the one whose newest event time is least, so that none runs far ahead of the others.

    Args:
        streams: all that have a source to look at.
        newest: newest event time of one so far, us.
        look: what a plan would take of one.
    """
    found, away = list[Next](), None
    for stream in streams:
        try:
            one = look(stream)
        except (SourceError, ClockError) as waits:
            away = away or waits
        else:
            found += [one] if one is not None else []

    def order(one: Next) -> tuple[bool, int, str]:
        return one.kind is BlockKind.DATA, newest(one.stream.name), one.stream.name

    return min(found, key=order, default=None), away
