"""The end's judgement: DuckDB over what the feeder wrote down. Shares no code with the product."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.step import StepSpec
from penstock.lake.history.balance import balance
from penstock.lake.history.merged import in_force_at
from penstock.lake.history.merging import WRITTEN
from penstock.lake.history.position import Position, position
from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest.verdict import IS_FROZEN
from penstock.lake.log.freezes import asked, frozen
from penstock.lake.serve.fetch import fetched
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.soak.scene import SLIDING, TUMBLING, Scene

COLUMNS = {"uid": "bigint", "site": "varchar", "kind": "varchar", "value": "double",
           "amount": "bigint", "happened": "varchar"}  # fmt: skip
TRUTH = {
    SLIDING: """
        select site, (happened // 120_000_000 - back) * 120_000_000 as window_start,
            window_start + 600_000_000 as window_end, count(*) as n, sum(value) as total,
            avg(value) as mean, min(value) as low, max(value) as high, sum(amount) as amounts,
            coalesce(sum(abs(value)), 0) as scale
        from record, (select unnest(range(5)) as back) group by all
    """,
    TUMBLING: """
        select kind, happened // 3_600_000_000 * 3_600_000_000 as window_start,
            window_start + 3_600_000_000 as window_end, count(*) as n, count(value) as known,
            sum(amount) as amounts, max(amount) as most
        from record where amount >= 0 group by all
    """,
}
KEY = {SLIDING: "site", TUMBLING: "kind"}
EXACT = {SLIDING: ("n", "low", "high", "amounts"), TUMBLING: ("n", "known", "amounts", "most")}
NEAR = {SLIDING: ("total", "mean"), TUMBLING: ()}


@dataclass
class Balance:
    """Where everything went, at the end.

    Attributes:
        frozen: records that went with a freeze.
        too_old: good records that came when their windows were frozen, or about to be.
        merges: how often answers in force were merged.
        wrong: what is not as it must be, in words; empty: all is well.
    """

    received: int = 0
    accepted: int = 0
    quarantined: int = 0
    frozen: int = 0
    merges: int = 0
    too_old: int = 0
    steps: dict[str, dict[str, int]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


class Truth:
    """What must have come out.

    Args:
        truth: every record to be accepted.
        refused: place and reason of every record to be refused.
    """

    def __init__(self, truth: Path, refused: Path) -> None:
        self.db = duckdb.connect(config={"threads": 2})
        self.db.execute("set TimeZone = 'UTC'")
        self.db.execute(
            "create table record as select * replace (epoch_us(happened::timestamptz) as happened)"
            " from read_csv(?, header = false, columns = ?, nullstr = '', auto_detect = false,"
            " quote = '\"', escape = '\"', delim = ',')",
            [str(truth), COLUMNS],
        )
        self.db.execute(
            "create table refused as from read_csv(?, header = false, auto_detect = false,"
            " columns = {'place': 'varchar', 'reason': 'varchar'})",
            [str(refused)],
        )

    def records(self) -> int:
        return self._one("select count(*) from record")

    def pairs(self, step: str) -> int:
        """(record, window) pairs, also of windows that are not closed."""
        return self._one(f"select sum(n) from ({TRUTH[step]})")

    def wrong_answers(self, step: str, in_force: pa.Table, watermark: int) -> tuple[int, int, str]:
        """Answers there must be; how many are wrong, missing, extra or doubled; the first."""
        self.db.register("answer", in_force)
        unequal = [f"t.{name} is distinct from g.{name}" for name in EXACT[step]]
        unequal += [
            f"(t.{name} is null) <> (g.{name} is null) or abs(t.{name} - g.{name}) > 1e-9 * t.scale"
            for name in NEAR[step]
        ]
        self.db.execute(f"""
            create or replace table verdict as
            with truth as (from ({TRUTH[step]}) where window_end <= {watermark}),
            given as (
                select * replace (
                    epoch_us(window_start) as window_start, epoch_us(window_end) as window_end)
                from answer
            )
            select t.n as truly, g.n as said, t, g,
                t.n is null or g.n is null or {" or ".join(f"({u})" for u in unequal)} as wrong
            from truth as t full join given as g using ({KEY[step]}, window_start, window_end)
        """)
        wrong = self._one("select count(*) from verdict where wrong")
        first = self.db.execute("select t, g from verdict where wrong limit 1").fetchall()
        right = self._one("select count(truly) from verdict")
        each = f"select count(*) - 1 as more from answer group by {KEY[step]}, window_start"
        doubled = self._one(f"select sum(more) from ({each})")
        return right, wrong + doubled, str(first or "")

    def refuse(self, rows: pa.Table, before: int) -> int:
        """Records were refused for their age; how many of them were not as old, us."""
        uids = [json.loads(raw)["uid"] for raw in rows["raw"].to_pylist()]
        old = pa.table({"uid": pa.array(uids, pa.int64()), "place": rows["place"]})
        self.db.register("old", old)
        young = f"select count(*) from record semi join old using (uid) where happened >= {before}"
        found = self._one(young)
        self.db.execute("delete from record where uid in (select uid from old)")
        self.db.execute("delete from refused where place in (select place from old)")
        return found

    def wrong_refusals(self, quarantine: pa.Table) -> list[Any]:
        """Records refused that should not be, the other way round, or for another reason."""
        self.db.register("quarantine", quarantine)
        return self.db.execute("""
            select r, q from refused as r
            full join quarantine as q using (place, reason)
            where r.place is null or q.place is null limit 5
        """).fetchall()

    def _one(self, sql: str) -> int:
        ((value,),) = self.db.execute(sql).fetchall()
        return int(value or 0)


def _without_too_old(scene: Scene, places: pa.Table, truth: Truth, out: Balance) -> pa.Table:
    """Refusals but those of records that came when their windows were frozen, or about to be."""
    old = pc.equal(places["reason"], IS_FROZEN)
    rows, before = places.filter(old), asked(scene.tables).refused_before
    if young := truth.refuse(rows, before):
        out.wrong.append(f"{young} records were refused as too old that are not")
    out.frozen, out.too_old = frozen(scene.tables).seq + 1, rows.num_rows
    done = read_table(Table(scene.tables.merges()), ["what"])["what"].to_pylist()
    out.merges = done.count(WRITTEN)
    return places.filter(pc.invert(old)).drop_columns(["raw"])


def judged(scene: Scene, sent: int, truth: Truth) -> Balance:
    """The balance of the lake as it is now, and everything that is wrong with it."""
    out = Balance()
    places = read_table(Table(scene.tables.quarantine()), ["place", "reason", "raw"])
    places = _without_too_old(scene, places, truth, out)
    if wrong := truth.wrong_refusals(places):
        out.wrong.append(f"quarantine is not what was sent: {wrong}")
    for step in scene.pipeline.specs:
        at, found = position(scene.tables, step), balance(scene.tables, step)
        if at is None or found is None:
            out.wrong.append(f"{step.name} has no sealed position")
            continue
        out.received, out.accepted = found.received, found.accepted
        out.quarantined = found.quarantined
        right, wrong_answers = _answers(scene, step, at, truth, out)
        out.steps[step.name] = {
            "pairs": truth.pairs(step.name),
            "on time": found.on_time,
            "late": found.late,
            "open": found.open,
            "preloaded": found.preloaded,
            "answers": right,
            "wrong": wrong_answers,
        }
        if found.pairs != out.steps[step.name]["pairs"]:
            out.wrong.append(f"{step.name}: the pairs do not add up: {out.steps[step.name]}")
        if not sent == found.received == found.accepted + found.quarantined:
            out.wrong.append(f"{step.name}: sent {sent}, but {found}")
    if out.accepted != truth.records():
        out.wrong.append(f"{truth.records()} records were good, {out.accepted} were accepted")
    return out


def _answers(
    scene: Scene, step: StepSpec, at: Position, truth: Truth, out: Balance
) -> tuple[int, int]:
    """How many answers there must be, and how many are wrong for readers of either way."""
    asked_for, right, every = in_force_at(scene.tables, step, at), 0, 0
    if len(asked_for.parts) == 1:
        out.wrong.append(f"{step.name}: nothing is merged that could be read")
    for rows in (answers_in_force(scene.tables, step), fetched(asked_for)):
        right, wrong, first = truth.wrong_answers(step.name, rows, at.sealed.state.watermark)
        every += wrong
        if wrong:
            out.wrong.append(f"{step.name}: {wrong} wrong answers, the first {first}")
    return right, every
