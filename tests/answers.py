"""Answers and late rows as the oracle gives them, and the comparison of both."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.pipeline import Pipeline
from penstock.core.step import StepSpec
from penstock.kinds.windowed.wire import Wire
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from tests import reference as ref


def late_sums(step: StepSpec, found: dict[ref.Pair, list[pa.Table]]) -> dict[ref.Pair, Any]:
    """Late pairs summed over micro-batches: law 0 speaks of these sums."""
    layout, out = Wire(step).layout, {}
    for pair, parts in found.items():
        total = layout.merge(pa.concat_tables(parts).drop_columns(["shed"]), "window_start")
        values = {name: column[0].as_py() for name, column in layout.finish(total).items()}
        counts = {"n_records": total["n_records"][0].as_py(), "seq": total["last_seq"][0].as_py()}
        out[pair] = values | counts
    return out


def assert_same(
    expected: dict[ref.Pair, ref.Answer],
    found: dict[ref.Pair, dict[str, Any]],
    tolerance: float = 1e-15,
    *,
    position: bool = True,
) -> None:
    """Same windows and keys, every measure the same, counts and positions exactly."""
    missing, extra = expected.keys() - found.keys(), found.keys() - expected.keys()
    assert not missing, f"missing answers: {sorted(missing, key=str)[:5]} of {len(missing)}"
    assert not extra, f"answers too many: {sorted(extra, key=str)[:5]} of {len(extra)}"
    for pair, wanted in expected.items():
        got = found[pair]
        assert got["n_records"] == wanted.n_records, (pair, wanted, got)
        if position:
            assert got["seq"] == wanted.through_seq, (pair, wanted, got)
        for name, value in wanted.values.items():
            assert value.equals(got[name], tolerance), (pair, name, value, got[name])


def rows_by_pair(step: StepSpec, rows: pa.Table, position: str) -> dict[ref.Pair, dict[str, Any]]:
    """Rows of ``answers`` by window start and key, which must be unique."""
    starts = pc.cast(rows["window_start"], pa.int64()).to_pylist()
    out: dict[ref.Pair, dict[str, Any]] = {}
    for start, row in zip(starts, rows.to_pylist(), strict=True):
        pair = (start, tuple(row[k] for k in step.key_names))
        assert pair not in out, f"two answers of {pair}"
        out[pair] = row | {"seq": row[position]}
    return out


def late_by_pair(step: StepSpec, rows: pa.Table) -> dict[ref.Pair, dict[str, Any]]:
    """Rows of ``late`` summed by window start and key."""
    layout = Wire(step).layout
    at = rows.schema.get_field_index("window_start")
    plain = rows.set_column(at, "window_start", pc.cast(rows["window_start"], pa.int64()))
    wanted = layout.schema("window_start")
    merged = layout.merge(plain.select(wanted.names).cast(wanted), "window_start")
    measures = layout.finish(merged)
    out = {}
    for i, row in enumerate(merged.to_pylist()):
        pair = (row["window_start"], tuple(row[k] for k in step.key_names))
        values = {name: column[i].as_py() for name, column in measures.items()}
        out[pair] = values | {"n_records": row["n_records"], "seq": row["last_seq"]}
    return out


def shed_by_pair(step: StepSpec, rows: pa.Table) -> dict[ref.Pair, tuple[int, int]]:
    """How many pairs rows of ``late`` count by window start and key, and their last position."""
    by = ["window_start", *step.key_names]
    sums = rows.group_by(by).aggregate([("n_records", "sum"), ("last_seq", "max")])
    starts = pc.cast(sums["window_start"], pa.int64()).to_pylist()
    return {
        (start, tuple(row[k] for k in step.key_names)): (row["n_records_sum"], row["last_seq_max"])
        for start, row in zip(starts, sums.to_pylist(), strict=True)
    }


def events_of(tables: Tables, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Accepted records as they stand, event times in us."""
    names = ["arrival_seq", "event_time", *pipeline.types]
    events = read_table(Table(tables.events(pipeline.types)), names)
    at = events.schema.get_field_index("event_time")
    events = events.set_column(at, "event_time", pc.cast(events["event_time"], pa.int64()))
    return list(events.to_pylist())


@dataclass
class Memory:
    """What was seen of a log, for an oracle: rows by number, also those that went since."""

    events: dict[int, dict[str, Any]] = field(default_factory=dict)
    blocks: dict[int, dict[str, Any]] = field(default_factory=dict)

    def see(self, tables: Tables, pipeline: Pipeline) -> None:
        """Remember what is there; what was there before must still be what it was."""
        for row in events_of(tables, pipeline):
            assert self.events.setdefault(row["arrival_seq"], row) == row
        for row in read_table(Table(tables.blocks())).to_pylist():
            assert self.blocks.setdefault(row["block"], row) == row


def blocks_of(
    tables: Tables,
    pipeline: Pipeline,
    memory: Memory | None = None,
    streams: tuple[str, ...] = (),
) -> list[ref.Block]:
    """The sealed log as the oracle takes it; every number must stand exactly once.

    Args:
        tables: of the pipeline.
        pipeline: its file.
        memory: of what went, too; by default nothing went.
        streams: of several, whose blocks count; those of others only take their numbers.
    """
    events, records = events_of(tables, pipeline), dict[int, Any]()
    memory = memory or Memory()
    there = {row["arrival_seq"] for row in events}
    gone = [row for number, row in memory.events.items() if number not in there]
    for row in (*events, *gone):
        assert row["arrival_seq"] not in records, f"number {row['arrival_seq']} stands twice"
        records[row["arrival_seq"]] = row
    for seq in read_table(Table(tables.quarantine()), ["arrival_seq"])["arrival_seq"].to_pylist():
        assert seq not in records, f"number {seq} stands twice"
        records[seq] = None
    rows = read_table(Table(tables.blocks())).to_pylist()
    every = memory.blocks | {row["block"]: row for row in rows}
    sealed = [every[number] for number in sorted(every)]
    out, next_seq, total = [], 0, 0
    for number, row in enumerate(sealed):
        assert (row["block"], row["first_seq"]) == (number, next_seq), f"a gap before {row}"
        next_seq = row["last_seq"] + 1
        rows = tuple(records[s] for s in range(row["first_seq"], next_seq))
        accepted = sum(r is not None for r in rows)
        assert (row["accepted"], row["quarantined"]) == (accepted, len(rows) - accepted), row
        total += accepted
        assert row["accepted_total"] == total, row
        whose = {r.get("stream") for r in rows if r is not None}
        assert whose <= {row["stream"]}, f"records of {whose} in {row}"
        if streams and row["stream"] not in streams:
            out.append(ref.Block((None,) * len(rows)))
        else:
            out.append(ref.Block(rows, row["kind"], row["origin"] == "live"))
    return out
