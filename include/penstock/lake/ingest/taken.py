"""What plans have taken of one file, and how what lies there may stand to it."""

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple

from penstock.lake.ingest.item import Item
from penstock.lake.ingest.listing import Found
from penstock.lake.log.files import Decided, Place


class How(Enum):
    """How a file that lies in a source stands to what was taken."""

    NEW = auto()
    TAKEN = auto()
    CHANGED = auto()  # since it was taken: it grew
    REPLACED = auto()  # another one, never read, under the name of one that was taken
    ELSEWHERE = auto()  # taken under another name, from another folder, or by the other source
    UNCLEAR = auto()  # the name of a file of another folder, and not its size and time


READ = (How.TAKEN, How.CHANGED, How.ELSEWHERE)
"""Of what lies there something was read."""


class Like(Enum):
    """How a file is still the one that was taken."""

    SAME = auto()  # size and time are known
    GROWN = auto()  # a text, longer, with what was there before
    TOUCHED = auto()  # of the same size and with the same end, at another time


class Had(NamedTuple):
    """An item that was taken, what decisions call it, and how its event times were read."""

    place: Place
    item: Item
    reading: str = ""


@dataclass(slots=True, eq=False)
class TakenFile:
    """What plans have taken of one file, under whatever names.

    Attributes:
        head: names it: the first part's place, as later parts write it down.
        own: it was taken by this source, also; else only by the pipeline's other one.
        parts: in the order of the plans.
    """

    head: str
    own: bool = False
    parts: list[Had] = field(default_factory=list)


Match = tuple[TakenFile | None, Like | None]
"""What a file was taken as, and how it still is that; only by its name: not at all."""
Mark = tuple[int, int, int, int]
"""Device, number, size and modification: which file it is on the disk, as it is."""


def place_of(root: str, file: Found | Item) -> str:
    """Where a file lies, whatever the folder is that its name starts from."""
    return os.path.normpath(os.path.join(root, file.real or file.path))  # noqa: PTH118


def mark(file: Found | Item) -> Mark:
    """Which file it is on the disk, as it is."""
    return file.device, file.inode, file.size, file.modified


def as_read(had: Had, decided: Decided) -> Item:
    """An item as it was read, if that was decided."""
    if had.place not in decided.as_it_is:
        return had.item
    size, modified = decided.as_it_is[had.place]
    inode, end = decided.read_as.get(had.place, (0, ""))
    return replace(had.item, size=size, modified=modified, inode=inode, ending=end, device=0)


def is_dealt_anew(parts: Iterable[Had], inode: int, born: Callable[[], int]) -> bool:
    """Whether a file was made after the one that had its number was removed."""
    births = {had.item.born for had in parts if had.item.inode == inode} - {0}
    return bool(births) and born() not in births | {0}


def names_of(files: Iterable[Found]) -> set[str]:
    """What files are called."""
    return {name for file in files for name in (file.path, file.real)}


def once(
    hows: Iterable[tuple[How, Found]], given_up: Collection[Found]
) -> tuple[list[Found], list[Found], list[str]]:
    """Of the names of one file on the disk one is enough.

    Args:
        hows: files, and how they stand to what was taken.
        given_up: those of which nothing was read, as a person has decided.

    Returns:
        Files that may wait; those of them that are new; what was taken already, as it is called.
    """
    hows = [*hows]
    numbers = {
        how: {(f.device, f.inode) for h, f in hows if h is how and f.inode and f not in given_up}
        for how in READ
    }
    seen = numbers[How.TAKEN] | numbers[How.CHANGED]
    fresh, new, elsewhere = list[Found](), list[Found](), list[str]()
    for how, file in hows:
        if how not in {How.ELSEWHERE, How.NEW}:
            fresh.append(file)
            continue
        one, is_new = (file.device, file.inode), how is How.NEW
        is_known = one in seen or (is_new and one in numbers[How.ELSEWHERE])
        if is_known or not is_new:
            elsewhere.append(file.path)
        if not is_known:
            seen |= {one} if file.inode else set()
            fresh.append(file)
            new += [file] if is_new else []
    return fresh, new, elsewhere
