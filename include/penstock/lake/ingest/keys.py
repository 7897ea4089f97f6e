"""What was taken, by all that a file that lies there may be known by."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.lake.ingest.item import Item
from penstock.lake.ingest.listing import Found
from penstock.lake.ingest.settled import Settled, alone
from penstock.lake.ingest.spans import is_whole
from penstock.lake.ingest.taken import Like, Match, TakenFile, place_of
from penstock.lake.log.files import Decided, State


@dataclass(slots=True)
class Keys:
    """What was taken of files, by key.

    Attributes:
        names: by its paths from the source's folder, through links and without; this source's own.
        inodes: by its number on the disk.
        states: by size and time.
        places: by where it lies, whatever the source's folder is.
        contents: by size and digest of its end.
        sizes: of those.
        settled: what looks leave out.
    """

    names: dict[str, list[TakenFile]] = field(default_factory=dict)
    inodes: dict[int, list[TakenFile]] = field(default_factory=dict)
    states: dict[State, list[TakenFile]] = field(default_factory=dict)
    places: dict[str, list[TakenFile]] = field(default_factory=dict)
    contents: dict[tuple[int, str], list[TakenFile]] = field(default_factory=dict)
    sizes: set[int] = field(default_factory=set)
    settled: Settled = field(default_factory=Settled)
    _open: dict[TakenFile, None] = field(default_factory=dict)

    def take(self, item: Item, file: TakenFile, *, own: bool) -> None:
        """Note that an item, a part of a file, was taken.

        Args:
            item: named from the source's folder.
            file: of which it is a part.
            own: it is of this source.
        """
        self.settled.drop(file)
        if own:
            self._open[file] = None
        for name in {item.path, item.real or item.path} if own else ():
            self.note(self.names, name, file)
        if item.root and item.version < 0:
            self.note(self.places, place_of(item.root, item), file)
        if item.inode:
            self.note(self.inodes, item.inode, file)
        self.note(self.states, (item.size, item.modified), file)
        if item.ending:
            self.sizes.add(item.size)
            some = self.contents.setdefault((item.size, item.ending), [])
            some += [] if file in some else [file]  # says of a new file alone what it may be

    def note(self, index: dict[Any, list[TakenFile]], key: object, file: TakenFile) -> None:
        """Note what was taken under a key; whatever else has it may be mistaken for it."""
        some = index.setdefault(key, [])
        if file not in some:
            some.append(file)
            for other in some if len(some) > 1 else ():
                self.settled.drop(other)

    def forget(self, file: TakenFile, numbers: Collection[int]) -> None:
        """Its file was removed: what numbers it had on the disk tell nothing any more."""
        self.settled.drop(file)
        for number in {had.item.inode for had in file.parts} | {*numbers}:
            if file in (some := self.inodes.get(number, [])):
                some.remove(file)

    def look_at_all(self) -> None:
        """Leave nothing out of the next look."""
        self.settled.clear()
        self._open = {file: None for some in self.names.values() for file in some}

    def to_look_at(self, files: Sequence[Found], folder: str) -> list[Found]:
        """Of the files that lie there, those that a look has to be told of.

        Args:
            files: all of them.
            folder: the source's.
        """
        left = self.settled.rest(files)
        left += self.settled.touched(taken for f in [*left] for taken in self._of(f, folder))
        return left

    def settle(
        self, files: Sequence[Found], matches: Sequence[Match], decided: Decided, folder: str
    ) -> None:
        """Leave out of looks what they have nothing new to say of.

        Args:
            files: that were looked at.
            matches: what they were taken as.
            decided: by persons.
            folder: the source's.
        """
        may_be = [{*self._of(f, folder)} for f in files]
        lonely = alone(may_be)
        self.settled.add(
            (file, taken)
            for file, (taken, like), some in zip(files, matches, may_be, strict=True)
            if taken is not None and like is Like.SAME and some == {taken} and taken in lonely
            if _is_plain(taken, file, decided, folder)
        )

    def unsettled(self) -> list[TakenFile]:
        """What was taken of this source, but what looks leave out, and what is past."""
        return [file for file in self._open if file not in self.settled]

    def is_past(self, file: TakenFile) -> None:
        """Note that nobody misses what was taken, unless it comes back."""
        self._open.pop(file, None)

    def _of(self, file: Found, folder: str) -> Iterator[TakenFile]:
        """Whatever was taken that has a key of a file."""
        yield from self.inodes.get(file.inode, ())
        yield from self.names.get(file.path, ())
        yield from self.names.get(file.real, ()) if file.real != file.path else ()
        yield from self.states.get((file.size, file.modified), ())
        yield from self.places.get(place_of(folder, file), ())


def _is_plain(taken: TakenFile, file: Found, decided: Decided, folder: str) -> bool:
    """Whether all of what was taken is exactly a file, and nobody decided anything of it."""
    state = file.path, file.size, file.modified, file.device, file.inode, folder
    items = [had.item for had in taken.parts]
    return (
        taken.own
        and file.real == file.path
        and all((i.path, i.size, i.modified, i.device, i.inode, i.root) == state for i in items)
        and not any(i.real or i.version >= 0 for i in items)
        and not any(decided.concerns(had.place) for had in taken.parts)
        and is_whole(items)
    )
