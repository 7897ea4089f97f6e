import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.runtime.embedded.child import Child, ChildSpec
from penstock.runtime.embedded.logfiles import RotatingLog
from penstock.runtime.embedded.processes import (
    ProcessIdentity,
    identify,
    is_alive,
    kill_session,
    session_members,
)

SECOND = timedelta(seconds=1)
SLEEPER = "import time; print('ready', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
PARENT = (
    "import subprocess, sys, time;"
    f" subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]); time.sleep(600)"
)


def eventually(ask: Callable[[], object], seconds: float = 20.0) -> object:
    until = time.monotonic() + seconds
    while not (answer := ask()) and time.monotonic() < until:
        time.sleep(0.02)
    return answer


class Nursery:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.children: list[Child] = []

    def child(self, program: str, *, grace: timedelta = 20 * SECOND) -> Child:
        spec = ChildSpec(
            name="sleeper",
            command=(sys.executable, "-S", "-c", program),
            environment={},
            folder=self.folder,
            grace=grace,
        )
        child = Child(spec, RotatingLog(self.folder / "sleeper.log"), SystemClock())
        self.children.append(child)
        child.start()
        return child


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    for child in nursery.children:
        if child.state.identity:
            kill_session(child.state.identity)
        child.finish_stop(time.monotonic())


def identity(child: Child) -> ProcessIdentity:
    found = child.state.identity
    assert found is not None
    return found


def test_a_process_is_not_taken_for_a_later_one_with_its_pid() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert not is_alive(ProcessIdentity(me.pid, me.birth + "1"))


def test_a_zombie_does_not_run() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    try:
        assert eventually(lambda: identify(process.pid) is None)
    finally:
        process.wait()


def test_a_session_of_an_earlier_boot_has_no_members(nursery: Nursery) -> None:
    leader = identity(nursery.child(SLEEPER))
    assert session_members(leader) == [leader.pid]
    assert session_members(ProcessIdentity(leader.pid, "another-boot/1")) == []


def test_what_a_child_prints_is_in_its_log(nursery: Nursery) -> None:
    child = nursery.child(SLEEPER)
    assert eventually(lambda: "ready" in child.log.tail(1))


def test_a_child_that_was_killed_runs_again(nursery: Nursery) -> None:
    child = nursery.child(SLEEPER)
    first = identity(child)
    os.kill(first.pid, signal.SIGKILL)
    assert eventually(child.tend)
    assert child.state.status == "waiting"
    assert child.state.exit_code == -signal.SIGKILL
    assert eventually(child.tend)
    assert child.state.restarts == 1
    assert identity(child) != first


def test_a_child_that_hangs_runs_again_once_it_was_killed(nursery: Nursery) -> None:
    child = nursery.child(SLEEPER)
    first = identity(child)
    os.kill(first.pid, signal.SIGSTOP)
    assert not child.tend()
    child.kill()
    assert eventually(child.tend)
    child.kill()  # of a child that waits for its restart: nothing
    assert eventually(child.tend)
    assert identity(child) != first


def test_what_a_dead_leader_left_is_gone_before_its_successor_starts(nursery: Nursery) -> None:
    child = nursery.child(PARENT)
    leader = identity(child)
    assert eventually(lambda: len(session_members(leader)) == 2)
    os.kill(leader.pid, signal.SIGKILL)
    assert eventually(child.tend)
    assert session_members(leader) == []


def test_a_child_that_dies_at_once_is_restarted_ever_more_slowly(nursery: Nursery) -> None:
    child = nursery.child("raise SystemExit(3)")
    assert eventually(child.tend)
    died = time.monotonic()
    assert eventually(child.tend)
    assert time.monotonic() - died >= 1.0
    assert eventually(child.tend)
    died = time.monotonic()
    assert eventually(child.tend)
    assert time.monotonic() - died >= 2.0
    assert child.state.failures == 2


def test_a_child_that_is_deaf_to_the_signal_is_ended_by_force(nursery: Nursery) -> None:
    child = nursery.child(DEAF)
    assert eventually(lambda: child.log.tail(1))
    leader = identity(child)
    child.request_stop()
    child.finish_stop(time.monotonic() + 0.3)
    assert not is_alive(leader)
    assert not child.is_running
