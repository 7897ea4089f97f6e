"""A stream task while files of pipelines cannot be read: nobody is gone, nothing is for good."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from watched import Host, trigger

from penstock.config.catalog import Catalog
from penstock.config.kept import catalog_to_run, kept_file
from penstock.config.shares import shares_file
from penstock.runtime.streams import links
from penstock_airflow import wiring
from penstock_airflow.triggers import StreamTrigger

pytestmark = pytest.mark.airflow

GUEST = """source: {pipeline: flights}
steps:
  hourly: {keys: [site], window: {size: PT1H}, measures: {n: count(*)}, slack: {fixed: PT1M}}
"""


@contextmanager
def unreadable(monkeypatch: pytest.MonkeyPatch, *files: Path, wrong: int) -> Iterator[None]:
    really = Path.read_text

    def read_text(self: Path, encoding: str | None = None, errors: str | None = None) -> str:
        if self in files:
            raise OSError(wrong, "a passing error", str(self))
        return really(self, encoding, errors)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", read_text)
        yield


def both(guest: Path) -> list[StreamTrigger]:
    """The tasks of a log's pipeline and of its guest; the host runs."""
    guest.write_text(GUEST)
    wiring.catalog()  # which Airflow parses, and keeps
    watches = [trigger("flights"), trigger(guest.stem)]
    for watch in watches:
        watch._ensure()
    return watches


@pytest.mark.parametrize("wrong", [errno.EIO, errno.ESTALE, errno.EMFILE])
def test_a_guest_whose_files_cannot_be_read_for_a_look_stays(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    host, settings = Host(monkeypatch), wiring.settings()
    file, paths = settings.pipelines / "sites.yaml", wiring.stream_paths("flights")
    watches = both(file)
    digest = watches[1]._digest
    (settings.pipelines / "other.yaml").write_text(GUEST)  # so everybody reads again
    with unreadable(monkeypatch, file, kept_file(settings, "sites"), wrong=wrong):
        for watch in watches:
            assert watch._look_if_it_can() is None
        assert links.linked(paths) == ["flights", "sites"]
    for watch in watches:
        assert watch._look() is None
    assert (links.linked(paths), host.done) == (["flights", "sites"], ["start flights"])
    assert watches[1]._digest == digest, "it is known again, and no file has changed"


def test_a_guest_whose_file_was_never_kept_stays_while_that_has_problems(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, settings = Host(monkeypatch), wiring.settings()
    file, paths = settings.pipelines / "sites.yaml", wiring.stream_paths("flights")
    watches = both(file)
    kept_file(settings, "sites").unlink()
    file.write_text("source: [")
    for watch in watches * 2:
        assert watch._look() is None
    assert (links.linked(paths), host.done) == (["flights", "sites"], ["start flights"])
    host.runs.clear()
    watches[1]._look()
    assert host.done == ["start flights"], "nobody may start it as it was"


def test_nobody_is_gone_with_the_folder_of_files(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a volume is not mounted for a while."""
    host, folder = Host(monkeypatch), wiring.settings().pipelines
    paths, watches = wiring.stream_paths("flights"), both(folder / "sites.yaml")
    away = folder.rename(folder.with_name("away"))
    for watch in watches * 2:
        assert watch._look() is None
    assert links.linked(paths) == ["flights", "sites"]
    away.rename(folder)
    for watch in watches * 2:
        assert watch._look() is None
    assert (links.linked(paths), host.done) == (["flights", "sites"], ["start flights"])
    for watch in watches:
        host.runs.clear()
        host.done.clear()
        assert watch._look() is None
        assert host.done == ["start flights"], "and is started again once it dies"


def test_who_is_out_of_force_is_not_read_at_every_look(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, really, read = Host(monkeypatch), wiring.catalog, list[int]()
    file = wiring.settings().pipelines / "sites.yaml"
    file.write_text("source: [")
    wiring.catalog()

    def catalog() -> Catalog:
        read.append(1)
        return really()

    monkeypatch.setattr(wiring, "catalog", catalog)
    watch = trigger("sites")
    watch._ensure()
    for _ in range(5):
        assert watch._look() is None
    assert (len(read), host.done) == (1, [])
    file.write_text(GUEST)
    assert watch._look() is None
    assert host.done == ["start flights"]


def test_an_edit_that_could_not_be_read_when_it_was_made_is_followed_after_a_while(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept stands in for it, so all seems well; the error passes, and no file changes."""
    monkeypatch.setattr("penstock.runtime.streams.reading.AGAIN_SECONDS", 0.0)
    host, file = Host(monkeypatch), wiring.settings().pipelines / "flights.yaml"
    wiring.catalog()
    watch = trigger()
    watch._ensure()
    file.write_text(file.read_text().replace("skew: PT5M", "skew: PT9M"))
    with unreadable(monkeypatch, file, wrong=errno.EIO):
        watch._look()
    assert host.done == ["start flights"]
    watch._look()
    assert host.done == ["start flights", "stop flights: respec"]


OVER = """source: {pipeline: flights, step: sightings_per_site}
columns: {site: string, %s: long}
steps:
  s: {keys: [site], window: {size: P1D}, measures: {n: count(*)}}
"""


def test_what_is_remembered_of_logs_is_followed_before_a_file_changes(
    driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged, it holds nobody up; deleted, each has a log by its own name again."""
    host, settings = Host(monkeypatch), wiring.settings()
    for columns in ("n_records", "sightings"):  # two stays where both were
        for name in ("one", "two"):
            said = OVER % (columns if name == "one" else "n_records")
            (settings.pipelines / f"{name}.yaml").write_text(said)
        catalog_to_run(settings)
    watch, shares = trigger("two"), shares_file(settings)
    watch._ensure()
    good = shares.read_bytes()
    for said in (b"{", good):
        shares.write_bytes(said)
        assert watch._look() is None
        assert host.done == ["start one"]
    shares.unlink()
    assert watch._look() is None
    assert host.done == ["start one", "stop one: moved", "start two"]
