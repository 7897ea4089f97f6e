"""Whether a folder has to be listed again: not while nothing can have come to it.

A folder says by its time that a name came, went or changed. Not every file system does (some
mounts never), and none tells of a file that was written over in place; so a look is repeated now
and then whatever the folders say, and whenever a source would be declared silent or at its end.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

SETTLED = 3.0
"""Seconds a folder must have looked the same before it was listed: times of file systems tick by up
to two, and what came in the tick of the listing would not show."""
SHARE = 20
"""A look is repeated after so many times what it took."""

Sign = tuple[int, int, int, int]
"""Device, number, modification and change of a folder."""


@dataclass(slots=True)
class Quiet:
    """What the folders of a source looked like when they were listed.

    Attributes:
        root: the source's folder, as it is called: a link may lead elsewhere by now.
    """

    root: str
    _signs: dict[str, Sign | None] = field(default_factory=dict)
    _since: float = 0.0
    _began: float | None = None
    _again: float = 0.0

    def holds(self) -> bool:
        """Whether nothing came since the folders were listed, as far as they tell."""
        now = time.monotonic()
        signs = {folder: _sign(folder) for folder in self._signs}
        if signs != self._signs or None in signs.values():
            self._signs, self._since, self._began = signs, now, None
        settled = self._began is not None and self._began - self._since >= SETTLED
        return settled and now < self._again

    def begin(self) -> None:
        """The folders are about to be listed; until that is done nothing is known of them."""
        self.holds()
        self._began, self._again = time.monotonic(), 0.0

    def listed(self, folders: Iterable[str]) -> None:
        """The folders were listed.

        Args:
            folders: all there are, without links.
        """
        now = time.monotonic()
        known = {self.root, *folders}
        if known != self._signs.keys():
            self._signs, self._since = {folder: _sign(folder) for folder in known}, now
        if self._began is not None:
            self._again = now + SHARE * (now - self._began)

    def forget(self) -> None:
        """Look again, whatever the folders say."""
        self._again = 0.0


def _sign(folder: str) -> Sign | None:
    """How a folder looks; none: it cannot be said now."""
    try:
        about = os.stat(folder)  # noqa: PTH116
    except OSError:
        return None
    return about.st_dev, about.st_ino, about.st_mtime_ns, about.st_ctime_ns
