"""Steps over the answers of steps on real Spark: streams, corrections, audits."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.core.batch_size import Bounds
from penstock.lake.history.registry import Registry
from penstock.spark.correct import correct_pipeline
from penstock.spark.stream_host import StreamHost
from tests import chains
from tests.chains import Over
from tests.doubles import RecordingPulse, RisingClock
from tests.forgery import audited
from tests.lakes import Lake, make_lake, some_rows
from tests.steps import CASES
from tests.streams import write_jsonl

pytestmark = pytest.mark.spark


def fed(home: Path, rows: list, first: int = 0) -> None:
    """The next files."""
    for number in range(0, len(rows), 40):
        write_jsonl(home / "live" / f"{first + number:05d}.jsonl", rows[number : number + 40])


def based(home: Path) -> Lake:
    """The lowest step, over a source that ends."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "bounded"}
    return make_lake(home, (chains.BASE, CASES["sites"][1]), source=source)


def streamed(spark: SparkSession, one: Lake | Over, records: int) -> None:
    """To its end, by a host."""
    host = StreamHost(spark, one.tables, one.pipeline, one.home, RisingClock(), RecordingPulse(),
                      shards=2)  # fmt: skip
    host.run(Bounds.fixed(records))


def after(spark: SparkSession, one: Lake | Over) -> tuple[set[str], dict]:
    found = audited(spark, one, one.clock.now() + timedelta(days=365))
    return found.red, found.row


def test_streams_corrections_and_audits(quick: SparkSession, tmp_path: Path) -> None:
    lake = based(tmp_path)
    one = chains.first(lake)
    two = chains.second(one)
    fed(tmp_path, some_rows(400, 11))
    for each in (lake, one, two):  # what comes from now on is no history
        Registry(each.tables, each.clock, each.pipeline).start_all()
    for each in (lake, one, two):
        streamed(quick, each, 90)
    assert chains.timely(one) == chains.of_first(chains.timely(lake))
    assert chains.timely(two) == chains.of_second(chains.timely(one))
    for each in (one, two):
        red, row = after(quick, each)
        assert red == set()
        assert row["pending_answers"] > 0, "what the step above has late waits here, too"
    for each in (lake, one, two):
        if each is not lake:
            streamed(quick, each, 90)
            assert after(quick, each)[0] == {"overdue_answers"}
        correct_pipeline(quick, each.tables, each.pipeline, each.clock, "r")
        red, row = after(quick, each)
        assert (red, row["pending_answers"]) == (set(), 0)
        assert row["answers_compared"] > 3
    assert chains.in_force(one) == chains.of_first(chains.in_force(lake))
    assert chains.in_force(two) == chains.of_second(chains.in_force(one))
