"""The files by which the supervisor, the driver and everybody else know of one stream.

Standard library only: the supervisor runs without site-packages. Every file is replaced as a
whole, so a reader sees the former content or the new one; but for the mark in a link, which is
written where the link lies, so that none comes back (``links.mark``). Who is alive is said by locks
alone, because the kernel gives them up however a process ends.
"""

import fcntl
import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core.crash import reached


@dataclass(frozen=True, slots=True)
class StreamPaths:
    """File names of one stream.

    Attributes:
        folder: ``settings.streams``.
        name: the pipeline.
    """

    folder: Path
    name: str

    @property
    def supervisor_lock(self) -> Path:
        """Held by the supervisor as long as it lives; taken by whoever starts one."""
        return self.folder / f"{self.name}.supervisor.lock"

    @property
    def supervisor(self) -> Path:
        """What the supervisor last said."""
        return self.folder / f"{self.name}.supervisor.json"

    @property
    def spec(self) -> Path:
        """What the supervisor was asked to run."""
        return self.folder / f"{self.name}.spec.json"

    @property
    def start(self) -> Path:
        """Which incarnation is being started, by which supervisor; written before the driver."""
        return self.folder / f"{self.name}.start.json"

    @property
    def driver_lock(self) -> Path:
        """Held by the driver as long as it lives."""
        return self.folder / f"{self.name}.driver.lock"

    @property
    def driver(self) -> Path:
        """The driver's heartbeat and figures."""
        return self.folder / f"{self.name}.driver.json"

    @property
    def stop(self) -> Path:
        """A request to stop, with its reason."""
        return self.folder / f"{self.name}.stop"

    @property
    def wish(self) -> Path:
        """What a stream runner is to keep running; there as long as it is wanted."""
        return self.folder / f"{self.name}.wish.json"

    @property
    def mark(self) -> str:
        """Value of PENSTOCK_MARK in the environment of everything started for this stream."""
        return str(self.folder / self.name)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a file as a whole."""
    new = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    reached("before status", path.name)
    new.write_text(json.dumps(content), encoding="utf-8")
    hand_over(new)
    new.replace(path)
    reached("after status", path.name)


def hand_over(path: Path) -> None:
    """Give what root has made to the owner of its folder, who must be able to read it."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def read_json(path: Path) -> dict[str, Any]:
    """Content of a file; empty when there is none or when it is not what we write."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def take_lock(path: Path, patience: float = 0.3) -> int | None:
    """Descriptor of a lock file we now hold, or None: somebody else does.

    Args:
        path: the lock file; it is created and never removed.
        patience: seconds to go on trying, because ``is_held`` takes a lock for an instant.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(descriptor)
                return None
            time.sleep(0.02)
        else:
            return descriptor


def is_held(path: Path) -> bool:
    """Whether a living process holds a lock file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
