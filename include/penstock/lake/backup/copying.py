"""Copying a file so that it is there as a whole and on the disk, or not at all."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from penstock.core.crash import reached
from penstock.lake.backup.manifest import KeptFile
from penstock.lake.storage.durable import sync

PIECE = 4 << 20
NEW = ".new"

Show = Callable[[int], None]
"""Is told how many bytes more were copied."""


def copied(source: Path, target: Path, path: str, show: Show = lambda _: None) -> KeptFile:
    """Copy a file to a name that it gets when it is whole and on the disk.

    Args:
        source: what is copied.
        target: the name; folders above it are made.
        path: how the manifest calls it.
        show: told of each piece.

    Raises:
        FileNotFoundError: there is no ``source``.
        OSError: the system fails at reading or writing.
    """
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as there:
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f"{target.name}{NEW}")
        with new.open("wb") as here:
            while piece := there.read(PIECE):
                digest.update(piece)
                here.write(piece)
                size += len(piece)
                show(len(piece))
            here.flush()
            os.fsync(here.fileno())
    reached("before copied")
    new.replace(target)
    reached("after copied")
    return KeptFile(path, size, digest.hexdigest())


def summed(file: Path, path: str, show: Show = lambda _: None) -> KeptFile:
    """What a file holds, read to its end.

    Raises:
        OSError: it is not there, or the system fails at reading it.
    """
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as there:
        while piece := there.read(PIECE):
            digest.update(piece)
            size += len(piece)
            show(len(piece))
    return KeptFile(path, size, digest.hexdigest())


def sync_below(folder: Path) -> None:
    """Put the names in a folder and in all below it on the disk."""
    for root, _, _ in os.walk(folder, topdown=False):
        sync(Path(root))
