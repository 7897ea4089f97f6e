"""Files that were taken, wholly or in part, and do not lie in their source any more.

To remove what was taken is usual. But a mount that is away looks the same to a process that was
started since: an empty folder, or none. So where everything that was taken from a folder is gone,
it is said, and no bounded source ends by it; where only a part of a file was taken, its rest is
waited for. A person who removed them says so once: ``penstock accept``.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from penstock.lake.ingest import notices
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.known import Known
from penstock.lake.ingest.listing import Found, Listing
from penstock.lake.ingest.place import said
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.spans import is_span, is_whole
from penstock.lake.ingest.taken import Had, TakenFile, mark, names_of
from penstock.lake.log.files import GONE

Missing = Sequence[Sequence[Had]]
"""What was taken of each file that is gone (``gone``)."""


def lost(known: Known, missing: Missing) -> list[TakenFile]:
    """What was taken, or is to be taken again, and was not there at the last look."""
    again = {known.of(had) for had in known.awaited()}
    return list(dict.fromkeys([*again, *(known.of(some[0]) for some in missing)]))


def gone(known: Known) -> Iterator[list[Had]]:
    """What was taken of each file that was not there at the last look.

    Unless a person knows, or its source does not keep what was taken.
    """
    for file in known.here():
        some = known.counting(file)
        if file in known.present or all(_is_settled(known, had) for had in some):
            continue
        if all(had.place[0] <= known.cleared_upto for had in some) and is_whole(_items(some)):
            known.keys.is_past(file)
            continue
        yield some


def _items(some: Sequence[Had]) -> list[Item]:
    return [had.item for had in some]


def not_taken_again(known: Known, files: Sequence[Found]) -> str | None:
    """A file that a person wants to be taken again, and that is gone before it was."""
    awaited = [had for had in known.awaited() if not _is_settled(known, had)]
    names = names_of(files) if awaited else set()
    return next((had.item.path for had in awaited if had.item.path not in names), None)


def not_there(some: Sequence[Found], files: Sequence[Found], known: Known) -> list[Found]:
    """Which files are not there, also under no other name, as nobody knows; each once."""
    if not some:
        return []
    names, marks = names_of(files), {mark(f) for f in files}
    left = [f for f in dict.fromkeys(some) if f.real not in names and mark(f) not in marks]
    return [f for f in left if not any(_is_settled(known, had) for had in known.named(f.real))]


def emptied(missing: Missing, files: Sequence[Found]) -> dict[str, int]:
    """Folders, the uppermost, of whose taken files none is there, nor any other file.

    Returns:
        How many files were taken from each, by its path from the source's folder; "." is that.
    """
    found: dict[str, int] = {}
    if not missing:
        return found
    holding = {f.path.rpartition("/")[0] for f in files}  # few, of many files
    left = {folder for path in holding for folder in PurePosixPath(path, "file").parents}
    for some in missing:
        folders = reversed(PurePosixPath(some[0].item.path).parents)
        folder = next((str(f) for f in folders if f not in left), None)
        if folder is not None:
            found[folder] = found.get(folder, 0) + 1
    return found


def begun(missing: Missing) -> str | None:
    """A file that is gone, and of which a part was never taken."""
    for some in missing:
        if not (is_whole(_items(some)) or any(is_span(had.item) for had in some)):
            return some[0].item.path
    return None


def partly(missing: Missing) -> list[str]:
    """Files that are gone, and of which only intervals were taken, by their paths."""
    return [some[0].item.path for some in missing if any(is_span(had.item) for had in some)]


def refuse_rests(known: Known, missing: Missing, listing: Listing, root: str) -> None:
    """Nothing waits, unless it is away.

    Raises:
        SourceError: a link leads nowhere, or a file that was begun is gone.
    """
    if listing.astray:
        link = f"{root}/{min(listing.astray)}"
        raise SourceError(link, notices.NOWHERE.format(target=said(os.path.realpath(link))))
    if (path := begun(missing)) is not None:
        raise SourceError(f"{root}/{path}", notices.BEGUN)
    if (path := not_taken_again(known, listing.files)) is not None:
        raise SourceError(f"{root}/{path}", notices.AGAIN)


def _is_settled(known: Known, had: Had) -> bool:
    """Whether a person has seen that it is gone."""
    decided = known.decided
    is_seen = decided.seen.get(had.place) == GONE and known.of(had) not in known.returned
    return had.place in decided.given_up or is_seen
