"""Which process is which: a pid is given again, a pid with its birth is not."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_POLL_SECONDS = 0.05
_KILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, for ever: no later process equals it."""

    pid: int
    birth: str  # opaque: boot of the machine, then the start within it


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has this pid now; None when none runs (a zombie does not run)."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return ProcessIdentity(pid, f"{boot()}/{_start_of(process)}")
    except (psutil.NoSuchProcess, OSError):
        return None


def is_alive(process: ProcessIdentity) -> bool:
    """Whether exactly this process still runs."""
    return identify(process.pid) == process


def boot() -> str:
    """Names the machine's present boot."""
    if sys.platform == "linux":
        return _BOOT.read_text().strip()
    return str(int(psutil.boot_time()))


def session_members(leader: ProcessIdentity) -> list[int]:
    """Pids that run in the session that ``leader`` opened, also when the leader is gone.

    The kernel gives no pid again while a session bears it: another process under the leader's
    pid proves that the session is empty.
    """
    present = identify(leader.pid)
    if (present is not None and present != leader) or not leader.birth.startswith(boot()):
        return []
    return [pid for pid in psutil.pids() if _session_of(pid) == leader.pid and identify(pid)]


def send(pid: int, number: int) -> None:
    """Send a signal; a process that is gone already is no error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def kill_session(leader: ProcessIdentity) -> None:
    """SIGKILL to every member of a session; returns when they are gone (at most 10 s)."""
    deadline = time.monotonic() + _KILL_SECONDS
    while (members := session_members(leader)) and time.monotonic() < deadline:
        for pid in members:
            send(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def wait_until_gone(process: ProcessIdentity, limit: timedelta) -> bool:
    """Wait for the end of a process; False when it outlives ``limit``."""
    deadline = time.monotonic() + limit.total_seconds()
    while is_alive(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _start_of(process: psutil.Process) -> str:
    if sys.platform == "linux":  # ticks since boot: a corrected clock does not move them
        status = Path(f"/proc/{process.pid}/stat").read_text()
        return status.rpartition(")")[2].split()[19]
    return str(process.create_time())


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
