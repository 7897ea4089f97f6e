"""What a commit wrote is on the disk before anything depends on it.

The library that writes tables leaves that to the operating system, which takes its time. A data
file, its folder, the entry of the log and the log's folder are synced in this order right after the
entry was made, so at a power loss only the newest entry of a table can be lost or damaged, and
only one that nothing depends on yet: whoever opens the table next takes it back.
"""

import json
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from penstock.config.settings import Settings
from penstock.core.crash import lasts
from penstock.core.place import is_remote, path_of

log = logging.getLogger(__name__)

LOG = "_delta_log"
LAST = "_last_checkpoint"
PARQUET = b"PAR1"


@cache
def synced() -> bool:
    """Whether commits are synced; ``PENSTOCK_SYNC`` may switch it off."""
    return Settings().sync


def sync_commits(table: str, versions: Iterable[int]) -> None:
    """Put commits of a table on the disk; of a store that is not this machine's, nothing.

    Args:
        table: where it lies.
        versions: of the commits; one that was cleaned away meanwhile is past.
    """
    if not synced() or is_remote(table):
        return
    root = path_of(table)
    for version in versions:
        entry = root / LOG / f"{version:020d}.json"
        if not entry.exists():
            continue
        folders = set()
        for file in _added(entry, root):
            sync(file)
            folders |= {file.parent, root}
        for folder in sorted(folders, reverse=True):
            sync(folder)
        sync(entry)
    sync(root / LOG)


def sync_file(table: str, path: str) -> None:
    """Put a data file that no commit names yet, or the names in a folder, on the disk.

    Args:
        table: where it lies.
        path: from there.
    """
    if synced() and not is_remote(table):
        sync(path_of(table) / path)


def sync_checkpoint(table: str, version: int) -> None:
    """Put a checkpoint of a table's log on the disk: entries before it may be cleaned away then."""
    if not synced() or is_remote(table):
        return
    folder = path_of(table) / LOG
    for path in (*folder.glob(f"{version:020d}.checkpoint*"), folder / LAST):
        sync(path)
    sync(folder)


Summed: TypeAlias = tuple[int, int, int]
"""Which file says where a log was last summed up; nothing is cleaned away without a new one."""


def summed_up(table: str) -> Summed | None:
    """Where a table's log was last summed up; none: never, or the table is not this machine's."""
    if is_remote(table):
        return None
    try:
        found = (path_of(table) / LOG / LAST).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def may_be_newer(table: str, version: int) -> bool:
    """Whether a log may have entries after one, if it was not summed up since that was the newest.

    Two looks by name, 10 us; the library lists the log and reads its sum, 2 ms and more.
    """
    if is_remote(table):
        return True
    folder = path_of(table) / LOG
    after, at = (folder / f"{number:020d}.json" for number in (version + 1, version))
    return after.exists() or not at.exists()


def take_back(table: str) -> None:
    """Put aside what a power loss left of the newest commits: entries, or files, not written out.

    A live process never sees such an entry: it gets its name when it and its files are whole. If
    something does depend on it after all (a failing disk), that is what the door and the audit say.
    """
    if is_remote(table) or not (folder := path_of(table) / LOG).is_dir():
        return
    for path in sorted(folder.glob("*.checkpoint*.parquet"), reverse=True):
        if _ending(path) not in {None, PARQUET}:
            _aside(path)
            (folder / LAST).unlink(missing_ok=True)
    if _names_none(folder):
        (folder / LAST).unlink(missing_ok=True)
    for entry in sorted(folder.glob(f"{'[0-9]' * 20}.json"), reverse=True):
        if _is_whole(entry, folder.parent):
            return
        _aside(entry)


def _names_none(folder: Path) -> bool:
    """Whether the hint where the last checkpoint is names one that never came to the disk."""
    try:
        version = int(json.loads((folder / LAST).read_text())["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return not any(folder.glob(f"{version:020d}.checkpoint*.parquet"))


def _is_whole(entry: Path, root: Path) -> bool:
    try:
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        added = [action["add"] for action in actions if "add" in action]
        sizes = [(root / unquote(add["path"])).stat().st_size for add in added]
    except (ValueError, FileNotFoundError):
        return False
    return bool(actions) and sizes == [add["size"] for add in added]


def _ending(path: Path) -> bytes | None:
    """The last four bytes; none: it was cleaned away meanwhile."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4))
            return file.read()
    except FileNotFoundError:
        return None


def _aside(path: Path) -> None:
    with suppress(FileNotFoundError):  # another process was faster
        path.rename(path.with_name(f"{path.name}.lost"))
        log.warning("never written out, put aside: nothing depended on it path=%s", path)


def sync_folders(table: str) -> None:
    """Put the name of a table on the disk, and of the folders that were made for it.

    Which those are is not known where another process made them and was killed: all that lie in
    a folder of ours.
    """
    if not synced() or is_remote(table):
        return
    root = path_of(table)
    for folder in (root, *root.parents):
        if os.access(folder, os.R_OK | os.W_OK):
            sync(folder)


def _added(entry: Path, root: Path) -> list[Path]:
    lines = (json.loads(line) for line in entry.read_text().splitlines())
    return [root / unquote(line["add"]["path"]) for line in lines if "add" in line]


def sync(path: Path) -> None:
    """Put a file, or the names in a folder, on the disk; one that is gone meanwhile is past."""
    try:
        at = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # compacted and vacuumed meanwhile
        return
    try:
        os.fsync(at)
        lasts(at, path)
    finally:
        os.close(at)
