"""Executors that a node's end finds while they start: each is told once, and not too early."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from penstock.runtime.cluster.executors import PROGRAM, REGISTERS, Farewell, executors_of

CHILD = """
import signal, sys
if sys.argv[2] == "listens":
    signal.signal(signal.SIGPWR, lambda *_: print("told", flush=True))
print("up", flush=True)
for line in sys.stdin:
    signal.signal(signal.SIGPWR, lambda *_: print("told", flush=True))
    print("listens", flush=True)
"""


@contextmanager
def executor(how: str, folder: Path | None = None) -> Iterator["subprocess.Popen[str]"]:
    """A process with an executor's name, below this one; its log is in its folder."""
    words = (sys.executable, "-c", CHILD, PROGRAM, how)
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    ) as process:
        try:
            assert said(process) == "up"
            yield process
        finally:
            process.kill()


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def begin_to_listen(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    print(file=process.stdin, flush=True)
    assert said(process) == "listens"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Signals that were sent, and are."""
    found: list[int] = []
    kill: Callable[[int, int], None] = os.kill

    def noted(pid: int, number: int) -> None:
        if number == signal.SIGPWR:
            found.append(pid)
        kill(pid, number)

    monkeypatch.setattr(os, "kill", noted)
    return found


def test_who_listened_hears_of_it_from_the_driver(sent: list[int]) -> None:
    with executor("listens") as process:
        farewell = Farewell(executors_of(os.getpid()))
        for now in (0.0, REGISTERS, 2 * REGISTERS):
            farewell.look(executors_of(os.getpid()), now)
        assert [e.pid for e in executors_of(os.getpid())] == [process.pid]
    assert sent == []


def test_who_listened_and_was_not_told_is_told_once(sent: list[int], tmp_path: Path) -> None:
    (tmp_path / "stderr").write_text("INFO CoarseGrainedExecutorBackend: Connecting to driver\n")
    with executor("listens", tmp_path) as process:
        farewell = Farewell(executors_of(os.getpid()))
        farewell.look(executors_of(os.getpid()), 0.0)
        assert sent == [], "its driver may be about to tell it"
        for now in (REGISTERS, 2 * REGISTERS):
            farewell.look(executors_of(os.getpid()), now)
        assert said(process) == "told"
        assert sent == [process.pid]


@pytest.mark.parametrize("log", ["stderr", "stderr--2026-11-26--10-26"])
def test_whose_log_says_that_it_was_told_is_not_told_again(
    sent: list[int], tmp_path: Path, log: str
) -> None:
    (tmp_path / "stderr").write_text("INFO Executor: Finished task\n")
    (tmp_path / log).write_text("INFO CoarseGrainedExecutorBackend: Decommission executor 3.\n")
    with executor("listens", tmp_path):
        farewell = Farewell([])
        for now in (0.0, REGISTERS, 2 * REGISTERS):
            farewell.look(executors_of(os.getpid()), now)
    assert sent == []


def test_who_starts_is_told_once_when_its_driver_knows_it(sent: list[int]) -> None:
    with executor("starts") as process:
        farewell = Farewell(executors_of(os.getpid()))
        farewell.look(executors_of(os.getpid()), 0.0)
        farewell.look(executors_of(os.getpid()), REGISTERS)
        begin_to_listen(process)
        farewell.look(executors_of(os.getpid()), 10.0)
        assert sent == [], "its driver may not know it yet"
        for now in (10.0 + REGISTERS, 11.0 + REGISTERS, 20.0 + REGISTERS):
            farewell.look(executors_of(os.getpid()), now)
        assert said(process) == "told"
        assert sent == [process.pid]


def test_one_that_comes_after_is_told(sent: list[int]) -> None:
    farewell = Farewell(executors_of(os.getpid()))
    with executor("listens") as process:
        farewell.look(executors_of(os.getpid()), 0.0)
        farewell.look(executors_of(os.getpid()), REGISTERS)
        assert said(process) == "told"
    assert sent == [process.pid]


def test_a_worker_that_has_ended_has_none() -> None:
    with executor("listens") as process:
        pass
    assert executors_of(process.pid) == []
    assert executors_of(None) == []
    assert not psutil.pid_exists(process.pid)
