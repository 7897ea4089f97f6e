"""Watermarks in force, by position: all that lateness and the closing of windows hang on."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.columns.arrays import Longs
from penstock.core.window import BEGINNING, WindowSpec


@dataclass(frozen=True, slots=True)
class Marks:
    """``watermarks[i]`` is in force from position ``seqs[i]`` on; both ascending.

    Only those at which a window closes stand there: no other can change how many windows of a
    pane are closed.
    """

    seqs: tuple[int, ...]
    watermarks: tuple[int, ...]

    @classmethod
    def of(cls, marks: Sequence[tuple[int, int]]) -> "Marks":
        """From pairs (position, watermark)."""
        return cls(tuple(seq for seq, _ in marks), tuple(mark for _, mark in marks))

    def to_text(self) -> str:
        """For an offset: some bytes a mark."""
        steps = np.diff(np.array([self.seqs, self.watermarks], np.int64), prepend=0)
        return b64encode(zlib.compress(steps.tobytes(), 1)).decode()

    @classmethod
    def from_text(cls, text: str) -> "Marks":
        """Read back what ``to_text`` wrote."""
        steps = np.frombuffer(zlib.decompress(b64decode(text)), np.int64).reshape(2, -1)
        seqs, watermarks = np.cumsum(steps, axis=1).tolist()
        return cls(tuple(seqs), tuple(watermarks))

    def at(self, seqs: Longs) -> Longs:
        """Watermark in force for the records at these positions, us."""
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


NO_MARKS = Marks((0,), (BEGINNING,))
"""For windows that nothing is late for: open ones, or such as are answered as a whole."""


def note(marks: list[tuple[int, int]], seq: int, watermark: int, window: WindowSpec) -> None:
    """Note the watermark in force from a position on, if a window ended since the last noted."""
    if not marks or window.ends(marks[-1][1]) != window.ends(watermark):
        marks.append((seq, watermark))
