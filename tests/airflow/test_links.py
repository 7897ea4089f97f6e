"""Links of pipelines to a host, as triggers make and take them, over a real supervisor."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from airflow.triggers.base import TaskFailedEvent, TaskSuccessEvent
from watched import RUNS, Host, first, status, trigger, until

from penstock.config.kept import catalog_to_run
from penstock.config.shares import shares_file
from penstock.runtime.streams import control, links
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.processes import kill_marked
from penstock_airflow import wiring
from penstock_airflow.triggers import StreamTrigger

pytestmark = pytest.mark.airflow

GUEST = """source: {pipeline: flights}
steps:
  hourly: {keys: [site], window: {size: PT1H}, measures: {n: count(*)}, slack: {fixed: PT1M}}
"""


def test_pipelines_on_one_log_share_its_host_until_the_last_one_leaves(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_airflow.triggers.GRACE_SECONDS", 0.3)
    driver(RUNS)
    (wiring.settings().pipelines / "sites.yaml").write_text(GUEST)
    paths = wiring.stream_paths("flights")

    async def scenario() -> None:
        first_one, second = trigger("sites"), trigger()
        watches = [asyncio.create_task(first(each)) for each in (first_one, second)]
        pid = await until(lambda: status().driver.get("pid"))
        await until(lambda: links.linked(paths) == ["flights", "sites"])
        await second.on_kill()
        watches[1].cancel()
        assert links.linked(paths) == ["sites"]
        await trigger("sites").on_kill()  # of the try before: ours links it again
        await until(lambda: links.linked(paths) == ["sites"] and status().state == "running")
        links.link(paths, "flights")
        links.unlink(paths.folder, "sites", "a former try")
        assert links.linked(paths) == ["flights"], "the host goes on"
        await until(lambda: links.linked(paths) == ["flights", "sites"])
        links.unlink(paths.folder, "flights", "marked")
        await first_one.on_kill()
        await until(lambda: status().state == "stopped")
        assert links.linked(paths) == []
        assert pid
        watches[0].cancel()

    asyncio.run(scenario())


OVER = """source: {pipeline: flights, step: sightings_per_site}
columns: {site: string, %s: long}
steps:
  s: {keys: [site], window: {size: P1D}, measures: {n: count(*)}}
"""


def test_a_pipeline_over_answers_moves_to_another_log_and_leaves_the_host_to_others(
    driver: Callable[[str], None],
) -> None:
    driver(RUNS)
    files, ends = wiring.settings().pipelines, list[str]()
    for name in ("one", "two"):
        (files / f"{name}.yaml").write_text(OVER % "n_records")
    shared, own = wiring.stream_paths("one"), wiring.stream_paths("one~2")

    def runs(paths: StreamPaths) -> bool:
        return control.status(paths).state == "running"

    async def scenario() -> None:
        catalog_to_run(wiring.settings())
        watches = [asyncio.create_task(first(trigger(name))) for name in ("one", "two")]
        await until(lambda: links.linked(shared) == ["one", "two"] and runs(shared))
        pid = control.status(shared).driver["pid"]
        (files / "one.yaml").write_text(OVER % "sightings")
        catalog_to_run(wiring.settings())
        await until(lambda: links.linked(own) == ["one"] and runs(own))
        assert links.linked(shared) == ["two"]
        assert (control.status(shared).driver["pid"], shared.stop.exists()) == (pid, False)
        (files / "two.yaml").write_text(OVER % "sightings")
        await until(lambda: links.linked(own) == ["one", "two"])
        await until(lambda: control.status(shared).state == "stopped")
        ends.extend(links.linked(shared))
        for watch in watches:
            watch.cancel()

    asyncio.run(scenario())
    assert ends == []
    kill_marked(own.mark, set())
    kill_marked(shared.mark, set())


@pytest.mark.parametrize("order", [1, -1])
def test_whose_file_is_gone_leaves_the_host_to_the_others(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    host, files = Host(monkeypatch), wiring.settings().pipelines
    log, guest, paths = files / "flights.yaml", files / "sites.yaml", wiring.stream_paths("flights")
    guest.write_text(GUEST)
    watches = [trigger("flights"), trigger("sites")][::order]
    for watch in watches:
        watch._ensure()
    assert links.linked(paths) == ["flights", "sites"]
    guest.unlink()
    log.write_text(log.read_text().replace("skew: PT5M", "skew: PT9M"))
    for watch in watches * 4:
        assert watch._look() is None
    assert links.linked(paths) == ["flights"]
    assert host.done == ["start flights", "stop flights: respec", "start flights"]
    digest = wiring.catalog().pipeline("flights").log_digest
    assert host.runs["flights"] == wiring.stream_spec("flights", digest)
    guest.write_text(GUEST)
    for watch in watches:
        watch._look()
    assert links.linked(paths) == ["flights", "sites"], "it is there again"
    assert len(host.done) == 3


def test_a_host_that_nobody_else_needs_goes_on_without_the_file_and_is_not_started_again(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, file = Host(monkeypatch), wiring.settings().pipelines / "flights.yaml"
    said, watch = file.read_text(), trigger()
    watch._ensure()
    file.unlink()
    for _ in range(3):
        watch._look()
    assert links.linked(wiring.stream_paths("flights")) == ["flights"]
    assert host.done == ["start flights"]
    host.runs.clear()  # it was killed
    for _ in range(3):
        watch._look()
    assert host.done == ["start flights"], "it would end at once: nobody says what it is"
    file.write_text(said)
    watch._look()
    assert host.done == ["start flights"] * 2


@pytest.mark.parametrize(
    ("end", "event"),
    [
        ("finished", TaskSuccessEvent),
        ("gave_up", TaskFailedEvent),
        ("stopped by user", TaskSuccessEvent),
    ],
)
def test_who_ends_with_the_host_takes_its_link_along_and_no_other(
    driver: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    event: type[TaskSuccessEvent | TaskFailedEvent],
) -> None:
    host, paths = Host(monkeypatch), wiring.stream_paths("flights")
    (wiring.settings().pipelines / "sites.yaml").write_text(GUEST)
    log, guest = trigger("flights"), trigger("sites")
    for watch in (log, guest):
        watch._ensure()
    host.runs.clear()
    host.ends["flights"] = end
    assert isinstance(log._look(), event)
    assert links.linked(paths) == ["sites"], "its own trigger takes it"
    assert isinstance(guest._look(), event)
    assert links.linked(paths) == []
    trigger("sites")._ensure()
    assert (host.done[1:], links.linked(paths)) == (["start flights"], ["sites"])
    links.unlink(paths.folder, "sites", "marked")
    assert host.done[2:] == ["stop flights: marked"], "it was the only one"


def test_who_cannot_read_yet_on_which_log_it_stands_moves_nothing_and_starts_nothing(
    driver: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(StreamTrigger, "log", logging.getLogger("the task"))
    host, paths = Host(monkeypatch), wiring.stream_paths("flights")
    (wiring.settings().pipelines / "sites.yaml").write_text(GUEST)
    catalog_to_run(wiring.settings())
    for name in ("flights", "sites"):
        trigger(name)._ensure()
    host.runs.clear()
    shares = shares_file(wiring.settings())
    good = shares.read_bytes()
    shares.write_text("{")
    watch = trigger("sites")  # of a triggerer that starts now
    watch._ensure()
    for _ in range(3):
        assert watch._look() is None
    assert (links.linked(paths), host.done) == (["flights", "sites"], ["start flights"])
    assert caplog.text.count("shares.json is damaged") == 1
    shares.write_bytes(good)
    watch._look()
    assert (links.linked(paths), host.done) == (["flights", "sites"], ["start flights"] * 2)


def test_a_triggerer_that_starts_after_the_file_is_gone_finds_the_link(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, paths = Host(monkeypatch), wiring.stream_paths("flights")
    guest = wiring.settings().pipelines / "sites.yaml"
    guest.write_text(GUEST)
    for name in ("flights", "sites"):
        trigger(name)._ensure()
    guest.unlink()
    watch = trigger("sites")
    watch._ensure()
    assert watch._look() is None
    assert (links.linked(paths), host.done) == (["flights"], ["start flights"])
