"""Steps over the answers of steps on real Spark: streams, corrections, audits, planted faults."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.core.batch_size import Bounds
from penstock.lake.history.registry import Registry
from penstock.spark.correct import correct_pipeline
from penstock.spark.stream_host import StreamHost
from tests import chains
from tests.chains import Over
from tests.doubles import RecordingPulse, RisingClock
from tests.forgery import Forger, audited
from tests.lakes import Lake, make_lake, some_rows
from tests.newest import NEWEST, SUMMED, summed
from tests.steps import CASES
from tests.streams import write_jsonl

pytestmark = pytest.mark.spark
Row = dict[str, Any]


def based(home: Path) -> Lake:
    """The lowest step, over a source that ends."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "bounded"}
    rows = some_rows(400, 11)
    for number in range(0, len(rows), 40):
        write_jsonl(home / "live" / f"{number:05d}.jsonl", rows[number : number + 40])
    return make_lake(home, (chains.BASE, CASES["sites"][1]), source=source)


def streamed(spark: SparkSession, one: Lake | Over) -> None:
    """To its end, by a host."""
    host = StreamHost(spark, one.tables, one.pipeline, one.home, RisingClock(), RecordingPulse(),
                      shards=2)  # fmt: skip
    host.run(Bounds.fixed(90))


def later(spark: SparkSession, one: Any) -> tuple[set[str], Row]:
    """What an audit says after everything should have been corrected."""
    found = audited(spark, one, one.clock.now() + timedelta(days=365))
    return found.red, found.row


def test_streams_corrections_and_audits(quick: SparkSession, tmp_path: Path) -> None:
    lake = based(tmp_path)
    one = chains.first(lake)
    two = chains.second(one)
    for each in (lake, one, two):  # what comes from now on is no history
        Registry(each.tables, each.clock, each.pipeline).start_all()
    for each in (lake, one, two):
        streamed(quick, each)
    assert chains.timely(one) == chains.of_first(chains.timely(lake))
    assert chains.timely(two) == chains.of_second(chains.timely(one))
    for each in (one, two):
        red, row = later(quick, each)
        assert red == set()
        assert row["pending_answers"] > 0, "what the step above has late waits here, too"
    for each in (lake, one, two):
        if each is not lake:
            streamed(quick, each)
            assert later(quick, each)[0] == {"overdue_answers"}
        correct_pipeline(quick, each.tables, each.pipeline, each.clock, "r")
        red, row = later(quick, each)
        assert (red, row["pending_answers"]) == (set(), 0)
        assert row["answers_compared"] > 3
    assert chains.in_force(one) == chains.of_first(chains.in_force(lake))
    assert chains.in_force(two) == chains.of_second(chains.in_force(one))


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Copy it."""
    return answered(tmp_path_factory.mktemp("begun"))


def answered(home: Path) -> Lake:
    """A lake whose lowest step is answered and corrected."""
    lake = based(home)
    lake.query()
    lake.ingest()
    lake.query().run()
    lake.correct()
    return lake


def exact_over(begun: Lake, home: Path) -> Over:
    """A step over a copy of that lake, answered and corrected."""
    shutil.copytree(begun.home / "lake", home / "lake")
    one = chains.first(replace(begun, home=home))
    one.feed().catch_up()
    one.query().run()
    one.correct()
    return one


def greater(row: Row) -> Row:
    """An answer with another measure."""
    return {**row, "most": row["most"] + 1, "n": row["n"] + 1}


def lost(_: Row) -> None:
    """No answer."""


@pytest.mark.parametrize(
    ("fault", "red"), [(greater, "wrong_answers"), (lost, "wrong_answers")]
)  # fmt: skip
def test_a_fault_of_a_middle_step_is_found_by_the_audit_of_the_last(
    fault: Callable[[Row], Row | None], red: str, begun: Lake, quick: SparkSession, tmp_path: Path
) -> None:
    one = exact_over(begun, tmp_path)
    assert later(quick, one)[0] == set()
    forger = Forger(one)  # type: ignore[arg-type]  it has what a lake of one step has
    rows = forger.rows("answers")
    changed = [fault(rows[0]), *rows[1:]]
    forger.rewrite("answers", [row for row in changed if row is not None])
    two = chains.second(one)
    two.feed().catch_up()
    two.query().run()
    two.correct()
    assert red in later(quick, two)[0]


def test_a_record_that_the_log_of_answers_lost_is_found(
    begun: Lake, quick: SparkSession, tmp_path: Path
) -> None:
    one = exact_over(begun, tmp_path)
    forger = Forger(one)  # type: ignore[arg-type]
    forger.rewrite("events", forger.rows("events")[1:])
    assert {"numbers_missing", "blocks_wrong"} <= later(quick, one)[0]


def test_the_audit_of_a_step_over_newest_records_finds_a_fault_in_these(
    quick: SparkSession, tmp_path: Path
) -> None:
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}
    lake = make_lake(tmp_path, (NEWEST, CASES["sites"][1]), source=source)
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(400, 11))
    one = chains.over(lake, "first", SUMMED, {"site": "string", "code": "long"})
    for each in (lake, one):
        each.query()
    lake.ingest()
    lake.query().run()
    lake.correct()

    def answered_and_audited(over: Over) -> set[str]:
        over.feed().catch_up()
        over.query().run()
        over.correct()
        red, row = later(quick, over)
        assert row["answers_compared"] > 3
        return red

    assert answered_and_audited(one) == set()
    assert chains.in_force(one) == chains.closed(
        summed(chains.in_force(lake)), 4, chains.watermark(one)
    )
    forger = Forger(lake)
    forger.rewrite("answers", [{**row, "code": 10**12} for row in forger.rows("answers")])
    other = chains.over(lake, "second", SUMMED, {"site": "string", "code": "long"})
    other.query()
    assert "wrong_answers" in answered_and_audited(other)
