"""Which files plans have taken: by what they are on the disk, by name, and from which folder.

A name says which file is meant, but folders are moved and exchanged, files renamed, archived and
linked back, and links pointed elsewhere. So a plan also notes the folder, and of each file size,
time, device, number and a digest of its end; and of the rest of a file, of which it is the rest.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from penstock.lake.ingest.item import FIRST, Item, is_grown
from penstock.lake.ingest.keys import Keys
from penstock.lake.ingest.listing import Found
from penstock.lake.ingest.spans import is_span
from penstock.lake.ingest.taken import (
    Had,
    How,
    Like,
    Mark,
    Match,
    TakenFile,
    as_read,
    is_dealt_anew,
    mark,
    place_of,
)  # fmt: skip
from penstock.lake.log.files import GONE, Decided, Place, State

Ending = Callable[[Found | Item, int], str]
"""Digest of the bytes before a size of a file as it is now, where there is a record in them."""


@dataclass(slots=True)
class Known:
    """What plans have taken of the files of a source.

    Attributes:
        folder: in which the source's files lie by now (``folder_name``).
        ending: reads a file's end.
        decided: what a person decided.
        present: what was taken of the files that were there at the last look.
        returned: what a person said is gone, and was there at a look since.
        born: when a file was made.
        keys: by what it is known.
        cleared_upto: files that plans up to this one took may have been removed since, by us.
    """

    folder: str
    ending: Ending
    born: Callable[[Found | Item], int]
    decided: Decided = field(default_factory=Decided)
    present: set[TakenFile] = field(default_factory=set)
    returned: set[TakenFile] = field(default_factory=set)
    cleared_upto: int = -1
    keys: Keys = field(default_factory=Keys)
    _heads: dict[str, TakenFile] = field(default_factory=dict)
    _others: set[str] = field(default_factory=set)
    _claimed: dict[TakenFile, Mark] = field(default_factory=dict)
    _false: set[Mark] = field(default_factory=set)
    _moved: dict[Mark, TakenFile] = field(default_factory=dict)
    _ends: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def take(self, item: Item, number: int, *, own: bool, named: str, reading: str = "") -> None:
        """Note that a plan has taken an item.

        Args:
            item: named from the source's folder.
            number: of the plan.
            own: it is of this source; else of the pipeline's other one.
            named: its path, as the plan names it.
            reading: how its event times were read; empty: not known.
        """
        had = Had((number, named), item, reading)
        file = self._of(item, f"{number}:{named}")
        file.parts.append(had)
        file.own |= own
        self.keys.take(item, file, own=own)
        self._others |= {item.root} if item.root and item.version < 0 and not own else set()

    def _of(self, item: Item, place: str) -> TakenFile:
        """The file of which an item is a part."""
        file = self._heads.get(place if item.head in {"", FIRST} else item.head)
        if file is None and not item.head:  # of a former version: by its name
            some = self.keys.names.get(item.real or item.path, ())
            file = next((f for f in reversed(some) if self._is_one(f, item)), None)
        file = file or TakenFile(place)
        self._heads[place] = file
        return file

    def _is_one(self, file: TakenFile, item: Item) -> bool:
        last = file.parts[-1].item
        return last.root == item.root and last.inode in {0, item.inode}

    def decide(self, decided: Decided) -> None:
        """Take note of what a person decided."""
        self.decided, self.returned = decided, set()
        self.keys.look_at_all()
        inodes = [*decided.lies.items(), *((p, i) for p, (i, _) in decided.read_as.items())]
        for (number, path), inode in inodes:
            file = self._heads.get(f"{number}:{path}")
            if file is not None and inode:
                self.keys.note(self.keys.inodes, inode, file)
        for (number, path), state in [*decided.as_it_is.items(), *decided.seen.items()]:
            file = self._heads.get(f"{number}:{path}")
            if file is not None:
                self.keys.note(self.keys.states, state, file)

    def look(self, files: Sequence[Found]) -> list[How]:
        """How the files that lie there now stand to what was taken.

        Args:
            files: all, or those that have to be looked at (``Keys.to_look_at``).
        """
        self._claimed, self._moved, self._false = {}, {}, set()
        matches = [self._by_inode(f) for f in files]
        for file, (taken, _) in zip(files, matches, strict=True):
            if taken is not None:
                self._claimed[taken] = mark(file)
        self._refuse_false_claims(files, matches)
        for find in (self._by_name, self._by_content):
            for at, (taken, _) in enumerate(matches):
                found = find(files[at]) if taken is None else None
                if found is not None:
                    matches[at] = found, Like.SAME
                    self._claimed[found] = mark(files[at])
        matches = [
            found if found[0] is not None else (self._former(f), None)
            for f, found in zip(files, matches, strict=True)
        ]
        self.present = {file for file, _ in matches if file is not None}
        if self.decided.seen:
            gone = {self._heads.get(f"{n}:{p}") for (n, p), now in self.decided.seen.items()
                    if now == GONE}  # fmt: skip
            self.returned |= self.present & gone
        hows = [self._how(f, *match) for f, match in zip(files, matches, strict=True)]
        self.keys.settle(files, matches, self.decided, self.folder)
        return hows

    def _refuse_false_claims(self, files: Sequence[Found], matches: list[Match]) -> None:
        """Undo matches by numbers that were dealt anew.

        Who has a taken file's number is not that file, if another one has its size, time and end,
        and the number's owner has another end.
        """
        owners = {taken: at for at, (taken, _) in enumerate(matches) if taken is not None}
        doubtful = deque(at for at, (taken, _) in enumerate(matches) if taken is None)
        while doubtful and owners:
            file = files[doubtful.popleft()]
            found = self._by_name(file) or next((t for t in self._alike(file) if t in owners), None)
            at = None if found is None else owners.pop(found, None)
            if found is None or at is None:
                continue
            if any(self._ends_alike(had.item, files[at]) for had in self.counting(found)):
                owners[found] = at  # a copy
            else:
                matches[at] = None, None
                self._claimed.pop(found)
                self._false.add(mark(files[at]))
                doubtful.append(at)

    def match(self, file: Found | Item) -> Match:
        """What a file was taken as."""
        if isinstance(file, Item) and (named := self._of_table(file)) is not None:
            return named, Like.SAME
        found = self._by_inode(file)
        if found[0] is not None:
            return found
        same = self._by_name(file) or self._moved.get(mark(file))
        return (same, Like.SAME) if same is not None else (self._former(file), None)

    def had(self, file: Found | Item) -> list[Item]:
        """What was taken of a file, as far as it counts."""
        taken, _ = self.match(file)
        return [] if taken is None else [had.item for had in self.counting(taken)]

    def head(self, file: Item) -> str:
        """Of which file the next part of it is one."""
        taken, _ = self.match(file)
        return FIRST if taken is None else taken.head

    def goes_on(self, file: Item) -> bool:
        """Whether the rest of a file, of which parts were taken, is still that file's."""
        return self.match(file)[1] in {Like.SAME, Like.GROWN}

    def read_otherwise(self, file: Item, reading: str) -> bool:
        """Whether an interval of it was taken while its event times were read in another way."""
        taken, _ = self.match(file)
        parts = [] if taken is None else self.counting(taken)
        return any(is_span(had.item) and had.reading not in {"", reading} for had in parts)

    def is_others(self, file: Item) -> bool:
        """Whether the pipeline's other source has taken it."""
        taken, like = self.match(file)
        return taken is not None and like is not None and not taken.own

    def is_others_folder(self) -> bool:
        """Whether the pipeline's other source has taken files from this folder."""
        return self.folder in self._others

    def namesakes(self, file: Found | Item) -> list[Place]:
        """What was taken under its name from other folders, unless these are known to be others."""
        if self.folder in self.decided.other:
            return []
        some = self.keys.names.get(file.real or file.path, ())
        parts = [had for taken in some for had in self.counting(taken)]
        return [had.place for had in parts if self._is_of_another(had)]

    def here(self) -> Iterator[TakenFile]:
        """What was taken from this folder, as far as it counts."""
        for file in self.keys.unsettled():
            some = [had for had in self.counting(file) if had.item.version < 0]  # no table's
            if any(not self._is_of_another(had) for had in some):
                yield file

    def awaited(self) -> Iterator[Had]:
        """What is to be taken again, and was not yet, of this folder."""
        for place in self.decided.again:
            file = self._heads.get(f"{place[0]}:{place[1]}")
            if file is None or not file.own or self.counting(file) or file in self.present:
                continue
            names = {name for had in file.parts for name in (had.item.path, had.item.real) if name}
            newer = (f for name in names for f in self.keys.names.get(name, ()) if self.counting(f))
            if next(newer, None) is None:
                yield file.parts[-1]

    def states(self, file: Found) -> list[State]:
        """What a file was taken as, and what of it since a person has seen."""
        taken, _ = self.match(file)
        parts = [] if taken is None else self.counting(taken)
        return [state for had in parts for state in self._known(had) if state != GONE]

    def of(self, had: Had) -> TakenFile:
        """The file of which something is a part."""
        return self._heads[f"{had.place[0]}:{had.place[1]}"]

    def named(self, name: str) -> list[Had]:
        """Whatever was taken under a name."""
        return [had for file in self.keys.names.get(name, ()) for had in file.parts]

    def is_renamed(self, file: Found) -> bool:
        """Whether the file that had its name lies there under another one."""
        some = self.keys.names.get(file.real, ())
        return any(taken in self._claimed for taken in some)

    def is_alike(self, file: Found) -> bool:
        """Whether a file was taken that has its size and end.

        Raises:
            SourceError: it cannot be read now.
        """
        if file.size not in self.keys.sizes:
            return False
        some = self.keys.contents.get((file.size, self.ending(file, file.size)), ())
        return any(not self._is_given_up(self.counting(taken)) for taken in some)

    def is_given_up(self, file: Found) -> bool:
        """Whether nothing of it was read, as a person has decided."""
        taken, _ = self.match(file)
        return taken is not None and self._is_given_up(self.counting(taken))

    def _is_given_up(self, parts: Sequence[Had]) -> bool:
        return all(had.place in self.decided.given_up for had in parts)

    def forget(self, file: TakenFile) -> None:
        """Its file was removed: its number on the disk tells nothing any more."""
        numbers = {self.decided.lies.get(had.place, 0) for had in file.parts}
        self.keys.forget(file, numbers)

    def counting(self, file: TakenFile) -> list[Had]:
        """Its parts, without what is to be taken again."""
        return [had for had in file.parts if had.place not in self.decided.again]

    def _how(self, file: Found, taken: TakenFile | None, like: Like | None) -> How:
        if taken is None:
            return How.UNCLEAR if self.namesakes(file) else How.NEW
        mine = (h.item for h in self.counting(taken) if not self._is_of_another(h))
        names = {file.real, file.path}
        is_named = taken.own and any(i.real == file.real or i.path in names for i in mine)
        if like is None:
            return How.REPLACED
        if like is Like.GROWN or (is_named and like is not Like.SAME):
            return How.CHANGED
        return How.TAKEN if is_named else How.ELSEWHERE

    def _by_inode(self, file: Found | Item) -> Match:
        is_told = file.inode and mark(file) not in self._false
        for taken in reversed(self.keys.inodes.get(file.inode, ()) if is_told else ()):
            parts = self.counting(taken)
            if self._is_given_up(parts) or self._is_other_of_table(file, taken):
                continue  # nothing of it was read: only its name counts
            if is_dealt_anew(parts, file.inode, lambda: self.born(file)):
                continue
            if (like := self._likeness(parts, file)) is not None:
                return taken, like
        return None, None

    def _of_table(self, item: Item) -> TakenFile | None:
        """What was taken of a table's file: the log names it by its path, wherever that lies."""
        for taken in reversed(self.keys.names.get(item.path, ()) if item.version >= 0 else ()):
            if any(had.item.version >= 0 for had in self.counting(taken)):
                return taken
        return None

    def _is_other_of_table(self, file: Found | Item, taken: TakenFile) -> bool:
        """Whether these are two files of one table, whatever their numbers say."""
        is_of_table = isinstance(file, Item) and file.version >= 0 and taken.own
        return is_of_table and any(had.item.version >= 0 for had in taken.parts)

    def _likeness(self, parts: Sequence[Had], file: Found | Item) -> Like | None:
        """How a file with the same number is still the one that was taken."""
        state, items = (file.size, file.modified), []
        for had in parts:
            item = as_read(had, self.decided)
            if item.inode == file.inode:
                items.append(item)
            elif self.decided.lies.get(had.place) != file.inode:
                continue
            same_disk = item.device in {0, file.device}
            if state in self._known(had) and (same_disk or self._ends_alike(item, file)):
                return Like.SAME
        for item in {item.ending: item for item in items if item.ending}.values():
            if item.size == file.size and self._ends_alike(item, file):
                return Like.TOUCHED
            if is_grown(item, file.size, file.inode, lambda size: self.ending(file, size)):
                return Like.GROWN
        return None

    def _by_name(self, file: Found | Item) -> TakenFile | None:
        """What was taken under its name, of its size and time; behind a link also of its end."""
        state, is_other = (file.size, file.modified), self.folder in self.decided.other
        for name in dict.fromkeys((file.real or file.path, file.path)):
            for taken in reversed(self.keys.names.get(name, ())):
                for had in self.counting(taken):
                    if name not in {had.item.real, had.item.path} or state not in self._known(had):
                        continue
                    of_another = self._is_of_another(had)
                    if of_another and is_other:
                        continue
                    links = (file.real or file.path) != (had.item.real or had.item.path)
                    is_claimed = self._claimed.get(taken) not in {None, mark(file)}
                    if not (of_another or links or is_claimed) or self._ends_alike(had.item, file):
                        return taken
        return None

    def _by_content(self, file: Found) -> TakenFile | None:
        """What was taken, and lies nowhere else, of its size, time and end: it was moved."""
        for taken in self._alike(file):
            if self._claimed.get(taken) in {None, mark(file)}:  # by another name of it
                self._moved[mark(file)] = taken
                return taken
        return None

    def _alike(self, file: Found | Item) -> Iterator[TakenFile]:
        """What was taken with its size, time and end."""
        for taken in self.keys.states.get((file.size, file.modified), ()):
            parts = self.counting(taken)
            items = [item for had in parts if (item := as_read(had, self.decided)).ending]
            if not items or self._is_given_up(parts):
                continue
            if any(item.modified == file.modified and self._ends_alike(item, file)
                   and self.ending(file, file.size) for item in items):  # fmt: skip
                yield taken

    def _former(self, file: Found | Item) -> TakenFile | None:
        """The last file that was taken from its place, if it does not lie there elsewhere."""
        name = file.real or file.path
        for taken in reversed(self.keys.names.get(name, ())):
            here = (h.item for h in self.counting(taken) if not self._is_of_another(h))
            if any((item.real or item.path) == name for item in here):
                return taken if taken not in self._claimed else None
        if self.folder in self.decided.other:
            return None
        some = reversed(self.keys.places.get(place_of(self.folder, file), ()))
        taken = next((t for t in some if self.counting(t)), None)
        return None if taken in self._claimed else taken

    def _ends_alike(self, item: Item, file: Found | Item) -> bool:
        if item.size != file.size or not item.ending:
            return item.size == file.size
        key = (*mark(file), hash(item.ending))
        if key not in self._ends:
            self._ends[key] = item.ending == self.ending(file, item.size)
        return self._ends[key]

    def _is_of_another(self, had: Had) -> bool:
        """Whether names of the folder that it is of say nothing of files in this one."""
        return had.item.root not in {"", self.folder}

    def _known(self, had: Had) -> list[State]:
        return self.decided.known(had.place, (had.item.size, had.item.modified))
