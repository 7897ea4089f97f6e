"""Steps over the answers of steps as a model that runs, to any depth.

The answers of a step become a log of their own, its *answer log*: a record is an answer, its event
time the last instant of its window. What the step answers in time comes as it is; what a correction
changes comes again, as a *revision* of the same identity. The watermark of the log is the step's
own. It moves at the ends of blocks, which end where the step is sealed: so no timely answer is ever
late for a step over it, and such a step needs no slack.

A revision is late by itself, even where its window is open: the timely answers of a step over
another one speak for the other's timely answers only, and so are a function of the log (law 0).
A correction takes the newest record of each identity. An answer is *pending* while a late record
waits for the correction in it, or something that it is made of is pending: else it is exact.

Source: chains of DESIGN section 4, with a log between two steps [D].
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.lookup_model import Lake

NEVER, EVER = -(10**9), 10**9
Key = tuple[int, str]
"""A window's start, and the key."""


@dataclass(frozen=True)
class Windows:
    """Sizes of a step's windows; of one over another step multiples of the other's slide."""

    size: int
    slide: int

    def of(self, time: int) -> range:
        """Starts of the windows that hold an instant."""
        last = time // self.slide * self.slide
        return range(last - self.size + self.slide, last + 1, self.slide)


@dataclass(frozen=True)
class Record:
    """Of any log; ``mark`` is the watermark in force there, ``of`` whose newest one counts."""

    seq: int
    time: int
    key: str
    value: int
    mark: int
    of: object
    is_revision: bool = False


@dataclass(frozen=True)
class Block:
    """What is sealed together: its end, the watermark after it, and up to where a step is in it.

    Attributes:
        end: one past its last position.
        mark: after it.
        upto: block of the log that the answered step takes, up to which it is in here.
        plans: of that step, which are in here.
    """

    end: int
    mark: int
    upto: int = 0
    plans: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Answer:
    """Of a window and key; ``through`` is a position of the log that the step takes."""

    window: Key
    count: int
    total: int
    through: int
    plan: int = -1
    """Of a correction; -1: timely."""

    @property
    def told(self) -> tuple[int, int]:
        """What it says."""
        return self.count, self.total


@dataclass
class Log:
    """Records in blocks."""

    lake: Lake

    @property
    def records(self) -> list[Record]:
        """All of them, also those that no block has sealed."""
        return self.lake.tables["records"]

    @property
    def blocks(self) -> list[Block]:
        """Those that are sealed."""
        return self.lake.tables["blocks"]

    def end(self, block: int) -> int:
        """One past the last position before a block."""
        return self.blocks[block - 1].end if block else 0

    def mark(self, block: int) -> int:
        """The watermark before a block."""
        return self.blocks[block - 1].mark if block else NEVER

    def newest(self, end: int) -> list[Record]:
        """Of the records before a position the newest of each identity."""
        return [*{record.of: record for record in self.records[:end]}.values()]


@dataclass
class Step:
    """One step over a log: micro-batches of whole blocks, a state that may be lost, corrections."""

    lake: Lake
    log: Log
    windows: Windows
    draw: random.Random
    keyed: bool
    first: int = 0
    """Block at which it begins: what was there before is history."""
    above: "Step | None" = None
    """Whose answers the log holds."""
    state: tuple[int, dict[Key, list[int]]] | None = None

    def holding(self, record: Record) -> Iterator[Key]:
        """The windows that a record is in."""
        key = record.key if self.keyed else "all"
        return ((start, key) for start in self.windows.of(record.time))

    def within(self, window: Key) -> Iterator[Key]:
        """The windows that an answer of the step above is in."""
        assert self.above is not None
        last = window[0] + self.above.windows.size - 1
        return self.holding(Record(0, last, window[1], 0, 0, None))

    def closes(self, window: Key) -> int:
        """The watermark that closes a window."""
        return window[0] + self.windows.size

    @property
    def sealed(self) -> int:
        """One past the last block that is answered for."""
        return max((end for _, end in self.lake.tables["control"]), default=self.first)

    def seeded(self, block: int) -> dict[Key, list[int]]:
        """What is open before a block: of history the newest, later what came in time."""
        opened: dict[Key, list[int]] = defaultdict(list)
        past, end, mark = self.log.end(self.first), self.log.end(block), self.log.mark(block)
        live = (record for record in self.log.records[past:end] if not record.is_revision)
        for each, is_history in (
            *((record, True) for record in self.log.newest(past)),
            *((record, False) for record in live),
        ):
            for window in self.holding(each):
                if self.closes(window) > (mark if is_history else max(mark, each.mark)):
                    opened[window].append(each.value)
        return opened

    def work(self) -> None:
        """One micro-batch."""
        at, log = self.sealed, self.log
        if self.state is None or self.state[0] != at:
            self.state = at, self.seeded(at)
        if at == len(log.blocks):
            return
        opened, upto = self.state[1], self.draw.randint(at + 1, len(log.blocks))
        self.state = None  # until it is sealed
        late, answers = [], list[Answer]()
        for block in range(at, upto):
            for record in log.records[log.end(block) : log.end(block + 1)]:
                for window in self.holding(record):
                    if record.is_revision or self.closes(window) <= record.mark:
                        late.append((window, record.seq))
                    else:
                        opened[window].append(record.value)
            for window in sorted(w for w in opened if self.closes(w) <= log.mark(block + 1)):
                values = opened.pop(window)
                answers.append(Answer(window, len(values), sum(values), log.end(block + 1)))
        batch = (at, upto)  # what one that was killed has left is sealed by nobody
        self.lake.commit("late", batch, [(batch, row) for row in late])
        self.lake.commit("answers", batch, [(batch, row) for row in answers])
        self.lake.commit("control", at, [batch])
        self.state = self.sealed, opened

    def rows(self, table: str, upto: int) -> list[object]:
        """Of a table what is sealed up to a block."""
        known = {batch for batch in self.lake.tables["control"] if batch[1] <= upto}
        return [row for batch, row in self.lake.tables[table] if batch in known]

    def correct(self) -> None:
        """Plan what waits at the sealed position, or carry out a plan."""
        plans, done = self.lake.tables["plans"], self.done
        left = [plan for plan in plans if plan[0] not in done]
        if not left or self.draw.random() < 0.3:
            at = self.sealed
            waits = sorted(self.waits(at, done))
            if not waits:
                return
            made = (len(plans), at, waits, at == self.first)
            self.lake.commit("plans", made[0], [made])
            left.append(made)
        number, at, windows, _ = self.draw.choice(left)
        end, found = self.log.end(at), defaultdict[Key, list[int]](list)
        for record in self.log.newest(end):
            for window in self.holding(record):
                found[window].append(record.value)
        rows = [Answer(w, len(found[w]), sum(found[w]), end, number) for w in windows]
        self.lake.commit("corrected", number, rows)
        self.lake.commit("done", number, [number])

    def history(self) -> None:
        """Answer the windows that were complete before the step began."""
        mark, newest = self.log.mark(self.first), self.log.newest(self.log.end(self.first))
        windows = {w for record in newest for w in self.holding(record) if self.closes(w) <= mark}
        self.lake.commit("plans", 0, [(0, self.first, sorted(windows), True)])
        while 0 not in self.done:
            self.correct()

    @property
    def done(self) -> frozenset[int]:
        """Numbers of the plans that are done."""
        return frozenset(self.lake.tables["done"])

    def told(self, upto: int, plans: Iterable[int]) -> list[Answer]:
        """All answers up to a block, and of some plans; the newest of a window last."""
        end = self.log.end(upto)
        timely = [row for row in self.rows("answers", upto) if isinstance(row, Answer)]
        known = {n for n, at, _, _ in self.lake.tables["plans"] if n in plans and at <= upto}
        mine = [row for row in self.lake.tables["corrected"] if row.plan in known]
        seen = [row for row in (*timely, *mine) if row.through <= end]
        return sorted(seen, key=lambda row: (row.through, row.plan >= 0, row.plan))

    def in_force(self, upto: int, plans: Iterable[int]) -> dict[Key, Answer]:
        """By window and key the answer that has seen most of the log."""
        return {row.window: row for row in self.told(upto, plans)}

    def waits(self, upto: int, plans: Iterable[int]) -> set[Key]:
        """Windows with late records that no plan has corrected."""
        repaired = defaultdict[Key, int](int)
        for number, at, windows, _ in self.lake.tables["plans"]:
            if number in plans and at <= upto:
                for window in windows:
                    repaired[window] = max(repaired[window], self.log.end(at))
        late = self.rows("late", upto)
        mark = self.log.mark(upto)
        found = {window for window, seq in late if seq >= repaired[window]}  # type: ignore[misc]
        return {window for window in found if self.closes(window) <= mark}

    def pending(self, upto: int, plans: Iterable[int]) -> set[Key]:
        """Windows that wait for a correction, of this step or of one above it."""
        own = self.waits(upto, plans)
        if self.above is None or not upto:
            return own
        block = self.log.blocks[upto - 1]
        above = self.above.pending(block.upto, block.plans)
        return own | {window for each in above for window in self.within(each)}


@dataclass
class Feed:
    """Writes the answers of a step down as a log, as any door does: a plan, records, blocks."""

    step: Step
    log: Log

    def work(self) -> None:
        """One block, if there is anything new."""
        log, step = self.log, self.step
        plans, blocks = log.lake.tables["feeds"], log.blocks
        if len(plans) == len(blocks):
            at, before = step.sealed, (plans[-1] if plans else (-1, frozenset[int]()))
            done = step.done
            if (at, done) == before:
                return
            log.lake.commit("feeds", len(plans), [(at, done)])
        number = len(blocks)
        at, done = plans[number]
        rows = self.rows(plans[number - 1] if number else None, at, done)
        first, mark = log.end(number), log.mark(number)
        records = [
            Record(first + i, step.closes(row.window) - 1, row.window[1], row.total, mark,
                   row.window, is_revision)
            for i, (row, is_revision) in enumerate(rows)
        ]  # fmt: skip
        log.lake.commit("records", number, records)
        block = Block(first + len(records), step.log.mark(at), at, done)
        log.lake.commit("blocks", number, [block])

    def rows(
        self, before: tuple[int, frozenset[int]] | None, at: int, done: frozenset[int]
    ) -> list[tuple[Answer, bool]]:
        """What is new: at first what is in force, later what was answered, then what changed."""
        step = self.step
        newest = step.in_force(at, done)
        if before is None:
            return [(newest[window], False) for window in sorted(newest)]
        known = {id(row) for row in step.told(before[0], before[1])}
        timely = [row for row in step.told(at, ()) if id(row) not in known]
        said = step.in_force(before[0], before[1]) | {row.window: row for row in timely}
        changed = [
            newest[window] for window in sorted(newest)
            if newest[window].plan >= 0 and newest[window].plan not in before[1]
            and (window not in said or newest[window].told != said[window].told)
        ]  # fmt: skip
        return [*((row, False) for row in timely), *((row, True) for row in changed)]


def truth(step: Step, upto: int) -> dict[Key, tuple[int, int]]:
    """What every closed window of a step must say at a block, from the events alone."""
    found = defaultdict[Key, list[int]](list)
    mark = step.log.mark(upto)
    if step.above is None:
        for record in step.log.records[: step.log.end(upto)]:
            for window in step.holding(record):
                found[window].append(record.value)
    elif upto:
        for window, (_, total) in truth(step.above, step.log.blocks[upto - 1].upto).items():
            for mine in step.within(window):
                found[mine].append(total)
    return {w: (len(v), sum(v)) for w, v in found.items() if step.closes(w) <= mark}


def timely(step: Step) -> set[tuple[Key, int, int]]:
    """Law 0: from what is timely above, and the history it began with, without micro-batches."""
    log, found = step.log, defaultdict[Key, list[int]](list)
    start, end = log.mark(step.first), log.mark(step.sealed)
    begun = [(r.time, r.key, r.value) for r in log.newest(log.end(step.first))]
    if step.above is None:
        for record in log.records[: log.end(step.sealed)]:
            for window in step.holding(record):
                if step.closes(window) > record.mark:
                    found[window].append(record.value)
    else:
        upto = log.blocks[step.first - 1].upto
        mark = step.above.log.mark(upto)
        more = [
            (step.above.closes(window) - 1, window[1], total)
            for window, _, total in timely(step.above)
            if mark < step.above.closes(window) <= end
        ]
        for time, key, value in (*begun, *more):
            for window in step.holding(Record(0, time, key, value, 0, None)):
                if step.closes(window) > start:
                    found[window].append(value)
    return {(w, len(v), sum(v)) for w, v in found.items() if start < step.closes(w) <= end}
