"""Looks that leave out what they have nothing new to say of say what looks at everything say."""

import json
import os
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.core.errors import ConfigError, TransientError
from penstock.core.step import ONLY
from penstock.lake.ingest import known, source
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.listing import Found
from penstock.lake.ingest.source import Waiting
from penstock.lake.log.blocks import LIVE
from tests.doubles import RisingClock
from tests.gates import Gate, T, finish
from tests.rarely import rare

OLD = 1_700_000_000


def text(draw: Random) -> str:
    """Few different contents: files of one content are to be told apart, too."""
    codes = [draw.randrange(4) for _ in range(draw.randint(1, 3))]
    return "".join(f"{json.dumps({'event_time': T, 'site': 'x', 'code': c})}\n" for c in codes)


class Folder:
    """A folder that is edited at random."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home, self.live = home, home / "live"
        self.draw = Random(seed)  # noqa: S311
        self.number = 0
        self.live.mkdir()
        (home / "aside").mkdir()

    def some(self) -> Path | None:
        files = sorted(p for p in self.live.rglob("*.jsonl") if p.is_file())
        return self.draw.choice(files) if files else None

    def name(self) -> Path:
        """A name, new or one that was there."""
        self.number += self.draw.random() < 0.7
        path = self.live / self.draw.choice(["", "a", "b/c"]) / f"{self.number % 40}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def new(self) -> None:
        for _ in range(self.draw.randint(1, 4)):
            path = self.name()
            if not path.exists():
                path.write_text(text(self.draw))
                at = OLD + self.draw.randrange(3)
                os.utime(path, (at, at))

    def change(self, path: Path) -> None:
        at = OLD + self.draw.randrange(3)
        self.draw.choice([
            lambda: path.write_text(path.read_text() + text(self.draw)),
            lambda: os.utime(path, (at, at)),
            lambda: self._replace(path, text(self.draw)),
            lambda: self._free(path.rename, self.name()),
            lambda: self._free(lambda new: os.link(path, new), self.name()),
            lambda: self._free(lambda new: new.symlink_to(path), self.name()),
            path.unlink,
            lambda: self._exchange(path),
            lambda: self._put_back(path),
        ])()  # fmt: skip

    def _exchange(self, path: Path) -> None:
        other = self.some()
        if other is not None and other != path:
            path.rename(self.home / "aside" / "x")
            other.rename(path)
            (self.home / "aside" / "x").rename(other)

    def _put_back(self, path: Path) -> None:
        shutil.copy2(path, self.home / "aside" / "y")
        (self.home / "aside" / "y").rename(path)

    @staticmethod
    def _replace(path: Path, content: str) -> None:
        path.with_name(".new").write_text(content)
        path.with_name(".new").rename(path)

    @staticmethod
    def _free(act: Any, new: Path) -> None:
        if not os.path.lexists(new):
            act(new)

    def edit(self) -> None:
        for _ in range(self.draw.randint(0, 3)):
            path = self.some()
            if path is None or self.draw.random() < 0.5:
                self.new()
            else:
                self.change(path)


def state(waiting: Waiting) -> Any:
    """All that a look says."""
    waiting._asked, waiting._missed = None, []  # list it anew
    waiting.queue.clear()
    try:
        items = [(i.path, i.real, i.size, i.first, i.head) for i in waiting.items()]
    except TransientError as away:
        items = [str(away)]
    missing = sorted(had.place for some in waiting._missing for had in some)
    found = {what: sorted(some) for what, some in waiting.notices.found.items() if some}
    return items, waiting.changed, waiting.emptied, missing, found


@pytest.mark.parametrize("order", ["name", "modified"])
@pytest.mark.parametrize("seed", [0, 1, 2, *(rare(n) for n in range(3, 25))])
def test_a_look_at_what_came_says_what_a_look_at_everything_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, order: str
) -> None:
    monkeypatch.setattr(source, "FILES_PER_PLAN", 3)
    folder = Folder(tmp_path, seed)
    folder.new()
    gate = Gate(tmp_path, "jsonl", source={"mode": "bounded", "order": order})
    door, compared = gate.door(), Counter[bool]()
    for _ in range(24):
        for _ in range(4):
            try:
                if door.work() < 0:
                    break
            except TransientError:
                break
        folder.edit()
        if folder.draw.random() < 0.15 and (path := folder.some()) is not None:
            with suppress(ConfigError):  # there may be nothing to accept
                Amendment(gate.tables, gate.pipeline, tmp_path, RisingClock()).accept(str(path), "")
            door._catch_up()
            door._decided()
        running = door._streams[ONLY].waiting[LIVE]
        told = state(running)
        if folder.draw.random() < 0.4:  # what was left out goes on from look to look
            left_out = len(running.known.keys.settled._files)
            running.known.keys.look_at_all()
            assert told == state(running), "as if everything was looked at"
            compared[left_out > 0] += 1
    assert compared[True]


def test_of_a_folder_to_which_one_file_came_only_that_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "live"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}.jsonl").write_text(f'{{"event_time": "{T}", "code": {number}}}\n')
    gate = Gate(tmp_path, "jsonl", source={"mode": "live"})
    door = gate.door()
    finish(door)
    looked: list[int] = []
    look = known.Known.look

    def counted(self: known.Known, files: list[Found]) -> Any:
        looked.append(len(files))
        return look(self, files)

    monkeypatch.setattr(known.Known, "look", counted)
    (folder / "new.jsonl").write_text(f'{{"event_time": "{T}", "code": 1000}}\n')
    assert door.work() == 1
    finish(door)
    door.work()
    assert looked[0] <= 2
    assert max(looked) <= 2
    assert looked[-1] == 0
