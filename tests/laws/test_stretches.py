"""A log gone through in stretches is the log gone through at once: counts, watermarks, faults."""

import json
import shutil
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns import watermark
from penstock.core.window import BEGINNING, WindowSpec
from penstock.lake.history.generation import generations
from penstock.lake.history.position import Position, position
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.ingest import door
from penstock.lake.proof import scope as scope_module
from penstock.lake.proof.footing import Footing, epoch_of
from penstock.lake.proof.recount import Recount, recount
from penstock.lake.proof.retrace import Plans, Stretch, Trace, read_plans, retrace
from penstock.lake.proof.scope import MOST_RUNS, Scope, older, runs, windows_of
from penstock.lake.proof.waypoint import BEGIN, Waypoint
from penstock.spark.scoped import cells
from tests.forgery import Forger, Row
from tests.lakes import Lake, make_lake
from tests.rarely import rare
from tests.steps import CASES
from tests.streams import disordered, write_jsonl

pytestmark = pytest.mark.law
SLACKS: dict[str, Any] = {
    "fixed": {"fixed": "PT40S"},
    "max_delay": {"max_delay": {"bound": "PT60S"}},
    "quantile": {"quantile": {"measure_after": "PT60S", "recent": "PT10M"}},
    "pd": {"pd": {"measure_after": "PT30S"}},
    "pd_final": {"pd_final": {"measure_after": "PT60S", "recent": "PT10M"}},
}


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "BLOCK", 16)
        patch.setattr(watermark, "EVERY", 12)
        patch.setattr(scope_module, "LEAST", 90)
        yield


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, list[Stretch]]:
    """A lake to copy, and its stretches."""
    lake = filled(tmp_path_factory.mktemp("fixed"), "fixed")
    return lake, in_stretches(lake)


def filled(home: Path, slack: str) -> Lake:
    """A corrected lake of some hundred records, many of them minutes late."""
    step, oracle = CASES["sites"]
    quality = {"quality": {"epsilon": 0.1, "delta": 0.1, "records": 50}}
    steered = {"slack": SLACKS[slack]} | (
        quality if slack in {"quantile", "pd", "pd_final"} else {}
    )
    lake = make_lake(home, (step | steered, oracle))
    lake.query()
    rows = disordered(600, seed=4, apart=2.0, late_share=0.2, late_by=300.0)
    for row in rows[7::40]:
        row["site"] = None
    for number in range(4):
        write_jsonl(home / "live" / f"{number}.jsonl", rows[150 * number : 150 * (number + 1)])
        lake.ingest()
        lake.query(blocks=3).run()
        lake.correct()
    return lake


def opened(lake: Lake) -> Position:
    at = position(lake.tables, lake.step)
    assert at is not None
    return at


def gone(lake: Lake, stretch: Stretch) -> tuple[Recount, Trace]:
    """What an audit finds of a stretch."""
    tables, step, at = lake.tables, lake.step, opened(lake)
    events = tables.events(lake.pipeline.types)
    last, before = at.sealed.seq, at.sealed.block
    if stretch.until is not None:
        last, before = stretch.last, stretch.until
    log = recount(tables, events, last, before, stretch.since)
    plans = Plans(read_plans(tables, step, stretch.plans(at.epoch)))
    registered = generations(tables, step)
    return log, retrace(tables, events, step, log.blocks, at, registered, plans, stretch)


def faults(log: Recount, trace: Trace) -> int:
    return len([*log.faults, *trace.batches, *trace.generations, *trace.plans])


def footing(lake: Lake, head: Waypoint, old: Waypoint | None) -> Footing:
    """Of an audit that ended there."""
    epoch = opened(lake).epoch
    return Footing(epoch_of(epoch), "", head, BEGINNING, {}, -1, 0, [], old, None, 0)


def in_stretches(lake: Lake) -> list[Stretch]:
    """A whole round through the log, as audits make it."""
    at, found = opened(lake), list[Stretch]()
    head, old = gone(lake, Stretch())[1].end, None
    while not found or found[-1].until != at.sealed.block:
        found.append(older(lake.tables, lake.step, at, footing(lake, head, old)))
        end = gone(lake, found[-1])[1].end
        text = footing(lake, end, end).to_text()
        again = Footing.from_text(text)
        assert again is not None
        assert again.head == again.old == end
        old = again.head
    return found


@pytest.mark.parametrize(
    "slack", ["quantile", *map(rare, ("fixed", "max_delay", "pd", "pd_final"))]
)
def test_stretches_add_up_to_the_whole(tmp_path: Path, slack: str) -> None:
    lake = filled(tmp_path, slack)
    log, trace = gone(lake, Stretch())
    stretches = in_stretches(lake)
    assert len(stretches) > 4
    parts = [gone(lake, stretch) for stretch in stretches]
    assert faults(log, trace) == sum(faults(*part) for part in parts) == 0
    for name in ("received", "accepted", "quarantined", "missing", "doubled", "unclear"):
        assert getattr(log, name) == sum(getattr(part, name) for part, _ in parts)
    assert log.received == 600
    marks = [mark for _, part in parts for mark in part.marks[1:]]
    assert marks == trace.marks[1:]
    assert len(marks) > 20
    assert parts[-1][1].end == trace.end
    assert trace.end.state == opened(lake).sealed.state
    assert [s for _, part in parts for s in part.spans] == trace.spans


def test_in_each_stretch_a_window_closes_and_a_round_ends(
    fixed: tuple[Lake, list[Stretch]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, _ = fixed
    monkeypatch.setattr(scope_module, "LEAST", 1)
    rows = {s.block: s for s in sealed_rows(lake.tables, lake.step, 0)}
    ends, at, old = lake.step.window.ends, opened(lake), BEGIN
    last = at.sealed
    head, closed = Waypoint(last.block, last.seq, 0, last.state), []
    while old.block != head.block:
        next_one = older(lake.tables, lake.step, at, footing(lake, head, old))
        assert next_one.until is not None
        end = rows[next_one.until]
        closed.append(ends(end.state.watermark) - ends(old.state.watermark))
        old = Waypoint(end.block, end.seq, 0, end.state)
    assert len(closed) > 10
    assert min(closed) > 0


def forged(column: str, by: int) -> Any:
    def change(forger: Forger, table: str, row: Row) -> None:
        forger.change(table, row, **{column: row[column] + by})

    return change


def dropped(forger: Forger, table: str, row: Row) -> None:
    forger.drop(table, row)


@pytest.mark.parametrize(
    ("table", "number", "change"),
    [
        ("events", "arrival_seq", dropped),
        ("quarantine", "arrival_seq", dropped),
        ("blocks", "last_seq", dropped),
        ("blocks", "last_seq", forged("accepted", 1)),
        ("late", "last_seq", dropped),
        ("control", "through_seq", forged("watermark_us", 1)),
        ("control", "through_seq", forged("k_us", 1)),
        ("corrections", "through_seq", forged("watermark_us", 1)),
    ],
)
@pytest.mark.parametrize("place", [rare(0.1), 0.8])
def test_a_fault_is_found_where_it_is(
    fixed: tuple[Lake, list[Stretch]],
    tmp_path: Path,
    table: str,
    number: str,
    change: Any,
    place: float,
) -> None:
    good, stretches = fixed
    shutil.copytree(good.home / "lake", tmp_path / "lake")
    lake = replace(good, home=tmp_path)
    forger = Forger(lake)
    rows = sorted(forger.rows(table), key=lambda r: r[number])
    if table == "corrections":
        rows = [r for r in rows if r["state"] == "planned"]
    row = rows[int(place * len(rows))]
    change(forger, table, row)
    (holds,) = [s for s in stretches if s.since.seq < row[number] <= s.last]
    found = [s for s in stretches if faults(*gone(lake, s))]
    assert holds in found
    after = stretches.index(holds) + 1
    assert {*found} <= {holds, *stretches[after : after + 1]}, "at most what follows misses it"


def plain_windows(window: WindowSpec, time: int) -> set[int]:
    start = (time - window.origin) // window.slide * window.slide + window.origin
    return {s for i in range(window.size // window.slide + 2)
            if (s := start - i * window.slide) <= time < s + window.size}  # fmt: skip


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 9), st.lists(st.integers(-90, 90)))
def test_windows_of_records(slide: int, more: int, origin: int, times: list[int]) -> None:
    window = WindowSpec(size=slide * more * 1_000, slide=slide * 1_000, origin=origin * 1_000)
    found = windows_of(window, np.array([t * 1_000 for t in times], np.int64))
    expected = {s for t in times for s in plain_windows(window, t * 1_000)}
    assert found.tolist() == sorted(expected)


@given(st.sets(st.integers(0, 5_000)))
def test_runs_hold_every_start_and_are_few(starts: set[int]) -> None:
    found = runs(np.array(sorted(starts), np.int64), 1)
    assert len(found) <= MOST_RUNS
    assert all(any(a <= s <= b for a, b in found) for s in starts)
    if len(found) < MOST_RUNS:
        assert sum(b - a + 1 for a, b in found) == len(starts)


@given(st.data())
def test_cells_give_each_position_the_watermark_in_force(data: st.DataObject) -> None:
    last = data.draw(st.integers(0, 900))
    some = st.lists(st.integers(0, last + 1), max_size=12)
    cuts = sorted({0, *data.draw(some)})
    seqs = sorted({*cuts, *data.draw(some)})
    marks = [(BEGINNING, -1), *((seq, i) for i, seq in enumerate(seqs))]
    text, rows = cells(Scope(marks, 0, [], [], cuts=tuple(cuts)), last)
    for seq in range(last + 1):
        mine = [mark for cell, first, end, mark in rows if cell == cell_of(text, seq)
                and first <= seq <= end]  # fmt: skip
        assert mine == [bisect_right(seqs, seq) - 1]


def cell_of(text: str, seq: int) -> int:
    """SQL of ``cells``, read by hand."""
    for case in text.removeprefix("CASE ").removesuffix(" ELSE NULL END").split(" WHEN "):
        when, then = case.removeprefix("WHEN ").split(" THEN ")
        if seq >= int(when.split(" >= ")[1]):
            base, rest = then.split(" + (arrival_seq - ")
            low, cell = rest.split(") DIV ")
            return int(base) + (seq - int(low)) // int(cell)
    raise AssertionError(text)


def test_a_footing_of_another_form_is_none() -> None:
    one = Footing([1], "", replace(BEGIN, block=3), 5, {"received": 2}, -1, 0, [4], None, None, 7)
    text = json.loads(one.to_text())
    assert Footing.from_text(json.dumps(text)) == one
    assert Footing.from_text(json.dumps(text | {"form": 0})) is None


def test_a_round_is_over_once_and_covers_each_block_once(
    fixed: tuple[Lake, list[Stretch]],
) -> None:
    lake, stretches = fixed
    assert stretches[0].since == BEGIN
    for one, two in pairwise(stretches):
        assert (one.until, one.last) == (two.since.block, two.since.seq)
    ends = {s.block for s in sealed_rows(lake.tables, lake.step, 0)}
    assert {s.until for s in stretches} <= ends
