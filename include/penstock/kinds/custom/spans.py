"""When what a record changes is told: at once, or at the end of a span of the watermark.

``update: {every: PT30S}`` cuts the log where the watermark in force passes a multiple of the span:
a record belongs to the span in which it came, whatever its event time. So spans are functions of
the log, no record is late for one, and what is told is the state after a key's last record of each.
What came before a step's epoch is one span, told with the history; once the source has ended,
every record is told at once. Source: [D]; the two modes are RTMR's.
"""

from dataclasses import dataclass

import numpy as np

from penstock.columns.arrays import Bools, Longs
from penstock.columns.marks import Marks
from penstock.columns.windows import panes_of
from penstock.core.window import FOREVER, WindowSpec

AT_ONCE = FOREVER + 1
"""From here on a span is that of one record: its position is added."""


@dataclass(frozen=True, slots=True)
class WatermarkSpans:
    """The spans of a step.

    Attributes:
        window: as long as a span.
        waits: whether a span is told at its end; if not, each record is told at once.
    """

    window: WindowSpec
    waits: bool

    def of(self, marks: Marks, seqs: Longs) -> Longs:
        """The span of each record: the watermark at which it ends, us."""
        if not self.waits:
            return seqs + AT_ONCE
        watermarks = marks.at(seqs)
        ends = panes_of(self.window, watermarks) + self.window.size
        return np.where(watermarks >= FOREVER, seqs + AT_ONCE, ends)

    def ended(self, spans: Longs, watermark: int) -> Bools:
        """Which spans have ended under a watermark, us."""
        return (spans <= watermark) | (spans > FOREVER) | (watermark >= FOREVER)

    def moves(self, since: int, watermark: int) -> bool:
        """Whether a span may have ended between two watermarks, us."""
        ends = self.window.ends
        return not self.waits or watermark >= FOREVER or ends(watermark) > ends(since)

    def through(self, marks: Marks, spans: Longs, seqs: Longs) -> Longs:
        """Position at which ended spans were told.

        Args:
            marks: of the micro-batch in which they ended.
            spans: of some records.
            seqs: their positions.
        """
        once = spans > FOREVER
        found = seqs.copy()
        if not once.all():
            found[~once] = marks.closing(np.minimum(spans[~once], marks.watermarks[-1]))
        return np.maximum(found, seqs)
