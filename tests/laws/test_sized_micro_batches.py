"""The size of micro-batches is found while the stream runs, and does not show in its answers."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.core.batch_size import SAMPLES, Bounds
from penstock.lake.history.registry import Registry
from penstock.lake.history.standing import timely_answers
from penstock.lake.ingest import door
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.spark import source
from tests import reference as ref
from tests.answers import assert_same, blocks_of, rows_by_pair
from tests.doubles import Killed
from tests.lakes import Lake, make_lake, some_rows
from tests.local import LocalQuery
from tests.steps import CASES
from tests.streams import write_jsonl

pytestmark = pytest.mark.law
BOUNDS = Bounds(20, 4_000, 1.0)
RECORDS, IDLE = 3_000, 3_600.0


class Plant:
    """What runs a query takes so long: a tenth of a second, and one for 400 records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.speed = 0.0, 400
        monkeypatch.setattr(source, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(door, "BLOCK", 10)

    def drive(self, lake: Lake, query: LocalQuery, most: int = 1_000) -> None:
        """Run micro-batches, and let time pass."""
        while most and query.work():
            self.now += 0.1 + control(lake)[-1]["records"] / self.speed
            most -= 1


def control(lake: Lake) -> list[dict[str, Any]]:
    return read_table(Table(lake.tables.control(lake.step))).sort_by("micro_batch").to_pylist()


def logged(home: Path, count: int = RECORDS) -> Lake:
    lake = make_lake(home, CASES["sites"], source={"files": str(home / "live"), "format": "jsonl"})
    Registry(lake.tables, lake.clock, lake.pipeline).start_all()
    more(lake, count)
    return lake


def more(lake: Lake, count: int, seed: int = 1) -> None:
    write_jsonl(lake.home / "live" / f"{seed}.jsonl", some_rows(count, seed))
    lake.ingest()


def check(lake: Lake) -> None:
    """What it said is what the log says."""
    expected = ref.run(lake.oracle, blocks_of(lake.tables, lake.pipeline))
    found = rows_by_pair(lake.step, timely_answers(lake.tables, lake.step), "through_seq")
    assert found
    assert_same(expected.timely, found)


def test_it_grows_to_its_bound_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, lake = Plant(monkeypatch), logged(tmp_path)
    plant.drive(lake, lake.query(bounds=BOUNDS))
    rows = control(lake)
    assert rows[0]["size"] == BOUNDS.least
    assert sum(row["records"] for row in rows) == RECORDS
    for before, row in pairwise(rows):
        assert (row["size_reason"] is None) == (row["size"] == before["size"])
        assert row["records"] <= row["size"] + 10
    assert [row["size"] for row in rows if row["size_reason"]] == [40, 80, 160, 304]
    assert "records/s" in next(row["size_reason"] for row in rows if row["size_reason"])
    check(lake)


def test_a_restart_goes_on_with_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, lake = Plant(monkeypatch), logged(tmp_path)
    plant.drive(lake, lake.query(bounds=BOUNDS), 3 * SAMPLES)
    before = control(lake)[-1]["size"]
    assert before > BOUNDS.least
    plant.now += IDLE

    def dies() -> None:
        raise Killed

    with pytest.raises(Killed):
        lake.query(bounds=BOUNDS, dies=dies).work()
    plant.drive(lake, lake.query(bounds=BOUNDS), 1)
    assert control(lake)[-1]["size"] == before, "a micro-batch of another process measures nothing"
    plant.drive(lake, lake.query(bounds=BOUNDS))
    check(lake)
    plant.drive(lake, lake.query(bounds=Bounds.fixed(30)))
    more(lake, 50, 2)
    plant.drive(lake, lake.query(bounds=Bounds.fixed(30)))
    last = control(lake)[-2:]
    assert [row["size"] for row in last] == [30, 30]
    assert last[0]["size_reason"] == "the bounds are others"


def test_waiting_for_records_is_no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that are full, and long silences: nothing is slower for them."""
    plant, lake = Plant(monkeypatch), logged(tmp_path, 20)
    query = lake.query(bounds=BOUNDS)
    for seed in range(2, 3 + 2 * SAMPLES):
        plant.drive(lake, query)
        plant.now += IDLE
        more(lake, 20, seed)
    plant.drive(lake, query)
    rows = control(lake)
    assert {row["size"] for row in rows} == {BOUNDS.least}, "it keeps up"
    assert {row["size_reason"] for row in rows} == {None}
    check(lake)


def test_it_takes_less_once_it_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, lake = Plant(monkeypatch), logged(tmp_path)
    query = lake.query(bounds=BOUNDS)
    plant.drive(lake, query, 4 * SAMPLES + 1)
    assert control(lake)[-1]["size"] == 304
    plant.speed = 100
    more(lake, 2 * RECORDS, 2)
    plant.drive(lake, query)
    last = control(lake)[-1]
    assert 0.1 + last["size"] / plant.speed <= BOUNDS.seconds
    assert last["size"] >= 70
    told = [row["size_reason"] for row in control(lake)[4 * SAMPLES + 1 :] if row["size_reason"]]
    assert told[0].endswith("a micro-batch, 1 are the bound")
    check(lake)
