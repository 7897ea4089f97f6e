"""A look-up as a model that runs: which pairs are timely, missed and refuted.

A record is compared with the *kept* observations of its key: the last ``keep`` of those before it
in the log, in order of (event time, ``arrival_seq``). So nothing depends on where micro-batches
end. A pair of records for which the condition holds is an *alarm*; its identity is their two
``arrival_seq``.

``all``: every two observations of a key no further apart than ``REACH``. A record is late if one it
could be compared with is no longer kept; the correction compares it with the whole log.

``consecutive``: two observations with none of their key between them. A record that comes between
two makes two pairs, and refutes one: it is late if that was an alarm, or if what comes before it is
no longer kept. What it changes is told by the log before it, so plans may be done in any order; an
alarm counts once, and a refuted one never again.

Source: RTMR (state from history, compared with every new record); the sets of pairs are ours [D].
"""

import random
from bisect import bisect
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Literal

REACH = 6
Pairs = Literal["all", "consecutive"]
Pair = tuple[int, int]


class KilledError(Exception):
    """A process died before its next commit."""


@dataclass(frozen=True, order=True)
class Record:
    """An observation; they are ordered by (event time, arrival_seq)."""

    time: int
    seq: int
    key: str = field(compare=False)
    site: int = field(compare=False)


@dataclass
class Lake:
    """Tables of rows; a commit that was made is not made again."""

    chaos: random.Random
    kill: float
    tables: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    done: set[tuple[str, object]] = field(default_factory=set)

    def commit(self, table: str, transaction: object, rows: list[Any]) -> None:
        """Append, unless that transaction has."""
        if self.chaos.random() < self.kill:
            raise KilledError
        if (table, transaction) not in self.done:
            self.done.add((table, transaction))
            self.tables[table].extend(rows)


@dataclass
class Kept:
    """What the state holds of a key: its last observations, and the newest that it dropped."""

    records: list[Record] = field(default_factory=list)
    dropped: Record | None = None

    def add(self, record: Record, keep: int) -> None:
        """Keep the last of them."""
        self.records = sorted([*self.records, record])
        if len(self.records) > keep:
            oldest = self.records.pop(0)
            self.dropped = max(oldest, self.dropped or oldest)


def matches(one: Record, other: Record, pairs: Pairs) -> bool:
    """The condition: another site; and that they are near, where it does not ask for neighbours."""
    near = pairs == "consecutive" or abs(one.time - other.time) <= REACH
    return one.site != other.site and near


def pair(one: Record, other: Record) -> Pair:
    """An alarm's identity."""
    return min(one.seq, other.seq), max(one.seq, other.seq)


@dataclass
class LookUp:
    """The speed layer: micro-batches of any size, a state that may be lost."""

    lake: Lake
    pairs: Pairs
    keep: int
    draw: random.Random
    state: tuple[int, dict[str, Kept]] | None = None

    @property
    def sealed(self) -> int:
        """One past the last record that is answered for."""
        return max((end for _, end in self.lake.tables["control"]), default=0)

    def work(self) -> None:
        """One micro-batch."""
        events, at = self.lake.tables["events"], self.sealed
        if self.state is None or self.state[0] != at:
            self.state = at, self.loaded(events[:at])
        if at == len(events):
            return
        kept, end = self.state[1], self.draw.randint(at + 1, len(events))
        self.state = None  # until it is sealed
        alarms, late = [], []
        for record in events[at:end]:
            found = kept[record.key]
            alarms += self.timely(record, found)
            late += [record.seq] if self.is_late(record, found) else []
            found.add(record, self.keep)
        batch = (at, end)  # what one that was killed has left is sealed by nobody
        self.lake.commit("late", batch, [(batch, seq) for seq in late])
        self.lake.commit("alarms", batch, [(batch, found) for found in alarms])
        self.lake.commit("control", at, [batch])
        self.state = self.sealed, kept

    def loaded(self, events: list[Record]) -> dict[str, Kept]:
        """The state after some records: of a preload, or of a lost checkpoint."""
        kept: dict[str, Kept] = defaultdict(Kept)
        for record in events:
            kept[record.key].add(record, self.keep)
        return kept

    def timely(self, record: Record, kept: Kept) -> list[Pair]:
        """Alarms of a record and what is kept."""
        others = kept.records
        if self.pairs == "consecutive":
            before, after = neighbours(others, record)
            known = before is not None or kept.dropped is None
            others = [one for one in (before, after) if known and one is not None]
        return [pair(record, other) for other in others if matches(record, other, self.pairs)]

    def is_late(self, record: Record, kept: Kept) -> bool:
        """Whether it changes more than what is kept can tell, or refutes what was told."""
        if self.pairs == "consecutive":
            before, after = neighbours(kept.records, record)
            if before is None:
                return kept.dropped is not None
            return after is not None and matches(before, after, self.pairs)
        return kept.dropped is not None and kept.dropped.time >= record.time - REACH


def neighbours(records: list[Record], record: Record) -> tuple[Record | None, Record | None]:
    """The last before a record and the first after it, of some that are in order."""
    at = bisect(records, record)
    return (records[at - 1] if at else None), (records[at] if at < len(records) else None)


def planned(lake: Lake, sealed: int, draw: random.Random) -> tuple[int, int] | None:
    """A plan that is not done, after one more now and then; none: all is done."""
    plans = lake.tables["plans"]
    open_ = [p for p in plans if ("done", p) not in lake.done]
    since = max((through for _, through in plans), default=0)
    if sealed > since and (not open_ or draw.random() < 0.3):
        lake.commit("plans", since, [(since, sealed)])
        open_ = [p for p in plans if ("done", p) not in lake.done]
    return draw.choice(open_) if open_ else None


@dataclass
class Correction:
    """Plans over late records, in any order, each in pieces."""

    lake: Lake
    step: LookUp
    draw: random.Random

    def work(self) -> None:
        """Plan what is late by now, or a piece of a plan."""
        plan = planned(self.lake, self.step.sealed, self.draw)
        if plan is None:
            return
        for seq in late_within(self.lake, *plan):
            made, refuted = self.changes(seq)
            self.lake.commit("made", (plan, seq), made)
            self.lake.commit("refuted", (plan, seq), [(found, seq) for found in refuted])
        self.lake.commit("done", plan, [plan])

    def changes(self, seq: int) -> tuple[list[Pair], list[Pair]]:
        """Alarms that a late record makes, and those that it refutes, by the log before it."""
        events, pairs = self.lake.tables["events"], self.step.pairs
        record = events[seq]
        before = sorted(r for r in events[:seq] if r.key == record.key)
        timely = set(sealed_rows(self.lake, "alarms", self.step.sealed))
        if pairs == "all":
            made = {pair(record, other) for other in before if matches(record, other, pairs)}
            return sorted(made - timely), []
        one, other = beside = neighbours(before, record)
        made = {pair(record, n) for n in beside if n is not None and matches(record, n, pairs)}
        refuted = one is not None and other is not None and matches(one, other, pairs)
        return sorted(made - timely), [pair(one, other)] if refuted else []


def sealed_rows(lake: Lake, table: str, through: int) -> list[Any]:
    """What sealed micro-batches have written."""
    sealed = {batch for batch in lake.tables["control"] if batch[1] <= through}
    return [row for batch, row in lake.tables[table] if batch in sealed]


def late_within(lake: Lake, since: int, through: int) -> list[int]:
    """Late records of a plan."""
    return [seq for seq in sealed_rows(lake, "late", through) if since <= seq]


def in_force(lake: Lake, through: int) -> set[Pair]:
    """Alarms at a sealed position."""
    timely = set(sealed_rows(lake, "alarms", through))
    made = {found for found in lake.tables["made"] if found[1] < through}
    refuted = {found for found, by in lake.tables["refuted"] if by < through}
    return (timely | made) - refuted


def pending(lake: Lake, through: int) -> set[int]:
    """Late records that no plan has repaired yet."""
    plans = [p for p in lake.tables["plans"] if ("done", p) in lake.done]
    late = late_within(lake, 0, through)
    return {seq for seq in late if not any(low <= seq < high for low, high in plans)}


def true_pairs(events: list[Record], pairs: Pairs) -> set[Pair]:
    """What the definition says of some records, found by looking at all of them."""
    of: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(events):
        of[record.key].append(record)
    found: set[Pair] = set()
    for mine in of.values():
        for i, one in enumerate(mine):
            others = mine[i + 1 : i + 2] if pairs == "consecutive" else mine[i + 1 :]
            found |= {pair(one, other) for other in others if matches(one, other, pairs)}
    return found


def true_timely(events: list[Record], pairs: Pairs, keep: int) -> set[Pair]:
    """Timely alarms as a function of the log, one record at a time, with nothing kept."""
    found: set[Pair] = set()
    for record in events:
        mine = [r for r in events[: record.seq] if r.key == record.key]
        others = sorted(mine)[-keep:]
        if pairs == "consecutive":
            older, younger = [r for r in others if r < record], [r for r in others if r > record]
            others = older[-1:] + younger[:1] if older or len(mine) == len(others) else []
        found |= {pair(record, other) for other in others if matches(record, other, pairs)}
    return found
