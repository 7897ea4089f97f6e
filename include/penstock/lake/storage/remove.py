"""Removing the tables of a pipeline."""

from dataclasses import dataclass

import pyarrow.fs

from penstock.core.errors import ConfigError
from penstock.lake.storage.spec import opened
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class Stored:
    """What a pipeline has in the lake."""

    uri: str
    files: int
    size: int


def stored(tables: Tables) -> Stored:
    """How much lies below a pipeline's folder of the lake: tables and checkpoints."""
    filesystem, folder = opened(tables.uri())
    selector = pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=True)
    sizes = [i.size or 0 for i in filesystem.get_file_info(selector) if i.is_file]
    return Stored(tables.uri(), len(sizes), sum(sizes))


def remove_tables(tables: Tables) -> None:
    """Delete the folder; nothing there is no error.

    Raises:
        ConfigError: it cannot be deleted.
    """
    filesystem, folder = opened(tables.uri())
    if filesystem.get_file_info(folder).type is pyarrow.fs.FileType.NotFound:
        return
    try:
        filesystem.delete_dir(folder)
    except OSError as wrong:
        raise ConfigError(
            f"{tables.uri()} cannot be deleted: {wrong}. Nobody may write there: stop the"
            " pipeline's stream and jobs, see that the folder is yours, and call this again."
        ) from wrong
