"""Where files lie that were moved to a source's archive."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from penstock.lake.ingest.item import Item


def names(place: str) -> Iterator[str]:
    """A name, then numbered ones that keep the ending: none is ever written over."""
    yield place
    path = Path(place)
    for number in count(2):
        yield str(path.with_name(f"{path.stem}-{number}{path.suffix}"))


def archived(archive: str, item: Item, ended: Callable[[str, int], str]) -> str | None:
    """Where exactly the file of an item lies in an archive; none: not there.

    Args:
        archive: the folder.
        item: named from the source's folder.
        ended: digest of a file's end, by its place and size.

    Raises:
        SourceError: it cannot be read now.
    """
    for place in names(f"{archive}/{item.path}"):
        try:
            about = os.stat(place)  # noqa: PTH116
        except OSError:
            return None
        if (about.st_size, about.st_mtime_ns) != (item.size, item.modified):
            continue
        if item.ending == ended(place, item.size):
            return place
    return None
