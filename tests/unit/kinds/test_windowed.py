"""What both kinds do with windows: the mapper's counts, a layout's positions, a reducer's state."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.marks import NO_MARKS, Marks
from penstock.columns.types import INSTANT
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.kinds.classes import Classes
from penstock.kinds.frame import Advance, Reduced
from penstock.kinds.windowed.layout import layout_of
from penstock.kinds.windowed.mapper import map_records
from penstock.kinds.windowed.reducer import MANY_PARTS, Reducer
from penstock.kinds.windowed.wire import Wire
from tests import reference as ref
from tests.doubles import FakeMap
from tests.steps import make_pipeline
from tests.streams import SECOND

WINDOWS = {
    "sliding": ({"size": "PT60S", "slide": "PT20S"}, ref.Window(60 * SECOND, 20 * SECOND)),
    "landmark": (
        {"since": "1970-01-01T00:16:37Z", "period": "PT100S"},
        ref.Window(100 * SECOND, 100 * SECOND, 997 * SECOND, landmark=True),
    ),
}


def step(window: dict[str, str]) -> StepSpec:
    said = {"keys": ["site"], "window": window, "measures": {"n": "count(*)"},
            "slack": {"fixed": "PT0S"}}  # fmt: skip
    return make_pipeline(Path("/nowhere"), {"s": said}).spec("s")


def events(rows: list[tuple[int, int, str | None]]) -> pa.Table:
    """Of positions, event times in seconds and sites."""
    seqs, times, sites = zip(*rows, strict=True)
    return pa.table({
        "arrival_seq": pa.array(seqs, pa.int64()),
        "event_time": pa.array([t * SECOND for t in times], pa.int64()).cast(INSTANT),
        "site": pa.array(sites, pa.string()),
    })  # fmt: skip


SLIDING, PLAIN = step(WINDOWS["sliding"][0]), WINDOWS["sliding"][1]


def test_records_are_counted_by_how_many_of_their_windows_were_closed() -> None:
    rows = [(0, 100, "a"), (1, 70, "b"), (2, 15, "a"), (3, 59, "a"), (4, 90, "b"), (5, 130, "a")]
    watermark, told = 100 * SECOND, Classes()
    late = []
    for part in (rows[:3], rows[3:]):  # one tells the other
        classes = Classes()
        map_records(SLIDING, events(part), Marks((0,), (watermark,)), classes)
        told.add(classes.message())
    wanted = [0, 0, 0]
    for _, t, _ in rows:
        starts = PLAIN.starts(t * SECOND)
        closed = sum(start + PLAIN.size <= watermark for start in starts)
        wanted[0 if not closed else 2 if closed == len(starts) else 1] += 1
        late += [t * SECOND] * bool(closed)
    assert all(wanted)
    assert [told.class_1, told.class_2, told.class_3] == wanted
    assert (told.late_from_us, told.late_to_us) == (min(late), max(late))
    on_time = Classes()
    map_records(SLIDING, events(rows), NO_MARKS, on_time)
    assert on_time == Classes(class_1=len(rows))


def test_a_record_that_lacks_a_key_is_left_out() -> None:
    found = map_records(SLIDING, events([(0, 5, "a"), (1, 5, None), (2, 5, "a")]), NO_MARKS)
    assert [(r["site"], r["n_records"], r["last_seq"]) for r in found.to_pylist()] == [("a", 2, 2)]


def test_the_last_position_of_a_group_is_its_greatest_even_the_first_of_all() -> None:
    layout, pane = layout_of(SLIDING), np.zeros(4, np.int64)
    table = events([(3, 5, "b"), (0, 5, "a"), (1, 5, "b"), (2, 5, "c")])
    parts = layout.of_records(table, {"pane": pane})
    for found in (parts, layout.merge(parts, "pane")):
        last = {row["site"]: row["last_seq"] for row in found.to_pylist()}
        assert last == {"a": 0, "b": 3, "c": 2}


def test_instants_as_keys_travel_as_microseconds_and_come_back() -> None:
    said = {"keys": ["seen", "site"], "window": {"size": "PT60S"}, "measures": {"n": "count(*)"},
            "slack": {"fixed": "PT0S"}}  # fmt: skip
    columns = {"seen": "timestamp", "site": "string"}
    wire = Wire(make_pipeline(Path("/nowhere"), {"s": said}, columns=columns).spec("s"))
    one = events([(0, 5, "a"), (1, 7, "b")])
    seen = pa.array([3 * SECOND, None], pa.int64()).cast(INSTANT)
    inner = wire.to_inner(one.append_column("seen", seen))
    assert (inner["seen"].type, inner["seen"].to_pylist()) == (pa.int64(), [3 * SECOND, None])
    assert wire.parts.field("seen").type == wire.answers.field("seen").type == pa.int64()
    assert wire.parts.field("site").type == pa.string()
    keys = wire.known_by(inner)
    assert keys["seen"].type == INSTANT
    assert keys["seen"].to_pylist() == seen.to_pylist()
    assert keys["site"].to_pylist() == ["a", "b"]


class Stream:
    """A shard of a step, micro-batch by micro-batch, with the watermark at each one's end."""

    def __init__(self, one: StepSpec) -> None:
        self.step, self.content, self.watermark = one, dict[Any, Any](), BEGINNING
        self.answers: dict[tuple[int, str], int] = {}
        self.through: dict[tuple[int, str], int] = {}
        self.seq = 0

    def take(self, times: list[int], watermark: int) -> Reduced:
        reducer = Reducer(self.step, FakeMap(self.content))
        wire = reducer.wire
        rows = [(self.seq + i, t, "ab"[t % 2]) for i, t in enumerate(times)]
        partials = wire.parts.empty_table()
        if rows:
            marks = Marks((self.seq,), (self.watermark,))
            partials = map_records(self.step, events(rows), marks).cast(wire.parts)
        first, self.seq = self.seq == 0, self.seq + len(rows)
        marks = Marks((0, self.seq), (self.watermark, watermark))
        advance = Advance(first, self.watermark, watermark, marks)
        found = reducer.reduce(advance, partials, wire.parts.empty_table())
        self.watermark = watermark
        for row in found.answers.to_pylist():
            pair = (row["window_start"], row["site"])
            assert pair not in self.answers
            self.answers[pair], self.through[pair] = row["n_records"], row["last_seq"]
        return found


@pytest.mark.parametrize("name", WINDOWS)
def test_what_is_open_is_kept_in_few_parts_and_answered_once_it_closes(name: str) -> None:
    window, plain = WINDOWS[name]
    stream = Stream(step(window))
    wanted: dict[tuple[int, str], int] = {}
    for batch in range(3 * MANY_PARTS):
        times = [1_000 + (batch * 7 + i * 11) % 170 for i in range(3)]
        for t in times:
            for start in plain.starts(t * SECOND):
                pair = (start, "ab"[t % 2])
                wanted[pair] = wanted.get(pair, 0) + 1
        found = stream.take(times, BEGINNING)
        assert found.open_pairs == sum(wanted.values())
        assert not found.answers.num_rows
        assert not found.late.num_rows
        parts = [bucket for bucket, part in stream.content if part >= 0]
        assert max(map(parts.count, parts)) <= MANY_PARTS
    half = 1_100 * SECOND
    found = stream.take([], half)
    closed = {pair: n for pair, n in wanted.items() if pair[0] + plain.size <= half}
    assert stream.answers == closed
    assert {*stream.through.values()} <= {stream.seq - 1}
    assert found.open_pairs == sum(wanted.values()) - sum(closed.values())
    assert stream.take([], FOREVER).open_pairs == 0
    assert stream.answers == wanted
    assert len(stream.content) == 1, "the index alone is left"
