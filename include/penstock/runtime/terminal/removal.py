"""Removing a pipeline: everything it wrote, nothing that was written by hand."""

import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.text import Text

from penstock.config.catalog import UnknownPipelineError
from penstock.config.feeds import AGAIN, Lodging
from penstock.config.kept import catalog_in_force, kept_file, read_files
from penstock.config.links import stands_on
from penstock.config.model import PIPELINE_RULE
from penstock.config.settings import Settings
from penstock.config.shares import Shares, changing, remember, shares_of
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
class Part:
    """What will be removed from a log on which a pipeline stands, or stood.

    Attributes:
        log: the log.
        steps: runs that end there, since it stays for others; none: the log ends, too.
        stored: how much that is.
    """

    log: Tables
    steps: tuple[str, ...] | None
    stored: Stored

    @classmethod
    def of(cls, log: Tables, steps: tuple[str, ...] | None) -> Self:
        """As it is now."""
        return cls(log, steps, stored(log, steps))


@dataclass(frozen=True, slots=True)
class Removal:
    """What will be removed.

    Attributes:
        parts: of logs.
        reports: folders of audit reports.
        files: of streams.
        stays: who else stands on a log of its own, which stays; none: it goes.
        shares: what is remembered of its runs and logs.
        config: its pipeline file, which stays; none: there is none.
        definitions: where its last valid one is kept, and those of its versions.
    """

    parts: tuple[Part, ...]
    reports: tuple[Path, ...]
    files: tuple[Path, ...]
    stays: tuple[str, ...]
    shares: Shares
    config: Path | None
    definitions: tuple[Path, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing is there."""
        there = any(file.exists() for file in self.definitions if which_of(file.stem))
        files = any(part.stored.files for part in self.parts)
        return not (files or self.reports or self.files or self.shares != Shares() or there)

    def ends_run_of(self, other: Lodging) -> bool:
        """Whether a log has answers that come to an end here."""
        return any(other.is_over(part.log.pipeline, part.steps) for part in self.parts)

    @property
    def ends(self) -> list[str]:
        """Names of the logs that end."""
        return [part.log.pipeline for part in self.parts if part.steps is None]


def remove_pipeline(settings: Settings, name: str, out: Console, *, sure: bool) -> int:
    """Remove what a pipeline wrote, after asking for its name.

    Args:
        settings: with an absolute home.
        name: of the pipeline; its file may be gone or wrong already. Or of a log that it left.
        out: where to say and ask.
        sure: do not ask.

    Returns:
        Exit status: 0 removed or nothing there, 1 not confirmed.

    Raises:
        UnknownPipelineError: neither a file nor anything written has this name.
        StreamRunsError: its stream host runs.
    """
    found = _former_log(settings, name) if AGAIN in name else _find(settings, name)
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
    mates = tuple(sorted({each.pipeline for each in shares.logs if each.log == name} & others))
    parts = tuple(_parts(settings.lake_uri, name, mine, shares, others, stays=bool(guests)))
    ends = {part.log.pipeline for part in parts if part.steps is None}
    hosts = ends | ({name} - {part.log.pipeline for part in parts})
    reports = (settings.docs / name, settings.docs / ".gx" / name, settings.results / name)
    found = Removal(
        parts=parts,
        stays=guests or mates,
        shares=Shares(
            tuple(each for each in shares.runs if each.pipeline in mine or each.log in ends),
            tuple(each for each in shares.logs if each.pipeline in mine or each.log in ends),
        ),
        reports=tuple(folder for folder in reports if folder.is_dir()),
        files=tuple(file for log in sorted(hosts) for file in settings.streams.glob(f"{log}.*")),
        definitions=tuple(
            kept_file(settings, each) for each in sorted(mine) if not guests or each != name
        ),
        config=files.get(name),
    )
    if found.config is None and found.empty:
        raise unknown
    return found


def _former_log(settings: Settings, log: str) -> Removal:
    """A log of answers on which pipelines stood that have another one now."""
    every, shares = catalog_in_force(settings).every, shares_of(settings)
    if here := [each.name for each in every if each.log == log]:
        raise StoodOnError(log, here)
    found = Removal(
        parts=(Part.of(Tables(settings.lake_uri, log), None),),
        stays=(),
        shares=Shares(
            tuple(each for each in shares.runs if each.log == log),
            tuple(each for each in shares.logs if each.log == log),
        ),
        reports=(),
        files=tuple(settings.streams.glob(f"{log}.*")),
        config=None,
        definitions=(),
    )
    if not found.shares.logs:
        raise UnknownPipelineError(log, tuple(each.name for each in every))
    return found


def _parts(
    lake: str,
    name: str,
    mine: Collection[str],
    shares: Shares,
    others: Collection[str],
    *,
    stays: bool,
) -> Iterator[Part]:
    """The logs on which a pipeline stands or stood; of what stays for others what it alone runs."""
    stood, found = {each.log for each in shares.logs if each.pipeline in mine}, False
    for folder in sorted({*logs_in(lake), *stood}):
        tables, here = Tables(lake, folder), [each for each in shares.runs if each.log == folder]
        runs, own = {share.run for share in here if share.pipeline in mine}, folder == name
        steps = [run for run in ever_run(tables) if run in runs
                 or ("." not in run if own else run.startswith(f"{name}."))]  # fmt: skip
        mates = {each.pipeline for each in shares.logs if each.log == folder} & {*others}
        if (own or folder in stood) and not stays and not mates:
            yield Part.of(tables, None)
        elif own or steps or runs:
            kept = {share.run for share in here if share.pipeline in others}
            yield Part.of(tables, tuple(run for run in steps if run not in kept))
        else:
            continue
        found = True
    if not found:
        yield Part.of(Tables(lake, name), None)


def _refuse_if_running(paths: StreamPaths, found: Removal) -> None:
    for part in found.parts:
        host = StreamPaths(paths.folder, part.log.pipeline)
        alive = control.status(host)
        if part.steps is not None:
            if alive.alive and (paths.name in linked(host) or _still_run(part, alive)):
                raise StreamRunsError(paths.name, alive.state)
        elif alive.alive or alive.state == "wanted":
            raise StreamRunsError(paths.name, alive.state)
        elif is_held(host.driver_lock):
            raise StreamRunsError(paths.name, "running without its supervisor")


def _leave(settings: Settings, found: Removal, name: str) -> None:
    """Let a version be none any more, and wait until its steps do not run."""
    for file in found.definitions:
        file.unlink(missing_ok=True)
    until = time.monotonic() + LEAVES
    for part in found.parts:
        host = StreamPaths(settings.streams, part.log.pipeline)
        while (alive := control.status(host)).alive and _still_run(part, alive):
            if time.monotonic() > until:
                raise StreamRunsError(name, alive.state)
            time.sleep(LOOK)


def _still_run(part: Part, host: control.StreamStatus) -> set[str]:
    """Runs that the host has, a moment longer than it is told to, perhaps."""
    return set(part.steps or ()) & host.driver.get("steps", {}).keys()


def _confirmed(name: str, out: Console) -> bool:
    try:
        return out.input(f"This cannot be undone. Type [bold]{name}[/] to go on: ").strip() == name
    except EOFError:
        out.print()
        return False


def _remove(settings: Settings, found: Removal, paths: StreamPaths) -> None:
    """Remove it while holding the supervisors' locks, so that no stream starts meanwhile."""
    paths.folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        locks = [StreamPaths(paths.folder, log).supervisor_lock for log in found.ends]
        for file in locks:
            if (lock := take_lock(file)) is None:
                raise StreamRunsError(paths.name, "being started")
            held.callback(os.close, lock)
        _delete(settings, found, {*found.files, *locks})


def _delete(settings: Settings, found: Removal, files: Collection[Path]) -> None:
    try:
        with changing(settings):
            known = shares_of(settings)
            left = Shares(
                tuple(each for each in known.runs if each not in found.shares.runs),
                tuple(
                    each.over if found.ends_run_of(each) else each
                    for each in known.logs
                    if each not in found.shares.logs
                ),
            )
            remember(settings, left)
        for part in found.parts:
            for step in part.steps or ():
                end_step(part.log, step, SystemClock())
            remove_tables(part.log, part.steps)
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
    for part in found.parts:
        if (there := part.stored).files:
            much = f"{count(there.files, 'file')}, {size(there.size)}"
            what = f"{there.uri} with its checkpoints"
            if part.steps is not None:
                what = f"{', '.join(part.steps)} in {there.uri}"
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
    if not which_of(name) and AGAIN not in name:
        said = f"Airflow keeps the history of the DAGs of {name}; logs stay, too."
        out.print(said, soft_wrap=True)
