"""One writer at a time: a lock file between processes, a mutex inside this one."""

import fcntl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.core.errors import TransientError

# Great Expectations keeps its current project in module state: one validation at a time here.
_IN_PROCESS = threading.Lock()
_PAUSE_SECONDS = 0.05


class ReportsBusyError(TransientError):
    """Another audit of the pipeline holds the reports."""

    def __init__(self, path: Path, waited_seconds: float) -> None:
        self.path, self.waited_seconds = path, waited_seconds
        super().__init__(
            f"{path} was held by another audit for {waited_seconds:.0f} s. Wait until that audit"
            " ends, then try again; a lock of a dead process frees itself."
        )


@contextmanager
def locked(path: Path, *, patience_seconds: float) -> Iterator[None]:
    """Hold the lock file ``path``.

    Raises:
        ReportsBusyError: somebody else held it all the time.
    """
    give_up = time.monotonic() + patience_seconds
    if not _IN_PROCESS.acquire(timeout=patience_seconds):
        raise ReportsBusyError(path, patience_seconds)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            while not _taken(file.fileno()):
                if time.monotonic() > give_up:
                    raise ReportsBusyError(path, patience_seconds)
                time.sleep(_PAUSE_SECONDS)
            yield  # closing the file gives the lock back
    finally:
        _IN_PROCESS.release()


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
