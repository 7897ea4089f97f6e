"""Backing up a running lake and restoring it: who may, what is said, and what must not run."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from penstock.config.catalog import SUFFIXES
from penstock.config.kept import read_files
from penstock.config.settings import Settings
from penstock.config.shares import changing, remember, shares_file, shares_in
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, TransientError
from penstock.core.place import is_remote
from penstock.lake.backup.copying import summed
from penstock.lake.backup.manifest import AT, PIPELINES, Manifest
from penstock.lake.backup.restore import restore_backup
from penstock.lake.backup.save import LOCK, Progress, prepare, take_backup
from penstock.lake.ingest.restored import lacking
from penstock.lake.storage.tables import Tables
from penstock.runtime.embedded import privacy
from penstock.runtime.embedded.instance import Instance
from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths, is_held, take_lock
from penstock.runtime.streams.processes import marks
from penstock.runtime.terminal.progress import Look, Show, stage
from penstock.runtime.terminal.words import count, pairs, size

ONE_AT_A_TIME = "backup.lock"
"""In the home folder: held by a backup and by a restore."""


class LakeInUseError(ConfigError):
    """A lake cannot be replaced while something writes to it."""

    def __init__(self, lake: Path, what: str, remedy: str) -> None:
        super().__init__(f"{lake} is in use: {what}. {remedy}; then call this again")


def back_up(settings: Settings, folder: Path, clock: Clock, out: Console) -> int:
    """Copy one instant of the lake into a folder; what it holds already is not copied again.

    Args:
        settings: with an absolute home.
        folder: for backups of this lake.
        clock: dates it.
        out: where to say it.

    Raises:
        ConfigError: it is no folder for that, or another backup runs.
    """
    lake, folder = _local(settings), folder.absolute()
    os.umask(privacy.OWNER_ONLY)
    prepare(lake, folder)
    with (
        _held(settings.home / ONE_AT_A_TIME),
        _held(folder / LOCK),
        stage(out, f"Backing up {lake}") as show,
    ):
        beside = [shares_file(settings)]
        taken = take_backup(lake, folder, settings.pipelines, clock, _told(show), beside)
        show(Look(f"{count(taken.files, 'file')}, {size(taken.size)} copied"), last=True)
    _say(taken.manifest, folder, out)
    return 0


def restore(settings: Settings, folder: Path, clock: Clock, out: Console, *, replace: bool) -> int:
    """Make the lake what it was when a backup was taken.

    Args:
        settings: with an absolute home.
        folder: holds the backup.
        clock: names what is moved away.
        out: where to say it.
        replace: also where the lake is not empty.

    Raises:
        LakeInUseError: a stream, a job or embedded mode runs.
        ConfigError: there is no backup, or a lake that is not to be replaced.
    """
    lake, folder = _local(settings), folder.absolute()
    os.umask(privacy.OWNER_ONLY)
    with (
        _held(settings.home / ONE_AT_A_TIME),
        _kept_out(settings, lake),
        stage(out, f"Restoring {lake}") as show,
    ):
        done = restore_backup(
            folder,
            lake,
            clock,
            _told(show),
            lambda: _refuse_if_at_work(settings, lake),
            replace=replace,
        )
        show(Look(f"{size(done.manifest.size)}, every sum is right"), last=True)
    _say(done.manifest, folder, out)
    if done.former is not None:
        said = f"The former lake lies at {done.former}: delete it when nobody needs it."
        out.print(Text(said), soft_wrap=True)
    _share_as_then(settings, done.manifest, folder)
    _say_changed(done.manifest, folder, settings.pipelines, out)
    _say_lacking(settings, out)
    said = (
        "Streams go on from there, with their state rebuilt; what came later is taken again from"
        " its source. Correct, then audit."
    )
    out.print(Text(said), soft_wrap=True)
    return 0


def _local(settings: Settings) -> Path:
    if is_remote(settings.lake_uri):
        raise ConfigError(
            f"{settings.lake_uri} is no folder of this machine: penstock copies only such a lake."
            " Set PENSTOCK_LAKE to a folder, or back the store up by its own means, stopped"
        )
    return Path(settings.lake_uri)


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        taken = take_lock(lock)
    except OSError as wrong:
        raise ConfigError(f"{lock} cannot be written: {wrong}. See that it is yours") from wrong
    if taken is None:
        raise TransientError(f"another backup or restore holds {lock}. Wait until it has ended")
    try:
        yield
    finally:
        os.close(taken)


@contextmanager
def _kept_out(settings: Settings, lake: Path) -> Iterator[None]:
    """Nothing that writes to the lake runs, and neither embedded mode nor a known stream starts."""
    with ExitStack() as stack:
        if stack.enter_context(Instance(settings.home).locked()) is None:
            raise LakeInUseError(lake, "Airflow runs in embedded mode", "penstock down")
        for name in control.names(settings.streams):
            paths = StreamPaths(settings.streams, name)
            lock = take_lock(paths.supervisor_lock)
            if lock is None or is_held(paths.driver_lock):
                if lock is not None:
                    os.close(lock)
                raise LakeInUseError(lake, f"stream {name} runs", "Stop it, or penstock down")
            stack.callback(os.close, lock)
        yield


def _refuse_if_at_work(settings: Settings, lake: Path) -> None:
    """Jobs of an Airflow that is not embedded mode's carry a mark that begins with the home."""
    own = f"{settings.home}/"
    found = sorted({mark.removeprefix(own) for mark in marks().values() if mark.startswith(own)})
    if found:
        raise LakeInUseError(lake, f"{found[0]} runs", "Wait until it has ended, or stop it")


def _told(show: Show) -> Progress:
    return lambda done, whole: show(Look(f"{size(done)} of {size(whole)}", done, whole))


def _say(manifest: Manifest, folder: Path, out: Console) -> None:
    names = sorted({table.path.partition("/")[0] for table in manifest.tables})
    files = sum(len(table.files) for table in manifest.tables)
    rows = (
        ("backup", f"{folder}, number {manifest.number}"),
        ("as of", manifest.taken_at),
        ("pipelines", ", ".join(names)),
        ("holds", f"{count(len(manifest.tables), 'table')}, {count(files, 'file')},"
         f" {size(manifest.size)}"),
    )  # fmt: skip
    out.print(pairs(*rows))


def _share_as_then(settings: Settings, manifest: Manifest, folder: Path) -> None:
    """Steps have the runs that the tables know; by a backup that says none, their own."""
    kept = folder / f"{AT}{manifest.number}" / PIPELINES / shares_file(settings).name
    with changing(settings):
        remember(settings, shares_in(kept))


def _say_changed(manifest: Manifest, folder: Path, pipelines: Path, out: Console) -> None:
    """Pipeline files are written by hand, so they are never overwritten: a person compares."""
    for kept in manifest.pipelines:
        now = pipelines / kept.path
        if now.suffix not in SUFFIXES:
            continue
        if now.is_file() and summed(now, kept.path) == kept:
            continue
        what = "is another one now than" if now.is_file() else "is not there now; as it was"
        there = folder / f"{AT}{manifest.number}" / PIPELINES / kept.path
        said = f"! {now} {what} when the backup was taken: {there}"
        out.print(Text(said, style="yellow"), soft_wrap=True)


def _say_lacking(settings: Settings, out: Console) -> None:
    """What came after the backup, and does not lie in its source any more."""
    for pipeline in read_files(settings).pipelines:
        tables = Tables(settings.lake_uri, pipeline.log)
        said = lacking(pipeline, settings.home, tables) if pipeline.log == pipeline.name else None
        if said is not None:
            out.print(Text(f"! {said}", style="yellow"), soft_wrap=True)
