"""The audit's recomputation, apart from everything that it judges.

``truth`` recomputes the answers, ``compare`` holds them against what stands there,
``penstock.lake.proof.recount`` counts the log again and ``penstock.lake.proof.retrace`` folds the
watermarks again. The result is the small table of comparisons that ``penstock.quality`` judges.
"""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from croniter import croniter
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.core.step import StepSpec, of_each
from penstock.core.window import EPOCH, instant, micros
from penstock.lake.history.generation import Generation, generations
from penstock.lake.history.view import Position, position, start_of
from penstock.lake.proof.recount import Recount, recount
from penstock.lake.proof.retrace import Plans, read_plans, retrace
from penstock.lake.proof.unsettled import BEYOND
from penstock.lake.storage.tables import Tables
from penstock.spark.compare import KINDS, LATE_ROWS, TIMELY, Comparison

EXAMPLES = 20
INTERVALS = 2
"""A window may wait for so many correction intervals."""


class Audit:
    """Recomputes every step of a pipeline at its newest sealed position.

    Attributes:
        failed: of ``comparisons``: what kept some steps from being compared; none: nothing.
    """

    def __init__(
        self, spark: SparkSession, tables: Tables, pipeline: Pipeline, clock: Clock
    ) -> None:
        self.spark, self.tables, self.pipeline, self.clock = spark, tables, pipeline, clock
        self.failed: PenstockError | None = None
        self._counts: dict[int, Recount] = {}

    def comparisons(self, interval: timedelta) -> list[dict[str, Any]]:
        """One row a step; none of one that neither sealed nor owes anything, or that ``failed``.

        Args:
            interval: between two scheduled corrections.

        Raises:
            PenstockError: some steps failed, and there is nothing to say of any other.
        """

        def row(step: StepSpec) -> list[dict[str, Any]]:
            # What is read first may speak only for what is sealed by the position read after it.
            registered, planned = generations(self.tables, step), read_plans(self.tables, step)
            at = position(self.tables, step) or start_of(self.tables, step)
            if at is None or at.seq < 0:
                return []
            mine = [r for r in planned if r["epoch"] == at.epoch.number]
            return [_Step(self, step, at, registered, Plans(mine)).row(interval)]

        found, self.failed = of_each(self.pipeline.specs, row)
        rows = [row for some in found for row in some]
        if not rows:
            self.raise_missed()
        return rows

    @property
    def missed(self) -> str:
        """What was not compared, and why, to go on a message; empty: nothing."""
        return "" if self.failed is None else f"; not compared: {self.failed}"

    def raise_missed(self) -> None:
        """Raise what kept some steps from being compared, if anything did."""
        if self.failed is not None:
            raise self.failed

    def counted(self, at: Position) -> Recount:
        """The log up to a position, counted again."""
        if at.sealed.block not in self._counts:
            events = self.tables.events(self.pipeline.types)
            counted = recount(self.tables, events, at.sealed.seq, at.sealed.block)
            self._counts[at.sealed.block] = counted
        return self._counts[at.sealed.block]


class _Step:
    """One step at one position."""

    def __init__(
        self,
        audit: Audit,
        step: StepSpec,
        at: Position,
        registered: list[Generation],
        finished: Plans,
    ) -> None:
        self.clock, self.step, self.at = audit.clock, step, at
        self.ruled = audit.pipeline.ambiguous is not None
        self.log = audit.counted(at)
        events = audit.tables.events(audit.pipeline.types)
        self.trace = retrace(audit.tables, events, step, self.log.blocks, at, registered, finished)
        self.comparison = Comparison(
            audit.spark, audit.tables, audit.pipeline.types, step, at, self.trace, finished
        )

    def row(self, interval: timedelta) -> dict[str, Any]:
        log, trace, at = self.log, self.trace, self.at
        compared = self.comparison.rows().cache()
        figures = compared.agg(*_figures(self._overdue(interval))).collect()[0].asDict()
        out = {
            "step": self.step.name,
            "through_seq": at.sealed.seq,
            "received": log.received,
            "accepted": log.accepted,
            "quarantined": log.quarantined,
            "numbers_missing": log.missing,
            "numbers_doubled": log.doubled,
            "blocks_wrong": log.blocks_wrong,
            "files_unreadable": len(log.unreadable),
            "readings_unclear": log.unclear,
            "readings_assumed": 0 if self.ruled else log.unclear,
            "batches_wrong": len(trace.batches),
            "generations_wrong": len(trace.generations),
            "corrections_wrong": len(trace.plans),
            "pairs_open": at.sealed.open_pairs,
            "pairs_excluded": 0,
            **dict.fromkeys(BEYOND, 0),
            **{name: int(value or 0) for name, value in figures.items()},
        }
        unclosed = out.pop("pairs_unclosed")
        if not at.lasts:  # no row of control says it yet
            out["pairs_open"] = unclosed
        if self.comparison.history_waits:  # its answers are pending, so is their count
            others = sum(out[f"pairs_{n}"] for n in ("on_time", "late", "open"))
            out["pairs_preloaded"] = max(0, out["pairs_events"] - others)
        accounted = ("on_time", "late", "open", "preloaded", "excluded")
        out["pairs_unaccounted"] = out["pairs_events"] - sum(out[f"pairs_{n}"] for n in accounted)
        examples = [
            example
            for kind, column in KINDS.items()
            if out[column]
            for example in self._examples(compared, kind)
        ]
        faults = [log.unreadable, log.faults, trace.batches, trace.generations, trace.plans]
        examples += [fault.told() for some in faults for fault in some[:EXAMPLES]]
        out["examples"] = json.dumps(examples)
        compared.unpersist()
        return out

    def _overdue(self, interval: timedelta) -> Column:
        limit = micros(self.clock.now()) - INTERVALS * micros(interval)
        return F.unix_micros("waits_since$") < F.lit(limit)

    def _examples(self, compared: DataFrame, kind: str) -> list[dict[str, Any]]:
        names = [*(m.name for m in self.step.measures), "n_records"]
        rows = compared.where(F.array_contains("faults$", kind)).orderBy("window_start")
        out = []
        for row in rows.limit(EXAMPLES).collect():
            cells = row.asDict()
            if kind in {TIMELY, LATE_ROWS}:
                late = cells["must_late$"] or 0
                every = (cells["n_records"] or 0) - late
                expected = {"on_time": every, "late": late, "last_seq": cells["must_last_seq$"]}
                found = {n: cells[f"{n}$"] for n in ("on_time", "late", "last_seq")}
            else:
                expected = {n: cells[n] for n in names}
                found = {n: cells[f"found${n}"] for n in names}
            out.append(
                {
                    "window_start": instant(_micros_of(cells["window_start"])).isoformat(),
                    "key": {k: str(cells[k]) for k in self.step.key_names},
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
        F.sum("n_records").alias("pairs_events"),
        F.sum("on_time$").alias("pairs_on_time"),
        F.sum("late$").alias("pairs_late"),
        F.sum("preloaded$").alias("pairs_preloaded"),
        F.sum(F.when(~F.col("closed$"), F.col("n_records"))).alias("pairs_unclosed"),
        count(F.col("closed$") & ~F.col("pending$")).alias("answers_compared"),
        count(F.col("pending$")).alias("pending_answers"),
        count(F.col("pending$") & overdue).alias("overdue_answers"),
        *(count(F.array_contains("faults$", kind)).alias(name) for kind, name in KINDS.items()),
    ]


def _micros_of(value: Any) -> int:
    return micros(value.replace(tzinfo=UTC))


def correction_interval(pipeline: Pipeline) -> timedelta:
    """The longest time between two scheduled corrections, over the next few."""
    ticks = croniter(pipeline.correction.cron, EPOCH)
    times = [ticks.get_next(datetime) for _ in range(50)]
    return max(b - a for a, b in pairwise(times))
