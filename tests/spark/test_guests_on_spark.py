"""A stream host follows what is linked: pipelines come to its log and go, and the others go on."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.config.pipeline import TOGETHER
from penstock.config.shares import Shares, shared
from penstock.core.batch_size import Bounds
from penstock.lake.history.generation import generations
from penstock.lake.history.standing import ever_run
from penstock.lake.ingest import door
from penstock.lake.log.register import SPECS, shares_spec, steps_spec, tasks_spec
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables
from penstock.spark.correct import correct_pipeline
from penstock.spark.stream_host import StreamHost
from tests.doubles import RecordingPulse, RisingClock, by_script
from tests.guests import guest, log_of
from tests.lakes import EACH, ROWS, Lake
from tests.streams import write_jsonl

pytestmark = pytest.mark.spark


def arrives(lake: Lake, number: int) -> None:
    write_jsonl(lake.home / "live" / f"{number}.jsonl", ROWS[EACH * number : EACH * (number + 1)])


def said(lake: Lake, of: Callable[[Tables], TableSpec], *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of a table of the register."""
    rows = read_table(Table(of(lake.tables))).to_pylist()
    return sorted(tuple(row[name] for name in columns) for row in rows)


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
    pulse = RecordingPulse()
    host = StreamHost(quick, lake.tables, lake.pipeline, lake.home, RisingClock(), pulse,
                      linked=lambda: linked)  # fmt: skip

    def until(*steps: str, records: int) -> Iterator[bool]:
        while not all(answered(pulse, step, records) for step in steps):
            yield False

    def scripted() -> Generator[bool]:
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

    pulse.stop_when = by_script(scripted())
    host.run(Bounds.fixed(1))
    assert not pulse.figures.get("error")
    assert [g.number for g in generations(lake.tables, lake.step)] == [0], "it went on and on"
    assert [g.epoch for g in generations(lake.tables, edited.step)] == [0, 1]
    assert [g.number for g in generations(lake.tables, second.step)] == [0], "a query of its own"
    for each in (lake, edited, second):
        correct_pipeline(quick, each.tables, each.pipeline, each.clock, "r")
        each.check()
        assert each.in_force()


def test_equal_steps_run_once_and_go_on_for_whoever_is_left(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BLOCK", 5)
    monkeypatch.setattr("penstock.spark.stream_host.FOLLOW_SECONDS", 0.0)
    lake = log_of(tmp_path)
    first, second = guest(lake, "g", "codes"), guest(lake, "h", "codes")
    every = [lake.pipeline, first.pipeline, second.pipeline]
    known = shared(every, Shares())
    assert second.step.id == first.step.id == "g.s"
    linked = [first.pipeline]
    pulse = RecordingPulse()
    host = StreamHost(quick, lake.tables, lake.pipeline, lake.home, RisingClock(), pulse,
                      linked=lambda: linked)  # fmt: skip

    def until(step: str, records: int) -> Iterator[bool]:
        while not answered(pulse, step, records):
            yield False

    def scripted() -> Generator[bool]:
        arrives(lake, 0)
        yield from until("g.s", records=EACH)
        linked.append(second.pipeline)
        arrives(lake, 1)
        yield from until("g.s", records=2 * EACH)
        assert [*host.hosted.steps] == ["g.s"]
        while said(lake, shares_spec, "pipeline", "run") != [("g", "g.s"), ("h", "g.s")]:
            yield False
        assert said(lake, steps_spec, "run", "state", "generation") == [("g.s", "runs", 0)]
        assert len(said(lake, tasks_spec, "run")) == 2
        del linked[0]  # its stream ends, and then its file goes
        shared([lake.pipeline, second.pipeline], known)
        arrives(lake, 2)
        yield from until("g.s", records=3 * EACH)

    pulse.stop_when = by_script(scripted())
    host.run(Bounds.fixed(1))
    assert not pulse.figures.get("error")
    assert [g.number for g in generations(lake.tables, second.step)] == [0], "nobody noticed"
    assert ever_run(lake.tables) == ["g.s"]
    assert not any(said(lake, spec) for spec in SPECS), "nothing runs any more"
    for each in (first, second):
        correct_pipeline(quick, each.tables, each.pipeline, each.clock, "r")
        each.check()
        assert each.in_force()
