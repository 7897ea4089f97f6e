"""Doubles that work and remember: clocks, Spark's state without a JVM, and death."""

import pickle
import random
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.lake.storage.commit import Table

NOON = datetime(2024, 3, 2, 12, tzinfo=UTC)


@dataclass
class FixedClock:
    """Stands still until it is moved."""

    instant: datetime = NOON

    def now(self) -> datetime:
        return self.instant

    def move(self, span: timedelta) -> None:
        self.instant += span


@dataclass
class RisingClock:
    """Every look is a millisecond after the one before."""

    instant: datetime = NOON

    def now(self) -> datetime:
        self.instant += timedelta(milliseconds=1)
        return self.instant


@dataclass
class RecordingPulse:
    """What a stream host tells its supervisor, and whether it is to stop."""

    stop_when: Callable[["RecordingPulse"], bool] = lambda _: False
    figures: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)

    def beat(self, *, step: str | None = None, **figures: Any) -> None:
        (self.figures if step is None else self.steps.setdefault(step, {})).update(figures)

    def forget(self, step: str) -> None:
        self.steps.pop(step, None)

    def works(self, sealed: int) -> None:
        self.figures["sealed"] = sealed

    def fail(self, error: str) -> None:
        self.figures["error"] = error

    def should_stop(self) -> bool:
        return self.stop_when(self)


def by_script(script: Generator[bool], patience: float = 240.0) -> Callable[[RecordingPulse], bool]:
    """Stops a host when a script has ended, of which each beat does a part.

    What waits at one line for longer than ``patience``, s, fails there.
    """
    line, since = 0, time.monotonic()

    def ended(pulse: RecordingPulse) -> bool:
        nonlocal line, since
        if next(script, True):
            return True
        if line != (now := script.gi_frame.f_lineno):
            line, since = now, time.monotonic()
        waited = time.monotonic() - since
        said = f"line {line} waits for {waited:.0f} s: {pulse.figures} {pulse.steps}"
        assert waited < patience, said
        return False

    return ended


def _plain(value: Any) -> Any:
    """Values cross to the JVM by pickle: only plain Python values survive that."""
    for part in value:
        assert type(part) in {int, bytes, str, float, bool}, f"{type(part)} is not plain"
    return pickle.loads(pickle.dumps(value))  # noqa: S301


class FakeMap:
    """A map state; removing what is not there is an error of the caller."""

    def __init__(self, content: dict[Any, Any]) -> None:
        self._content = content

    def getValue(self, key: Any) -> Any:  # noqa: N802  Spark's name
        return self._content.get(_plain(key))

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self._content[_plain(key)] = _plain(value)

    def removeKey(self, key: Any) -> None:  # noqa: N802
        del self._content[_plain(key)]

    def clear(self) -> None:
        self._content.clear()


class FakeHandle:
    """The states of one key, by name; ``content`` is all there is to keep."""

    def __init__(self, content: dict[str, dict[Any, Any]]) -> None:
        self.content = content

    def getMapState(self, name: str, key: str, value: str) -> FakeMap:  # noqa: N802
        return FakeMap(self.content.setdefault(name, {}))


class Killed(BaseException):
    """The process died; nothing may catch it on the way out."""


@dataclass
class Death:
    """Kills before or after a commit, by chance; ``share`` 0 spares."""

    draw: random.Random
    share: float = 0.0
    kills: int = 0

    def __call__(self) -> None:
        if self.draw.random() < self.share:
            self.kills += 1
            raise Killed


def dies_at(moment: int) -> Callable[[], None]:
    """Kills at its so manieth call, counted from one; 0 spares."""
    calls = count(1)

    def death() -> None:
        if next(calls) == moment:
            raise Killed

    return death


@contextmanager
def deadly_commits(death: Callable[[], None]) -> Iterator[None]:
    """Every commit to a table may be the last thing a process does, or the first it does not."""
    swap = Table.swap

    def wrapped(self: Table, *arguments: Any) -> None:
        death()
        swap(self, *arguments)
        death()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "swap", wrapped)
        yield


def lose_memory(folder: Path, how: str) -> None:
    """Lose Spark's offset log or its newest entry, its commits and state, or a checkpoint."""
    if how == "newest":
        numbered = (path for path in (folder / "offsets").glob("*") if path.name.isdigit())
        logged = sorted(numbered, key=lambda path: int(path.name))
        for path in logged[-1:]:
            path.unlink()
        return
    names = {"offsets": ["offsets"], "commits": ["commits", "state"], "all": [""]}[how]
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)


ONE_CORE: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))
"""A session that nobody asks for more than its cores."""
