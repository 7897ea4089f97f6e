"""The log counted again, for the audit: every number, and every sealed block against its records.

It shares no code with the door: a block's figures are taken from ``events`` and ``quarantine``
anew, in one pass over three columns. From a waypoint on, only what came after it is read.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.core.step import ONLY, STREAM
from penstock.core.window import BEGINNING, FOREVER, instant
from penstock.lake.log.blocks import LIVE
from penstock.lake.log.files import DETAIL, Decided, decided
from penstock.lake.proof.waypoint import BEGIN, Waypoint
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, data_files, read_files, read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

NUMBERS_AT_ONCE = 1 << 21
SHOWN = 20
WITHOUT_PLAN = "block or row without its plan"
OTHER_STREAM = "block of another stream than its plan"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something of the log that is not as it must be.

    Attributes:
        what: what is wrong; its first word is the kind.
        place: what it concerns, by name: a number, a block, a micro-batch.
        expected, found: by name.
    """

    what: str
    place: dict[str, Any]
    expected: dict[str, Any]
    found: dict[str, Any]

    def told(self) -> dict[str, Any]:
        """As an example of an audit that concerns no window."""
        expected, found = (json.dumps(each, default=str) for each in (self.expected, self.found))
        return {"key": self.place, "what": self.what, "expected": expected, "found": found}


@dataclass
class Blocks:
    """Sealed blocks up to a position with figures taken from their records, in order.

    Attributes:
        number, last_seq, t_max: as integers, us; ``t_max`` is BEGINNING without a record.
        kind: data, idle or end.
        live: false for history.
        lateness: the greatest one of a record, us.
        stream: whose they are; empty: of the only one.
        mark: where watermarks go with them, us; BEGINNING: nowhere.
    """

    number: Longs
    last_seq: Longs
    kind: list[str]
    live: npt.NDArray[np.bool_]
    t_max: Longs
    lateness: Longs
    stream: list[str]
    mark: Longs

    def seen_by(self, streams: Sequence[str]) -> "Blocks":
        """As a step over some streams sees them: those of others hold nothing; none: all."""
        if not streams:
            return self
        mine = np.isin(self.stream, streams)
        kind = [k if own else "data" for k, own in zip(self.kind, mine, strict=True)]
        times = np.where(mine, self.t_max, BEGINNING)
        return replace(self, kind=kind, live=self.live & mine, t_max=times)


@dataclass
class Recount:
    """What was found up to a position, from a waypoint on.

    Attributes:
        received: as the sealed blocks say.
        accepted, quarantined: rows that are there.
        missing, doubled: numbers that stand nowhere, or more than once.
        blocks: see there.
        faults: of numbers (some of them), of blocks (all) and of plans.
        blocks_wrong: how many blocks do not agree with their records, or with ``plans``.
        unclear: accepted records whose event time is a clock reading of a repeated or skipped hour.
        unreadable: files of which nothing could be taken, and that no person has settled.
    """

    received: int
    accepted: int
    quarantined: int
    missing: int
    doubled: int
    blocks: Blocks
    faults: list[Fault] = field(default_factory=list)
    blocks_wrong: int = 0
    unclear: int = 0
    unreadable: list[Fault] = field(default_factory=list)


def recount(
    tables: Tables,
    events: TableSpec,
    through: int,
    before: int,
    since: Waypoint = BEGIN,
    streams: Sequence[str] = (),
) -> Recount:
    """Count the log up to a sealed position.

    Args:
        tables: of the pipeline.
        events: its events.
        through: the last number that counts.
        before: the block the position ends before.
        since: what came before it is not counted.
        streams: those for which it is counted, of several: of others' records it is not asked how
            late they came, nor how their event times were read.
    """
    within = Spans("block", ((since.block - 1, before - 1),))
    rows = read_table(Table(tables.blocks()), within=within).sort_by("block")
    former = rows.filter(pc.field("block") < since.block)["accepted_total"]
    rows = rows.filter(pc.field("block") >= since.block)
    counted = _Count(rows, since, pc.max(former).as_py() or 0, streams)
    several = bool(streams)
    for first, accepted, refused in _pieces(tables, events, since.seq + 1, through, several):
        counted.take(first, min(first + NUMBERS_AT_ONCE - 1, through), accepted, refused)
    found = counted.result(through, before)
    lost = _lost_plans(tables, events, rows.select(["plan", STREAM]).to_pylist())
    found.faults.extend(lost)
    found.blocks_wrong += len(lost)
    found.unreadable = unreadable_files(tables, through, since.seq)
    return found


def unreadable_files(tables: Tables, through: int, after: int = -1) -> list[Fault]:
    """Files in quarantine as a whole, up to a number, about which nobody has decided anything."""
    quarantine, decisions = Table(tables.quarantine()), Table(tables.decisions())
    if not quarantine.exists():
        return []
    within = Spans("arrival_seq", ((after + 1, through),))
    where = pc.field("reason") == "unreadable"
    rows = read_table(quarantine, ["arrival_seq", "place", "detail"], where, within)
    known = decided(decisions) if decisions.exists() else Decided()
    given_up = tuple(f"/{path.lstrip('/')}" for _, path in known.given_up)
    return [
        Fault(
            "unreadable file",
            {"file": row["place"], "arrival_seq": row["arrival_seq"]},
            {"read": "whole"},
            {"read": row["detail"]},
        )
        for row in rows.sort_by("arrival_seq").to_pylist()
        if row["arrival_seq"] not in known.accepted
        and not (row["detail"] == DETAIL and row["place"].endswith(given_up))
    ]


def _lost_plans(tables: Tables, events: TableSpec, rows: list[dict[str, Any]]) -> list[Fault]:
    """Rows of plans that ``plans`` does not hold: their numbers would be given again.

    And those of another stream than their plan.
    """
    sealed = [row["plan"] for row in rows]
    newest: dict[str, int | None] = {}
    for table in (Table(events), Table(tables.quarantine()), Table(tables.blocks())):
        if table.newest() is not None:
            newest[table.spec.name] = table.last("ingest")
    known = _plans_of(Table(tables.plans()), sealed)
    last = max(known, default=-1)
    ahead = {name: n for name, n in newest.items() if n is not None and n > last}
    return [
        *(Fault(WITHOUT_PLAN, {"table": name}, {"plan": n}, {"plan": last})
          for name, n in ahead.items()),
        *(Fault(WITHOUT_PLAN, {"plan": n}, {"stands": 1}, {"stands": 0})
          for n in sorted(set(sealed) - known.keys())[:SHOWN]),
        *(Fault(OTHER_STREAM, {"plan": n}, {STREAM: known[n]}, {STREAM: said})
          for n, said in dict.fromkeys((row["plan"], row[STREAM]) for row in rows)
          if known.get(n, said) != said),
    ]  # fmt: skip


def _plans_of(table: Table, sealed: list[int]) -> dict[int, str | None]:
    """Streams of plans from the first to the last of some blocks, and of the last, by number."""
    delta = table.newest()
    if delta is None:
        return {}
    files = data_files(delta, "number")
    newest = max((f.greatest for f in files if f.greatest is not None), default=0)
    spans = [(min(sealed), max(sealed))] if sealed else []
    within = Spans("number", (*spans, (newest, FOREVER)))
    rows = read_table(table, ["number", STREAM], within=within).to_pylist()
    return {row["number"]: row[STREAM] for row in rows}


def _pieces(
    tables: Tables, events: TableSpec, begin: int, through: int, several: bool
) -> Iterator[tuple[int, Any, Any]]:
    sources, whose = [], [STREAM] if several else []
    for spec, names in (
        (events, ["arrival_seq", "block", "event_time", "read_as", *whose]),
        (tables.quarantine(), ["arrival_seq", "block", *whose]),
    ):
        delta = Table(spec).newest()
        files = [] if delta is None else data_files(delta, "arrival_seq")
        sources.append((spec, names, files))
    for first in range(begin, through + 1, NUMBERS_AT_ONCE):
        last = min(first + NUMBERS_AT_ONCE - 1, through)
        where = (pc.field("arrival_seq") >= first) & (pc.field("arrival_seq") <= last)
        yield (
            first,
            *(
                read_files(
                    spec.uri, [f.path for f in files if f.holds(first, last)],
                    spec.schema, names, where,
                )
                for spec, names, files in sources
            ),
        )  # fmt: skip


class _Count:
    def __init__(self, rows: pa.Table, since: Waypoint, total: int, streams: Sequence[str]) -> None:
        self.rows, self.since, self.total, self.streams = rows, since, total, streams
        count = rows.num_rows
        self.last = np.asarray(rows["last_seq"])
        self.numbers = np.asarray(rows["block"])
        self.live = np.array([o == LIVE for o in rows["origin"].to_pylist()], bool)
        self.accepted = np.zeros(count, np.int64)
        self.refused = np.zeros(count, np.int64)
        self.strange = np.zeros(count, np.int64)
        self.t_max = np.full(count, BEGINNING, np.int64)
        self.lateness = np.zeros(count, np.int64)
        self.stream = np.array([name or ONLY for name in rows[STREAM].to_pylist()], object)
        self.mine = np.isin(self.stream, streams or [ONLY])
        self.newest = {name: since.newest_of(name) for name in streams or [ONLY]}
        self.missing = self.doubled = self.unclear = 0
        self.shown: list[Fault] = []

    def take(self, first: int, last: int, accepted: pa.Table, refused: pa.Table) -> None:
        """One run of numbers."""
        accepted = accepted.sort_by("arrival_seq")
        seqs = [np.asarray(t["arrival_seq"], np.int64) - first for t in (accepted, refused)]
        stands = sum(np.bincount(s, minlength=last - first + 1) for s in seqs)
        self.missing += int((stands == 0).sum())
        self.doubled += int(np.maximum(stands - 1, 0).sum())
        for what, found in (("lost number", stands == 0), ("repeated number", stands > 1)):
            for at in np.flatnonzero(found)[:SHOWN]:
                times = {"stands": int(stands[at])}
                self.shown.append(
                    Fault(what, {"arrival_seq": int(first + at)}, {"stands": 1}, times)
                )
        if not len(self.last):
            return
        self._file(self.accepted, seqs[0] + first, accepted)
        self._file(self.refused, seqs[1] + first, refused)
        times = np.asarray(pc.cast(accepted["event_time"], pa.int64()))
        of = self._of(seqs[0] + first)
        np.maximum.at(self.t_max, of, times)
        unclear = np.asarray(pc.is_valid(accepted["read_as"]))
        self.unclear += int((unclear & self.mine[of]).sum())
        for name in self.newest:
            own = self.live[of] & (self.stream[of] == name)
            self._lags(of[own], times[own], name)

    def _of(self, seqs: Longs) -> Longs:
        """Which block, by its place in order, must hold each number."""
        return np.minimum(np.searchsorted(self.last, seqs), len(self.last) - 1)

    def _file(self, counts: Longs, seqs: Longs, rows: pa.Table) -> None:
        of = self._of(seqs)
        np.add.at(counts, of, 1)
        strange = np.asarray(pc.fill_null(rows["block"], -1)) != self.numbers[of]
        if self.streams:
            whose = np.array(rows[STREAM].to_pylist(), object)
            strange |= np.asarray(whose != self.stream[of], bool)
        np.add.at(self.strange, of, strange)

    def _lags(self, of: Longs, times: Longs, stream: str) -> None:
        before = np.maximum.accumulate(np.append(self.newest[stream], times))
        self.newest[stream] = int(before[-1])
        lags = np.where(before[:-1] == BEGINNING, 0, np.maximum(before[:-1] - times, 0))
        np.maximum.at(self.lateness, of, lags)

    def result(self, through: int, before: int) -> Recount:
        """What was counted, and where the sealed blocks say otherwise."""
        faults = self._faults(through, before)
        kinds = self.rows["kind"].to_pylist()
        said = [int(pc.sum(self.rows[n]).as_py() or 0) for n in ("accepted", "quarantined")]
        return Recount(
            sum(said), int(self.accepted.sum()), int(self.refused.sum()), self.missing,
            self.doubled,
            Blocks(self.numbers, self.last, kinds, self.live, self.t_max, self.lateness,
                   self.stream.tolist(), np.asarray(self.rows["mark_us"].fill_null(BEGINNING))),
            [*self.shown, *faults], len(faults), self.unclear,
        )  # fmt: skip

    def _faults(self, through: int, before: int) -> list[Fault]:
        found = []
        number, first, total = self.since.block, self.since.seq + 1, self.total
        for i, row in enumerate(self.rows.to_pylist()):
            while number < row["block"]:  # a wrong one may stand before it
                found.append(Fault("block lost", {"block": number}, {"first_seq": first}, {}))
                number, first = number + 1, row["first_seq"]
            t_max = int(self.t_max[i])
            expected = {
                "block": number,
                "first_seq": first,
                "accepted": int(self.accepted[i]),
                "quarantined": int(self.refused[i]),
                "accepted_total": total + int(self.accepted[i]),
                "t_max": None if t_max == BEGINNING else instant(t_max),
                "lateness_us": int(self.lateness[i]) if self.live[i] else 0,
                "rows of another block": 0,
            }
            if not self.mine[i]:  # it is asked for the steps over its stream
                expected["lateness_us"] = row["lateness_us"]
            said = {n: row[n] for n in list(expected)[:-1]}
            said["rows of another block"] = int(self.strange[i])
            wrong = [n for n in expected if expected[n] != said[n]]
            if wrong:
                place = {"block": row["block"], "first_seq": first, "last_seq": row["last_seq"]}
                found.append(
                    Fault("block unlike its records", place,
                          {n: expected[n] for n in wrong}, {n: said[n] for n in wrong})
                )  # fmt: skip
            number, first = row["block"] + 1, row["last_seq"] + 1
            total = row["accepted_total"]
        if number < before or first != through + 1:
            found.append(
                Fault("block lost", {"block": number}, {"last_seq": through},
                      {"last_seq": first - 1})
            )  # fmt: skip
        return found
