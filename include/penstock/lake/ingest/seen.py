"""Repeated ids: a record whose id was accepted with an arrival within the horizon is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import INSTANT
from penstock.config.intake import Definition
from penstock.core.step import ONLY, STREAM
from penstock.core.window import micros
from penstock.lake.ingest.cast import Mask
from penstock.lake.ingest.verdict import Judged
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import data_files, read_files

Arrivals = dict[str, tuple[int, ...]]
"""Accepted arrival instants of each id, us."""


class SeenIds:
    """Ids of accepted records with their arrivals, rebuilt from ``events`` where needed.

    Arrivals of a column need not rise, and a record without one gets the plan's instant: so each
    accepted arrival of an id is held against, before or after it.

    What it knows before a plan is a function of the log up to the plan's first number, so a
    replay after a crash, or in another process, refuses the same records. Of the plan at hand
    nothing is remembered: what another process made of it may stand in the log. What a door has
    forgotten, one that starts anew does not read: arrival instants of plans never fall.
    """

    def __init__(self, pipeline: Definition, events: Table, stream: str = ONLY) -> None:
        assert pipeline.id is not None  # noqa: S101  the door asks only then
        self.column = pipeline.id.column
        self.horizon = micros(pipeline.id.horizon)
        self.events, self.stream = events, stream
        # With an arrival column instants need not rise: nothing may be forgotten by the clock.
        self.by_arrival = pipeline.arrival_time is None
        self._seen: Arrivals = {}
        self._own: Arrivals = {}
        self._upto = 0

    def catch_up(self, first_seq: int, arrived_at: int) -> None:
        """Know exactly the accepted ids below a position that arrived within the horizon.

        Args:
            first_seq: position of the plan's first record.
            arrived_at: the plan's arrival instant, us.
        """
        self._own = {}
        if first_seq < self._upto:
            self._seen, self._upto = {}, 0
        delta = self.events.refresh()
        files = data_files(delta, "arrival_seq")
        paths = [f.path for f in files if f.greatest is None or f.greatest >= self._upto]
        oldest = arrived_at - self.horizon
        where = (pc.field("arrival_seq") >= self._upto) & (pc.field("arrival_seq") < first_seq)
        if self._upto == 0 and self.by_arrival:
            where &= pc.field("ingest_time") >= pc.scalar(oldest).cast(INSTANT)
        if self.stream:  # an id of another stream names another record
            where &= pc.field(STREAM) == self.stream
        names = [self.column, "ingest_time", "arrival_seq"]
        rows = read_files(self.events.spec.uri, paths, self.events.spec.schema, names, where)
        rows = rows.sort_by("arrival_seq")
        ids = pc.cast(rows[self.column], pa.string()).to_pylist()
        times = pc.cast(rows["ingest_time"], pa.int64()).to_pylist()
        for name, arrived in zip(ids, times, strict=True):
            _note(self._seen, name, arrived)
        self._upto = first_seq
        if self.by_arrival:
            self._seen = {i: t for i, t in self._seen.items() if max(t) >= oldest}

    def repeated(self, judged: Judged) -> Mask:
        """Which otherwise accepted records repeat an id; notes the others."""
        out = np.zeros(len(judged), dtype=bool)
        if judged.ids is None:
            return out
        accepted = judged.accepted
        times = pc.cast(judged.columns["ingest_time"], pa.int64()).to_pylist()
        for row, name in enumerate(judged.ids.to_pylist()):
            if not accepted[row]:
                continue
            known = self._seen.get(name, ()) + self._own.get(name, ())
            if any(abs(times[row] - arrived) <= self.horizon for arrived in known):
                out[row] = True
            else:
                _note(self._own, name, times[row])
        return out


def _note(known: Arrivals, name: str, arrived: int) -> None:
    known[name] = (*known.get(name, ()), arrived)
