"""Reduce: partials of panes become answers when their windows close.

Keyed by shard, a fixed small number, never by the business key: a key costs 0.15-0.35 ms a
micro-batch in a Python state store. State is columnar: (pane, part) -> Arrow; a micro-batch
adds a part and never rewrites what it did not touch. No decision about lateness is made here.
"""

import json
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from penstock.core.step import StepSpec
from penstock.spark.mapper import closed_of, to_windows, windows_a_pane
from penstock.spark.wire import ANSWER, LATE, PUNCTUATION, STATUS, Wire, filled

MANY_PARTS = 8

Index = dict[int, tuple[list[int], dict[int, int]]]
"""pane start -> its part numbers, and n_records by ``closed``."""


class Reducer(StatefulProcessor):
    """One step's open panes, one shard at a time."""

    def __init__(self, step: StepSpec) -> None:
        self.step = step

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.wire = Wire(self.step)
        self.index = handle.getValueState("index", "content binary")
        self.panes = handle.getMapState("panes", "pane long, part int", "content binary")

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Add a micro-batch's partials, pass its late pairs on, answer what closed."""
        schema = self.wire.incoming
        tables = [pa.Table.from_pandas(df, schema=schema, preserve_index=False) for df in rows]
        table = pa.concat_tables(tables)
        kinds = np.asarray(table["kind"])
        punctuation = table.filter(pa.array(kinds == PUNCTUATION))
        meta = json.loads(punctuation["meta"][0].as_py())
        seeds = np.asarray(table["seed"]) == 1
        data = kinds != PUNCTUATION
        late = table.filter(pa.array(data & ~seeds)).select(self.wire.panes.names)
        yield from self._late(late)
        partials = table.filter(pa.array(data)).select(self.wire.panes.names)
        index = self._load()
        fresh = self._add(index, partials)
        yield from self._answers(index, fresh, meta)
        open_pairs = self._store(index, fresh, meta["to"])
        status = filled(
            self.wire.outgoing, 1, kind=STATUS, meta=json.dumps(meta), n_records=open_pairs
        )
        yield status.to_pandas()

    def _load(self) -> Index:
        stored = self.index.get()
        if stored is None:
            return {}
        index: Index = pickle.loads(stored[0])  # noqa: S301  written by _store
        return index

    def _late(self, partials: pa.Table) -> Iterator[pd.DataFrame]:
        """Pairs (record, window) whose window had closed before the record's block."""
        closed = np.asarray(partials["closed"])
        pairs = to_windows(self.wire.inner, partials, np.zeros_like(closed), closed)
        if pairs.num_rows:
            yield self._out(LATE, pairs, "").to_pandas()

    def _add(self, index: Index, partials: pa.Table) -> dict[int, pa.Table]:
        """New parts by pane, with their counts in the index."""
        panes = np.asarray(partials["pane"])
        counts = windows_a_pane(self.step.window, panes)
        partials = partials.filter(pa.array(np.asarray(partials["closed"]) < counts))
        partials = self.wire.layout.merge(partials, "pane", "closed").sort_by("pane")
        panes = np.asarray(partials["pane"])
        starts = np.flatnonzero(np.diff(panes, prepend=panes[:1] - 1)) if len(panes) else []
        ends = [*starts[1:], len(panes)] if len(panes) else []
        fresh = {}
        for a, b in zip(starts, ends, strict=True):
            part = partials.slice(int(a), int(b) - int(a))
            pane = int(panes[a])
            _, by_closed = index.setdefault(pane, ([], {}))
            closed, n = np.asarray(part["closed"]), np.asarray(part["n_records"])
            for c in np.unique(closed):
                add = int(n[closed == c].sum())
                by_closed[int(c)] = by_closed.get(int(c), 0) + add
            fresh[pane] = part
        return fresh

    def _answers(
        self, index: Index, fresh: dict[int, pa.Table], meta: dict[str, Any]
    ) -> Iterator[pd.DataFrame]:
        """Answers of the windows that close in this micro-batch."""
        spec = self.step.window
        panes = np.array(sorted(index), np.int64)
        lows, highs = closed_of(spec, panes, meta["from"]), closed_of(spec, panes, meta["to"])
        closing = panes[highs > lows]
        if not len(closing):
            return
        loaded = pa.concat_tables([self._pane(index, fresh, int(p)) for p in closing])
        of = np.asarray(loaded["pane"])
        low = np.maximum(closed_of(spec, of, meta["from"]), np.asarray(loaded["closed"]))
        answers = to_windows(self.wire.inner, loaded, low, closed_of(spec, of, meta["to"]))
        if not answers.num_rows:
            return
        marks = np.array([m for m, _ in meta["closings"]], np.int64)
        seqs = np.array([s for _, s in meta["closings"]], np.int64)
        ends = np.asarray(answers["window_start"]) + spec.size
        through = seqs[np.searchsorted(marks, ends)]
        at = answers.schema.get_field_index("last_seq")
        answers = answers.set_column(at, "last_seq", pa.array(through))
        yield self._out(ANSWER, answers, "").to_pandas()

    def _pane(self, index: Index, fresh: dict[int, pa.Table], pane: int) -> pa.Table:
        """All parts of a pane, merged; kept as its only part from now on."""
        parts = [_unpacked(self.panes.getValue((pane, part))[0]) for part in index[pane][0]]
        if pane in fresh:
            parts.append(fresh[pane])
        if len(parts) == 1:
            return parts[0]
        merged = self.wire.layout.merge(pa.concat_tables(parts), "pane", "closed")
        for part in index[pane][0]:
            self.panes.removeKey((pane, part))
        index[pane][0].clear()
        fresh[pane] = merged
        return merged

    def _store(self, index: Index, fresh: dict[int, pa.Table], watermark: int) -> int:
        """Write what changed, drop what is answered; returns the pairs still open."""
        spec = self.step.window
        open_pairs = 0
        for pane in list(index):
            parts, by_closed = index[pane]
            one = np.array([pane], np.int64)
            closed, count = closed_of(spec, one, watermark)[0], windows_a_pane(spec, one)[0]
            if closed >= count:
                for part in parts:
                    self.panes.removeKey((pane, part))
                del index[pane]
                continue
            open_pairs += sum(n * (int(count) - max(c, int(closed))) for c, n in by_closed.items())
            if pane in fresh and len(parts) >= MANY_PARTS:
                self._pane(index, fresh, pane)
            if pane in fresh:
                part = max(parts, default=-1) + 1
                self.panes.updateValue((pane, part), (_packed(fresh[pane]),))
                parts.append(part)
        self.index.update((pickle.dumps(index, 5),))
        return open_pairs

    def _out(self, kind: int, partials: pa.Table, meta: str) -> pa.Table:
        columns = {name: partials[name] for name in partials.schema.names}
        return filled(self.wire.outgoing, partials.num_rows, kind=kind, meta=meta, **columns)

    def close(self) -> None:
        """Nothing to release."""


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def _unpacked(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(bytes(content))).read_all()
