"""Processes that a test starts."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def killed_at_end(process: "subprocess.Popen[bytes]") -> "Iterator[subprocess.Popen[bytes]]":
    """One that leads a session of its own: it and its group are killed, if they still run."""
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
