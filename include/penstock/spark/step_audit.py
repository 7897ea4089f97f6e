"""What an audit finds of one step."""

import json
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.core.step import ONLY, StepSpec
from penstock.core.window import instant, micros
from penstock.lake.history.generation import Generation
from penstock.lake.history.position import Position
from penstock.lake.proof.copied import copied
from penstock.lake.proof.footing import (
    TOTALS,
    Footing,
    decisions_digest,
    epoch_of,
    said,
    unfinished,
)
from penstock.lake.proof.ground import Ground
from penstock.lake.proof.recount import Recount
from penstock.lake.proof.retrace import Plans, Stretch, Trace, read_plans, retrace
from penstock.lake.proof.scope import changed, everything, scoped
from penstock.lake.proof.unsettled import BEYOND
from penstock.spark.compare import Comparison
from penstock.spark.compare_alarms import AlarmComparison
from penstock.spark.composed import OverAlarms, OverComparison
from penstock.spark.faults import EXCLUSION, KINDS, LATE_ROWS, TIMELY

if TYPE_CHECKING:
    from penstock.spark.audit import Audit

EXAMPLES = 20
INTERVALS = 2
"""A window may wait for so many correction intervals."""


class StepAudit:
    """One step at one position, from its footing on or as a whole."""

    def __init__(
        self,
        audit: "Audit",
        step: StepSpec,
        opened: "Opened",
        further: tuple[Footing, Stretch] | None = None,
    ) -> None:
        at, planned = opened.at, opened.planned
        self.audit, self.step, self.at, self.registered = audit, step, at, opened.registered
        pipeline = audit.pipeline
        self.ruled = all(
            pipeline.intakes[name].ambiguous is not None for name in step.streams or (ONLY,)
        )
        self.events = audit.tables.events(pipeline.types, step.streams)
        self.began = audit.clock.now()
        self.footing, self.old = further or (None, None)
        self.ground = opened.ground
        self.base = self.footing or self.ground.footing
        self.planned = [r for r in planned if r["epoch"] == at.epoch.number]
        tables, footing = audit.tables, self.footing
        if footing is None or self.old is None:
            base = self.base
            before = () if base is None else (base.settled, base.settled_us)
            finished = Plans(self.planned, *before)
            self.gone = [self._gone(Stretch(self.ground.begin), finished)]
            scope = everything(self.trace, self.ground)
        else:
            finished = Plans(self.planned, footing.settled, footing.settled_us)
            new, old = Stretch(footing.head), self.old
            earlier = read_plans(tables, step, old.plans(at.epoch))
            self.gone = [self._gone(new, finished), self._gone(old, Plans(earlier))]
            touched = changed(tables, self.events, step, at, footing, finished)
            lowest = self.ground.window_from
            scope = scoped(step, at, footing, self.trace, self.gone[1][1], touched, lowest)
        self.finished = finished
        comparison = AlarmComparison if step.by_key else Comparison
        if step.above is not None:
            comparison = OverAlarms if step.by_key else OverComparison
        self.comparison = comparison(audit.spark, tables, pipeline, step, at, scope, finished)

    def _gone(self, stretch: Stretch, plans: Plans) -> tuple[Recount, Trace]:
        audit, step, at = self.audit, self.step, self.at
        again = audit.counted(step, at, stretch)
        return again, retrace(
            audit.tables, self.events, step, again.blocks, at, self.registered, plans, stretch
        )

    @property
    def trace(self) -> Trace:
        """Of what is new."""
        return self.gone[0][1]

    def row(self, interval: timedelta) -> dict[str, Any]:
        """The comparison of the step, with the figures of all before it that it goes on from."""
        try:
            return self._row(interval)
        finally:
            self.comparison.frames.let_go()

    def _row(self, interval: timedelta) -> dict[str, Any]:
        at = self.at
        compared = self.comparison.frames.keep(self.comparison.rows())
        figures = compared.agg(*_figures(self._overdue(interval))).collect()[0].asDict()
        copy = copied(self.audit.tables, self.step, at, self.comparison.scope.reach(), EXAMPLES)
        out = {"step": self.step.id, "through_seq": at.sealed.seq, **self._found()} | {
            "merged_wrong": copy.wrong,
            "pairs_open": at.sealed.open_pairs,
            **dict.fromkeys(BEYOND, 0),
            **{name: int(value or 0) for name, value in figures.items()},
        }
        unclosed = out.pop("pairs_unclosed")
        if not at.lasts:  # no row of control says it yet
            out["pairs_open"] = unclosed
        if self.comparison.history_waits:  # its answers are pending, so is their count
            others = sum(out[f"pairs_{n}"] for n in ("on_time", "late", "open"))
            out["pairs_preloaded"] = max(0, out["pairs_events"] - others)
        if self.base is not None:
            before = self.base.totals  # of an audit before there was shedding: without it
            whole = ("pairs_on_time",) if self.step.by_key else ()  # as its generations say
            added = {n for n in TOTALS if n not in ("pairs_preloaded", *whole)}
            out |= {n: before.get(n, 0) + out[n] for n in added}
            out["pairs_preloaded"] = before["pairs_preloaded"]
        out["readings_assumed"] = 0 if self.ruled else out["readings_unclear"]
        accounted = ("on_time", "late", "open", "preloaded", "excluded")
        out["pairs_unaccounted"] = out["pairs_events"] - sum(out[f"pairs_{n}"] for n in accounted)
        examples = [
            example
            for kind, column in KINDS.items()
            if out[column]
            for example in self._examples(compared, kind)
        ]
        for counted, trace in self.gone:
            faults = [
                counted.unreadable,
                counted.faults,
                trace.batches,
                trace.generations,
                trace.plans,
            ]
            examples += [fault.told() for some in faults for fault in some[:EXAMPLES]]
        out["examples"] = json.dumps([*examples, *copy.examples])
        return out | self._covered(out)

    def _found(self) -> dict[str, int]:
        """Figures of the log and of the step's way: sums of what is new, faults of all."""
        new, logs = self.gone[0][0], [counted for counted, _ in self.gone]
        traces = [trace for _, trace in self.gone]
        return {
            "received": new.received,
            "accepted": new.accepted,
            "quarantined": new.quarantined,
            "numbers_missing": sum(each.missing for each in logs),
            "numbers_doubled": sum(each.doubled for each in logs),
            "blocks_wrong": sum(each.blocks_wrong for each in logs),
            "files_unreadable": sum(len(each.unreadable) for each in logs),
            "readings_unclear": new.unclear,
            "batches_wrong": sum(len(trace.batches) for trace in traces),
            "generations_wrong": sum(len(trace.generations) for trace in traces),
            "corrections_wrong": sum(len(trace.plans) for trace in traces),
        }

    def _covered(self, out: dict[str, Any]) -> dict[str, Any]:
        """What was covered, and what the next audit goes on from."""
        footing, old, now = self.footing, self.old, micros(self.began)
        epoch, seq = self.at.epoch, self.at.sealed.seq
        after, again, since, began = self.ground.begin.seq, 0, now, None
        start = self.trace.marks[0][1] if self.base is None else self.base.start
        stands = None
        if footing is not None and old is not None:
            after, since = footing.head.seq, footing.since
            again = old.last - old.since.seq
            began, stands = footing.began or now, self.gone[1][1].end
            if old.until == footing.head.block:  # the round is complete
                since, began, stands = began, None, None
        out |= {"records_new": seq - after, "records_again": again}
        plan, waits = unfinished(self.planned, self.base)
        end = self.trace.end
        whole = footing is None
        text = "" if self.comparison.history_waits else Footing(
            epoch_of(epoch), decisions_digest(self.audit.tables, self.step, end.block), end, start,
            {n: out[n] for n in TOTALS}, self.finished.settled, plan, waits, stands, began, since,
            settled_us=self.finished.settled_us,
        ).to_text()  # fmt: skip
        told = said(out, footing, since, self.ground.begin.seq + 1)
        return out | {"everything": whole, "footing": text or None, "covered": told}

    def _overdue(self, interval: timedelta) -> Column:
        limit = micros(self.audit.clock.now()) - INTERVALS * micros(interval)
        return F.unix_micros("waits_since$") < F.lit(limit)

    def _examples(self, compared: DataFrame, kind: str) -> list[dict[str, Any]]:
        names = [*(v.name for v in self.step.values), "n_records"]
        rows = compared.where(F.array_contains("faults$", kind)).orderBy("window_start")
        out = []
        for row in rows.limit(EXAMPLES).collect():
            cells = row.asDict()
            if kind in {TIMELY, LATE_ROWS}:
                late = cells["must_late$"] or 0
                every = (cells.get("pairs$", cells["n_records"]) or 0) - late
                expected = {"on_time": every, "late": late, "last_seq": cells["must_last_seq$"]}
                found = {n: cells[f"{n}$"] for n in ("on_time", "late", "last_seq")}
                if cells.get("must_shed$") or cells.get("shed$"):  # of the late ones
                    expected["shed"], found["shed"] = cells["must_shed$"] or 0, cells["shed$"] or 0
            elif kind == EXCLUSION:
                expected = {"excluded": bool(cells["must_exclude$"])}
                found = {"excluded": not expected["excluded"]}
            else:
                expected = {n: cells[n] for n in names}
                found = {n: cells[f"found${n}"] for n in names}
            out.append(
                {
                    "window_start": _told(cells["window_start"]),
                    "key": {
                        k: str(v) for k in self.step.identity_names if (v := cells[k]) is not None
                    },
                    "what": kind,
                    "expected": json.dumps(expected, default=str),
                    "found": json.dumps(found, default=str),
                }
            )
        return out


def _figures(overdue: Column) -> list[Column]:
    def count(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    return [
        F.sum("new$").alias("pairs_events"),
        F.sum("on_time_new$").alias("pairs_on_time"),
        F.sum("late_new$").alias("pairs_late"),
        F.sum("shed_new$").alias("pairs_shed"),
        F.sum("preloaded$").alias("pairs_preloaded"),
        F.sum("excluded$").alias("pairs_excluded"),
        F.sum(F.when(~F.col("closed$"), F.col("n_records"))).alias("pairs_unclosed"),
        count(F.col("closed$") & ~F.col("pending$")).alias("answers_compared"),
        count(F.col("pending$")).alias("pending_answers"),
        count(F.col("pending$") & overdue).alias("overdue_answers"),
        *(count(F.array_contains("faults$", kind)).alias(name) for kind, name in KINDS.items()),
    ]


def _told(start: Any) -> str | None:
    """The start of a window; of what is in no window nothing."""
    return None if start is None else instant(micros(start.replace(tzinfo=UTC))).isoformat()


@dataclass(frozen=True, slots=True)
class Opened:
    """A step at a position: its generations, rows of ``corrections``, and what is left for it."""

    at: Position
    registered: list[Generation]
    planned: list[dict[str, Any]]
    ground: Ground
