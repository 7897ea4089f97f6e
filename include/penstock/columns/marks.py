"""Watermarks in force, by position: all that lateness and the closing of windows hang on."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.columns.arrays import Bools, Longs
from penstock.columns.sheds import shed_of
from penstock.core.shedding import Shed
from penstock.core.window import BEGINNING, FOREVER, WindowSpec

SHED = "|"
"""Between the two parts of a text."""


@dataclass(frozen=True, slots=True)
class Marks:
    """``watermarks[i]`` is in force from position ``seqs[i]`` on; both ascending.

    Only those at which a window closes stand there: no other can change how many windows of a
    pane are closed. For a record that is shed, the time of all windows is over: it came too late
    for every one.

    Attributes:
        sheds: from which positions on how much is shed.
    """

    seqs: tuple[int, ...]
    watermarks: tuple[int, ...]
    sheds: tuple[Shed, ...] = ()

    @classmethod
    def of(cls, marks: Sequence[tuple[int, int]], sheds: Sequence[Shed] = ()) -> "Marks":
        """From pairs (position, watermark)."""
        seqs, watermarks = (tuple(mark[n] for mark in marks) for n in (0, 1))
        return cls(seqs, watermarks, tuple(sheds))

    def to_text(self) -> str:
        """For an offset: some bytes a mark."""
        return SHED.join(map(_text, [(self.seqs, self.watermarks), *self._shed]))

    @classmethod
    def from_text(cls, text: str) -> "Marks":
        """Read back what ``to_text`` wrote."""
        (seqs, watermarks), *shed = map(_numbers, text.split(SHED))
        return cls(
            tuple(seqs), tuple(watermarks), tuple(zip(*shed[0], strict=True) if shed else ())
        )

    @property
    def _shed(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Positions and ratios, if there are any."""
        return [tuple(zip(*self.sheds, strict=True))] if self.sheds else []

    @property
    def shed(self) -> int:
        """How much is shed after the last position, per cent."""
        return self.sheds[-1][1] if self.sheds else 0

    def is_shed(self, seqs: Longs) -> Bools:
        """Which of the records at these positions are shed."""
        return shed_of(seqs, self.sheds)

    def at(self, seqs: Longs) -> Longs:
        """Watermark in force for the records at these positions, us; for shed ones ``FOREVER``."""
        found = self._at(seqs)
        return np.where(self.is_shed(seqs), FOREVER, found) if self.sheds else found

    def _at(self, seqs: Longs) -> Longs:
        watermarks = np.array(self.watermarks, np.int64)
        if len(seqs) and bool((seqs[1:] >= seqs[:-1]).all()):
            cuts = np.searchsorted(seqs, np.array(self.seqs[1:], np.int64))
            return np.repeat(watermarks, np.diff(cuts, prepend=0, append=len(seqs)))
        position = np.searchsorted(np.array(self.seqs), seqs, side="right") - 1
        return watermarks[np.maximum(position, 0)]

    def closing(self, ends: Longs) -> Longs:
        """Position at which windows closed that end at these instants, us."""
        which = np.searchsorted(np.array(self.watermarks, np.int64), ends)
        return np.array(self.seqs, np.int64)[which] - 1


def _text(both: tuple[Sequence[int], Sequence[int]]) -> str:
    steps = np.diff(np.array(both, np.int64), prepend=0)
    return b64encode(zlib.compress(steps.tobytes(), 1)).decode()


def _numbers(text: str) -> list[list[int]]:
    steps = np.frombuffer(zlib.decompress(b64decode(text)), np.int64).reshape(2, -1)
    found: list[list[int]] = np.cumsum(steps, axis=1).tolist()
    return found


NO_MARKS = Marks((0,), (BEGINNING,))
"""For windows that nothing is late for: open ones, or such as are answered as a whole."""


def note(marks: list[tuple[int, int]], seq: int, watermark: int, window: WindowSpec) -> None:
    """Note the watermark in force from a position on, if a window ended since the last noted."""
    if not marks or window.ends(marks[-1][1]) != window.ends(watermark):
        marks.append((seq, watermark))
