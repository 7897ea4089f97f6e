"""The oracle: what a step must answer, in plain Python, slow and obvious.

It imports nothing of the product and no numeric library. Records come in arrival order, cut into
blocks; a record is a dictionary with ``event_time`` in microseconds and its columns, or ``None``
where the door refused it (it keeps its number). Position in the whole stream = ``arrival_seq``.

    answers = run(step, blocks)
    answers.timely     what the speed layer publishes, as a function of the log alone
    answers.late       pairs (record, window) that came after their window had closed
    answers.shed       how many pairs were shed, and the last position of them
    answers.corrected  the answers in force once every late pair is repaired
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

NEVER, ALWAYS = -(2**62), 2**62
DATA, IDLE, END = "data", "idle", "end"
NONE = Fraction(0)

Record = Mapping[str, Any]
Key = tuple[Any, ...]
Pair = tuple[int, Key]


@dataclass(frozen=True)
class Window:
    """[origin + i slide, + size), us; a landmark has none before its origin."""

    size: int
    slide: int
    origin: int = 0
    landmark: bool = False

    def starts(self, event_time: int) -> list[int]:
        """Starts of the windows that hold an instant, tried one by one."""
        if self.landmark and event_time < self.origin:
            return []
        start = self.origin + (event_time - self.origin) // self.slide * self.slide
        found = []
        while event_time < start + self.size:
            found.append(start)
            start -= self.slide
        return sorted(found)


@dataclass(frozen=True)
class Measure:
    """``function`` (as in SQL, quantile, latest) over a value of the record; none: over rows."""

    name: str
    function: str
    over: Callable[[Record], Any] | None = None
    phi: float = 0.5


@dataclass(frozen=True)
class Slack:
    """From ``block`` and position ``seq`` on: ``fixed`` K, one that a controller chose
    (``steered``), or ``max_delay`` with the bound of what counts (us)."""

    policy: str
    span: int
    block: int = 0
    seq: int = 0


@dataclass(frozen=True)
class Step:
    """What is answered. ``slack``: in the order they were decided, the last in force wins."""

    keys: tuple[str, ...]
    window: Window
    measures: tuple[Measure, ...]
    slack: tuple[Slack, ...]
    where: Callable[[Record], bool | None] = lambda _: True


@dataclass(frozen=True)
class Block:
    """A sealed block; ``live`` is false for history."""

    records: tuple[Record | None, ...] = ()
    kind: str = DATA
    live: bool = True


@dataclass(frozen=True)
class Value:
    """One measure's value, and sum|x| of what it was taken over: the scale of its tolerance."""

    value: Any
    size: Fraction
    exact: bool

    def equals(self, found: Any, tolerance: float = 1e-15) -> bool:
        """Exactly for counts, integers, min and max; else within tolerance x sum|x|."""
        if self.exact or self.value is None or found is None:
            return bool(found == self.value and type(found) is type(self.value))
        if found == self.value or math.isinf(self.value) or math.isinf(found):
            return bool(found == self.value)
        return abs(Fraction(found) - Fraction(self.value)) <= Fraction(tolerance) * self.size


@dataclass(frozen=True)
class Answer:
    """Of one window and key."""

    values: dict[str, Value]
    n_records: int
    through_seq: int


@dataclass
class Answers:
    """See the module."""

    timely: dict[Pair, Answer] = field(default_factory=dict)
    late: dict[Pair, Answer] = field(default_factory=dict)
    shed: dict[Pair, tuple[int, int]] = field(default_factory=dict)
    corrected: dict[Pair, Answer] = field(default_factory=dict)
    preloaded: dict[Pair, Answer] = field(default_factory=dict)
    watermarks: list[int] = field(default_factory=list)
    open_pairs: int = 0
    pairs: int = 0
    classes: list[int] = field(default_factory=lambda: [0, 0, 0])
    late_times: list[int] = field(default_factory=list)


def value_of(  # noqa: PLR0911  a case each
    measure: Measure, records: Sequence[Record]
) -> Value:
    """The measure over some records: null is ignored, nothing seen is null, a count is 0."""
    if measure.over is None:
        return Value(len(records), NONE, exact=True)
    if measure.function == "latest":
        newest = max(records, key=lambda r: (r["event_time"], r["arrival_seq"]))
        return Value(measure.over(newest), NONE, exact=True)
    seen = [x for x in (measure.over(r) for r in records) if x is not None]
    if measure.function == "count":
        return Value(len(seen), NONE, exact=True)
    if not seen:
        return Value(None, NONE, exact=True)
    if measure.function in {"min", "max", "quantile"}:
        rank = max(1, math.ceil(Fraction(str(measure.phi)) * len(seen)))
        picked = {"min": 1, "max": len(seen), "quantile": rank}[measure.function]
        picked = sorted(seen)[picked - 1]
        return Value(picked + 0 if isinstance(picked, int) else picked + 0.0, NONE, exact=True)
    whole = all(isinstance(x, int) for x in seen)
    total, size = exact_sum(seen), exact_sum([abs(x) for x in seen])
    if measure.function == "sum":
        return Value(int(total) if whole else double(total), size, exact=whole)
    return Value(double(total / len(seen)), size / len(seen), exact=False)


def exact_sum(numbers: Sequence[int | float]) -> Fraction:
    """Without rounding; in whole numbers, as adding up fractions takes ten times as long."""
    ratios = [x.as_integer_ratio() for x in numbers]
    common = max(below for _, below in ratios)  # each is a power of two
    return Fraction(sum(above * (common // below) for above, below in ratios), common)


def double(exact: Fraction) -> float:
    """The nearest double; infinite beyond the largest."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def answer_of(step: Step, records: Sequence[Record], through_seq: int) -> Answer:
    """All measures of a step over some records."""
    values = {m.name: value_of(m, records) for m in step.measures}
    return Answer(values, len(records), through_seq)


def lateness(blocks: Sequence[Block]) -> list[list[int]]:
    """Lateness of each accepted live record by block: behind the newest event time before it."""
    newest, found = None, []
    for block in blocks:
        here = []
        for record in block.records if block.live else ():
            if record is None:
                continue
            at = record["event_time"]
            here.append(0 if newest is None else max(0, newest - at))
            newest = at if newest is None else max(newest, at)
        found.append(here)
    return found


def slack_at(step: Step, block: int, seq: int = 0) -> Slack:
    """The slack in force for a record of a block."""
    return next(s for s in reversed(step.slack) if s.block <= block and s.seq <= seq)


@dataclass
class Mark:
    """Where the fold of the watermark stands."""

    watermark: int = NEVER
    t_max: int = NEVER
    k: int = 0

    def after(self, event_time: int, lag: int, slack: Slack) -> "Mark":
        """After one more live record: the newest event time minus K, never lower."""
        t_max = max(self.t_max, event_time)
        given = slack.policy in ("fixed", "steered")
        k = max(self.k, lag) if given or lag <= slack.span else self.k
        wait = slack.span if given else k
        return Mark(max(self.watermark, t_max - wait), t_max, k)

    def silent(self, kind: str) -> "Mark":
        """After a block that says that nothing comes, now or for ever."""
        if kind == END:
            return Mark(ALWAYS, self.t_max, self.k)
        return Mark(max(self.watermark, self.t_max), self.t_max, self.k) if kind == IDLE else self


def marks_of(
    mark: Mark, block: Block, lags: Sequence[int], slack: Callable[[int], Slack], seq: int
) -> list[Mark]:
    """The marks that judge each record of a block, the first being ``mark``, and the one after it.

    ``seq`` is the first record's position; a refused record and one of history move nothing.
    """
    found, waiting = [mark], iter(lags)
    for at, record in enumerate(block.records):
        if block.live and record is not None:
            mark = mark.after(record["event_time"], next(waiting), slack(seq + at))
        found.append(mark)
    found[-1] = found[-1].silent(block.kind)
    return found


def start_mark(step: Step, blocks: Sequence[Block], start: int, begun: Slack | None = None) -> Mark:
    """The fold at a step's start: all blocks before it are its history.

    Live blocks of it move the watermark as always, under the slack of the start; what came as
    history lets it stand at the window that holds the newest record (less a fixed slack). The
    slack of the start is ``begun`` where it was edited before the first block came.
    """
    mark, slack = Mark(), begun or slack_at(step, start)
    for block, lags in zip(blocks[:start], lateness(blocks)[:start], strict=True):
        mark = marks_of(mark, block, lags, lambda _: slack, 0)[-1]
    old = [r["event_time"] for b in blocks[:start] if not b.live for r in b.records if r]
    if old and mark.watermark < ALWAYS:
        newest = max(old) - (slack.span if slack.policy == "fixed" else 0)
        w = step.window
        floor = w.origin + (newest - w.origin) // w.slide * w.slide
        mark = Mark(max(mark.watermark, floor), mark.t_max, mark.k)
        mark.t_max = max(mark.t_max, mark.watermark)
    return mark


def is_shed(sheds: Sequence[tuple[int, int]], seq: int) -> bool:
    """Whether a position is in the sample of the ratio in force there, per cent.

    ``sheds``: positions from which on a ratio holds, in order.
    """
    ratio = next((ratio for first, ratio in reversed(sheds) if first <= seq), 0)
    return (seq % 2**31 * 2_654_435_761) % 2**32 < ratio * 2**32 // 100


def run(  # noqa: C901, PLR0912, PLR0915  in one piece, as one reads it
    step: Step,
    blocks: Sequence[Block],
    start: int = 0,
    begun: Slack | None = None,
    sheds: Sequence[tuple[int, int]] = (),
) -> Answers:
    """Every answer of a step that started before block ``start``, with slack ``begun``.

    Of ``sheds``, as for ``is_shed``: such a record comes too late for all of its windows.
    """
    out = Answers()
    ends = _last_seqs(blocks)
    first = mark = start_mark(step, blocks, start, begun)
    out.watermarks = [mark.watermark]
    judged, closed_at = list[list[Mark]](), list[tuple[int, int]]()
    for i, lags in enumerate(lateness(blocks)):
        marks = [first] * (len(blocks[i].records) + 1)
        if i >= start:
            seq = ends[i] + 1 - len(blocks[i].records)
            marks = marks_of(mark, blocks[i], lags, lambda s, i=i: slack_at(step, i, s), seq)
            mark = marks[-1]
            out.watermarks.append(mark.watermark)
            closed_at += [(m.watermark, seq + n - 1) for n, m in enumerate(marks[1:], 1)]
            closed_at.append((mark.watermark, ends[i]))
        judged.append(marks)
    on_time: dict[Pair, list[Record]] = defaultdict(list)
    late: dict[Pair, list[tuple[int, Record]]] = defaultdict(list)
    shed: dict[Pair, list[int]] = defaultdict(list)
    every: dict[Pair, list[Record]] = defaultdict(list)
    old: dict[Pair, list[Record]] = defaultdict(list)
    seq = -1
    for i, block in enumerate(blocks):
        for record, judge in zip(block.records, judged[i], strict=False):
            seq, in_force = seq + 1, judge.watermark
            gone = i >= start and is_shed(sheds, seq)
            if gone:
                in_force = ALWAYS
            if record is None or step.where(record) is not True:
                continue
            key = tuple(record[k] for k in step.keys)
            if None in key:  # older than the key's column: the door refuses such records now
                continue
            row = {**record, "arrival_seq": seq}
            windows, at = step.window.starts(record["event_time"]), record["event_time"]
            if i >= start and windows:
                missed = sum(window + step.window.size <= in_force for window in windows)
                out.classes[0 if not missed else 1 if missed < len(windows) else 2] += 1
                if missed:
                    out.late_times.append(at)
            for window in windows:
                pair, end = (window, key), window + step.window.size
                every[pair].append(row)
                out.pairs += 1
                if end > in_force:
                    on_time[pair].append(row)
                elif i < start:
                    old[pair].append(row)
                elif gone:
                    shed[pair].append(seq)
                else:
                    late[pair].append((seq, row))
    reached = [mark for mark, _ in closed_at]  # it never falls
    for pair, records in on_time.items():
        closing = bisect_left(reached, pair[0] + step.window.size)
        if closing == len(reached):
            out.open_pairs += len(records)
        else:
            out.timely[pair] = answer_of(step, records, closed_at[closing][1])
    for pair, found in late.items():
        out.late[pair] = answer_of(step, [r for _, r in found], max(s for s, _ in found))
    out.shed = {pair: (len(found), max(found)) for pair, found in shed.items()}
    before = ends[start - 1] if start else -1
    out.preloaded = {pair: answer_of(step, records, before) for pair, records in old.items()}
    for pair, records in every.items():
        if pair[0] + step.window.size <= mark.watermark:
            out.corrected[pair] = answer_of(step, records, seq)
    return out


def _last_seqs(blocks: Sequence[Block]) -> list[int]:
    at, found = -1, []
    for block in blocks:
        at += len(block.records)
        found.append(at)
    return found
