"""Files that are either as they were or as they are to be, whoever dies meanwhile."""

import os
import threading
from pathlib import Path


def written(file: Path, content: bytes) -> Path:
    """A fresh file of this thread's beside one whose place it is to take, synced."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    with fresh.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    return fresh


def take_place(fresh: Path, file: Path) -> None:
    """Let a fresh file take its place, which lasts before anything that is done after it."""
    fresh.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_whole(file: Path, content: bytes) -> None:
    """Replace what a file holds."""
    take_place(written(file, content), file)


def alike(one: Path, other: Path) -> bool:
    """Whether two files hold the same; not if one is gone."""
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False
