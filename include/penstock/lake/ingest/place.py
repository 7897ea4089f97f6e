"""Where sources lie, and what speaks against reading them there."""

import os
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from stat import S_ISDIR
from typing import NamedTuple

import pyarrow.fs

from penstock.config.intake import History, Source
from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.place import is_remote, path_of, uri_of
from penstock.lake.ingest.delta_log import DeltaSourceError, opened, refuse_mapping
from penstock.lake.ingest.listing import Apart, is_utf8, listed, table_of, within
from penstock.lake.ingest.reading import SourceError

OUTSIDE = "Name a folder outside: archived files would come in again, or stand in the way"


class PlaceProblem(NamedTuple):
    """What speaks against a place: the keys that lead to it in the file, what is wrong, remedy."""

    keys: tuple[str, ...]
    problem: str
    remedy: str


def folder_of(config: History, home: Path) -> str:
    """The folder of a source, as it is called.

    Raises:
        ConfigError: nothing could say its name.
    """
    folder = str((home / path_of(config.delta or config.files or "")).absolute())
    if not is_utf8(folder):
        raise ConfigError(f"{said(folder)}: a folder's name there is not UTF-8. Rename it.")
    return folder


def archive_of(source: Source, home: Path) -> str | None:
    """Where files go whose records are sealed; none: they are not archived."""
    return None if source.archive is None else str((home / path_of(source.archive)).absolute())


def folder_name(config: History, home: Path) -> str:
    """Which folder it is, links resolved: from home on, if it moves with it."""
    whole, real = os.path.realpath(home), os.path.realpath(folder_of(config, home))
    place = config.delta or config.files or ""
    is_beside = os.path.normpath(os.path.join(whole, place)) == real  # noqa: PTH118
    moves = within(real, whole) or (is_beside and not _is_absolute(config))
    return os.path.relpath(real, whole) if moves else real


def kept_apart(config: History, pipeline: Pipeline, home: Path, lake: str) -> list[Apart]:
    """Folders that nothing in a source may lead to.

    Args:
        config: the source or history.
        pipeline: whose.
        home: where relative places start.
        lake: where the tables lie.
    """
    twice = "Source and history must have no file in common: its records would be taken twice."
    if pipeline.streams:
        twice = twice.replace("Source and history", "Sources and histories")
    others = [c for _, c in _sources(pipeline) if c is not config and c.files]
    found = [
        Apart(os.path.realpath(folder_of(other, home)), f"{twice} Remove the link.")
        for other in others
    ]
    if not is_remote(lake):
        real = os.path.realpath(path_of(lake))
        found.append(Apart(real, "It is the lake: records would come in again. Remove the link."))
    return found


def check_apart(pipeline: Pipeline, home: Path, lake: str) -> None:
    """Source, history and lake have no folder in common, and none is a table read as files.

    Raises:
        ConfigError: one lies in the other, or is one.
    """
    for found in _overlap(pipeline, home, lake) + _tables_as_files(pipeline, home):
        raise ConfigError(f"{'.'.join(found.keys)} {found.problem}. {found.remedy}.")


def problems(pipeline: Pipeline, home: Path, lake: str) -> list[PlaceProblem]:
    """Everything that speaks against the places of a pipeline, as they are now."""
    found = _overlap(pipeline, home, lake) + _tables_as_files(pipeline, home)
    found += _of_sides(pipeline, home)
    for keys, config in _sources(pipeline):
        folder = folder_of(config, home)
        if (wrong := _not_a_folder(folder)) is not None:
            kind = "folder" if config.delta is None else "Delta table"
            what, remedy = wrong
            if not remedy:
                remedy = f"Name a {kind}; if it is to come yet, make it now" + (
                    f" (a relative one lies below {home})" if not _is_absolute(config) else ""
                )
            found.append(PlaceProblem(keys, f"the {kind} {folder} {what}", remedy))
        elif config.delta is not None:
            found += _of_table(keys, folder)
        elif config.files is not None and not found:
            try:
                listed(folder, (), str(home), kept_apart(config, pipeline, home, lake))
            except ConfigError as linked:
                found.append(PlaceProblem(keys, str(linked).rstrip("."), ""))
            except SourceError as away:
                what = f"cannot be listed: {away.path}: {away.why}"
                found.append(PlaceProblem(keys, what, "See that it can be read"))
    return found + _of_archives(pipeline, home)


def _archives(pipeline: Pipeline, home: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Folders that files are archived to, with the keys that lead to them in the file."""
    for stream, intake in pipeline.intakes.items():
        archive = archive_of(intake.source, home)
        if archive is not None:
            yield (*_below(stream), "source", "archive"), archive


def _of_archives(pipeline: Pipeline, home: Path) -> list[PlaceProblem]:
    """What speaks against archives as they are now: a mount that is away is not filled beneath."""
    found = []
    for keys, folder in _archives(pipeline, home):
        if (wrong := _not_a_folder(folder)) is not None:
            remedy = wrong[1] or f"Make it now (a relative one lies below {home})"
            found.append(PlaceProblem(keys, f"the folder {folder} {wrong[0]}", remedy))
    return found


def _of_sides(pipeline: Pipeline, home: Path) -> list[PlaceProblem]:
    """What speaks against the places of side data as they are now."""
    remedy = f"Put it there; without it the stream waits (a relative one lies below {home})"
    places = ((name, str(home / path_of(side.files))) for name, side in pipeline.load.items())
    return [
        PlaceProblem(("load", name, "files"), f"{place} is not there", remedy)
        for name, place in places
        if not os.path.exists(place)  # noqa: PTH110
    ]


def _side_overlaps(pipeline: Pipeline, home: Path, lake: str) -> list[PlaceProblem]:
    """Side data must not come in as records, nor go with files that are deleted or archived."""
    folders = {_whose(keys): folder_of(config, home) for keys, config in _sources(pipeline)}
    folders |= {_whose(keys): archive for keys, archive in _archives(pipeline, home)}
    folders |= {} if is_remote(lake) else {"the lake": str(path_of(lake))}
    places = {name: str(home / path_of(side.files)) for name, side in pipeline.load.items()}
    return [
        PlaceProblem(("load", name, "files"), f"{place} and {whose} {folder} lie in each other",
                     "Name a place outside: it is no source of records")
        for name, place in places.items()
        for whose, folder in folders.items()
        if _meet(folder, place)
    ]  # fmt: skip


def _not_a_folder(folder: str) -> tuple[str, str] | None:
    """What is wrong with it, and the remedy where it is a special one."""
    try:
        is_folder = S_ISDIR(os.stat(folder).st_mode)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return "is not there", ""
    except OSError as away:
        return f"cannot be looked at: {away.strerror}", "See that it can be read"
    return None if is_folder else ("is a file", "")


def said(path: str) -> str:
    """A path as it can be printed on one line, whatever is in it."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _below(stream: str) -> tuple[str, ...]:
    """The keys that lead to a stream's own in the file."""
    return ("sources", stream) if stream else ()


def _sources(pipeline: Pipeline) -> list[tuple[tuple[str, ...], History]]:
    """With the keys that lead to their places in the file."""
    found = []
    for stream, intake in pipeline.intakes.items():
        for name, config in (("source", intake.source), ("history", intake.history)):
            if config is not None and (config.files or config.delta):
                kind = "delta" if config.files is None else "files"
                found.append(((*_below(stream), name, kind), config))
    return found


def _whose(keys: tuple[str, ...]) -> str:
    """Whose a folder is, by the keys that lead to it."""
    *stream, what, kind = keys
    if kind == "archive":
        return f"{stream[1]}'s archive" if stream else "the archive"
    return f"{stream[1]}'s {what}" if stream else f"the {what}'s"


def _of_table(keys: tuple[str, ...], folder: str) -> list[PlaceProblem]:
    """What speaks against a Delta table as it is now."""
    try:
        table = opened(uri_of(folder), pyarrow.fs.LocalFileSystem(), folder)
        refuse_mapping(folder, table.metadata().configuration)
    except SourceError as none:
        return [PlaceProblem(keys, f"{none.path}: {none.why}", "")]
    except DeltaSourceError as other:
        return [PlaceProblem(keys, str(other).rstrip("."), "")]
    return []


def _tables_as_files(pipeline: Pipeline, home: Path) -> list[PlaceProblem]:
    """Folders of files that are Delta tables: compacted files would come in again."""
    remedy = "Name it by delta: in place of files:"
    return [
        PlaceProblem(keys, f"{folder} is a Delta table: what is rewritten would come again", remedy)
        for keys, config in _sources(pipeline)
        if config.files is not None
        and (folder := table_of(os.path.realpath(folder_of(config, home)))) is not None
    ]


def _is_absolute(config: History) -> bool:
    place = config.delta or config.files or ""
    return place.startswith("/") or "://" in place


def _overlap(pipeline: Pipeline, home: Path, lake: str) -> list[PlaceProblem]:
    found = []
    mine = _sources(pipeline)
    for (one, first), (keys, second) in combinations(mine, 2):
        places = folder_of(first, home), folder_of(second, home)
        if _meet(*places):
            what = f"{places[1]} and {_whose(one)} {places[0]} lie in each other"
            names = "sources and histories" if pipeline.streams else "history and source"
            found.append(PlaceProblem(keys, f"{what}: records would be taken twice",
                                      f"Put {names} into folders of their own"))  # fmt: skip
    for keys, config in [] if is_remote(lake) else mine:
        folder = folder_of(config, home)
        if _feeds_itself(config, pipeline, folder, lake):
            what = f"{folder} and the lake {lake} lie in each other: records would come in again"
            found.append(PlaceProblem(keys, what, "Name a folder of the source's own"))
    return found + _archive_overlaps(pipeline, home, lake) + _side_overlaps(pipeline, home, lake)


def _archive_overlaps(pipeline: Pipeline, home: Path, lake: str) -> list[PlaceProblem]:
    """What is archived must not come in again."""
    others = {_whose(keys): folder_of(config, home) for keys, config in _sources(pipeline)}
    others |= {} if is_remote(lake) else {"the lake": str(path_of(lake))}
    return [
        PlaceProblem(keys, f"{archive} and {whose} {folder} lie in each other", OUTSIDE)
        for keys, archive in _archives(pipeline, home)
        for whose, folder in others.items()
        if _meet(folder, archive)
    ]


def _feeds_itself(config: History, pipeline: Pipeline, folder: str, lake: str) -> bool:
    """A Delta table of another pipeline is a source as any other."""
    mine = path_of(lake) if config.files is not None else path_of(lake) / pipeline.log
    return _meet(folder, str(mine))


def _meet(one: str, two: str) -> bool:
    """Whether one of two folders lies in the other, also by links and mounts."""
    one, two = os.path.realpath(one), os.path.realpath(two)
    if within(one, two) or within(two, one):
        return True
    try:
        return Path(one).samefile(two)
    except OSError:  # one is not there, or cannot be looked at now
        return False
