"""Executors of a node that goes, each told of it.

A worker that is told to go tells the drivers of its executors, by the master; a driver passes it
over for an executor that has not registered with it yet (it starts because another node was just
lost, say), and then gives it tasks until it is ended by force. Such an executor is told itself.
Whom its driver has told says so in its log; that it listened does not tell: it does so a moment
before its driver knows it. Source: Spark 4.2, ``CoarseGrainedSchedulerBackend``
(``decommissionExecutors`` leaves out whom it does not know), ``CoarseGrainedExecutorBackend``.
"""

import logging
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

log = logging.getLogger(__name__)

PROGRAM = "CoarseGrainedExecutor"
HEARD = b"Decommission executor"
"""What an executor writes into its log when it is told."""
REGISTERS = 3.0
"""Seconds from when an executor listens until its driver surely knows it."""


@dataclass(frozen=True, slots=True)
class Executor:
    """A process that runs tasks for a worker.

    Attributes:
        pid: of the host.
        listens: whether SIGPWR tells it to go; before, it would die of it.
    """

    pid: int
    listens: bool

    @classmethod
    def of(cls, pid: int, caught: str) -> Self:
        """Of what the kernel says.

        Args:
            pid: its.
            caught: the signals that it catches, as a mask in hexadecimal.
        """
        return cls(pid, bool(int(caught, 16) >> (signal.SIGPWR - 1) & 1))


def executors_of(worker: int | None) -> list[Executor]:
    """Those below a worker's process; none: it has ended."""
    if worker is None:
        return []
    found = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(worker).children(recursive=True):
            with suppress(psutil.NoSuchProcess, OSError):
                if any(PROGRAM in word for word in process.cmdline()):
                    found.append(Executor.of(process.pid, _caught(process.pid)))
    return found


class Farewell:
    """Tells the executors of a worker that has been told, once each, where nobody else does.

    Twice would be wrong: of a second signal an executor dies with its tasks.

    Args:
        known: its executors when it was told; where their logs cannot be read, those that listened
            are taken to have heard of it from their drivers.
    """

    def __init__(self, known: Iterable[Executor]) -> None:
        self._listened = {each.pid for each in known if each.listens}
        self._told = set[int]()
        self._since: dict[int, float] = {}

    def look(self, executors: Iterable[Executor], now: float) -> None:
        """Tell those whose drivers know them by now.

        Args:
            executors: that are left.
            now: seconds, of a clock that goes evenly.
        """
        for each in executors:
            if each.pid in self._told or not each.listens:
                continue
            if now - self._since.setdefault(each.pid, now) >= REGISTERS:
                self._told.add(each.pid)
                heard = _heard(each.pid)
                if each.pid in self._listened if heard is None else heard:
                    continue
                try:
                    os.kill(each.pid, signal.SIGPWR)
                except OSError as failed:  # it has ended, or is another user's
                    log.warning("executor not told that it goes pid=%s: %s", each.pid, failed)


def _heard(pid: int) -> bool | None:
    """Whether an executor says in its log that it was told; none: there is no log to be read."""
    try:
        logs = [*Path(f"/proc/{pid}/cwd/").glob("stderr*")]
        return any(HEARD in log.read_bytes() for log in logs) if logs else None
    except OSError:
        return None


def _caught(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
