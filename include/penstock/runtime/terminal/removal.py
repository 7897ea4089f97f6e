"""Removing a pipeline: everything it wrote, nothing that was written by hand."""

import os
import re
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from penstock.config.catalog import UnknownPipelineError
from penstock.config.kept import catalog_in_force, kept_file, read_files
from penstock.config.links import stands_on
from penstock.config.model import PIPELINE_RULE
from penstock.config.settings import Settings
from penstock.config.shares import Share, changing, remember, shares_of
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.core.version import FORMER, NEXT, pipeline_of, version_of, which_of
from penstock.lake.history.registry import end_step
from penstock.lake.history.standing import ever_run
from penstock.lake.storage.remove import Stored, remove_tables, stored
from penstock.lake.storage.spec import logs_in
from penstock.lake.storage.tables import Tables
from penstock.runtime.streams import control
from penstock.runtime.streams.links import linked
from penstock.runtime.streams.paths import StreamPaths, is_held, take_lock
from penstock.runtime.terminal.words import count, pairs, size

LEAVES, LOOK = 60.0, 0.5
"""So long a stream host may take to let a version go, and between two looks, s."""


class StreamRunsError(ConfigError):
    """A pipeline cannot be removed while its stream host writes to its tables."""

    def __init__(self, pipeline: str, state: str) -> None:
        self.pipeline, self.state = pipeline, state
        super().__init__(
            f"{pipeline}: its stream is {state} and would go on writing. Pause the DAG"
            f" stream__{pipeline} in Airflow and mark its run as failed, which stops the stream"
            " gracefully (penstock down stops all of them); then call this again."
        )


class StoodOnError(ConfigError):
    """A pipeline cannot be removed while others take its answers."""

    def __init__(self, pipeline: str, others: Sequence[str]) -> None:
        self.pipeline, self.others = pipeline, tuple(others)
        super().__init__(
            f"{pipeline}: it is what {', '.join(others)} is made of, and nothing there could be"
            " corrected or audited without it. Remove that first, with its file or its steps"
        )


@dataclass(frozen=True, slots=True)
class Removal:
    """What will be removed.

    Attributes:
        tables: in the lake.
        reports: folders of audit reports.
        files: of the stream.
        log: on which it stands.
        steps: runs that end with it, where the log is another pipeline's; none: the log ends, too.
        stays: who stands on its log, which stays as its file said it; none: it goes.
        shares: which runs its steps have.
        config: its pipeline file, which stays; none: there is none.
        definitions: where its last valid one is kept, and those of its versions.
    """

    tables: Stored
    reports: tuple[Path, ...]
    files: tuple[Path, ...]
    log: Tables
    steps: tuple[str, ...] | None
    stays: tuple[str, ...]
    shares: tuple[Share, ...]
    config: Path | None
    definitions: tuple[Path, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing is there."""
        there = any(file.exists() for file in self.definitions if which_of(file.stem))
        return not (self.tables.files or self.reports or self.files or self.shares or there)


def remove_pipeline(settings: Settings, name: str, out: Console, *, sure: bool) -> int:
    """Remove what a pipeline wrote, after asking for its name.

    Args:
        settings: with an absolute home.
        name: of the pipeline; its file may be gone or wrong already.
        out: where to say and ask.
        sure: do not ask.

    Returns:
        Exit status: 0 removed or nothing there, 1 not confirmed.

    Raises:
        UnknownPipelineError: neither a file nor anything written has this name.
        StreamRunsError: its stream host runs.
    """
    found = _find(settings, name)
    paths = StreamPaths(settings.streams, name)
    if not which_of(name):  # a version leaves what runs by itself
        _refuse_if_running(paths, found)
    if found.empty:
        out.print(f"Nothing to remove: {name} has written nothing.", soft_wrap=True)
        _show_what_stays(found, name, out)
        return 0
    _show(found, out)
    if not sure and not _confirmed(name, out):
        out.print("Not confirmed: nothing was removed. Without asking: --yes")
        return 1
    if which_of(name):
        _leave(settings, found, name)
    _remove(settings, found, paths)
    out.print(Text(f"Removed: everything that {name} had written.", style="green"))
    _show_what_stays(found, name, out)
    return 0


def _find(settings: Settings, name: str) -> Removal:
    """What there is; a name that is no name of a pipeline finds nothing, so no other folder."""
    catalog = read_files(settings)
    files = {p.name: p.path for p in catalog.pipelines}
    files |= {e.path.stem: e.path for e in catalog.errors if e.path.stem not in files}
    unknown = UnknownPipelineError(name, tuple(p.name for p in catalog.pipelines))
    versions = {version_of(pipeline_of(name), which) for which in (NEXT, FORMER)}
    mine = {name} & versions if which_of(name) else {name, *versions}
    if not mine or not re.fullmatch(PIPELINE_RULE, pipeline_of(name)):
        raise unknown
    direct = [p for p in catalog.pipelines if name in stands_on(p)[:1]]
    if above := [p.name for p in direct if p.log != name]:
        raise StoodOnError(name, above)
    guests = tuple(p.name for p in direct)
    others = {pipeline.name for pipeline in catalog_in_force(settings).every} - mine
    shares = shares_of(settings)
    log, steps = _stands(settings.lake_uri, name, mine, shares, others, stays=bool(guests))
    reports = (settings.docs / name, settings.docs / ".gx" / name, settings.results / name)
    found = Removal(
        tables=stored(log, steps),
        log=log,
        steps=steps,
        stays=guests,
        shares=tuple(
            share
            for share in shares
            if share.pipeline in mine or (share.log == name and not guests)
        ),
        reports=tuple(folder for folder in reports if folder.is_dir()),
        files=() if guests else tuple(sorted(settings.streams.glob(f"{name}.*"))),
        definitions=tuple(
            kept_file(settings, each) for each in sorted(mine) if not guests or each != name
        ),
        config=files.get(name),
    )
    if found.config is None and found.empty:
        raise unknown
    return found


def _stands(
    lake: str,
    name: str,
    mine: Collection[str],
    shares: Sequence[Share],
    others: Collection[str],
    *,
    stays: bool,
) -> tuple[Tables, tuple[str, ...] | None]:
    """The log on which a pipeline stands, and what it alone runs there if that stays for others."""
    for folder in logs_in(lake):
        tables, here = Tables(lake, folder), [share for share in shares if share.log == folder]
        runs, own = {share.run for share in here if share.pipeline in mine}, folder == name
        steps = [run for run in ever_run(tables) if run in runs
                 or ("." not in run if own else run.startswith(f"{name}."))]  # fmt: skip
        if (own and stays) or (not own and (steps or runs)):
            kept = {share.run for share in here if share.pipeline in others}
            return tables, tuple(run for run in steps if run not in kept)
    return Tables(lake, name), None


def _refuse_if_running(paths: StreamPaths, found: Removal) -> None:
    if found.steps is not None:
        host = StreamPaths(paths.folder, found.log.pipeline)
        alive = control.status(host)
        if alive.alive and (paths.name in linked(host) or _still_run(found, alive)):
            raise StreamRunsError(paths.name, alive.state)
    if found.stays:
        return
    known = control.status(paths)
    if known.alive or known.state == "wanted":
        raise StreamRunsError(paths.name, known.state)
    if is_held(paths.driver_lock):
        raise StreamRunsError(paths.name, "running without its supervisor")


def _leave(settings: Settings, found: Removal, name: str) -> None:
    """Let a version be none any more, and wait until its steps do not run."""
    for file in found.definitions:
        file.unlink(missing_ok=True)
    host, until = StreamPaths(settings.streams, found.log.pipeline), time.monotonic() + LEAVES
    while (alive := control.status(host)).alive and _still_run(found, alive):
        if time.monotonic() > until:
            raise StreamRunsError(name, alive.state)
        time.sleep(LOOK)


def _still_run(found: Removal, host: control.StreamStatus) -> set[str]:
    """Runs that the host has, a moment longer than it is told to, perhaps."""
    return set(found.steps or ()) & host.driver.get("steps", {}).keys()


def _confirmed(name: str, out: Console) -> bool:
    try:
        return out.input(f"This cannot be undone. Type [bold]{name}[/] to go on: ").strip() == name
    except EOFError:
        out.print()
        return False


def _remove(settings: Settings, found: Removal, paths: StreamPaths) -> None:
    """Remove it while holding the supervisor's lock, so that no stream starts meanwhile."""
    paths.folder.mkdir(parents=True, exist_ok=True)
    if found.stays:  # its stream goes on for others
        _delete(settings, found, found.files)
        return
    lock = take_lock(paths.supervisor_lock)
    if lock is None:
        raise StreamRunsError(paths.name, "being started")
    try:
        _delete(settings, found, {*found.files, paths.supervisor_lock})
    finally:
        os.close(lock)


def _delete(settings: Settings, found: Removal, files: Collection[Path]) -> None:
    try:
        with changing(settings):
            left = [share for share in shares_of(settings) if share not in found.shares]
            remember(settings, left)
        for step in found.steps or ():
            end_step(found.log, step, SystemClock())
        remove_tables(found.log, found.steps)
        for folder in found.reports:
            shutil.rmtree(folder)
        for file in (*files, *found.definitions):
            file.unlink(missing_ok=True)
    except OSError as wrong:
        raise ConfigError(
            f"{wrong.filename}: cannot be deleted ({wrong.strerror}). See that it is yours and"
            " nobody uses it, then call this again: it goes on with what is left."
        ) from wrong


def _show(found: Removal, out: Console) -> None:
    rows: list[tuple[str, str | Text]] = []
    if found.tables.files:
        much = f"{count(found.tables.files, 'file')}, {size(found.tables.size)}"
        what = (
            f"{', '.join(found.steps)} in {found.tables.uri}"
            if found.steps is not None
            else (f"{found.tables.uri} with its checkpoints")
        )
        rows.append(("tables", f"{what} ({much})"))
    rows += [("reports", str(folder)) for folder in found.reports]
    if found.files:
        first = found.files[0]
        rows.append(("stream", f"{count(len(found.files), 'file')} in {first.parent}"))
    out.print("To be removed:")
    out.print(pairs(*rows))


def _show_what_stays(found: Removal, name: str, out: Console) -> None:
    if found.config is not None:
        said = f"{'its steps in ' if name != found.config.stem else ''}{found.config}"
        out.print(
            Text(
                f"Its file stays, and the next run of stream__{name} begins afresh with it. If you"
                f" do not want that, delete {said}"
            ),
            soft_wrap=True,
        )
    if found.stays:
        said = f"Its log stays, as its file says it: {', '.join(found.stays)} stand on it."
        out.print(said, soft_wrap=True)
    if not which_of(name):
        said = f"Airflow keeps the history of the DAGs of {name}; logs stay, too."
        out.print(said, soft_wrap=True)
