"""Outages of everything at once, with a stream in the middle of its work: nothing is lost."""

import signal
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from penstock.config.pipeline import TOGETHER
from penstock.lake.history.balance import balance
from penstock.lake.history.checkpoint import newest_checkpoint
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force
from tests.e2e.rides import RideFiles, RideTruth
from tests.e2e.running import Embedded, Rest, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.all]
STOPPED_SECONDS = 60.0
FILES = 5
"""Live files of one outage."""


@pytest.fixture(autouse=True)
def streaming(audited: None, embedded: Embedded, airflow: Rest) -> Iterator[None]:
    airflow.start("stream__rides", by_itself=True)
    assert eventually(lambda: embedded.stream.driver.get("state") == "running"), embedded.stream
    yield
    airflow.stop_stream()
    assert eventually(lambda: embedded.stream.state == "stopped"), embedded.stream


def in_micro_batch(embedded: Embedded) -> bool:
    """Whether Spark has begun a micro-batch that it has not committed."""
    checkpoint = Path(newest_checkpoint(embedded.tables, TOGETHER).uri)
    begun, done = (
        {entry.name for entry in (checkpoint / folder).glob("[0-9]*")}
        for folder in ("offsets", "commits")
    )
    return bool(begun - done)


def own_processes(embedded: Embedded) -> list[psutil.Process]:
    """All that was started for this home, at whatever remove."""
    home = str(embedded.settings.home)
    roots = [psutil.Process(each.pid) for each in embedded.processes().values()]
    for process in psutil.process_iter():
        try:
            if process.environ().get("PENSTOCK_HOME") == home:
                roots.append(process)
        except psutil.Error:
            continue
    children = [child for root in roots for child in root.children(recursive=True)]
    return sorted({*roots, *children}, key=lambda process: process.pid)


def assert_nothing_lost(embedded: Embedded, rides: RideFiles, airflow: Rest) -> None:
    assert eventually(lambda: embedded.sealed() == rides.received), embedded.stream
    assert airflow.finish(airflow.start("correct__rides")).state == "success"
    truth = RideTruth(rides)
    for step in embedded.pipeline.specs:
        at = position(embedded.tables, step)
        told = balance(embedded.tables, step)
        assert at is not None
        assert told is not None
        assert told.received == rides.received == told.accepted + told.quarantined
        assert told.pairs == truth.pairs(step.name)
        in_force = answers_in_force(embedded.tables, step)
        assert truth.wrong(step.name, in_force, at.sealed.state.watermark) == []


def test_down_within_a_micro_batch_and_up_again(
    embedded: Embedded, rides: RideFiles, airflow: Rest
) -> None:
    rides.arrive(FILES)
    assert eventually(lambda: in_micro_batch(embedded)), embedded.stream
    assert embedded.call("down").returncode == 0
    assert not embedded.stream.alive
    assert embedded.call("up").returncode == 0
    assert_nothing_lost(embedded, rides, airflow)


def test_everything_stands_still_for_a_minute(
    embedded: Embedded, rides: RideFiles, airflow: Rest
) -> None:
    rides.arrive(FILES - 1)
    assert eventually(lambda: in_micro_batch(embedded)), embedded.stream
    before = embedded.stream.said["driver_pid"], embedded.processes()
    stopped = own_processes(embedded)
    assert len(stopped) > len(embedded.processes())
    for process in stopped:
        process.send_signal(signal.SIGSTOP)
    try:
        rides.arrive(1)
        time.sleep(STOPPED_SECONDS)  # what is tested is a minute
    finally:
        for process in stopped:
            process.send_signal(signal.SIGCONT)
    assert_nothing_lost(embedded, rides, airflow)
    assert embedded.is_healthy(datetime.fromisoformat(embedded.state.since))
    assert (embedded.stream.said["driver_pid"], embedded.processes()) == before
