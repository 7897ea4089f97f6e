"""A stream host follows what is linked: pipelines come to its log and go, and the others go on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.config.pipeline import TOGETHER
from penstock.core.batch_size import Bounds
from penstock.lake.history.generation import generations
from penstock.lake.ingest import door
from penstock.spark.correct import correct_pipeline
from penstock.spark.stream_host import StreamHost
from tests.doubles import RecordingPulse, RisingClock
from tests.guests import guest, log_of
from tests.lakes import EACH, ROWS, Lake
from tests.streams import write_jsonl

pytestmark = pytest.mark.spark


def arrives(lake: Lake, number: int) -> None:
    write_jsonl(lake.home / "live" / f"{number}.jsonl", ROWS[EACH * number : EACH * (number + 1)])


def answered(pulse: RecordingPulse, step: str, records: int) -> bool:
    return pulse.steps.get(step, {}).get("through_seq", -1) + 1 >= records


def test_pipelines_come_and_go_while_the_others_go_on(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLOCK", 5)
    monkeypatch.setattr("penstock.spark.stream_host.FOLLOW_SECONDS", 0.0)
    lake = log_of(tmp_path)
    first, second = guest(lake, "g", "codes"), guest(lake, "h", "both", apart=True)
    edited = guest(lake, "g", "seen")
    linked = [lake.pipeline]
    pulse = RecordingPulse(lambda _: next(script, True))
    host = StreamHost(quick, lake.tables, lake.pipeline, lake.home, RisingClock(), pulse,
                      linked=lambda: linked)  # fmt: skip

    def until(*steps: str, records: int) -> Iterator[bool]:
        while not all(answered(pulse, step, records) for step in steps):
            yield False

    def scripted() -> Iterator[bool]:
        arrives(lake, 0)
        yield from until("s", records=EACH)
        linked.extend([first.pipeline, second.pipeline])
        arrives(lake, 1)
        yield from until("s", "g.s", "h.s", records=2 * EACH)
        assert {*host.hosted.queries} == {TOGETHER, "apart-h.s"}
        del linked[1:]
        arrives(lake, 2)
        yield from until("s", records=3 * EACH)
        while "g.s" in pulse.steps or "h.s" in pulse.steps:
            yield False
        assert {*host.hosted.queries} == {TOGETHER}
        linked.extend([edited.pipeline, second.pipeline])
        arrives(lake, 3)
        yield from until("s", "g.s", "h.s", records=4 * EACH)

    script = scripted()
    host.run(Bounds.fixed(1))
    assert not pulse.figures.get("error")
    assert [g.number for g in generations(lake.tables, lake.step)] == [0], "it went on and on"
    assert [g.epoch for g in generations(lake.tables, edited.step)] == [0, 1]
    assert [g.number for g in generations(lake.tables, second.step)] == [0], "a query of its own"
    for each in (lake, edited, second):
        correct_pipeline(quick, each.tables, each.pipeline, each.clock, "r")
        each.check()
        assert each.in_force()
