"""The trigger over a real supervisor whose driver is a small script instead of a stream host."""

import asyncio
import errno
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from airflow.triggers.base import TaskFailedEvent, TaskSuccessEvent
from watched import RUNS, first, status, trigger, until

from penstock.core.clock import SystemClock
from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths, take_lock, write_json
from penstock.runtime.streams.runner import Runner
from penstock.runtime.streams.stages import Stage
from penstock_airflow import listeners, wiring
from penstock_airflow.operators import StreamOperator
from penstock_airflow.triggers import StreamTrigger
from penstock_airflow.watch import LateTrigger

pytestmark = pytest.mark.airflow


def test_it_survives_being_written_to_the_database() -> None:
    path, arguments = trigger(watch_for_seconds=5.0).serialize()
    assert path == "penstock_airflow.triggers.StreamTrigger"
    again = StreamTrigger(**arguments)
    assert again.serialize() == (path, arguments)


def test_the_operator_starts_in_the_triggerer_with_the_triggers_arguments() -> None:
    task = StreamOperator(task_id="stream", pipeline="flights")
    assert task.start_from_trigger
    assert task.start_trigger_args is not None
    module, name = task.start_trigger_args.trigger_cls.rsplit(".", 1)
    assert getattr(sys.modules[module], name) is StreamTrigger
    assert StreamTrigger(**(task.start_trigger_args.trigger_kwargs or {})).pipeline == "flights"
    with pytest.raises(TaskDeferred):
        task.execute({})


def test_the_end_of_a_bounded_source_is_success(driver: Callable[[str], None]) -> None:
    driver("print('done')")
    assert isinstance(asyncio.run(first(trigger())), TaskSuccessEvent)


def test_a_terminal_error_fails_the_task_with_its_text(driver: Callable[[str], None]) -> None:
    driver("import sys; print('no such column'); sys.exit(20)")
    event = asyncio.run(first(trigger()))
    assert isinstance(event, TaskFailedEvent)
    assert "no such column" in str(event.xcoms)


def test_the_tasks_log_says_once_that_a_supervisor_is_silent(
    driver: Callable[[str], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StreamTrigger, "log", logging.getLogger("the task"))
    watch = trigger()
    paths = wiring.stream_paths("flights")
    paths.folder.mkdir(parents=True)
    lock = take_lock(paths.supervisor_lock)
    assert lock is not None
    long_ago = "2024-03-01T00:00:00+00:00"
    write_json(paths.supervisor, {"state": "running", "pid": 4711, "at": long_ago})
    for _ in range(3):  # its seconds grow; it is said once
        assert watch._look() is None
    said = [line.getMessage() for line in caplog.records if line.levelname == "WARNING"]
    os.close(lock)
    said = [line for line in said if "flights: silent" in line]
    assert len(said) == 1
    assert "kill -CONT 4711" in said[0]


def test_what_fails_at_a_look_is_said_and_the_next_look_sees_the_end(
    driver: Callable[[str], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StreamTrigger, "log", logging.getLogger("the task"))
    driver("print('done')")
    really, full = control.status, [OSError(errno.ENOSPC, "No space left on device")] * 2

    def look(paths: StreamPaths) -> control.StreamStatus:
        if full:
            raise full.pop()
        return really(paths)

    monkeypatch.setattr("penstock_airflow.triggers.control.status", look)
    assert isinstance(asyncio.run(first(trigger())), TaskSuccessEvent)
    for then in ("trying again", "looking again"):
        assert f"stream flights: [Errno 28] No space left on device; {then}" in caplog.text


def test_a_watch_that_is_over_leaves_the_stream_alone(driver: Callable[[str], None]) -> None:
    driver(RUNS)

    async def scenario() -> None:
        assert isinstance(await first(trigger(watch_for_seconds=0.5)), TaskSuccessEvent)
        pid = await until(lambda: status().driver.get("pid"))
        assert isinstance(await first(trigger(watch_for_seconds=0.5)), TaskSuccessEvent)
        assert status().driver["pid"] == pid

    asyncio.run(scenario())


def test_a_killed_supervisor_is_replaced(driver: Callable[[str], None]) -> None:
    driver(RUNS)

    async def scenario() -> None:
        watch = asyncio.create_task(first(trigger()))
        pid = await until(lambda: status().driver.get("pid"))
        os.kill(status().said["pid"], 9)
        await until(lambda: status().alive and status().driver.get("pid") not in {None, pid})
        control.request_stop(wiring.stream_paths("flights"), "user")
        assert isinstance(await watch, TaskSuccessEvent)

    asyncio.run(scenario())


def test_an_edited_pipeline_file_restarts_the_stream_with_its_new_digest(
    driver: Callable[[str], None],
) -> None:
    driver(RUNS)
    file = wiring.settings().pipelines / "flights.yaml"
    good = file.read_text()

    async def scenario() -> None:
        watch = asyncio.create_task(first(trigger()))
        digest = await until(lambda: status().driver.get("digest"))
        pid = status().driver["pid"]
        file.write_text("description: [")  # an editor's half-written file stops nothing
        await asyncio.sleep(1)
        assert status().driver["pid"] == pid
        file.write_text(good.replace("PT2H", "PT3H"))  # the stream follows its steps by itself
        await asyncio.sleep(1)
        assert status().driver["pid"] == pid
        file.write_text(good.replace("skew: PT5M", "skew: PT9M"))
        await until(lambda: status().driver.get("digest") not in {None, digest})
        control.request_stop(wiring.stream_paths("flights"), "user")
        assert isinstance(await watch, TaskSuccessEvent)

    asyncio.run(scenario())


def test_a_stop_meant_for_somebody_else_is_followed_by_a_start(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_airflow.triggers.GRACE_SECONDS", 0.3)
    driver(RUNS)

    async def scenario() -> None:
        watch = asyncio.create_task(first(trigger()))
        pid = await until(lambda: status().driver.get("pid"))
        await trigger().on_kill()  # of the try before, or of a triggerer that lost the trigger
        await until(lambda: status().driver.get("pid") not in {None, pid})
        watch.cancel()

    asyncio.run(scenario())


STAGED = RUNS.replace(
    "    heart.works(sealed=1)\n",
    """
    for step, figures in (("sightings_per_site", {}), ("sightings_per_site", {"generation": 0}),
                          ("sightings_per_plate", {"generation": 0, "error": "no room"}),
                          ("sightings_per_plate", {"error": None, "through_seq": 9}),
                          ("sightings_per_site", {"through_seq": 9})):
        heart.wait(0.6)
        heart.beat(step=step, **figures)
""",
)


def test_the_tasks_log_tells_the_stages_of_a_start_and_what_keeps_it_from_the_next(
    driver: Callable[[str], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StreamTrigger, "log", logging.getLogger("the task"))
    driver(STAGED)
    file = wiring.settings().pipelines / "flights.yaml"
    lines = file.read_text()
    file.write_text(lines[: lines.index("  last_seen:")])

    async def scenario() -> None:
        watch = asyncio.create_task(first(trigger()))
        await until(lambda: "stage acknowledged (5 of 5)" in caplog.text)
        await trigger().on_kill()
        watch.cancel()

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    said = [r.getMessage() for r in caplog.records if "stage" in r.getMessage()]
    order = [s.partition("stage ")[2].split()[0] for s in said]
    ranks = [[*Stage].index(Stage(each)) for each in order]
    assert ranks == sorted(ranks)
    assert {"linked", "started", "acknowledged"} <= set(order)
    assert any("not farther: sightings_per_plate: no room" in each for each in said)


def test_a_killed_trigger_starts_nothing_afterwards(driver: Callable[[str], None]) -> None:
    driver(RUNS)

    async def scenario() -> None:
        watch = trigger()
        await watch.on_kill()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(aiter(watch.run())), 2)

    asyncio.run(scenario())
    assert status().state == "absent"


@pytest.fixture
def asked(driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """As ``driver``, where a stream runner keeps the supervisors."""
    monkeypatch.setenv("PENSTOCK_STREAM_RUNNER", "true")
    return driver


@contextmanager
def running() -> Iterator[None]:
    """A stream runner; it stops its streams at the end."""
    runner = Runner(wiring.settings().streams, SystemClock())
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        yield
    finally:
        runner.stop.set()
        thread.join()


def test_with_a_stream_runner_the_trigger_only_says_what_is_wanted(
    asked: Callable[[str], None],
) -> None:
    asked(RUNS)

    async def scenario() -> None:
        watch = asyncio.create_task(first(trigger()))
        await until(lambda: status().state == "wanted")
        with running():
            await until(lambda: status().state == "running")
            watch.cancel()
            await trigger().on_kill()
            await until(lambda: status().state == "stopped")
        assert status().state == "stopped", "withdrawn: it is wanted no more"

    asyncio.run(scenario())


def test_a_runner_that_is_stopped_leaves_the_stream_wanted_and_the_task_alone(
    asked: Callable[[str], None],
) -> None:
    asked(RUNS)

    async def scenario() -> None:
        watch = asyncio.create_task(first(trigger()))
        for _ in range(2):
            with running():
                await until(lambda: status().state == "running")
            assert status().state == "wanted"
        assert not watch.done()
        watch.cancel()

    asyncio.run(scenario())


def test_a_task_that_is_tried_again_asks_again_and_is_not_failed_by_the_end_before(
    asked: Callable[[str], None],
) -> None:
    asked("import sys; print('no such column'); sys.exit(20)")
    with running():
        event = asyncio.run(first(trigger()))
        assert isinstance(event, TaskFailedEvent)
        assert "no such column" in str(event.xcoms)
        asked("print('done')")
        assert isinstance(asyncio.run(first(trigger())), TaskSuccessEvent)


def test_a_changed_file_replaces_what_is_only_wanted(
    asked: Callable[[str], None],
) -> None:
    asked(RUNS)
    file = wiring.settings().pipelines / "flights.yaml"
    before = wiring.catalog().pipeline("flights").log_digest

    async def scenario() -> None:
        watch = asyncio.create_task(first(trigger()))
        await until(lambda: status().state == "wanted")
        file.write_text(file.read_text().replace("skew: PT5M", "skew: PT9M"))
        now = wiring.catalog().pipeline("flights").log_digest
        assert now != before
        with running():
            await until(lambda: status().driver.get("digest") == now)
        watch.cancel()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("dag", "previous", "stops"),
    [
        ("stream__flights", None, True),  # the api-server: somebody marked it
        ("stream__flights", "running", False),  # its own end
        ("correct__flights", None, False),
    ],
)
def test_marking_a_streams_task_stops_it_without_a_triggerer(
    driver: Callable[[str], None], dag: str, previous: str | None, stops: bool
) -> None:
    task = SimpleNamespace(dag_id=dag)
    listeners.on_task_instance_failed(previous_state=previous, task_instance=task)
    assert wiring.stream_paths("flights").stop.exists() is stops


def test_a_watcher_hands_on_what_is_due_and_survives_a_table_that_is_being_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trigger = LateTrigger("p", poll_seconds=0.01)
    looks = iter([OSError("a table is being made"), None, {"s": "age"}])

    def look(_: Any) -> Any:
        found = next(looks)
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(LateTrigger, "_look", look)

    async def first() -> Any:
        return await anext(aiter(trigger.run()))

    assert asyncio.run(asyncio.wait_for(first(), 20)).payload == {"why": {"s": "age"}}
    path, arguments = trigger.serialize()
    assert path == "penstock_airflow.watch.LateTrigger"
    assert LateTrigger(**arguments).serialize() == (path, arguments)
