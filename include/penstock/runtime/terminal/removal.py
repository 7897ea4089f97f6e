"""Removing a pipeline: everything it wrote, nothing that was written by hand."""

import os
import shutil
import time
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.text import Text

from penstock.config.catalog import UnknownPipelineError
from penstock.config.feeds import AGAIN
from penstock.config.held import waiting
from penstock.config.kept import catalog_in_force, kept_file, read_files
from penstock.config.settings import Settings
from penstock.config.shares import changing, remember, shares_of
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.core.version import NEXT, pipeline_of, which_of
from penstock.lake.history.registry import end_step
from penstock.lake.storage.remove import remove_tables
from penstock.runtime.streams import control
from penstock.runtime.streams.links import linked_to
from penstock.runtime.streams.paths import StreamPaths, is_held, take_lock
from penstock.runtime.terminal.to_remove import Part, Removal, of_a_former_log, to_be_removed
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


class ChangedMeanwhileError(ConfigError):
    """What goes with a pipeline is not what was shown before it was confirmed."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        super().__init__(
            f"{pipeline}: what goes with it is not what was shown any more, since pipeline files"
            " were edited meanwhile: others may have its steps now. No table was deleted. Call"
            " this again, and look once more."
        )


class HoldsEditError(ConfigError):
    """A version cannot be removed while nothing else keeps an edit from being followed."""

    def __init__(self, version: str, file: Path) -> None:
        self.version, self.file = version, file
        super().__init__(
            f"{version}: without it readers would be switched to what {file} says, since nothing of"
            " that is to be computed any more. Change the file back first, or trigger"
            " apply__topology to approve it; then call this again."
        )


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
        HoldsEditError: it is a version, and readers would be switched.
        ChangedMeanwhileError: others came to share what it has while it was asked.
    """
    found = _found(settings, name)
    paths = StreamPaths(settings.streams, name)
    if not which_of(name):  # a version leaves what runs by itself
        _refuse_if_running(paths, found)
    if found.empty:
        if found.config is None:
            raise UnknownPipelineError(name, tuple(p.name for p in read_files(settings).pipelines))
        out.print(f"Nothing to remove: {name} has written nothing.", soft_wrap=True)
        _show_what_stays(found, name, out)
        return 0
    if which_of(name) == NEXT:
        _refuse_to_switch(settings, name)
    _show(found, out)
    if not sure and not _confirmed(name, out):
        out.print("Not confirmed: nothing was removed. Without asking: --yes")
        return 1
    if which_of(name):
        _leave(settings, found, name)
    found = _remove(settings, found, paths)
    out.print(Text(f"Removed: everything that {name} had written.", style="green"))
    _show_what_stays(found, name, out)
    return 0


def _found(settings: Settings, name: str) -> Removal:
    return (of_a_former_log if AGAIN in name else to_be_removed)(settings, name)


def _refuse_if_running(paths: StreamPaths, found: Removal) -> None:
    for log in linked_to(paths.folder, paths.name):
        if (alive := control.status(StreamPaths(paths.folder, log))).alive:
            raise StreamRunsError(paths.name, alive.state)
    for part in found.parts:
        host = StreamPaths(paths.folder, part.log.pipeline)
        alive = control.status(host)
        if part.steps is not None:
            if alive.alive and _still_run(part, alive):
                raise StreamRunsError(paths.name, alive.state)
        elif alive.alive or alive.state == "wanted":
            raise StreamRunsError(paths.name, alive.state)
        elif is_held(host.driver_lock):
            raise StreamRunsError(paths.name, "running without its supervisor")


def _refuse_to_switch(settings: Settings, version: str) -> None:
    """An edit that was taken back waits by its version alone, if others have its past by now."""
    name, in_force = pipeline_of(version), catalog_in_force(settings)
    if name not in in_force.held:
        return
    edited, former = read_files(settings).pipeline(name), in_force.pipeline(name)
    files = [edited if each.name == name else each for each in in_force.pipelines]
    new = {each.name for each in files if not kept_file(settings, each.name).is_file()}
    if not waiting(files, {name: former}, in_force.logs, shares_of(settings), new):
        raise HoldsEditError(version, edited.path)


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


def _remove(settings: Settings, shown: Removal, paths: StreamPaths) -> Removal:
    """Remove it while holding the supervisors' locks, so that no stream starts meanwhile."""
    paths.folder.mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as held:
            with changing(settings):  # nobody comes to share anything
                found = _found(settings, paths.name)
                if not found.is_still(shown):
                    raise ChangedMeanwhileError(paths.name)
                if not which_of(paths.name):
                    _refuse_if_running(paths, found)
                locks = [StreamPaths(paths.folder, log).supervisor_lock for log in found.ends]
                for file in locks:
                    if (lock := take_lock(file)) is None:
                        raise StreamRunsError(paths.name, "being started")
                    held.callback(os.close, lock)
                remember(settings, found.over(shares_of(settings)))
            _delete(found, {*found.files, *locks})
            with changing(settings):  # last: whoever is killed before finds it again
                remember(settings, found.left(shares_of(settings)))
    except OSError as wrong:
        raise ConfigError(
            f"{wrong.filename}: cannot be deleted ({wrong.strerror}). See that it is yours and"
            " nobody uses it, then call this again: it goes on with what is left."
        ) from wrong
    return found


def _delete(found: Removal, files: Collection[Path]) -> None:
    for part in found.parts:
        for step in part.steps or ():
            end_step(part.log, step, SystemClock())
        remove_tables(part.log, part.steps)
    for folder in found.reports:
        shutil.rmtree(folder)
    for file in (*files, *found.definitions):
        file.unlink(missing_ok=True)


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
    rows += [("definition", str(file)) for file in found.forgotten]
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
        says = "last said" if found.config is None else "says"
        said = f"Its log stays, as its file {says} it: {', '.join(found.stays)} stand on it."
        out.print(said, soft_wrap=True)
    if not which_of(name) and AGAIN not in name:
        said = f"Airflow keeps the history of the DAGs of {name}; logs stay, too."
        out.print(said, soft_wrap=True)
