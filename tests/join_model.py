"""A join of streams as a model that runs: which pairs are timely, which the correction owes.

Records of all streams share one log. A *pair* is a record of the left stream and one of the right,
near in time, for which a query holds that is in force where the later of the two stands in the log;
its identity is their two ``arrival_seq``, and it names the queries. Right ones are looked for some
span before the left one: of a calendar, too.

A record is compared with those before it in the log that are *kept*: those that a record on time
could yet be near to. The watermark is the least of those of the streams that are not silent. So a
pair is *timely* iff neither record is shed and the earlier one is kept where the later one stands:
nothing depends on where micro-batches end. A record is *late* if it came behind the watermark, or
was shed: nothing else misses a partner. A correction compares late records with the whole log
before them, and shed ones with what came after them; a pair counts once.

Source: S2J (theta joins, shedding); the law of timely pairs is ours [D].
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.lookup_model import Lake, Pair, planned, sealed_rows

BEFORE, AFTER = 2, 5
"""How far the right one may lie before and after the instant where it is looked for."""
QUERIES = {"far": 4, "near": 1, "other": 2}
"""By name, how far values must lie apart."""
Streams = tuple[str, str]
"""The left one and the right one; both may be the same."""
NEVER, EVER = -(10**9), 10**9


@dataclass(frozen=True)
class Event:
    """What the log holds at a position, or says of a stream there.

    Attributes:
        seq: position.
        stream: whose it is.
        time: event time; none: the stream is silent from here on.
        value: compared.
        shed: kept from the stream's answers.
        queries: in force here.
        mark: the watermark in force here.
    """

    seq: int
    stream: str
    time: int | None
    value: int
    shed: bool = False
    queries: frozenset[str] = frozenset()
    mark: int = NEVER

    @property
    def at(self) -> int:
        """Event time of a record."""
        assert self.time is not None
        return self.time


def back(time: int) -> int:
    """Where the right ones of a left one lie: as a month before, of several days on one day."""
    return time - 4 - 3 * (time % 6 >= 3)


def lowest(time: int) -> int:
    """The least of those of left ones from an instant on."""
    return min(back(each) for each in range(time, time + 12))


def marked(events: list[Event], slack: int) -> list[Event]:
    """Each with the watermark in force: the least of those of the streams that are not silent."""
    newest: dict[str, int] = dict.fromkeys(sorted({e.stream for e in events}), NEVER)
    silent, mark, found = set[str](), NEVER, list[Event]()
    for event in events:
        found.append(Event(**{**vars(event), "mark": mark}))
        if event.time is None:
            silent.add(event.stream)
        else:
            silent.discard(event.stream)
            newest[event.stream] = max(newest[event.stream], event.time)
        awake = [newest[stream] - slack for stream in newest if stream not in silent]
        mark = max(mark, min(awake) if awake else max(newest.values()))
    return found


def pairs(one: Event, other: Event, streams: Streams) -> Iterator[tuple[Pair, frozenset[str]]]:
    """What two records are a pair of, and by which queries."""
    later = max(one, other, key=lambda e: e.seq)
    for left, right in ((one, other), (other, one)):
        if (left.stream, right.stream) == streams and one.seq != other.seq:
            apart = abs(left.value - right.value)
            told = frozenset(name for name in later.queries if apart > QUERIES[name])
            if -BEFORE <= right.at - back(left.at) <= AFTER and told:
                yield (left.seq, right.seq), told


def is_kept(event: Event, role: int, mark: int) -> bool:
    """Whether a record on time could yet be near to one, as the left (0) or the right one (1)."""
    if role:
        return event.at >= lowest(mark) - BEFORE
    return back(event.at) + AFTER >= mark


def is_late(event: Event) -> bool:
    """Whether it may miss a partner."""
    return event.shed or event.at < event.mark


def timely(newer: Event, older: Event, streams: Streams) -> Iterator[tuple[Pair, frozenset[str]]]:
    """Pairs that are told at once: a function of the log."""
    if newer.shed or older.shed:
        return
    for found, told in pairs(newer, older, streams):
        if is_kept(older, int(found[1] == older.seq), newer.mark):
            yield found, told


@dataclass
class Join:
    """The speed layer: micro-batches of any size, a state that may be lost."""

    lake: Lake
    streams: Streams
    slack: int
    draw: random.Random
    state: tuple[int, list[Event]] | None = None
    marked: list[Event] = field(default_factory=list)

    @property
    def sealed(self) -> int:
        """One past the last position that is answered for."""
        return max((end for _, end in self.lake.tables["control"]), default=0)

    @property
    def log(self) -> list[Event]:
        """All of it."""
        if len(self.marked) < len(self.lake.tables["events"]):
            self.marked = marked(self.lake.tables["events"], self.slack)
        return self.marked

    def work(self) -> None:
        """One micro-batch."""
        events, at = self.log, self.sealed
        if at == len(events):
            return
        if self.state is None or self.state[0] != at:
            self.state = at, self.kept(events[:at], events[at].mark)
        kept, end = self.state[1], self.draw.randint(at + 1, len(events))
        self.state = None  # until it is sealed
        found, late = [], []
        for event in events[at:end]:
            if event.time is None:
                continue
            late += [event.seq] if is_late(event) else []
            if not event.shed:
                found += [p for older in kept for p in timely(event, older, self.streams)]
                kept.append(event)
        batch = (at, end)  # what one that was killed has left is sealed by nobody
        self.lake.commit("late", batch, [(batch, seq) for seq in late])
        self.lake.commit("pairs", batch, [(batch, p) for p in found])
        self.lake.commit("control", at, [batch])
        if end < len(events):
            self.state = end, self.kept(kept, events[end].mark)

    def kept(self, events: list[Event], mark: int) -> list[Event]:
        """The state at a watermark, from what may hold more."""
        records = [e for e in events if e.time is not None and not e.shed]
        return [e for e in records if any(is_kept(e, role, mark) for role in (0, 1))]


@dataclass
class Correction:
    """Plans over late and shed records, in any order, each in pieces."""

    lake: Lake
    step: Join
    draw: random.Random

    @property
    def is_done(self) -> bool:
        """Whether all that is sealed was corrected."""
        plans = self.lake.tables["plans"]
        done = all(("done", plan) in self.lake.done for plan in plans)
        return done and bool(plans) and plans[-1][1] == self.step.sealed

    def work(self) -> None:
        """Plan what is late by now, or a piece of a plan."""
        plan = planned(self.lake, self.step.sealed, self.draw)
        if plan is None:
            return
        found = self.missed(*plan)
        for at in range(0, len(found), 2):
            self.lake.commit("made", (plan, at), found[at : at + 2])
        self.lake.commit("done", plan, [plan])

    def missed(self, since: int, through: int) -> list[tuple[Pair, frozenset[str]]]:
        """Pairs that are not timely, and whose later record stands in [since, through)."""
        events, streams = self.step.log[:through], self.step.streams
        late = [e for e in events if e.time is not None and is_late(e)]
        found = {}
        for one in late:
            others = events[: one.seq] if one.seq >= since else []
            others = others + (events[max(since, one.seq + 1) :] if one.shed else [])
            for other in (e for e in others if e.time is not None):
                newer, older = sorted((one, other), key=lambda e: -e.seq)
                told = {pair for pair, _ in timely(newer, older, streams)}
                found |= {p: q for p, q in pairs(one, other, streams) if p not in told}
        return sorted(found.items())


def in_force(lake: Lake, through: int) -> dict[Pair, frozenset[str]]:
    """Pairs at a sealed position."""
    made = {p: told for p, told in lake.tables["made"] if max(p) < through}
    return made | dict(sealed_rows(lake, "pairs", through))


def repaired(lake: Lake, through: int) -> list[tuple[int, int]]:
    """Stretches of the log that plans have corrected by a position."""
    return [p for p in lake.tables["plans"] if ("done", p) in lake.done and p[1] <= through]


def true_pairs(events: list[Event], streams: Streams) -> dict[Pair, frozenset[str]]:
    """What the definition says of some records, found by looking at all of them."""
    records = [e for e in events if e.time is not None]
    every = ((a, b) for n, a in enumerate(records) for b in records[:n])
    return {p: told for a, b in every for p, told in pairs(a, b, streams)}


def true_timely(events: list[Event], streams: Streams) -> dict[Pair, frozenset[str]]:
    """Timely pairs as a function of the log, with nothing kept."""
    records = [e for e in events if e.time is not None]
    every = ((a, b) for n, a in enumerate(records) for b in records[:n])
    return {p: told for a, b in every for p, told in timely(a, b, streams)}
