"""A look-up in plain Python, one record after the other: what the stream must compare.

For the audit alone (docs/decisions/0045-a-look-up.md); it shares nothing with what answers.
"""

from bisect import bisect, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Seen = tuple[int, int]
"""Event time (us) and position of a record: in this order records are kept."""
Finding = tuple[int, int, int, int]
"""Position of a record, the later and the earlier position of a pair, and its role."""


PAIR, BETWEEN, UNKNOWN = range(3)
"""What a finding says of a record: the pair may be an alarm; it has come between the two, and is
late if they are one; it is late, as something that it may be compared with is kept no more."""


@dataclass
class Kept:
    """The last records of a key, and the newest of those that are no more."""

    keep: int
    reach: int | None
    records: list[Seen] = field(default_factory=list)
    gone: Seen | None = None

    def add(self, record: Seen) -> None:
        """Keep it, if it is among the last."""
        insort(self.records, record)
        if len(self.records) > self.keep:
            oldest = self.records.pop(0)
            self.gone = oldest if self.gone is None else max(oldest, self.gone)

    def findings(self, record: Seen) -> Iterator[Finding]:
        """Of a record, before it is kept."""
        return self._beside(record) if self.reach is None else self._near(record, self.reach)

    def _beside(self, record: Seen) -> Iterator[Finding]:
        at, seq = bisect(self.records, record), record[1]
        if not at and self.gone is not None:
            yield seq, -1, -1, UNKNOWN
            return
        mine = [other for _, other in self.records[max(at - 1, 0) : at + 1]]
        for other in mine:
            yield seq, seq, other, PAIR
        if at and len(mine) > 1:
            yield seq, max(mine), min(mine), BETWEEN

    def _near(self, record: Seen, reach: int) -> Iterator[Finding]:
        time, seq = record
        for when, other in self.records:
            if abs(when - time) <= reach:
                yield seq, seq, other, PAIR
        if self.gone is not None and self.gone[0] >= time - reach:
            yield seq, -1, -1, UNKNOWN


def walk(
    log: Iterable[tuple[int, int]], keep: int, reach: int | None, after: int
) -> Iterator[Finding]:
    """Go through the records of a key.

    Args:
        log: position and event time (us) of each, in the order of the log.
        keep: so many are kept.
        reach: longest time between two that are compared, us; none: only neighbours are.
        after: of records up to this position nothing is asked.
    """
    kept = Kept(keep, reach)
    for seq, time in log:
        if seq > after:
            yield from kept.findings((time, seq))
        kept.add((time, seq))
