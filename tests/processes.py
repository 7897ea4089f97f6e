"""Processes that a test starts."""

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import psutil


@contextmanager
def killed_at_end(process: "subprocess.Popen[bytes]") -> "Iterator[subprocess.Popen[bytes]]":
    """One that leads a session of its own: it and its group are killed, if they still run."""
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def signal_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Those that have ended meanwhile need none."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
