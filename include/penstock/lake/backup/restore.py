"""Restoring a lake: built from a backup beside it, checked, then put in its place in one step."""

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable

from penstock.core.clock import Clock
from penstock.core.crash import reached
from penstock.core.errors import ConfigError, TransientError
from penstock.lake.backup.copying import copied, sync_below
from penstock.lake.backup.manifest import DamagedBackupError, Manifest, read_manifest
from penstock.lake.backup.save import Progress
from penstock.lake.storage.damage import BROKEN
from penstock.lake.storage.durable import sync, sync_folders

MAKING = "restore-in-the-making"
"""A file in the folder beside the lake: what lies there is no lake yet."""
HERE, EXCHANGE = -100, 2  # of renameat2: paths as they are; the two change places


class NotRestoredError(TransientError):
    """The system fails at a restore now; the lake is the former or the restored one."""

    def __init__(self, lake: Path, why: object) -> None:
        super().__init__(f"the restore failed: {why}. {lake} is whole, as it was or restored")


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored.

    Attributes:
        manifest: of the backup.
        former: where the lake lies that was there; none: there was none.
    """

    manifest: Manifest
    former: Path | None


def restore_backup(
    folder: Path,
    lake: Path,
    clock: Clock,
    show: Progress = lambda _done, _whole: None,
    check: Callable[[], None] = lambda: None,
    *,
    replace: bool = False,
) -> Restored:
    """Make a lake what it was when the backup was taken; nobody else may use it.

    Killed at any point, the lake is the former one or the restored one, as a whole.

    Args:
        folder: holds the backup.
        lake: the folder of all tables.
        clock: names what is moved away.
        show: told of progress.
        check: raises when the lake is in use; called again right before the lake is touched.
        replace: a lake that is not empty is moved away.

    Raises:
        DamagedBackupError: a file is not what it was; names it. The lake is as it was.
        ConfigError: there is no backup, or a lake that is not to be replaced.
        NotRestoredError: the system fails at it now.
    """
    lake = lake.resolve()
    try:
        manifest = read_manifest(folder)
        if not replace and not is_empty(lake):
            raise ConfigError(
                f"{lake} is not empty. --replace moves it away and puts the backup in its place"
            )
        check()
        look_at(folder, manifest)
        aside = lake.with_name(f"{lake.name}.restoring")
        lake.parent.mkdir(parents=True, exist_ok=True)
        _clear(aside, lake, clock)
        with _removed_if_it_fails(aside):
            _build(folder, manifest, aside, show)
            check()
        former = _put(aside, lake, clock)
    except OSError as failed:
        raise NotRestoredError(lake, failed) from failed
    return Restored(manifest, former)


def is_empty(lake: Path) -> bool:
    """Whether there is no file in a folder, nor in any below."""
    return not any(names for _, _, names in os.walk(lake))


def look_at(folder: Path, manifest: Manifest) -> None:
    """See that every file of a backup is there and has its size; their sums take longer.

    Raises:
        DamagedBackupError: one is missing or cut short.
    """
    for path, file in manifest.files():
        place = manifest.place(folder, path)
        try:
            size = place.stat().st_size
        except FileNotFoundError:
            raise DamagedBackupError(place, "is missing") from None
        if size != file.size:
            raise DamagedBackupError(place, f"has {size:,} bytes, not {file.size:,}")


def _clear(aside: Path, lake: Path, clock: Clock) -> None:
    """Remove what a killed restore left unfinished; what it had moved away is kept."""
    if not aside.exists():
        return
    if (aside / MAKING).exists() or is_empty(aside):
        shutil.rmtree(aside)
    else:
        _keep(aside, lake, clock)


@contextmanager
def _removed_if_it_fails(aside: Path) -> Iterator[None]:
    try:
        yield
    except (Exception, KeyboardInterrupt):
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _build(folder: Path, manifest: Manifest, aside: Path, show: Progress) -> None:
    aside.mkdir()
    (aside / MAKING).touch()
    sync(aside)
    done, whole = 0, manifest.size

    def told(more: int) -> None:
        nonlocal done
        done += more
        show(done, whole)

    for path, file in manifest.files():
        place = manifest.place(folder, path)
        try:
            found = copied(place, aside / path, file.path, told)
        except FileNotFoundError:
            raise DamagedBackupError(place, "is missing") from None
        if found != file:
            raise DamagedBackupError(place, "has another content than it had (its sum differs)")
    for table in manifest.tables:
        try:
            version = DeltaTable(str(aside / table.path)).version()
        except BROKEN as broken:
            raise DamagedBackupError(folder, f"has no log of {table.path}: {broken}") from broken
        if version != table.version:
            raise DamagedBackupError(folder, f"has {table.path} at {version}, not {table.version}")
    sync_below(aside)


def _put(aside: Path, lake: Path, clock: Clock) -> Path | None:
    """Put what was built in the lake's place: in one step, whatever is there."""
    (aside / MAKING).unlink()
    sync(aside)
    former = None
    reached("before restored")
    if is_empty(lake):
        if lake.exists():
            shutil.rmtree(lake)
        aside.rename(lake)
    else:
        _exchange(aside, lake)
    sync_folders(str(lake))
    reached("after restored")
    if aside.exists():
        former = _keep(aside, lake, clock)
    return former


def _exchange(one: Path, other: Path) -> None:
    """Let two folders change places in one step of the file system.

    Raises:
        OSError: it cannot.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(
            number,
            f"{os.strerror(number)}: this file system cannot exchange two folders; move the lake"
            " away yourself and restore without --replace",
            str(other),
        )


def _keep(aside: Path, lake: Path, clock: Clock) -> Path:
    name = former = lake.with_name(f"{lake.name}.replaced-{clock.now():%Y%m%dT%H%M%S}")
    number = 1
    while former.exists():
        number += 1
        former = name.with_name(f"{name.name}-{number}")
    reached("before kept")
    aside.rename(former)
    sync(former.parent)
    reached("after kept")
    return former
