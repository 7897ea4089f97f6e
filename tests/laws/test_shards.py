"""Law 0 over shards: into how many a state is cut does not show, and changes with a generation."""

from pathlib import Path

import pytest

from penstock.lake.history.checkpoint import newest_checkpoint
from penstock.lake.history.generation import generations
from penstock.lake.history.position import position
from penstock.lake.history.registry import Registry
from penstock.lake.history.standing import timely_answers
from penstock.lake.ingest import door
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests import reference as ref
from tests.answers import assert_same, blocks_of, rows_by_pair
from tests.lakes import EACH, ROWS, Lake, make_lake
from tests.steps import CASES
from tests.streams import write_jsonl

pytestmark = pytest.mark.law


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BLOCK", 5)


def logged(home: Path, case: str = "sites") -> Lake:
    """A lake whose step began before the first of its ninety records."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
    lake = make_lake(home, CASES[case], source=source)
    (home / "live").mkdir(parents=True)
    Registry(lake.tables, lake.clock, lake.pipeline).start_all()
    for number in range(len(ROWS) // EACH):
        write_jsonl(home / "live" / f"{number}.jsonl", ROWS[EACH * number : EACH * (number + 1)])
    lake.ingest()
    return lake


def reasons(lake: Lake) -> list[str]:
    rows = read_table(Table(lake.tables.registry())).sort_by("generation")
    return rows["reason"].to_pylist()


@pytest.mark.parametrize(("case", "shards"), [("sites", 1), ("landmark", 3), ("seen", 8)])
def test_any_number_gives_the_answers_of_the_log(tmp_path: Path, case: str, shards: int) -> None:
    lake = logged(tmp_path, case)
    query = lake.query(blocks=2, shards=shards).run()
    assert query.shards == shards
    blocks = blocks_of(lake.tables, lake.pipeline)
    expected = ref.run(lake.oracle, blocks)
    found = rows_by_pair(lake.step, timely_answers(lake.tables, lake.step), "through_seq")
    assert found
    assert_same(expected.timely, found)
    lake.check()


def test_another_number_begins_a_generation_where_the_former_one_was_sealed(tmp_path: Path) -> None:
    lake = logged(tmp_path)
    for number, shards in enumerate((2, 5, 1, 3)):
        query = lake.query(blocks=1, shards=shards)
        begun, sealed = generations(lake.tables, lake.step)[-1], position(lake.tables, lake.step)
        assert query.shards == shards
        assert begun.number == number
        assert begun.epoch == 0, "readers see one definition"
        if sealed is not None:
            assert (begun.block, begun.seq) == (sealed.sealed.block, sealed.sealed.seq)
            assert (begun.block, begun.state) == (sealed.sealed.block, sealed.sealed.state)
        for _ in range(3):
            assert query.work()
    lake.query(shards=3).run()
    assert reasons(lake) == ["first start", "shards", "shards", "shards"]
    lake.check()


def test_a_state_keeps_its_number_whatever_the_cores(tmp_path: Path) -> None:
    lake = logged(tmp_path)
    lake.query(blocks=1, shards=3).work()
    for _ in range(2):
        again = lake.query(blocks=1)
        assert again.shards == 3
        assert again.work()
    assert newest_checkpoint(lake.tables, lake.query_name).shards == 3
    assert len(generations(lake.tables, lake.step)) == 1


def test_a_start_that_was_killed_before_its_first_micro_batch_begins_as_it_was_asked_to(
    tmp_path: Path,
) -> None:
    lake = logged(tmp_path)
    lake.query(blocks=1, shards=2).work()
    for _ in range(2):  # registered, and no micro-batch
        assert lake.query(shards=4).shards == 4
    assert [g.number for g in generations(lake.tables, lake.step)] == [0, 1]
    assert lake.query(shards=6).shards == 6, "asked for another one meanwhile"
    assert [g.number for g in generations(lake.tables, lake.step)] == [0, 1]
    lake.query(shards=6).run()
    lake.check()
