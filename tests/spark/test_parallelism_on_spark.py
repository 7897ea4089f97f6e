"""The parallelism of a step changes while a stream host runs it; the others do not notice."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.core import rescaling
from penstock.core.batch_size import Bounds
from penstock.core.rescaling import Way
from penstock.lake.history.generation import generations
from penstock.lake.ingest import door
from penstock.lake.log.register import tasks_spec
from penstock.lake.log.rescalings import DECIDED, DONE, rescalings
from penstock.spark.correct import correct_pipeline
from penstock.spark.stream_host import StreamHost
from tests.doubles import RecordingPulse, RisingClock, by_script
from tests.guests import guest, log_of
from tests.lakes import EACH
from tests.spark.test_guests_on_spark import answered, arrives, said

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("way", [*Way])
def test_a_step_is_cut_into_more_and_fewer_tasks(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    monkeypatch.setattr(door, "BLOCK", 5)
    monkeypatch.setattr("penstock.spark.stream_host.FOLLOW_SECONDS", 0.0)
    slow = "READ_A_SECOND" if way is Way.MOVE else "MOVED_A_SECOND"
    monkeypatch.setattr(rescaling, slow, 1e-3)
    lake = log_of(tmp_path)
    cut = {n: guest(lake, "g", "codes", parallelism=n) for n in (1, 3, 2)}
    linked = [lake.pipeline, cut[1].pipeline]
    pulse = RecordingPulse()
    host = StreamHost(quick, lake.tables, lake.pipeline, lake.home, RisingClock(), pulse,
                      linked=lambda: linked)  # fmt: skip

    def until(records: int, tasks: int) -> Iterator[bool]:
        while not all(answered(pulse, step, records) for step in ("s", "g.s")):
            yield False
        while said(lake, tasks_spec, "run").count(("g.s",)) != tasks:
            yield False
        while any(each.state == DECIDED for each in rescalings(lake.tables)):
            yield False

    def scripted() -> Generator[bool]:
        for number, tasks in enumerate(cut):
            linked[1] = cut[tasks].pipeline
            arrives(lake, number)
            yield from until((number + 1) * EACH, tasks)

    pulse.stop_when = by_script(scripted())
    host.run(Bounds.fixed(1))
    assert not pulse.figures.get("error")
    assert [g.number for g in generations(lake.tables, lake.step)] == [0], "it went on and on"
    began = [g.number for g in generations(lake.tables, cut[2].step)]
    assert began == ([0] if way is Way.MOVE else [0, 1, 2])
    found = rescalings(lake.tables)
    assert [(r.run, r.tasks_before, r.tasks, r.way, r.state) for r in found] == [
        ("g.s", 1, 3, way, DONE), ("g.s", 3, 2, way, DONE),
    ]  # fmt: skip
    assert all(r.took and r.kept for r in found)
    assert [r.moved is None for r in found] == [way is Way.REBUILD] * 2
    for each in (lake, cut[2]):
        correct_pipeline(quick, each.tables, each.pipeline, each.clock, "r")
        each.check()
