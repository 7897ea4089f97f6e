"""Removing the tables of a pipeline."""

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow.fs

from penstock.core.errors import ConfigError
from penstock.lake.storage.spec import folders_in, opened
from penstock.lake.storage.tables import Tables

OF_A_STEP = ("answers", "merged", "late", "excluded", "control", "coverage")
"""Tables of which each step has one of its own."""
APART = "apart-"
"""Before the id of a step that has a query of its own, in the name of that."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a pipeline has in the lake."""

    uri: str
    files: int
    size: int


def stored(tables: Tables, steps: Collection[str] | None = None) -> Stored:
    """How much lies below a pipeline's folder of the lake: tables and checkpoints.

    Args:
        tables: of a log.
        steps: only what these have there, by id; none: everything.
    """
    sizes = list[int]()
    for uri in _places(tables, steps):
        filesystem, folder = opened(uri)
        selector = pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=True)
        sizes += [i.size or 0 for i in filesystem.get_file_info(selector) if i.is_file]
    return Stored(tables.uri(), len(sizes), sum(sizes))


def steps_in(tables: Tables) -> set[str]:
    """Ids of the steps that have something of their own there, whatever became of them."""
    found = set[str]()
    for table in OF_A_STEP:
        found |= folders_in(tables.uri(table))
    apart = (each for each in folders_in(tables.checkpoint()) if each.startswith(APART))
    return found | {each.removeprefix(APART) for each in apart}


def remove_tables(tables: Tables, steps: Collection[str] | None = None) -> None:
    """Delete the folder, or what some steps have in it; nothing there is no error.

    Raises:
        ConfigError: it cannot be deleted.
    """
    for uri in _places(tables, steps):
        _delete(tables, uri)


def _places(tables: Tables, steps: Collection[str] | None) -> list[str]:
    if steps is None:
        return [tables.uri()]
    own = [tables.uri(table, step) for step in sorted(steps) for table in OF_A_STEP]
    return [*own, *(tables.checkpoint(f"{APART}{step}") for step in sorted(steps))]


def _delete(tables: Tables, uri: str) -> None:
    filesystem, folder = opened(uri)
    if filesystem.get_file_info(folder).type is pyarrow.fs.FileType.NotFound:
        return
    try:
        filesystem.delete_dir(folder)
    except OSError as wrong:
        raise ConfigError(
            f"{tables.uri()} cannot be deleted: {wrong}. Nobody may write there: stop the"
            " pipeline's stream and jobs, see that the folder is yours, and call this again."
        ) from wrong
