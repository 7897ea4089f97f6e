"""A folder to which nothing came is not listed again, and whatever comes is taken at once."""

import os
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.lake.ingest import quiet, whereabouts
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.reading import SourceError
from penstock.lake.log.files import Decided
from tests.gates import Gate, T

LINE = f'{{"event_time": "{T}", "site": "x"}}\n'


class Polled:
    """A live door whose listings are counted, by a clock that a test turns."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.listings, self.takes = 1_000.0, 0, 0.01
        real = whereabouts.listed

        def listed(*arguments: Any) -> Any:
            self.listings += 1
            self.now += self.takes
            return real(*arguments)

        monkeypatch.setattr(whereabouts, "listed", listed)
        monkeypatch.setattr(quiet, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.folder = home / "live"
        (self.folder / "deep" / "deeper").mkdir(parents=True)
        (self.folder / "a.jsonl").write_text(LINE)
        self.gate = Gate(home, "jsonl", source={"mode": "live", "idle_after": "PT10M"})
        self.door: Door = self.gate.door()

    def poll(self, after: float = 0.2) -> tuple[int, int]:
        """Records taken, and how often the folder was listed for it."""
        self.now += after
        before, taken = self.listings, 0
        while (received := self.door.work()) >= 0:
            taken += received
        return taken, self.listings - before

    def settle(self) -> None:
        """Nothing has come for some seconds, and the folder was listed since."""
        self.poll()
        self.poll(quiet.SETTLED + 1)
        assert self.poll(0.01) == (0, 0)


@pytest.fixture
def polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Polled:
    found = Polled(tmp_path, monkeypatch)
    assert found.poll() == (1, 2), "once with the file, once without"
    return found


def test_a_folder_is_listed_until_its_time_is_old_enough_to_trust(polled: Polled) -> None:
    for _ in range(10):
        assert polled.poll() == (0, 1)
    polled.settle()


@pytest.mark.parametrize("place", [".", "deep", "deep/deeper", "new"])
def test_a_file_that_comes_is_taken_at_once(polled: Polled, place: str) -> None:
    polled.settle()
    (polled.folder / place).mkdir(exist_ok=True)
    (polled.folder / place / "b.jsonl").write_text(LINE)
    assert polled.poll(0.01)[0] == 1
    assert len(polled.gate.rows("events")) == 2


def test_a_file_that_comes_in_the_tick_of_a_listing_is_taken(polled: Polled) -> None:
    """The folder's time says nothing: it is set back to what it was."""
    about = polled.folder.stat()
    (polled.folder / "b.jsonl").write_text(LINE)
    os.utime(polled.folder, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert polled.poll(0.01)[0] == 1


def test_whatever_the_folders_say_it_is_listed_now_and_then(polled: Polled) -> None:
    polled.settle()
    assert polled.poll(0.1) == (0, 0)
    assert polled.poll(quiet.SHARE * polled.takes) == (0, 1)


def test_a_folder_that_takes_long_to_list_is_listed_for_a_twentieth_of_the_time(
    polled: Polled,
) -> None:
    polled.takes = 2.0
    polled.poll()
    polled.poll(quiet.SETTLED + 1)
    began, before = polled.now, polled.listings
    for _ in range(1_000):
        polled.poll()
    assert (polled.listings - before) * polled.takes <= (polled.now - began) / 19


def test_a_folder_that_was_exchanged_by_a_link_is_listed(polled: Polled, tmp_path: Path) -> None:
    polled.folder.rename(tmp_path / "one")
    polled.folder.symlink_to(tmp_path / "one")
    polled.settle()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "c.jsonl").write_text(LINE * 2)
    polled.folder.unlink()
    polled.folder.symlink_to(tmp_path / "two")
    assert polled.poll(0.01) == (2, 2)


def test_what_a_person_decides_is_looked_at(polled: Polled) -> None:
    polled.settle()
    for waiting in polled.door._sources:
        waiting.decide(Decided())
    assert polled.poll(0.01) == (0, 1)


def test_before_a_source_is_called_idle_it_is_listed(polled: Polled) -> None:
    polled.settle()
    polled.gate.clock.move(timedelta(minutes=11))
    before = polled.listings
    polled.now += 0.01
    polled.door.work()
    assert polled.listings == before + 1
    assert polled.gate.rows("blocks")[-1]["kind"] == "idle"


def test_a_folder_that_is_away_is_said(polled: Polled, tmp_path: Path) -> None:
    polled.settle()
    polled.folder.rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="live"):
        polled.poll(0.01)


def test_while_a_link_leads_nowhere_what_it_stands_for_is_looked_for(
    polled: Polled, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (polled.folder / "b.jsonl").symlink_to(tmp_path / "outside" / "b.jsonl")
    for after in (0.2, quiet.SETTLED + 1, 0.01):
        with pytest.raises(SourceError):
            polled.poll(after)
    (tmp_path / "outside" / "b.jsonl").write_text(LINE)
    assert polled.poll(0.01)[0] == 1
