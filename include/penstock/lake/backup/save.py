"""Backing a lake up while it runs: one instant of it, copied; only what the folder lacks."""

import logging
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from penstock.config.catalog import files_in
from penstock.core.clock import Clock
from penstock.core.crash import reached
from penstock.core.errors import ConfigError, TransientError
from penstock.core.place import unsuited
from penstock.lake.backup.copying import copied, summed, sync_below
from penstock.lake.backup.manifest import (
    AT,
    DATA,
    LOGS,
    MANIFEST,
    PIPELINES,
    DamagedBackupError,
    KeptFile,
    KeptTable,
    Manifest,
    read_manifest,
    write_manifest,
)
from penstock.lake.backup.pin import log_files, pin
from penstock.lake.storage.damage import BROKEN, DamagedTableError, named, require_whole
from penstock.lake.storage.durable import LOG, sync_folders

log = logging.getLogger(__name__)

ATTEMPTS = 3
LOCK = "lock"
OURS = re.compile(rf"{MANIFEST}|manifest\.new|{LOCK}|{DATA}|{AT}\d+|lost\+found")

Progress = Callable[[int, int], None]
"""Is told how many bytes of how many are copied."""


class NotTakenError(TransientError):
    """A backup could not be finished now; the former one in its folder is whole."""

    def __init__(self, folder: Path, why: object) -> None:
        super().__init__(
            f"no backup was taken to {folder}: {why}. What the folder held before is whole, and"
            " what was copied serves the next try"
        )


@dataclass(frozen=True, slots=True)
class Taken:
    """A backup that was taken.

    Attributes:
        manifest: what it holds.
        files, size: how many files, and bytes, had to be copied.
    """

    manifest: Manifest
    files: int
    size: int


def take_backup(
    lake: Path,
    folder: Path,
    pipelines: Path,
    clock: Clock,
    show: Progress = lambda _done, _whole: None,
    beside: Sequence[Path] = (),
) -> Taken:
    """Copy one instant of a lake into a folder, in place of the backup that it holds.

    Maintenance may clean away what was pinned before it is copied: then a newer instant is.

    Args:
        lake: the folder of all tables; whoever writes to it goes on.
        folder: is made; holds nothing or a backup. One process at a time.
        pipelines: the folder of pipeline files.
        clock: dates the backup.
        show: told of progress.
        beside: files that are kept with the pipeline files, as far as they are there.

    Raises:
        ConfigError: the folder is not one for backups, or there is nothing to back up.
        DamagedTableError: a table is not whole: names it and the file.
        NotTakenError: the system fails at it now.
    """
    texts = [*files_in(pipelines), *beside]
    try:
        prepare(lake, folder)
        former, trusted = _former(folder)
        for _ in range(ATTEMPTS - 1):
            try:
                return _Saving(lake, folder, former, show, trusted=trusted).take(texts, clock)
            except (FileNotFoundError, DamagedTableError) as gone:
                log.info("pinned again: something may have been cleaned away beside: %s", gone)
        return _Saving(lake, folder, former, show, trusted=trusted).take(texts, clock)
    except OSError as failed:
        raise NotTakenError(folder, failed) from failed


def prepare(lake: Path, folder: Path) -> None:
    """See that a folder may hold backups; makes it.

    Raises:
        ConfigError: it holds something else, lies in the lake, or cannot be made.
    """
    whole = folder.resolve()
    if found := unsuited(whole):
        raise ConfigError(f"{whole}: no backup can lie in a folder whose path holds {found!r}")
    if whole == lake.resolve() or lake.resolve() in whole.parents:
        raise ConfigError(f"{whole} lies in the lake itself. Name a folder elsewhere")
    if whole.exists() and not whole.is_dir():
        raise ConfigError(f"{whole} is no folder")
    try:
        whole.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise ConfigError(f"{whole} cannot be made: {wrong}. Name another folder") from wrong
    strange = sorted(p.name for p in whole.iterdir() if not OURS.fullmatch(p.name))
    if strange:
        raise ConfigError(
            f"{whole} holds something that is no backup ({strange[0]}). Name an empty folder, or"
            " one that is not there yet"
        )


def _former(folder: Path) -> tuple[Manifest | None, bool]:
    """The backup that a folder holds, and whether the files in it are what was written there."""
    try:
        return read_manifest(folder), True
    except DamagedBackupError as damaged:
        log.warning("everything is copied anew: %s", damaged)
        return None, False
    except ConfigError:  # none was finished yet
        return None, True


class _Saving:
    """One try."""

    def __init__(
        self, lake: Path, folder: Path, former: Manifest | None, show: Progress, *, trusted: bool
    ) -> None:
        self.lake, self.folder, self.show, self.trusted = lake, folder, show, trusted
        self.known = {} if former is None else dict(former.files())
        numbers = [int(path.name.removeprefix(AT)) for path in folder.glob(f"{AT}*")]
        self.number = max([*numbers, 0 if former is None else former.number]) + 1
        self.mine = folder / f"{AT}{self.number}"
        self.files = self.done = self.whole = 0

    def take(self, texts: Sequence[Path], clock: Clock) -> Taken:
        """Pin, copy, write the manifest, tidy up."""
        versions = pin(self.lake) if self.lake.is_dir() else {}
        if not versions:
            raise ConfigError(f"{self.lake} holds no table: there is nothing to back up")
        taken_at = clock.now().isoformat()
        logs = {table: self._log(table, version) for table, version in versions.items()}
        data = {table: self._data(table, version) for table, version in versions.items()}
        held = {table: self._held(table, files) for table, files in data.items()}
        missing = {t: {p: n for p, n in data[t].items() if p not in held[t]} for t in data}
        self.whole = sum(size for files in missing.values() for size in files.values())
        self.show(0, self.whole)
        tables = []
        for table, version in versions.items():
            files = held[table] | self._copied(table, missing[table])
            kept = (*logs[table], *(files[path] for path in sorted(files)))
            tables.append(KeptTable(table, version, kept))
        kept = tuple(copied(path, self.mine / PIPELINES / path.name, path.name)
                     for path in texts if path.is_file())  # fmt: skip
        manifest = Manifest(self.number, taken_at, tuple(tables), kept)
        sync_below(self.folder)
        sync_folders(str(self.folder))
        write_manifest(self.folder, manifest)
        try:
            tidy(self.folder, manifest)
        except OSError as failed:
            log.warning("what is not needed any more stays until the next backup: %s", failed)
        return Taken(manifest, self.files, self.done)

    def _log(self, table: str, version: int) -> list[KeptFile]:
        target = self.mine / LOGS / table / LOG
        files = log_files(self.lake / table, version)
        return [copied(path, target / path.name, f"{LOG}/{path.name}") for path in files]

    def _data(self, table: str, version: int) -> dict[str, int]:
        """Sizes of the data files by path, as the copied log names them."""
        try:
            delta = DeltaTable(str(self.mine / LOGS / table))
            actions = pa.table(delta.get_add_actions())
        except BROKEN as broken:
            raise named(str(self.lake / table), [], broken) from broken
        if delta.version() != version:
            raise DamagedTableError(str(self.lake / table), f"its log ends at {delta.version()}")
        sizes = actions["size_bytes"].to_pylist()
        return dict(zip(actions["path"].to_pylist(), sizes, strict=True))

    def _held(self, table: str, files: dict[str, int]) -> dict[str, KeptFile]:
        """Those that the folder holds already: of a former backup, or of a try that was killed."""
        held = {}
        for path, size in files.items():
            name, there = f"{table}/{path}", self.folder / DATA / table / path
            if not (self.trusted and there.is_file() and there.stat().st_size == size):
                continue
            known = self.known.get(name)
            held[path] = known if known and known.size == size else summed(there, path)
        return held

    def _copied(self, table: str, missing: dict[str, int]) -> dict[str, KeptFile]:
        root, kept = self.lake / table, {}
        require_whole(str(root), missing)
        for path, size in missing.items():
            kept[path] = copied(root / path, self.folder / DATA / table / path, path, self._told)
            if kept[path].size != size:
                what = f"is not whole ({kept[path].size:,} of {size:,} bytes)"
                raise DamagedTableError(str(root), what, path)
            self.files += 1
        return kept

    def _told(self, more: int) -> None:
        self.done += more
        self.show(self.done, self.whole)


def tidy(folder: Path, manifest: Manifest) -> None:
    """Remove what the backup in force does not need: it is on the disk by now."""
    needed = {str(manifest.place(folder, path)) for path, _ in manifest.files()}
    reached("before tidied")
    for path in folder.glob(f"{AT}*"):
        if path.name != f"{AT}{manifest.number}":
            shutil.rmtree(path)
    for root, _, names in os.walk(folder / DATA, topdown=False):
        for path in (Path(root, name) for name in names):
            if str(path) not in needed:
                path.unlink()
        if not any(Path(root).iterdir()):
            Path(root).rmdir()
    reached("after tidied")
