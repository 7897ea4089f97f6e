"""Spark's tasks take in what one process would, and each finishes what the other began."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.ingest import pieces
from penstock.lake.ingest.crew import Alone, Crew
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from penstock.spark.crew import SparkCrew
from tests.gates import Gate
from tests.spreading import TABLES, begun, fill, log_of, small_plans

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_tasks_write_the_same_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    small_plans(monkeypatch)
    fill(tmp_path / "live", kind, random.Random(kind))  # noqa: S311
    gate, calls = Gate(tmp_path, kind), [0]

    class Counted(SparkCrew):
        def map(self, *given):  # type: ignore[no-untyped-def]
            calls[0] += 1
            return super().map(*given)

    def taken(crew: Crew) -> int:
        door = Door(gate.tables, gate.pipeline, gate.home, gate.clock, crew)
        return run_through(door, LIVE, None, None)

    received, by_tasks = taken(Counted(spark)), log_of(gate)
    assert calls[0] > 1
    accepted, refused = gate.conserved()
    assert received == accepted + refused > 300
    monkeypatch.setattr(pieces, "ORDINARY", 1_000.0)
    begun(gate)
    assert taken(Alone()) == received
    alone = log_of(gate)
    for name in TABLES:
        assert alone[name] == by_tasks[name], name


def test_what_a_task_cannot_read_is_waited_for(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_plans(monkeypatch)
    fill(tmp_path / "live", "jsonl", random.Random(1))  # noqa: S311
    gate = Gate(tmp_path, "jsonl")
    door = Door(gate.tables, gate.pipeline, tmp_path, gate.clock, SparkCrew(spark))
    monkeypatch.setattr(pieces, "is_spread", lambda *_: True)
    with monkeypatch.context() as patched:
        patched.setattr(door, "_carry_out", lambda plan: 0)
        door.work()
    path = tmp_path / "live" / door._open[0].items[-1].path
    path.rename(path.with_suffix(".away"))
    with pytest.raises(SourceError, match="gone since it was planned") as away:
        door.work()
    assert away.value.path == str(path)
    path.with_suffix(".away").rename(path)
    run_through(door, LIVE, None, None)
    gate.conserved()
