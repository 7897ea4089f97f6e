"""Files that lie there as they were taken, and that nothing else can be mistaken for.

Of most files of a folder a look has nothing new to say. A pair of such a file and what was taken of
it is left out of looks while three things hold: the file is as it was; no other file has a key
(number, name, place, or size and time) of what was taken; and nothing else was taken that has a key
of the file. Then no step of a look (``Known.look``) for any other file comes upon the pair, so the
others are told apart as if all were looked at.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.lake.ingest.listing import Found
from penstock.lake.ingest.taken import TakenFile

Pair = tuple[Found, TakenFile]


@dataclass(slots=True)
class Settled:
    """The pairs."""

    _files: dict[str, Pair] = field(default_factory=dict)
    _paths: dict[TakenFile, str] = field(default_factory=dict)

    def __contains__(self, taken: object) -> bool:
        return taken in self._paths

    def rest(self, files: Sequence[Found]) -> list[Found]:
        """Files that have to be looked at: those that are new, changed, or were not told before.

        What does not lie there any more as it was is not settled any longer.
        """
        pairs = self._files
        left = [
            f
            for f in files
            if (pair := pairs.get(f.path)) is None or (pair[0] is not f and pair[0] != f)
        ]
        if len(files) - len(left) < len(pairs):
            there = {f.path for f in files} - {f.path for f in left}
            for path in pairs.keys() - there:
                self.drop(pairs[path][1])
        return left

    def touched(self, some: Iterable[TakenFile]) -> list[Found]:
        """Files that have to be looked at with others, since these may be mistaken for them."""
        return [pair[0] for taken in some if (pair := self.drop(taken)) is not None]

    def add(self, pairs: Iterable[Pair]) -> None:
        """Leave pairs out of looks from now on."""
        for file, taken in pairs:
            self._files[file.path] = file, taken
            self._paths[taken] = file.path

    def drop(self, taken: TakenFile) -> Pair | None:
        """Look at what was taken again; the pair that it was in."""
        path = self._paths.pop(taken, None)
        return None if path is None else self._files.pop(path)

    def clear(self) -> None:
        """Look at everything again."""
        self._files, self._paths = {}, {}


def alone(claims: Iterable[Iterable[TakenFile]]) -> set[TakenFile]:
    """What was taken of files that only one file may be, by what each file may be."""
    counts = Counter(taken for some in claims for taken in {*some})
    return {taken for taken, times in counts.items() if times == 1}
