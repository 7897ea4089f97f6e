"""Which files plans have taken: by name, by what they are, and from which folder.

A name says which file is meant, but folders are moved and exchanged, files archived and linked
back, and links pointed elsewhere. So a plan also notes the folder, and size, time, device and
number of each file.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from penstock.lake.files import GONE, Decided, Place, State
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.listing import Found

Mark = tuple[int, int, int, int]
"""Device, number, size and modification: which file it is on the disk, as it is."""


class How(Enum):
    """How a file that lies in a source stands to what was taken."""

    NEW = auto()
    TAKEN = auto()
    CHANGED = auto()  # since it was taken
    ELSEWHERE = auto()  # taken under another name, from another folder, or by the other source
    UNCLEAR = auto()  # the name of a file of another folder, and not its size and time


class Had(NamedTuple):
    """An item that was taken, and what decisions call it."""

    place: Place
    item: Item


@dataclass(slots=True)
class Known:
    """What plans have taken of the files of a source.

    Attributes:
        folder: in which the source's files lie by now (``folder_name``).
        decided: what a person decided.
    """

    folder: str
    decided: Decided = field(default_factory=Decided)
    _names: dict[str, list[Had]] = field(default_factory=dict)
    _marks: dict[Mark, list[Had]] = field(default_factory=dict)

    def take(self, item: Item, number: int, *, own: bool, named: str) -> None:
        """Note that a plan has taken an item.

        Args:
            item: named from the source's folder.
            number: of the plan.
            own: it is of this source; else of the pipeline's other one.
            named: its path, as the plan names it.
        """
        had = Had((number, named), item)
        if own:
            for name in {item.path, item.real or item.path}:
                self._names.setdefault(name, []).append(had)
        if item.inode:
            self._marks.setdefault(mark(item), []).append(had)

    def had(self, file: Found | Item) -> list[Item]:
        """What was taken of a file, as far as it counts."""
        return [had.item for had in (*self._named(file), *self._marked(file))]

    def how(self, file: Found) -> How:
        """How a file stands to what was taken."""
        named = self._named(file)
        if not named and self._marked(file):
            return How.ELSEWHERE
        if not named:
            return How.UNCLEAR if self.namesakes(file) else How.NEW
        if not any(self._fits(file, had) for had in named):
            return How.CHANGED
        return How.ELSEWHERE if all(map(self._is_of_another, named)) else How.TAKEN

    def namesakes(self, file: Found) -> list[Place]:
        """What was taken under its name from other folders, unless these are known to be others."""
        some = self._by_name(file.real) if self.folder not in self.decided.other else []
        return [had.place for had in some if self._is_of_another(had)]

    def here(self) -> Iterator[tuple[str, list[Had]]]:
        """What was taken from this folder, as far as it counts, by which file it is."""
        for name in self._names:
            some = [had for had in self._by_name(name) if not self._is_of_another(had)]
            if some:
                yield name, some

    def states(self, file: Found) -> list[State]:
        """What a file was taken as, and what of it since a person has seen."""
        return [
            state
            for place, item in self._named(file)
            for state in self.decided.known(place, (item.size, item.modified))
            if state != GONE
        ]

    def goes_on(self, item: Item, is_grown: Callable[[Item, Item], bool]) -> bool:
        """Whether the rest of a file, of which parts were taken, is still that file's.

        Args:
            item: the file as it is now.
            is_grown: whether a file, as it was taken and as it is now, is a text that only grew.
        """
        return any(
            self._fits(item, had) or is_grown(had.item, item)
            for had in self._named(item) or self._marked(item)
        )

    def _named(self, file: Found | Item) -> list[Had]:
        """What was taken of it by its name, or of what a link there led to, if that is the same."""
        some = self._by_name(file.real or file.path)
        some = [h for h in some if not self._is_of_another(h) or self._fits(file, h)]
        if some:
            return some
        linked = self._counting(self._names.get(file.path, ()))
        return [had for had in linked if self._fits(file, had)]

    def _marked(self, file: Found | Item) -> list[Had]:
        some = self._counting(self._marks.get(mark(file), ()))
        return [had for had in some if had.place not in self.decided.given_up]

    def _by_name(self, real: str) -> list[Had]:
        some = self._counting(self._names.get(real, ()))
        return [had for had in some if (had.item.real or had.item.path) == real]

    def _is_of_another(self, had: Had) -> bool:
        """Whether names of the folder that it is of say nothing of files in this one."""
        return had.item.root not in {"", self.folder}

    def _fits(self, file: Found | Item, had: Had) -> bool:
        planned = had.item.size, had.item.modified
        return (file.size, file.modified) in self.decided.known(had.place, planned)

    def _counting(self, some: Iterable[Had]) -> list[Had]:
        return [had for had in some if had.place not in self.decided.again]


def mark(file: Found | Item) -> Mark:
    """Which file it is on the disk, as it is."""
    return file.device, file.inode, file.size, file.modified
