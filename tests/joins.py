"""Small lakes of one join, and what it must answer, in plain Python: all records beside all.

``tests/join_model.py`` is the same as a protocol that runs; here the log is that of a lake.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.kinds.join.spec import JoinSpec
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.history.view import late_at
from penstock.lake.log.freezes import frozen
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests import reference as ref
from tests.answers import Memory, blocks_of
from tests.lakes import Lake, make_lake
from tests.streams import SECOND, instant, us

Row = Mapping[str, Any]
Pair = tuple[int, int]
"""Positions of the left and of the right record."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MONTHS_A_YEAR = 12


def a_month_earlier(time: int) -> int:
    """The same day and hour of the month before, or its last day, us."""
    when = EPOCH + timedelta(microseconds=time)
    year, month = (when.year - 1, MONTHS_A_YEAR) if when.month == 1 else (when.year, when.month - 1)
    for day in range(when.day, 0, -1):
        try:
            return us(when.replace(year=year, month=month, day=day))
        except ValueError:
            continue
    raise AssertionError


@dataclass(frozen=True)
class Case:
    """A join, as a file says it and as Python does.

    Attributes:
        config: of the step.
        keys: that must be equal.
        back: from a left record's event time to where its right ones lie, us.
        before, after: how far from there they may lie, us.
        holds: of a left and a right record.
        apart: seconds between records of its streams, on average.
        streams: of left and of right records; none: of one stream with itself.
    """

    config: Mapping[str, Any]
    keys: tuple[str, ...]
    back: Callable[[int], int]
    before: int
    after: int
    holds: Callable[[Row, Row], bool]
    apart: float = 1.0
    streams: tuple[str, ...] = ()

    def plays(self, record: Row, role: int) -> bool:
        """Whether a record may be a left (0) or a right (1) one."""
        return not self.streams or record["stream"] == self.streams[role]


def either(one: Any, other: Any, holds: Callable[[Any, Any], bool]) -> bool:
    return one is not None and other is not None and holds(one, other)


SLACK = {"slack": {"fixed": "PT3S"}}
CASES = {
    "far": Case(
        {"kind": "join", "within": {"before": "PT2S", "after": "PT5S"}, "shift": "PT4S",
         "where": "abs(left.code - right.code) > 1",
         "select": ["left.code", "right.site"], **SLACK},
        (), lambda time: time - 4 * SECOND, 2 * SECOND, 5 * SECOND,
        lambda left, right: either(left["code"], right["code"], lambda a, b: abs(a - b) > 1),
    ),
    "same": Case(
        {"kind": "join", "within": "PT6S", "on": ["site"], "where": "left.code < right.code",
         "select": ["left.code", "right.code"], **SLACK},
        ("site",), lambda time: time, 6 * SECOND, 6 * SECOND,
        lambda left, right: either(left["code"], right["code"], lambda a, b: a < b),
    ),
    "equal": Case(
        {"kind": "join", "within": "PT4S", "where": "left.code = right.bags", **SLACK},
        (), lambda time: time, 4 * SECOND, 4 * SECOND,
        lambda left, right: either(left["code"], right["bags"], lambda a, b: a == b),
    ),
    "either": Case(
        {"kind": "join", "within": "PT3S",
         "where": "left.code >= right.code and (left.site <> right.site or right.code <= 0)",
         **SLACK},
        (), lambda time: time, 3 * SECOND, 3 * SECOND,
        lambda left, right: either(left["code"], right["code"], lambda a, b: a >= b)
        and (either(left["site"], right["site"], lambda x, y: x != y) or right["code"] <= 0),
    ),
    "near": Case(
        {"kind": "join", "within": "PT2S", "on": ["code", "site"], "shift": "PT1S", **SLACK},
        ("code", "site"), lambda time: time - SECOND, 2 * SECOND, 2 * SECOND,
        lambda _left, _right: True,
    ),
    "month": Case(
        {"kind": "join", "within": "PT8H", "on": ["site"], "shift": "P1M",
         "where": "abs(left.delay - right.delay) > 0.5", "select": ["left.delay", "right.delay"],
         "slack": {"fixed": "P2D"}},
        ("site",), a_month_earlier, 28_800 * SECOND, 28_800 * SECOND,
        lambda left, right: either(left["delay"], right["delay"], lambda a, b: abs(a - b) > 0.5),
        28_800.0,
    ),
}  # fmt: skip
LIVED = Case(
    {"kind": "join", "within": "PT2M", "on": ["site"], "shift": "PT30S",
     "where": "left.code <> right.code", "select": ["left.code", "right.delay"],
     "slack": {"fixed": "PT1M"}},
    ("site",), lambda time: time - 30 * SECOND, 120 * SECOND, 120 * SECOND,
    lambda left, right: either(left["code"], right["code"], lambda a, b: a != b),
)  # fmt: skip
"""Of a life in which everything is killed."""
QUALITY = {"epsilon": 0.2, "delta": 0.4}
SLACKS: Mapping[str, Any] = {
    "quantile": {"quantile": {"measure_after": "PT20S", "recent": "PT5M"}},
    "pd": {"pd": {"measure_after": "PT10S"}},
    "pd_final": {"pd_final": {"measure_after": "PT20S", "recent": "PT5M"}},
}
NOBODY = ref.Step((), ref.Window(SECOND, SECOND), (), (ref.Slack("fixed", 3 * SECOND),))


def steered(case: Case, slack: str = "quantile") -> Case:
    """The same join with a quality target."""
    return replace(case, config={**case.config, "slack": SLACKS[slack], "quality": QUALITY})


def join_lake(home: Path, name: str, **overrides: Any) -> Lake:
    """Nothing has come yet."""
    return make_lake(home, oracle_of(name), **overrides)


def oracle_of(name: str) -> tuple[Mapping[str, Any], ref.Step]:
    """A join, and the oracle of its watermark."""
    slack = 2 * 86_400 * SECOND if name == "month" else 3 * SECOND
    return CASES[name].config, ref.Step((), NOBODY.window, (), (ref.Slack("fixed", slack),))


def seen(draw: random.Random, count: int, apart: float, begin: int = 0) -> list[dict[str, Any]]:
    """Records of three sites, seconds or hours apart, some late, some without a code.

    Those that lie hours apart come through the end of a February, and of a March.
    """
    unit = max(int(apart), 1)
    start = 1_700_000_000 if unit == 1 else 1_706_140_800
    clock, found = start + begin * unit, []
    for _ in range(count):
        clock += draw.randint(0, 2) * unit
        at = clock - draw.choice((0, 0, 0, 1, 3, 9, 25)) * unit
        row = {"site": draw.choice("abc"), "code": draw.choice((*range(4), None)),
               "delay": draw.choice((0.0, 1.0, 2.5, None)), "bags": draw.randrange(3),
               "live": True, "event_time": instant(at * SECOND)}  # fmt: skip
        found.append(row)
    return found


@dataclass(frozen=True)
class Log:
    """What the log holds, and the watermark in force for each position after the step's start.

    Attributes:
        records: by position; none: refused.
        marks: as the join counts them, us.
        history: the last position before the step's epoch.
        sheds: what was decided to shed, as positions and ratios.
    """

    records: list[Row | None]
    marks: list[int]
    history: int
    sheds: list[tuple[int, int]]

    def is_shed(self, seq: int) -> bool:
        """Whether the stream left a record out."""
        return seq > self.history and ref.is_shed(self.sheds, seq)


def logged(lake: Lake, memory: Memory | None = None) -> Log:
    """Up to where the step is sealed; with what a memory has of records that went."""
    at = position(lake.tables, lake.step)
    assert at is not None
    if len(lake.step.streams) > 1:
        return _logged_of_two(lake, memory)
    blocks = blocks_of(lake.tables, lake.pipeline, memory)
    oracle, start = lake.epoch_oracle(), at.epoch.block
    oracle = ref.Step((), _window(lake), (), oracle.slack)
    spec = at.epoch.slack
    begun = None if spec is None else ref.Slack(spec.policy.value, spec.span)
    mark = ref.start_mark(oracle, blocks, start, begun)
    records, marks = list[Row | None](), list[int]()
    for number, lags in enumerate(ref.lateness(blocks)):
        block, seq = blocks[number], len(records)
        judged = [mark] * (len(block.records) + 1)
        if number >= start:
            judged = ref.marks_of(
                mark, block, lags, lambda s, n=number: ref.slack_at(oracle, n, s), seq
            )
            mark = judged[-1]
        records += block.records
        size = oracle.window.size
        marks += [each.watermark // size * size for each in judged[:-1]]
    end = at.sealed.seq + 1
    return Log(records[:end], marks[:end], at.epoch.seq, lake.sheds())


def _logged_of_two(lake: Lake, memory: Memory | None) -> Log:
    """Of a step that began with the log: the least watermark of streams that are not silent."""
    at, size = position(lake.tables, lake.step), lake.step.window.size
    assert at is not None
    oracle, blocks = lake.epoch_oracle(), blocks_of(lake.tables, lake.pipeline, memory)
    there = read_table(Table(lake.tables.blocks())).to_pylist()
    known = (memory or Memory()).blocks | {row["block"]: row for row in there}
    rows = [known[block] for block in sorted(known)]
    fold = {stream: ref.Mark() for stream in lake.step.streams}
    newest, silent, mark = dict[str, int](), dict[str, str](), ref.NEVER
    records, marks = list[Row | None](), list[int]()

    def risen() -> int:
        awake = [fold[name].watermark for name in fold if name not in silent]
        ended = all(kind == ref.END for kind in silent.values())
        there = ref.ALWAYS if ended else max(each.t_max for each in fold.values())
        return max(mark, min(awake, default=there))

    for row, block in zip(rows, blocks, strict=True):
        stream = row["stream"]
        for record in block.records:
            marks.append(mark // size * size)
            records.append(record)
            if record is not None:
                time = record["event_time"]
                lag = max(newest.get(stream, time) - time, 0)
                newest[stream] = max(newest.get(stream, time), time)
                slack = ref.slack_at(oracle, row["block"], len(records) - 1)
                fold[stream] = fold[stream].after(time, lag, slack)
                silent.pop(stream, None)
                mark = risen()
        if block.kind != ref.DATA:
            silent[stream] = block.kind
            mark = risen()
    end = at.sealed.seq + 1
    return Log(records[:end], marks[:end], at.epoch.seq, lake.sheds())


def _window(lake: Lake) -> ref.Window:
    size = lake.step.window.size
    return ref.Window(size, size)


def true_pairs(log: Log, case: Case) -> set[Pair]:
    """What the definition says, found by looking at all of them."""
    found = set[Pair]()
    there = [(seq, r, case.back(r["event_time"])) for seq, r in enumerate(log.records) if r]
    by_time = sorted((r["event_time"], seq) for seq, r, _ in there if case.plays(r, 1))
    times = [time for time, _ in by_time]
    for seq, left, aim in (each for each in there if case.plays(each[1], 0)):
        low = bisect_right(times, aim - case.before - 1)
        high = bisect_right(times, aim + case.after)
        for _, other in by_time[low:high]:
            right = log.records[other]
            assert right is not None
            keys = [(left[k], right[k]) for k in case.keys]
            alike = all(a is not None and a == b for a, b in keys)
            if other != seq and alike and case.holds(left, right):
                found.add((seq, other))
    return found


def true_timely(log: Log, case: Case) -> set[Pair]:
    """Those whose record before is kept where the other one stands."""
    found = set()
    for left, right in true_pairs(log, case):
        newer = max(left, right)
        mark, one, other = log.marks[newer], log.records[left], log.records[right]
        assert one is not None
        assert other is not None
        if left < right:
            kept = case.back(one["event_time"]) + case.after >= mark
        else:
            kept = other["event_time"] >= earliest(mark, case) - case.before
        shed = log.is_shed(left) or log.is_shed(right)
        if kept and newer > log.history and not shed:
            found.add((left, right))
    return found


def earliest(mark: int, case: Case) -> int:
    """Where right records of left ones from an instant on lie at the earliest, tried one by one."""
    if abs(mark) >= ref.ALWAYS // 2:
        return mark
    day = 86_400 * SECOND
    later = [mark // day * day + number * day for number in range(1, 5)]
    return min(case.back(time) for time in (mark, *later))


def late_in(log: Log, case: Case) -> list[int]:
    """Positions of records behind the watermark, or shed."""
    return [
        seq for seq, record in enumerate(log.records)
        if record and seq > log.history
        and (record["event_time"] < log.marks[seq] or log.is_shed(seq))
        and all(record[key] is not None for key in case.keys)
    ]  # fmt: skip


def pairs_in(rows: pa.Table) -> set[Pair]:
    """Identities of some pairs, each once."""
    found = [*zip(rows["left_seq"].to_pylist(), rows["right_seq"].to_pylist(), strict=True)]
    assert len({*found}) == len(found), "a pair twice"
    return {*found}


def check_stream(lake: Lake, case: Case, memory: Memory | None = None) -> int:
    """Timely pairs, late records and their counts are those of the log, however it was cut."""
    at, log = position(lake.tables, lake.step), logged(lake, memory)
    assert at is not None
    assert isinstance(lake.step, JoinSpec)
    answers = timely_answers(lake.tables, lake.step)
    timely = true_timely(log, case)
    assert pairs_in(answers) == timely
    check_shown(lake.step, answers, log)
    found, late = late_at(lake.tables, lake.step, at, []), late_in(log, case)
    gone, shed = frozen(lake.tables).seq, [seq for seq in late if log.is_shed(seq)]
    there = [r for r in found.to_pylist() if r["last_seq"] > gone]  # some that may go are there yet
    assert sorted(r["last_seq"] for r in there) == [seq for seq in late if seq > gone]
    assert sum(last.late for last in at.lasts) == len(late)
    left = [r["last_seq"] for r in there if r["reason"] == "shed"]
    assert sorted(left) == [seq for seq in shed if seq > gone]
    assert sum(last.shed for last in at.lasts) == len(shed)
    taken = [r for r in log.records[log.history + 1 :] if r]
    assert sum(last.answered for last in at.lasts) == len(taken) - len(late)
    return len(timely)


def check_shown(step: JoinSpec, answers: pa.Table, log: Log) -> None:
    """A pair shows what its two records say."""
    for row in answers.to_pylist():
        for side in ("left", "right"):
            record = log.records[row[f"{side}_seq"]]
            assert record is not None
            assert us(row[f"{side}_time"]) == record["event_time"]
            assert all(row[key] == record[key] for key in step.key_names)
            names = [c.name for which, c in step.selected if which == side]
            assert [row[f"{side}_{n}"] for n in names] == [record[n] for n in names]


def check_settled(lake: Lake, case: Case, memory: Memory | None = None) -> int:
    """Pairs in force are those of the whole log, once nothing waits."""
    assert isinstance(lake.step, JoinSpec)
    answers, log = answers_in_force(lake.tables, lake.step), logged(lake, memory)
    exact = true_pairs(log, case)
    assert pairs_in(answers) == exact
    check_shown(lake.step, answers, log)
    return len(exact)
