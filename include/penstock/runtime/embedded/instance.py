"""The one running embedded instance of a home: its lock and its published state."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from penstock.runtime.embedded.processes import ProcessIdentity, is_alive


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What the supervisor last knew of one child."""

    name: str
    status: str  # running | waiting (before a restart) | stopped
    identity: ProcessIdentity | None
    restarts: int
    failures: int  # in a row
    since: str  # ISO instant of the latest start
    exit_code: int | None
    log: str
    stop_signal: int


@dataclass(frozen=True, slots=True)
class InstanceState:
    """What the supervisor publishes about itself and its children."""

    phase: str  # starting | running | stopping | stopped | failed
    detail: str
    url: str
    since: str
    supervisor: ProcessIdentity
    processes: tuple[ProcessState, ...] = field(default=())

    @property
    def lives(self) -> bool:
        """Whether the supervisor that wrote this still runs."""
        return is_alive(self.supervisor)

    @classmethod
    def parse(cls, raw: dict[str, Any]) -> Self:
        """From the JSON form."""
        processes = tuple(
            ProcessState(**{**one, "identity": _identity(one["identity"])})
            for one in raw["processes"]
        )
        return cls(
            **{**raw, "supervisor": ProcessIdentity(**raw["supervisor"]), "processes": processes}
        )


class Instance:
    """The folder of an instance: ``lock`` and ``state.json``."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "embedded"
        self._lock = self.folder / "lock"
        self._state = self.folder / "state.json"

    def read(self) -> InstanceState | None:
        """The state last published; None when there is none that can be read."""
        try:
            return InstanceState.parse(json.loads(self._state.read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def publish(self, state: InstanceState) -> None:
        """Replace the state in one step: a reader never sees half of it."""
        fresh = self._state.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(state), indent=1))
        fresh.replace(self._state)

    @contextmanager
    def locked(self) -> Iterator[int | None]:
        """Take the lock without waiting; yields its descriptor, or None when another has it.

        The lock belongs to the open file: a child that inherits the descriptor keeps it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield descriptor
        finally:
            os.close(descriptor)


def _identity(raw: dict[str, Any] | None) -> ProcessIdentity | None:
    return ProcessIdentity(**raw) if raw else None
