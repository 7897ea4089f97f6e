"""Where spans of the watermark begin in the log, as an audit has found it by itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.columns.arrays import Longs
from penstock.core.window import FOREVER
from penstock.kinds.custom.spec import CustomSpec


@dataclass(frozen=True, slots=True)
class Cuts:
    """The spans of a step up to a position.

    Attributes:
        begins: positions from which on another span is open, ascending.
        alone: from this position on each record is a span of its own.
        open: the span that has not ended; -1: there is none.
    """

    begins: tuple[int, ...]
    alone: int
    open: int

    @classmethod
    def between(cls, marks: Sequence[tuple[int, int]], epoch: int, seq: int) -> "Cuts":
        """Of records after an epoch's history, up to a position.

        Args:
            marks: positions from which on a watermark is in force, and it, us; one for each span
                that ended.
            epoch: last position of the history, which is one span.
            seq: the position.
        """
        (_, start), *later = marks
        ended = [epoch + 1] if start >= FOREVER else [at for at, us in later if us >= FOREVER]
        begins = (epoch + 1, *(at for at, us in later if at <= seq + 1 and us < FOREVER))
        alone = min(ended, default=FOREVER)
        return cls(begins, alone, -1 if alone <= seq + 1 else len(begins))

    def of(self, seqs: Longs) -> Longs:
        """The span of each record."""
        found = np.searchsorted(np.array(self.begins, np.int64), seqs, side="right")
        return np.where(seqs >= self.alone, len(self.begins) + 1 + seqs, found)


def cuts_of(step: CustomSpec, marks: Sequence[tuple[int, int]], epoch: int, seq: int) -> Cuts:
    """As ``Cuts.between``; of a step that tells at once each record is a span of its own."""
    return Cuts.between(marks, epoch, seq) if step.by_span else Cuts((), 0, -1)
