"""Reduce: partials of panes become answers when their windows close.

State is columnar: (bucket, part) -> Arrow, a bucket being the panes of one window's length; a
micro-batch adds a part and rewrites only what closed. Panes that open and close within a
micro-batch never reach the state. No decision about lateness is made here.
"""

import pickle
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.packets import packed, unpacked
from penstock.columns.windows import closed_of, windows_a_pane
from penstock.core.step import StepSpec
from penstock.kinds.frame import Advance, Reduced, State, Stays, unmoved, write_state
from penstock.kinds.windowed.mapper import to_windows, told_apart
from penstock.kinds.windowed.wire import Wire
from penstock.kinds.wire import SHED

MANY_PARTS = 8
INDEX = (0, -1)
"""Where the index lies: a state variable of its own would be opened in every micro-batch."""


@dataclass(slots=True)
class Bucket:
    """What the index knows of a bucket: its parts, its (record, window) pairs still open, its rows.

    Rows that a merge would make one count as several.
    """

    parts: list[int]
    pairs: int = 0
    rows: int = 0


class Reducer:
    """One step's open panes, one shard at a time."""

    def __init__(self, step: StepSpec, state: State) -> None:
        self.step, self.wire, self.buckets = step, Wire(step), state

    def reduce(self, advance: Advance, parts: pa.Table, seed: pa.Table) -> Reduced:
        """Add a micro-batch's partials, pass its late pairs on, answer what closed.

        Args:
            advance: of the micro-batch.
            parts: of its records.
            seed: partials that were open before a generation's start.
        """
        if advance.first:
            self.buckets.clear()
        late = self._late(parts)
        fresh = pa.concat_tables([parts, seed])
        index = self._load()
        closing = [b for b in index if self._closes(b, advance.since, advance.watermark)]
        loaded = {b: self._content(b, index[b]) for b in closing}
        answers = self._answers(pa.concat_tables([fresh, *loaded.values()]), advance)

        def write() -> dict[int, Bucket]:
            for bucket, content in loaded.items():
                self._settle(index, bucket, content, advance.watermark)
            self._add(index, fresh, advance.watermark)
            return index

        write_state(self.buckets, INDEX, write)
        open_pairs = sum(b.pairs for b in index.values())
        shed = pairs_of(late.filter(pc.equal(late[SHED.name], 1)))
        return Reduced(
            late, answers, open_pairs, pairs_of(late), pairs_of(answers), shed_pairs=shed,
            kept=sum(b.rows for b in index.values()),
        )  # fmt: skip

    def give(self, advance: Advance, stays: Stays) -> tuple[pa.Table, Reduced]:
        """Keep no more what belongs to another shard from now on."""
        index = self._load()
        held = [self._content(bucket, known) for bucket, known in index.items()]
        rows = self._open(pa.concat_tables([self.wire.parts.empty_table(), *held]),
                          advance.watermark)  # fmt: skip
        mine = pa.array(stays(rows))

        def write() -> dict[int, Bucket]:
            self.buckets.clear()
            left = dict[int, Bucket]()
            self._add(left, rows.filter(mine), advance.watermark)
            return left

        write_state(self.buckets, INDEX, write)
        pairs = sum(b.pairs for b in index.values())
        return rows.filter(pc.invert(mine)), unmoved(self.wire, pairs, rows.num_rows)

    def _load(self) -> dict[int, Bucket]:
        stored = self.buckets.getValue(INDEX)
        if stored is None:
            return {}
        index: dict[int, Bucket] = pickle.loads(stored[0])  # noqa: S301  written by handleInputRows
        return index

    def _late(self, partials: pa.Table) -> pa.Table:
        """Pairs (record, window) whose window had closed before the record came, or was shed."""
        found = [self.wire.late.empty_table()]
        for shed, mine in enumerate(told_apart(self.step, partials)):
            if not mine.num_rows:
                continue
            closed = np.asarray(mine["closed"]) - shed
            nothing, bare = np.zeros_like(closed), bool(shed)
            windows = to_windows(self.wire.inner, mine, nothing, closed, bare=bare)
            found.append(windows.append_column(SHED, pa.repeat(shed, windows.num_rows)))
        return pa.concat_tables(found)

    def _closes(self, bucket: int, since: int, to: int) -> bool:
        """Whether a window that holds some pane of the bucket ends in (since, to]."""
        spec = self.step.window
        low, high = max(since, bucket), min(to, bucket + 2 * spec.size - 1)
        return high > low and spec.ends(high) > spec.ends(low)

    def _content(self, bucket: int, known: Bucket) -> pa.Table:
        parts = [self.buckets.getValue((bucket, part))[0] for part in known.parts]
        return pa.concat_tables([unpacked(bytes(content)) for content in parts])

    def _answers(self, pool: pa.Table, advance: Advance) -> pa.Table:
        """Partials of the windows that close in this micro-batch, each with its position."""
        spec = self.step.window
        panes = np.asarray(pool["pane"])
        low = np.maximum(closed_of(spec, panes, advance.since), np.asarray(pool["closed"]))
        answers = to_windows(self.wire.inner, pool, low, closed_of(spec, panes, advance.watermark))
        if not answers.num_rows:
            return answers
        ends = np.asarray(answers["window_start"]) + spec.size
        through = advance.marks.closing(ends)
        at = answers.schema.get_field_index("last_seq")
        return answers.set_column(at, "last_seq", pa.array(through))

    def _settle(
        self, index: dict[int, Bucket], bucket: int, content: pa.Table, watermark: int
    ) -> None:
        """Drop what is answered of a bucket, and many small parts for one."""
        content = self._open(content, watermark)
        known = index[bucket]
        if content.num_rows and len(known.parts) < MANY_PARTS:
            known.pairs, known.rows = self._pairs(content), content.num_rows
            return
        for part in known.parts:
            self.buckets.removeKey((bucket, part))
        del index[bucket]
        if content.num_rows:
            self._store(index, bucket, content)

    def _add(self, index: dict[int, Bucket], fresh: pa.Table, watermark: int) -> None:
        """Write what is still open of a micro-batch, a part a bucket."""
        fresh = self._open(fresh, watermark)
        if not fresh.num_rows:
            return
        spec = self.step.window
        panes = np.asarray(fresh["pane"])
        of = (panes - spec.origin) // spec.size * spec.size + spec.origin
        for bucket in np.unique(of):
            part = fresh.filter(pa.array(of == bucket))
            known = index.get(int(bucket))
            if known is not None and len(known.parts) >= MANY_PARTS:
                whole = pa.concat_tables([self._content(int(bucket), known), part])
                self._settle(index, int(bucket), whole, watermark)
            else:
                self._store(index, int(bucket), part)

    def _store(self, index: dict[int, Bucket], bucket: int, content: pa.Table) -> None:
        known = index.setdefault(bucket, Bucket([]))
        content = self.wire.layout.merge(content, "pane", "closed")
        part = max(known.parts, default=-1) + 1
        self.buckets.updateValue((bucket, part), (packed(content),))
        known.parts.append(part)
        known.pairs += self._pairs(content)
        known.rows += content.num_rows

    def _open(self, partials: pa.Table, watermark: int) -> pa.Table:
        """Rows with a window still open, and in ``closed`` how many are not, by now."""
        panes = np.asarray(partials["pane"])
        closed = np.maximum(
            np.asarray(partials["closed"]), closed_of(self.step.window, panes, watermark)
        )
        at = partials.schema.get_field_index("closed")
        now = partials.set_column(at, "closed", pa.array(closed))
        return now.filter(pa.array(closed < windows_a_pane(self.step.window, panes)))

    def _pairs(self, partials: pa.Table) -> int:
        """Pairs (record, window) whose window is open."""
        counts = windows_a_pane(self.step.window, np.asarray(partials["pane"]))
        left: Longs = counts - np.asarray(partials["closed"])
        return int((np.asarray(partials["n_records"]) * left).sum())


def pairs_of(partials: pa.Table) -> int:
    """Pairs (record, window) that some partials count."""
    return pc.sum(partials["n_records"]).as_py() or 0
