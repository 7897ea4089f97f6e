"""What whoever reads the catalog again and again must tell: is it due, is a pipeline really gone?

A disk has errors that pass. What was read meanwhile is never kept for good.
"""

import time
from contextlib import suppress

from penstock.config.catalog import SUFFIXES, Catalog
from penstock.config.kept import state_in_force
from penstock.config.settings import Settings
from penstock.config.shares import shares_file
from penstock.core.floor import file_of

AGAIN_SECONDS = 30.0
"""Until files that had problems are read again, though none has changed."""


def state_of(settings: Settings) -> tuple[object, ...]:
    """Changes when the catalog may: with files, and with what is remembered of runs and logs."""
    shares = tuple[int, int]()
    with suppress(FileNotFoundError):
        found = shares_file(settings).stat()
        shares = found.st_mtime_ns, found.st_size
    return *state_in_force(settings), shares


class Reading:
    """Tells when the catalog is to be read: files changed, or had problems a while ago."""

    def __init__(self) -> None:
        self._seen: object = None
        self._until = 0.0

    def is_due(self, seen: object) -> bool:
        """Whether to read; ``seen`` changes when that may say something else."""
        return seen != self._seen or time.monotonic() >= self._until

    def took(self, seen: object, *, whole: bool) -> None:
        """It was read; ``whole``: no file had problems, so only a change says something new."""
        self._seen = seen
        self._until = float("inf") if whole else time.monotonic() + AGAIN_SECONDS


def is_gone(settings: Settings, catalog: Catalog, name: str) -> bool:
    """Whether a pipeline that a catalog does not have is meant to be gone.

    Not while its file is there: that has problems, or the disk had some when it was read. Of a
    floor the file may be valid, and say nothing of it any more.

    Args:
        settings: where files are.
        catalog: as just read.
        name: of the pipeline.

    Raises:
        OSError: the folder cannot be read, so nobody knows.
    """
    file = file_of(name)
    if any(problem.path.stem == file for problem in catalog.errors):
        return False
    there = {path.stem for path in settings.pipelines.iterdir() if path.suffix in SUFFIXES}
    return file not in there or name != file
