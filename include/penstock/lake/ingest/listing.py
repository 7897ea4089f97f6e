"""What lies in a source's folder: every real file once, whatever names and links lead to it."""

import errno
import logging
import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from penstock.core.errors import ConfigError
from penstock.lake.ingest.reading import SourceError
from penstock.lake.storage.durable import LOG

log = logging.getLogger(__name__)

MOUNTS = Path("/proc/self/mountinfo")
CELL = ".penstock-removed-"
"""Begins the name of a hidden folder for what is being removed (``removal``)."""
NOWHERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


class Found(NamedTuple):
    """A file.

    Attributes:
        path: from the source's folder, by the names and links that led there.
        real: which file it is by name: its path without links (``identity``).
        size: bytes.
        modified: nanoseconds since the epoch.
        device, inode: which file it is on the disk.
    """

    path: str
    real: str
    size: int
    modified: int
    device: int
    inode: int


class Apart(NamedTuple):
    """A folder that nothing of a source may lead to.

    Attributes:
        real: its path without links.
        why: what would come of it, and the remedy.
    """

    real: str
    why: str


@dataclass
class Listing:
    """What lies in a folder.

    Attributes:
        files: every real file once, in no order.
        astray: links that lead nowhere: what they stand for is not known.
        odd: what is left alone for good, by why: names that nothing could say, links that stand
            for nothing, names of files that are none, or of no file of the format.
        folder: which folder it was: device and number.
        mounts: how much is mounted, one over the other, at which folders within.
        folders: all folders within, without links.
        cells: hidden ones of a process that was killed while it removed files.
        names: the files by ``real``.
    """

    files: list[Found] = field(default_factory=list)
    astray: list[str] = field(default_factory=list)
    odd: dict[str, list[str]] = field(default_factory=dict)
    folder: tuple[int, int] = (0, 0)
    mounts: Counter[str] = field(default_factory=Counter)
    folders: set[str] = field(default_factory=set)
    cells: list[str] = field(default_factory=list)
    names: dict[str, Found] = field(default_factory=dict)

    def away(self, before: "Listing") -> str | None:
        """A folder where something was mounted before and is not now."""
        gone = before.mounts - self.mounts
        return min((place for place in gone if place in self.folders), default=None)


def listed(
    root: str,
    suffixes: tuple[str, ...],
    home: str = "",
    apart: Sequence[Apart] = (),
    before: Listing | None = None,
) -> Listing:
    """List a folder; names that begin with . or _ are left alone.

    Args:
        root: the folder.
        suffixes: of the files that are meant, in small letters.
        home: what moves with the installation.
        apart: folders that nothing here may lead to.
        before: what lay there; what is as it was is not made again.

    Raises:
        SourceError: it, or a folder within, cannot be listed now.
        ConfigError: a link leads to a folder of ``apart``, or a Delta table lies there.
    """
    try:
        about = Path(root).stat()
        if not S_ISDIR(about.st_mode):
            raise ConfigError(
                f"{root}: its source cannot be listed, it is a file. Name its folder."
            )
        walk = _Walk(os.path.realpath(root), suffixes, os.path.realpath(home or root), apart)
        walk.before = {} if before is None else before.names
        walk.all()
    except OSError as away:
        raise SourceError(str(away.filename or root), away) from away
    out = walk.out
    out.files, out.names = list(walk.files.values()), walk.files
    out.folder = about.st_dev, about.st_ino
    try:
        mounted = _mounted()
    except OSError as away:
        raise SourceError(str(MOUNTS), away) from away
    out.folders, out.mounts = walk.seen, Counter(p for p in mounted if p in walk.seen)
    return out


def table_of(real: str) -> str | None:
    """The Delta table that a place is, or lies in."""
    parts = [real, *map(str, Path(real).parents)]
    return next((p for p in parts if os.path.isdir(f"{p}/{LOG}")), None)  # noqa: PTH112


def _refuse_table(table: str | None) -> None:
    """A table is no folder of files.

    Raises:
        ConfigError: it is one.
    """
    if table is not None:
        raise ConfigError(
            f"{table} is a Delta table: what is rewritten in it would come in again. Name it by"
            " delta: in a pipeline of its own, or keep it apart from files that are a source."
        )


class _Walk:
    """The folder by its real names first, then what links add to it."""

    def __init__(
        self, root: str, suffixes: tuple[str, ...], home: str, apart: Sequence[Apart]
    ) -> None:
        self.root, self.suffixes, self.home, self.apart = root, suffixes, home, apart
        self.kept_out = {key: a for a in apart if (key := _which(a.real)) is not None}
        self.files: dict[str, Found] = {}
        self.before: dict[str, Found] = {}
        self.seen: set[str] = set()
        self.links: deque[str] = deque()
        self.out = Listing()
        self.table_of = cache(table_of)  # many links may lead to one folder
        self.other = f"a name that does not end in {' or '.join(suffixes)}"

    def all(self) -> None:
        _refuse_table(self.table_of(self.root))
        self._folder(self.root, "")
        while self.links:
            self._link(self.links.popleft())

    def _folder(self, real: str, path: str) -> None:
        links, left = [], [(real, path)]
        while left:
            real, path = left.pop()
            if real in self.seen:
                continue
            self._check(real, path, folder=True)
            self.seen.add(real)
            inside = identity(real, self.root, self.home)
            inside += "/" if inside else ""
            for entry in self._entries(real, path):
                name = f"{path}{entry.name}"
                if entry.is_symlink():
                    links.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    left.append((f"{real}/{entry.name}", f"{name}/"))
                elif self._is_meant(entry.name):
                    self._file(name, f"{inside}{entry.name}", entry)
                elif entry.is_file(follow_symlinks=False):
                    self._odd(self.other, name)
        self.links.extend(sorted(links))

    def _entries(self, real: str, path: str) -> Iterator["os.DirEntry[str]"]:
        with os.scandir(real) as entries:
            for entry in entries:
                if entry.name == LOG:
                    _refuse_table(real)
                if entry.name.startswith((".", "_")):
                    if entry.name.startswith(CELL):
                        self.out.cells.append(f"{real}/{entry.name}")
                    continue
                if is_utf8(entry.name):
                    yield entry
                else:
                    self._odd("a name that is not UTF-8: rename it", f"{path}{entry.name}")

    def _link(self, path: str) -> None:
        """What a link adds; to what was seen already it adds nothing."""
        try:
            real = os.path.realpath(f"{self.root}/{path}", strict=True)
            is_folder = Path(real).is_dir()
        except OSError as away:
            if away.errno not in NOWHERE:
                raise
            self._nowhere(path, is_loop=away.errno == errno.ELOOP)
            return
        if is_folder:
            _refuse_table(self.table_of(real))
            self._folder(real, f"{path}/")
        elif self._is_meant(path):
            _refuse_table(self.table_of(os.path.dirname(real)))  # noqa: PTH120
            self._check(real, path)
            self._file(path, identity(real, self.root, self.home), Path(real))
        elif not self._has_own_name(real):
            self._odd(self.other, path)

    def _nowhere(self, path: str, *, is_loop: bool) -> None:
        """A link that leads nowhere: what it stands for is away, unless there is no such thing."""
        target = os.path.realpath(f"{self.root}/{path}")
        if is_loop or (self._has_own_name(target) and not self._is_meant(path)):
            self._odd("a link that leads nowhere, and can lead to no file: remove it", path)
        else:
            self.out.astray.append(path)

    def _has_own_name(self, real: str) -> bool:
        """Whether what lies there is found in the folder without any link."""
        inside = real[len(self.root) + 1 :]
        is_hidden = any(part.startswith((".", "_")) for part in inside.split("/"))
        return within(real, self.root) and not is_hidden

    def _file(self, path: str, name: str, entry: "os.DirEntry[str] | Path") -> None:
        if name in self.files:
            return
        try:
            about = entry.stat()
        except FileNotFoundError:  # it went since: it does not wait any more
            return
        if not S_ISREG(about.st_mode):
            self._odd("no file, but a pipe, socket or device: give it another name", path)
            return
        now = path, name, about.st_size, about.st_mtime_ns, about.st_dev, about.st_ino
        before = self.before.get(name)
        self.files[name] = before if before == now and before is not None else Found(*now)

    def _odd(self, why: str, path: str) -> None:
        self.out.odd.setdefault(why, []).append(path)

    def _is_meant(self, name: str) -> bool:
        return name.lower().endswith(self.suffixes)

    def _check(self, real: str, path: str, *, folder: bool = False) -> None:
        found = next((a for a in self.apart if within(real, a.real)), None)
        if found is None and folder and self.kept_out:
            found = self.kept_out.get(_which(real) or (0, 0))
        if found is not None:
            raise ConfigError(f"{self.root}/{path}: leads to {found.real}. {found.why}")


def identity(real: str, root: str, home: str) -> str:
    """Which file it is by name: from the folder where it lies in it or in the home.

    Args:
        real: its path without links.
        root: the folder, without links.
        home: what moves with the installation, without links.
    """
    if within(real, root):
        return real[len(root) + 1 :]
    return os.path.relpath(real, root) if within(real, home) else real


def within(path: str, folder: str) -> bool:
    """Whether a real path is a folder, or lies in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def is_utf8(name: str) -> bool:
    """Whether a name of a file or folder can be said, logged and stored."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _which(folder: str) -> tuple[int, int] | None:
    """Device and number of a folder; none: it is not there."""
    try:
        about = os.stat(folder)  # noqa: PTH116
    except OSError:
        return None
    return about.st_dev, about.st_ino


def _mounted() -> list[str]:
    """Where this machine has something mounted; unknown where the kernel does not say so.

    Raises:
        OSError: that cannot be read now.
    """
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    points = (line.split(b" ")[4] for line in lines)  # blanks in them stand as \040
    return [os.fsdecode(p.decode("unicode_escape").encode("latin-1")) for p in points]
