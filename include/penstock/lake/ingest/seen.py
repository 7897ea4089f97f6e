"""Repeated ids: a record whose id arrived within the horizon before it is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.pipeline import Pipeline
from penstock.core.window import micros
from penstock.lake.commit import Table
from penstock.lake.ingest.cast import Mask
from penstock.lake.ingest.verdict import Judged
from penstock.lake.read import data_files, read_files
from penstock.lake.tables import INSTANT


class SeenIds:
    """Ids of accepted records with their arrival, rebuilt from ``events`` where needed.

    What it knows before a plan is a function of the log up to the plan's first number, so a
    replay after a crash, or in another process, refuses the same records.
    """

    def __init__(self, pipeline: Pipeline, events: Table) -> None:
        assert pipeline.id is not None  # noqa: S101  the door asks only then
        self.column = pipeline.id.column
        self.horizon = micros(pipeline.id.horizon)
        self.events = events
        # With an arrival column instants need not rise: nothing may be forgotten by the clock.
        self.by_arrival = pipeline.arrival_time is None
        self._seen: dict[str, int] = {}
        self._upto = 0

    def catch_up(self, first_seq: int, arrived_at: int) -> None:
        """Know exactly the accepted ids below a position that arrived within the horizon.

        Args:
            first_seq: position of the plan's first record.
            arrived_at: the plan's arrival instant, us.
        """
        if first_seq <= self._upto:  # a replay: what was noted from the plan itself must go
            self._seen, self._upto = {}, 0
        delta = self.events.refresh()
        files = data_files(delta, "arrival_seq")
        paths = [f.path for f in files if f.greatest is None or f.greatest >= self._upto]
        oldest = arrived_at - self.horizon
        where = (pc.field("arrival_seq") >= self._upto) & (pc.field("arrival_seq") < first_seq)
        if self._upto == 0 and self.by_arrival:
            where &= pc.field("ingest_time") >= pc.scalar(oldest).cast(INSTANT)
        names = [self.column, "ingest_time", "arrival_seq"]
        rows = read_files(self.events.spec.uri, paths, self.events.spec.schema, names, where)
        rows = rows.sort_by("arrival_seq")
        ids = pc.cast(rows[self.column], pa.string()).to_pylist()
        times = pc.cast(rows["ingest_time"], pa.int64()).to_pylist()
        self._seen.update(zip(ids, times, strict=True))
        self._upto = first_seq
        if self.by_arrival:
            self._seen = {i: t for i, t in self._seen.items() if t >= oldest}

    def repeated(self, judged: Judged) -> Mask:
        """Which otherwise accepted records repeat an id; notes the others."""
        out = np.zeros(len(judged.reason), dtype=bool)
        if judged.ids is None:
            return out
        accepted = judged.accepted
        times = pc.cast(judged.columns["ingest_time"], pa.int64()).to_pylist()
        for row, name in enumerate(judged.ids.to_pylist()):
            if not accepted[row]:
                continue
            known = self._seen.get(name)
            if known is not None and times[row] - known <= self.horizon:
                out[row] = True
            else:
                self._seen[name] = times[row]
        return out
