"""One record's way through Airflow: preload, stream, kill, correction, audit, answers, end."""

import os
import signal
from collections import Counter

import pytest

from penstock.lake.history.balance import balance
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.runtime.demo.airflow import DagRun
from tests.e2e.rides import HISTORY, LOOP, STEPS, RideFiles, RideTruth
from tests.e2e.running import Embedded, Rest, eventually

pytestmark = pytest.mark.e2e
BROKEN = """\
source: {files: broken/live, format: jsonl}
columns: {zone: strin}
event_time: picked_up
steps:
  some:
    window: {size: PT1H}
    measures: {rides: count(*)}
    slack: {fixed: PT1M}
"""
FAR_LATER = 300
"""Pairs that are late for certain, whatever the machine's pace."""


@pytest.fixture(scope="module")
def truth(rides: RideFiles) -> RideTruth:
    """Of the files there are: ask for it when all have arrived."""
    return RideTruth(rides)


def stream_run(airflow: Rest) -> DagRun:
    return airflow.runs("stream__rides", "scheduled")[0]


def test_the_history_is_taken_in(rides: RideFiles, embedded: Embedded, airflow: Rest) -> None:
    run = airflow.finish(airflow.start("preload__rides"))
    assert run.state == "success"
    outcome = airflow.outcome(run)
    assert outcome["received"] == HISTORY + 1
    assert outcome["answers"] > 0
    assert embedded.sealed() == 0  # a step is sealed by its stream


def test_a_broken_file_is_shown_and_stops_nobody(
    rides: RideFiles, embedded: Embedded, airflow: Rest
) -> None:
    broken = embedded.settings.pipelines / "broken.yaml"
    broken.write_text(BROKEN)
    airflow.start("stream__rides", by_itself=True)
    rides.arrive(1)
    try:
        errors = eventually(lambda: "broken.yaml" in airflow.import_errors())
        assert errors, "no import error"
        assert f"{broken}:2" in airflow.import_errors()
        assert "strin" in airflow.import_errors()
        rides.arrive(2)
        assert eventually(lambda: embedded.sealed() > HISTORY + 1), embedded.stream
        assert stream_run(airflow).state == "running"
    finally:
        broken.unlink()


def test_a_killed_driver_goes_on_by_itself(
    rides: RideFiles, embedded: Embedded, airflow: Rest
) -> None:
    before = embedded.sealed()
    rides.arrive(2)
    assert eventually(lambda: embedded.sealed() > before), embedded.stream
    killed = embedded.stream.said
    os.kill(killed["driver_pid"], signal.SIGKILL)
    rides.arrive(LOOP - rides.arrived)
    again = eventually(lambda: embedded.stream.said["incarnation"] > killed["incarnation"])
    assert again, embedded.stream
    assert eventually(lambda: embedded.sealed() == rides.received), embedded.stream
    assert stream_run(airflow).state == "running"


def test_an_idle_source_closes_its_windows(embedded: Embedded, truth: RideTruth) -> None:
    newest = truth.newest()
    marks = eventually(lambda: all(mark >= newest for _, mark in embedded.positions()))
    assert marks, embedded.positions()


def test_a_mended_file_is_forgotten(airflow: Rest) -> None:
    assert eventually(lambda: airflow.import_errors() == ""), airflow.import_errors()


def test_refused_records_keep_reason_and_place(rides: RideFiles, embedded: Embedded) -> None:
    refused = read_table(Table(embedded.tables.quarantine())).to_pylist()
    assert Counter(row["reason"] for row in refused) == rides.refused
    ends = {row["place"].rpartition("/")[2] for row in refused}
    assert ends == {f"{file}: line {line}" for file, line in rides.places}
    assert all(row["raw"] for row in refused)


def test_the_correction_starts_the_audit_and_both_succeed(airflow: Rest) -> None:
    corrected, audited = airflow.correct_and_audit()
    assert corrected.state == audited.state == "success"
    assert airflow.outcome(corrected)["changed"] > 0
    assert airflow.outcome(audited)["failed"] == []


@pytest.mark.parametrize("step", STEPS)
def test_answers_in_force_are_those_of_the_raw_files(
    embedded: Embedded, truth: RideTruth, step: str
) -> None:
    spec = embedded.pipeline.spec(step)
    at = position(embedded.tables, spec)
    assert at is not None
    in_force = answers_in_force(embedded.tables, spec)
    assert in_force.num_rows > 0
    assert truth.wrong(step, in_force, at.sealed.state.watermark) == []


@pytest.mark.parametrize("step", STEPS)
def test_every_record_and_every_pair_is_accounted_for(
    rides: RideFiles, embedded: Embedded, truth: RideTruth, step: str
) -> None:
    told = balance(embedded.tables, embedded.pipeline.spec(step))
    assert told is not None
    assert told.received == rides.received == told.accepted + told.quarantined
    assert told.quarantined == rides.refused.total()
    assert told.accepted == truth.records()
    assert told.pairs == truth.pairs(step)
    assert told.late > FAR_LATER or step != "fares_per_zone"


@pytest.mark.all
def test_a_lone_late_record_is_repaired_within_its_time_by_itself(
    rides: RideFiles, embedded: Embedded, airflow: Rest
) -> None:
    dag, within = "correct_soon__rides", embedded.pipeline.correction.soon.within
    airflow.pause(dag, paused=False)
    assert eventually(lambda: airflow.dags()[dag]["is_paused"] is False)
    rides.arrive_late()
    assert eventually(lambda: embedded.sealed() == rides.received), embedded.stream
    runs = eventually(lambda: airflow.runs(dag, "asset_triggered"))
    assert airflow.finish(runs[-1]).state == "success"
    blocks = [b for b in read_table(Table(embedded.tables.blocks())).to_pylist() if b["accepted"]]
    arrived = max(block["arrived_at"] for block in blocks)
    plans = read_table(Table(embedded.tables.corrections())).to_pylist()
    done = [p for p in plans if p["state"] == "done" and p["run_id"] == runs[-1].name]
    assert {p["step"] for p in done} == {*STEPS}
    assert max(p["recorded_at"] for p in done) - arrived <= within
    truth = RideTruth(rides)
    for spec in embedded.pipeline.specs:
        at = position(embedded.tables, spec)
        assert at is not None
        in_force = answers_in_force(embedded.tables, spec)
        assert truth.wrong(spec.name, in_force, at.sealed.state.watermark) == []


def test_marking_its_task_failed_stops_the_stream_gracefully(
    embedded: Embedded, airflow: Rest
) -> None:
    airflow.stop_stream()
    assert eventually(lambda: _has_stopped(embedded)), embedded.stream
    assert embedded.stream.driver["state"] == "ended"
    assert embedded.stream.driver.get("error") is None


def _has_stopped(embedded: Embedded) -> bool:
    """The supervisor says so and has let go of its lock, a moment later."""
    return embedded.stream.state == "stopped" and not embedded.stream.alive
