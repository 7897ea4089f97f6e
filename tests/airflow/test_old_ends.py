"""How a host ended before is not the end of a task that has not seen to it yet."""

import asyncio
import errno
import logging
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from airflow.triggers.base import TaskFailedEvent, TaskSuccessEvent, TriggerEvent
from watched import Host, first, status, trigger

from penstock.config.catalog import Catalog
from penstock.config.kept import kept_file
from penstock.config.shares import shares_file
from penstock.core.errors import ConfigError
from penstock.runtime.streams import control, links
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.spec import StreamSpec
from penstock_airflow import wiring
from penstock_airflow.triggers import StreamTrigger

pytestmark = pytest.mark.airflow

ENDS = ["finished", "gave_up", "stopped by user"]


def of_try(number: int, task: str = "a", pipeline: str = "flights") -> StreamTrigger:
    """A trigger of a try of a task, as a triggerer makes it: at every start of its own anew."""
    watch = trigger(pipeline)
    watch.task_instance = SimpleNamespace(id=task, try_number=number, task_id="stream")
    return watch


def is_taken(event: TriggerEvent | None, end: str) -> bool:
    kind = TaskFailedEvent if end == "gave_up" else TaskSuccessEvent
    return isinstance(event, kind)


@pytest.mark.parametrize("end", ENDS)
def test_a_task_that_cannot_read_at_first_waits_and_starts_it(
    driver: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    end: str,
) -> None:
    monkeypatch.setattr(StreamTrigger, "log", logging.getLogger("the task"))
    host, really, left = Host(monkeypatch), wiring.catalog, [1, 1, 1]
    host.ends["flights"] = end

    def catalog() -> Catalog:
        if left:
            left.pop()
            raise ConfigError("shares.json is damaged")
        return really()

    monkeypatch.setattr(wiring, "catalog", catalog)
    watch = trigger()
    watch._ensure()
    for _ in range(2):
        assert watch._look() is None
    assert host.done == ["start flights"]
    assert "nothing of it can be started now: shares.json is damaged" in caplog.text
    assert watch._look() is None
    host.runs.clear()
    assert is_taken(watch._look(), end), "its own end"


@pytest.mark.parametrize("end", ENDS)
def test_a_task_that_finds_the_disk_full_tries_again_and_starts_it(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    host, left = Host(monkeypatch), [1, 1]
    really = control.ensure_supervisor
    host.ends["flights"] = end

    def ensure(paths: StreamPaths, spec: StreamSpec, wanted: Callable[[], bool]) -> bool:
        if left:
            left.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        return really(paths, spec, wanted)

    monkeypatch.setattr("penstock_airflow.triggers.control.ensure_supervisor", ensure)
    watch = trigger()
    watch._ensure()
    for _ in range(2):
        assert watch._look() is None
    assert host.done == ["start flights"]


@pytest.mark.parametrize("end", ENDS)
def test_a_task_whose_file_was_never_valid_waits_until_it_is(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    host, file = Host(monkeypatch), wiring.settings().pipelines / "flights.yaml"
    good = file.read_text()
    host.ends["flights"] = end
    file.write_text("description: [")
    watch = trigger()
    watch._ensure()
    for _ in range(3):
        assert watch._look() is None
    assert not kept_file(wiring.settings(), "flights").exists()
    assert host.done == []
    file.write_text(good)
    watch._look()
    assert host.done == ["start flights"]


@pytest.mark.parametrize("end", [*ENDS, "absent"])
def test_a_task_whose_file_is_gone_before_it_could_start_anything_fails(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr("penstock_airflow.triggers.GRACE_SECONDS", 0.3)
    host = Host(monkeypatch)
    host.ends["flights"] = end
    (wiring.settings().pipelines / "flights.yaml").unlink()
    event = asyncio.run(first(trigger()))
    assert isinstance(event, TaskFailedEvent)
    assert event.xcoms["stream"]["state"] == "gone"
    assert "no pipeline is called flights" in event.xcoms["stream"]["error"]
    assert host.done == []


def test_a_file_that_is_back_at_once_is_none_that_is_gone(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some editors save."""
    host, file = Host(monkeypatch), wiring.settings().pipelines / "flights.yaml"
    good, watch = file.read_text(), trigger()
    file.unlink()
    watch._ensure()
    assert watch._look() is None
    file.write_text(good)
    assert watch._look() is None
    assert host.done == ["start flights"]


@pytest.mark.parametrize("meanwhile", ["all is well", "damaged", "gone"])
@pytest.mark.parametrize("end", ENDS)
def test_an_end_that_no_triggerer_saw_is_the_end_of_the_same_try(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, end: str, meanwhile: str
) -> None:
    host = Host(monkeypatch)
    of_try(1)._ensure()
    host.runs.clear()  # the triggerer is away
    host.ends["flights"] = end
    if meanwhile == "damaged":
        shares_file(wiring.settings()).write_text("{")
    elif meanwhile == "gone":
        (wiring.settings().pipelines / "flights.yaml").unlink()
    assert is_taken(asyncio.run(first(of_try(1))), end)
    assert host.done == ["start flights"]
    assert links.linked(wiring.stream_paths("flights")) == []


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("later", [(2, "a"), (1, "b")])
def test_an_end_that_no_triggerer_saw_is_not_that_of_another_try(
    driver: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    later: tuple[int, str],
) -> None:
    """Cleared while no triggerer was there, its link is left."""
    host, watch = Host(monkeypatch), of_try(*later)
    of_try(1)._ensure()
    host.runs.clear()
    host.ends["flights"] = end
    watch._ensure()
    assert watch._look() is None
    assert host.done == ["start flights"] * 2


def test_who_watches_on_takes_the_end_of_what_another_one_has_started(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live stream's runs follow each other; the next one cannot even read what it is."""
    host = Host(monkeypatch)
    of_try(1)._ensure()
    shares_file(wiring.settings()).write_text("{")
    watch = of_try(1, "b")
    watch._ensure()
    assert watch._look() is None
    host.runs.clear()
    host.ends["flights"] = "finished"
    assert is_taken(of_try(1, "b")._look(), "finished"), "a triggerer that starts then knows too"
    assert host.done == ["start flights"]


GUEST = """source: {pipeline: flights}
steps:
  hourly: {keys: [site], window: {size: PT1H}, measures: {n: count(*)}, slack: {fixed: PT1M}}
"""


def test_who_left_a_host_because_its_file_was_gone_does_not_fail_for_that(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_airflow.triggers.GRACE_SECONDS", 0.0)
    host, guest = Host(monkeypatch), wiring.settings().pipelines / "sites.yaml"
    guest.write_text(GUEST)
    for pipeline in ("flights", "sites"):
        of_try(1, pipeline, pipeline)._ensure()
    guest.unlink()
    watch = of_try(1, "sites", "sites")
    watch._ensure()
    for _ in range(3):
        assert watch._look() is None
    assert links.linked(wiring.stream_paths("flights")) == ["flights"]
    host.runs.clear()
    host.ends["flights"] = "finished"
    assert is_taken(watch._look(), "finished")


def test_a_task_that_moves_to_a_log_takes_no_end_of_that(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, left = Host(monkeypatch), [1, 1]
    guest, really = wiring.settings().pipelines / "sites.yaml", links.link
    (guest.parent / "trips.yaml").write_text((guest.parent / "flights.yaml").read_text())
    guest.write_text(GUEST)
    watch = of_try(1, pipeline="sites")
    watch._ensure()
    host.ends["trips"] = "gave_up"  # long ago

    def link(paths: StreamPaths, pipeline: str, wanted: Callable[[], bool]) -> bool:
        if left:
            left.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        return really(paths, pipeline, wanted)

    monkeypatch.setattr("penstock_airflow.triggers.link", link)
    guest.write_text(GUEST.replace("flights", "trips"))
    for _ in range(2):
        assert watch._look() is None
    assert host.done == ["start flights", "stop flights: moved", "start trips"]


def test_a_task_that_comes_while_the_host_stops_starts_it_then(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, watch = Host(monkeypatch), trigger()
    host.ends["flights"] = "stopping by user"
    with monkeypatch.context() as patched:
        patched.setattr("penstock_airflow.triggers.control.ensure_supervisor", lambda *_: False)
        watch._ensure()
        assert watch._look() is None
    host.ends["flights"] = "stopped by user"
    assert watch._look() is None
    assert host.done == ["start flights"]


def test_a_bounded_stream_runs_again_once_what_is_damaged_is_mended(
    driver: Callable[[str], None],
) -> None:
    driver("print('done')")
    shares = shares_file(wiring.settings())

    async def scenario() -> None:
        assert isinstance(await first(trigger()), TaskSuccessEvent)
        shares.write_text("{")
        watch = asyncio.create_task(first(trigger()))
        await asyncio.sleep(1)
        assert not watch.done()
        assert (status().state, status().said["incarnation"]) == ("finished", 1)
        shares.unlink()
        assert isinstance(await watch, TaskSuccessEvent)

    asyncio.run(scenario())
    assert status().said["incarnation"] == 2
