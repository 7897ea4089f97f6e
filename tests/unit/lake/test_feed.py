"""When a feed takes answers, and as what; and when it has ended."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.core.errors import ConfigError, TerminalError
from penstock.lake.ingest import door
from penstock.lake.ingest.door import Door
from penstock.lake.log.blocks import next_block
from penstock.lake.over.feed import LONGEST_REST, LOOK_SECONDS, REST, USUAL, Feed
from penstock.lake.over.taken import as_taken, taken_at
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Tail, read_table
from penstock.lake.storage.tables import Tables
from tests import chains
from tests.lakes import ROWS, Lake, make_lake
from tests.steps import CASES, make_pipeline
from tests.streams import BEGIN, write_jsonl


@dataclass
class Stopped:
    """A clock that stands."""

    at: datetime

    def now(self) -> datetime:
        return self.at


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Six blocks, of which a step has answered two."""
    monkeypatch.setattr(door, "BLOCK", 15)
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}
    found = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]), source=source)
    found.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", ROWS)
    found.ingest()
    for _ in range(2):
        found.query(blocks=1).work()
    return found


def works(lake: Lake, feed: Feed, seconds: float) -> bool:
    """Whether a feed takes what waits so long after the blocks were sealed."""
    sealed = read_table(Table(lake.tables.blocks()))["sealed_at"][0].as_py()
    feed.clock = Stopped(sealed + timedelta(seconds=seconds))
    return feed.work() >= 0


def test_it_rests_by_how_far_the_step_above_is_behind(lake: Lake) -> None:
    feed, now = chains.first(lake).feed(), USUAL + 10
    assert works(lake, feed, now)
    lake.query(blocks=1).work()
    assert not works(lake, feed, now + 10 * REST - 0.5)
    assert feed.rest == 0.5
    assert works(lake, feed, now + 10 * REST + 0.5)
    lake.query(blocks=1).work()
    assert not works(lake, feed, now + 10 * REST + 1)
    assert feed.rest == LOOK_SECONDS


def test_it_rests_no_longer_than_so(lake: Lake) -> None:
    feed = chains.first(lake).feed()
    assert works(lake, feed, 7_200)
    lake.query(blocks=1).work()
    assert not works(lake, feed, 7_200 + LONGEST_REST - 1)
    assert works(lake, feed, 7_200 + LONGEST_REST + 1)


def test_it_takes_at_once_what_a_step_says_that_is_not_behind(lake: Lake) -> None:
    feed = chains.first(lake).feed()
    assert works(lake, feed, USUAL - 1)
    lake.query(blocks=1).work()
    assert works(lake, feed, USUAL - 1), "as any stream is between two micro-batches"


def test_it_does_not_rest_once_all_is_answered(lake: Lake) -> None:
    feed = chains.first(lake).feed()
    assert works(lake, feed, 7_200)
    lake.query().run()
    assert works(lake, feed, 7_201)
    assert feed.rest == 0


def test_it_has_not_ended_before_the_last_answers_are_in(tmp_path: Path) -> None:
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "bounded"}
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]), source=source)
    lake.query()
    feed = chains.first(lake).feed()
    write_jsonl(tmp_path / "live" / "0.jsonl", ROWS)
    assert (feed.work(), feed.ended) == (-1, False)
    lake.ingest()
    lake.query().run()
    assert not feed.ended, "nothing of it was taken"
    while feed.work() >= 0:
        assert not feed.ended
    assert feed.ended


def test_it_has_not_ended_while_a_past_is_owed(tmp_path: Path) -> None:
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "bounded"}
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]), source=source)
    write_jsonl(tmp_path / "live" / "0.jsonl", ROWS)
    lake.ingest()
    lake.query().run()
    feed = chains.first(lake).feed()
    assert (feed.work(), feed.ended) == (-1, False), "its history waits for a correction"
    lake.correct()
    feed.catch_up()
    assert feed.ended


def test_what_was_taken_and_does_not_count_is_an_error_with_a_remedy(lake: Lake) -> None:
    chains.first(lake).feed().catch_up()
    one = chains.first(lake)
    known = taken_at(one.tables, next_block(one.tables))
    assert as_taken(lake.tables, lake.step, known).sealed.order == known.order
    for lost in (replace(known, micro_batch=99), replace(known, run="s.2")):
        with pytest.raises(TerminalError, match=r"penstock remove .* and start it again"):
            as_taken(lake.tables, lake.step, lost)


def test_it_begins_with_the_last_of_its_plans(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    one, looked = chains.first(lake), list[int]()
    for _ in range(3):
        one.feed().catch_up()
        lake.query(blocks=1).work()
    last = max(read_table(Table(one.tables.plans()))["number"].to_pylist())
    assert last > 1
    take = Tail.take

    def takes(tail: Tail) -> pa.Table:
        rows = take(tail)
        looked.extend(rows["number"].to_pylist() if tail.column == "number" else [])
        return rows

    monkeypatch.setattr(Tail, "take", takes)
    one.feed()._look()
    assert looked == [last]
    assert one.feed().work() >= 0, "what came since is taken as ever"


def test_a_plan_is_one_block_however_much_it_brings(tmp_path: Path) -> None:
    """Else a step could stand between two parts of what one correction has changed."""
    count, source = 70_000, {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]), source=source)
    rows = [{**ROWS[0], "event_time": BEGIN + timedelta(minutes=n)} for n in range(count)]
    write_jsonl(tmp_path / "live" / "0.jsonl", rows)
    lake.ingest()
    lake.query().run()
    lake.correct()
    one = chains.first(lake)
    one.feed().catch_up()
    blocks = read_table(Table(one.tables.blocks())).to_pylist()
    assert max(block["accepted"] for block in blocks) > count - 100
    assert len(blocks) == len({block["plan"] for block in blocks})


def test_no_records_come_among_answers_nor_answers_among_records(lake: Lake) -> None:
    """The file of a pipeline over answers may get a source of its own, and the other way round."""
    answers = chains.first(lake)
    answers.feed().catch_up()
    source = {"files": str(lake.home / "live"), "format": "jsonl"}
    steps = {"s": chains.BASE}
    own = make_pipeline(lake.home, steps, name="first", source=source)
    with pytest.raises(ConfigError, match=r"the log holds answers of a step.*another name"):
        Door(answers.tables, own, lake.home, lake.clock).work()
    Door(Tables(str(lake.home / "lake"), "second"), own, lake.home, lake.clock).work()
    over = chains.over(lake, "second", chains.FIRST, {"site": "string", "n": "long"})
    with pytest.raises(ConfigError, match=r"the log holds records of a source.*another name"):
        over.feed().work()
