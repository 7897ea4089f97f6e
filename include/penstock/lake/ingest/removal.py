"""How a file leaves its source's folder: into the archive, or for good.

The name of a file may come to mean another one between any look at it and its removal. So the name
is moved into a hidden folder beside it first, which nothing but this process fills; what came there
is looked at, and only then removed. Another file, which nobody has read, gets its name back. What a
kill leaves in such a folder, the next process puts back (``put_back``) and judges anew.
"""

import errno
import logging
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from penstock.core.crash import reached
from penstock.lake.ingest.archive import names
from penstock.lake.ingest.listing import CELL, Found
from penstock.lake.storage.durable import sync, synced

log = logging.getLogger(__name__)

NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}
"""Another disk, or one without hard links: what goes there is copied."""
COPYING = ".penstock-copy-"
CHUNK = 1 << 20
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class OtherFileError(Exception):
    """What lies there is not what was to be removed."""


class Removal:
    """Removes files of one source.

    Args:
        archive: the folder they go to, as deep in it as in the source; none: they are deleted.
    """

    def __init__(self, archive: str | None) -> None:
        self.archive = archive
        self._token = secrets.token_hex(4)

    def archived(
        self, places: Sequence[tuple[str, Found]]
    ) -> list[OSError | OtherFileError | None]:
        """Put files into the archive, under names that last when this returns.

        Args:
            places: files, and where they lie.

        Returns:
            Of each, why it is not there; none: it stands in the archive.
        """
        if self.archive is None:
            return [None] * len(places)
        folders: set[str] = set()
        found: list[OSError | OtherFileError | None] = []
        for place, file in places:
            try:
                self._archive(place, file, folders)
                found.append(None)
            except (OSError, OtherFileError) as failed:
                found.append(failed)
        for folder in sorted(folders if synced() else (), reverse=True):
            sync(Path(folder))
        return found

    def removed(self, place: str, file: Found) -> bool:
        """Take a file out of its folder; whether it was still that one.

        Raises:
            OSError: it cannot be removed now.
        """
        folder, name = os.path.split(place)
        cell = f"{folder}/{CELL}{self._token}"
        if not is_same(place, file):
            return False
        with suppress(FileExistsError):
            Path(cell).mkdir()
        try:
            reached("before cleared")
            Path(place).rename(f"{cell}/{name}")
            reached("within cleared")
            is_one = is_same(f"{cell}/{name}", file)
            if is_one:
                Path(f"{cell}/{name}").unlink()
        finally:
            put_back(cell)
        reached("after cleared")
        return is_one

    def _archive(self, place: str, file: Found, folders: set[str]) -> None:
        """Put a file into the archive; notes the folders that hold new names then.

        Raises:
            OtherFileError: what lies there is another one by now.
            OSError: it cannot be now.
        """
        if not is_same(place, file):
            raise OtherFileError
        wanted = f"{self.archive}/{file.path}"
        folders |= _made(os.path.dirname(wanted), str(self.archive))  # noqa: PTH120
        for name in names(wanted):
            if os.path.lexists(name):
                if _is_equal(place, name):  # put there by a process that was killed
                    return
                continue
            with suppress(FileExistsError):  # another process was faster
                reached("before archived")
                _put(place, name, file)
                reached("after archived")
                if name != wanted:
                    log.warning("the archive holds another file=%s so this one is kept as=%s",
                                wanted, name)  # fmt: skip
                return


def put_back(cell: str) -> None:
    """Give files in a hidden folder their names back, never those of others, and remove it.

    Raises:
        OSError: it cannot be now.
    """
    for name in os.listdir(cell) if Path(cell).is_dir() else ():  # noqa: PTH208
        for place in names(f"{os.path.dirname(cell)}/{name}"):  # noqa: PTH120
            try:
                _give(f"{cell}/{name}", place)
            except FileExistsError:
                continue
            except FileNotFoundError:  # another process was faster
                pass
            log.warning("a file that was to be removed is not, and is put back file=%s", place)
            break
    with suppress(OSError):  # others may use it, or have removed it
        Path(cell).rmdir()


def is_same(place: str, file: Found) -> bool:
    """Whether exactly a file lies there."""
    try:
        about = os.lstat(place)
    except FileNotFoundError:
        return False
    return S_ISREG(about.st_mode) and _is_of(about, file)


def _is_of(about: os.stat_result, file: Found) -> bool:
    now = about.st_size, about.st_mtime_ns, about.st_dev, about.st_ino
    return now == (file.size, file.modified, file.device, file.inode)


def _made(folder: str, root: str) -> set[str]:
    """Make a folder below another that is there; which folders hold new names then.

    Raises:
        OSError: the other one is not there: what was mounted may be away.
    """
    if not Path(root).is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "the archive is not there: make it, or mount it", root
        )
    holding = {folder}
    while folder != root:
        with suppress(FileExistsError):
            Path(folder).mkdir(parents=True)
        folder = os.path.dirname(folder)  # noqa: PTH120
        holding.add(folder)
    return holding


def _put(place: str, name: str, file: Found) -> None:
    """Give a file a second name, or make a copy, where there is none.

    Raises:
        FileExistsError: there is one of this name.
        OtherFileError: it is not the one that was to be put there.
        OSError: it cannot be now.
    """
    if not _linked(place, name):
        _copy(place, name, file)
    elif not is_same(name, file):
        Path(name).unlink()
        raise OtherFileError


def _copy(place: str, name: str, file: Found) -> None:
    """Copy a file with its time, whole on the disk before it has its name."""
    if os.path.lexists(name):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    folder = os.path.dirname(name)  # noqa: PTH120
    for left in Path(folder).glob(f"{COPYING}*"):  # of a process that was killed
        left.unlink(missing_ok=True)
    draft = f"{folder}/{COPYING}{secrets.token_hex(4)}"
    try:
        with open(os.open(place, READ), "rb") as source, open(draft, "xb") as copy:  # noqa: PTH123
            is_one = _is_of(os.fstat(source.fileno()), file)
            shutil.copyfileobj(source, copy, CHUNK)
            copy.flush()
            if not (is_one and _is_of(os.fstat(source.fileno()), file)):
                raise OtherFileError
            os.utime(copy.fileno(), ns=(file.modified, file.modified))
        if synced():
            sync(Path(draft))
        _give(draft, name)
    finally:
        Path(draft).unlink(missing_ok=True)


def _give(place: str, name: str) -> None:
    """Move a file to a name that no file has.

    Raises:
        FileExistsError: one has it.
        OSError: it cannot be now.
    """
    if _linked(place, name):
        Path(place).unlink(missing_ok=True)
        return
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # without links: take it
    os.replace(place, name)  # noqa: PTH105


def _linked(place: str, name: str) -> bool:
    """Give a file a second name that no file has; whether links can go there.

    Raises:
        FileExistsError: one has it.
        OSError: it cannot be now.
    """
    try:
        os.link(place, name, follow_symlinks=False)
    except OSError as failed:
        if failed.errno not in NO_LINKS:
            raise
        return False
    return True


def _is_equal(place: str, name: str) -> bool:
    """Whether two names are of one file, or of a copy of it with its time."""
    one, two = os.lstat(place), os.lstat(name)
    if os.path.samestat(one, two):
        return True
    alike = one.st_size == two.st_size and one.st_mtime_ns == two.st_mtime_ns
    if not (alike and S_ISREG(one.st_mode) and S_ISREG(two.st_mode)):
        return False
    with open(os.open(place, READ), "rb") as first, open(os.open(name, READ), "rb") as second:  # noqa: PTH123
        while part := first.read(CHUNK):
            if part != second.read(CHUNK):
                return False
    return True
