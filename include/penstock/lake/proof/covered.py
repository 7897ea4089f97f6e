"""How much of each window was there in time, written down once it is corrected.

One row of ``coverage`` a window: what it held when it closed, when it was measured, and as of a
position after its correction; the error that coverage predicts and the one that was observed. A
window that a later correction touches gets a further row; the newest counts.
Source: HPM (coverage); the bound on the error is ``penstock.core.coverage``.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import INSTANT
from penstock.config.pipeline import Pipeline
from penstock.config.slack import USUAL, Quality
from penstock.core.clock import Clock
from penstock.core.controller import Measured
from penstock.core.coverage import TOTALS, QualityTarget, predicted_error
from penstock.core.measure import Function
from penstock.core.step import StepSpec, measures_of
from penstock.core.window import FOREVER, instant, micros
from penstock.lake.history.position import BACKFILL, Position, position
from penstock.lake.history.view import answers_at
from penstock.lake.proof.observed import (
    NEWEST,
    beside,
    error_of,
    measured,
    newest_errors,
    relative,
    relative_error,
)
from penstock.lake.proof.present import since as present_since
from penstock.lake.storage.commit import Table, settle
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

Starts = np.ndarray


class Recorder:
    """Writes the rows of one step, by its quality target or else by (0.05, 0.05)."""

    def __init__(self, tables: Tables, pipeline: Pipeline, step: StepSpec, clock: Clock) -> None:
        self.tables, self.step, self.clock = tables, step, clock
        self.events = tables.events(pipeline.types, step.streams)
        self.quality = pipeline.steps[step.name].quality or USUAL
        self.table = Table(tables.coverage(step))

    def record(self) -> int:
        """Write the windows that closed, or were corrected, since the last time; how many."""
        at = position(self.tables, self.step)
        if at is None:
            return 0
        every = read_table(self.table)
        known = _newest(every)
        since = pc.max(known["through_seq"]).as_py() if known.num_rows else -1
        steered, due = measured(self.tables, self.step, at, self.events, since - 1)
        starts = self._touched(at, since)
        if self.step.slack.tuning is not None:
            if at.sealed.state.ended:  # nothing more is measured, so nothing waits for it
                waiting = Spans("window_start", ((due + 1, FOREVER),))
                starts = np.union1d(starts, self._starts(at, waiting))
            else:  # the others wait until they are measured
                there = np.asarray(pc.cast(known["window_start"], pa.int64()))
                starts = starts[np.isin(starts, there) | (starts <= due)]
            ready = np.array([m.window_start for m in steered], np.int64)
            starts = np.union1d(starts, ready)
        if self.step.by_key:  # it answers before its windows close
            starts = starts[starts <= at.sealed.state.watermark - self.step.window.size]
        if not len(starts):
            return 0
        least = sorted(steered, key=lambda one: -one.coverage)  # of several streams the last counts
        rows = self._rows(at, starts, {m.window_start: m for m in least}, known)
        if rows.num_rows:
            settle(self.tables.control(self.step), self.tables.corrections())
            self.table.append(rows, f"coverage:{self.step.id}", every.num_rows)
        return int(rows.num_rows)

    def _touched(self, at: Position, since: int) -> Starts:
        """Starts of windows that got an answer since a position.

        An idle or end block closes windows at the position of the data before it, so those that
        got one at the position itself are looked at again.
        """
        return self._starts(at, Spans("through_seq", ((since, at.sealed.seq),)))

    def _starts(self, at: Position, spans: Spans) -> Starts:
        rows = answers_at(self.tables, self.step, at, spans)
        rows = rows.filter(pc.not_equal(rows["reason"], BACKFILL))
        return np.unique(np.asarray(pc.cast(rows["window_start"], pa.int64())))

    def _rows(
        self, at: Position, starts: Starts, steered: dict[int, Measured], known: pa.Table
    ) -> pa.Table:
        span = Spans("window_start", ((int(starts[0]), int(starts[-1])),))
        rows = answers_at(self.tables, self.step, at, span)
        wanted = pa.array(starts).cast(INSTANT)
        rows = rows.filter(pc.is_in(rows["window_start"], wanted))
        figures = self._figures(rows).to_pylist()
        before = {row["window_start"]: row for row in known.to_pylist()}
        out, z = [], self.quality.target().z
        sums = any(m.function is Function.SUM for m in measures_of(self.step))
        cv2 = self.quality.cv**2 if sums else 0.0
        for row in figures:
            start = row["window_start"]
            one = steered.get(micros(start))
            old = before.get(start, {})
            early = _early(one, old)
            if old and all(old[name] == value for name, value in (row | early).items()):
                continue
            coverage = row["records_timely"] / row["records"]
            seen = early["coverage_early"]
            seen = coverage if seen is None else seen
            error = predicted_error(seen, row["records"], cv2, z)
            out.append(
                {
                    **row,
                    **early,
                    "coverage": coverage,
                    "error_predicted": error,
                    "through_seq": at.sealed.seq,
                    "recorded_at": self.clock.now(),
                }
            )
        return pa.Table.from_pylist(out, schema=self.table.spec.schema)

    def _figures(self, rows: pa.Table) -> pa.Table:
        """By window: records in time and of all, the error of its totals, answers beyond."""
        epsilons = {m: self.quality.target(m).epsilon for m in relative(self.step)}
        beyond = " OR ".join(f"{error_of(m)} >= {e!r}" for m, e in epsilons.items()) or "false"
        totals = [m.name for m in measures_of(self.step) if m.function in TOTALS]
        whole = _greatest(
            relative_error(f'coalesce(sum(t."{m}"), 0)', f'coalesce(sum(n."{m}"), 0)')
            for m in totals
        )
        with beside(rows, self.step) as (connection, joined):
            return connection.sql(
                f"""SELECT n.window_start, n.window_end,
                    CAST(coalesce(sum(t.n_records), 0) AS BIGINT) AS records_timely,
                    CAST(sum(n.n_records) AS BIGINT) AS records,
                    CAST(greatest({whole}, {
                    relative_error("coalesce(sum(t.n_records), 0)", "sum(n.n_records)")
                }) AS DOUBLE)
                        AS error_observed,
                    count(*) FILTER (n.n_records >= $least) AS answers,
                    CAST(coalesce(sum(n.n_records) FILTER (n.n_records >= $least), 0) AS BIGINT)
                        AS records_judged,
                    count(*) FILTER (n.n_records >= $least AND ({beyond}))
                        AS answers_beyond
                    FROM {joined} GROUP BY ALL ORDER BY 1""",  # noqa: S608
                params={"least": self.quality.least},
            ).to_arrow_table()


def errors_of(
    tables: Tables, step: StepSpec, quality: Quality
) -> list[tuple[str, QualityTarget, list[float]]]:
    """What each quality target bounds: errors of the newest answers, or of windows' totals.

    Returns:
        A name, the target and the errors, for each target; measures that share it go together.
    """
    if quality.of != "answer":
        rows, at = newest_rows(Table(tables.coverage(step))), position(tables, step)
        if at is not None:
            begun = instant(present_since(tables, step, at))
            rows = rows.filter(pc.greater(rows["window_end"], begun))
        totals = [float(e) for e in rows["error_observed"].to_pylist()[-NEWEST:]]
        return [(step.name, quality.target(), totals)]
    found: dict[QualityTarget, list[str]] = {}
    for measure in relative(step):
        found.setdefault(quality.target(measure), []).append(measure)
    errors = newest_errors(tables, step, [*found.values()], quality.least)
    alone = len(found) == 1
    return [
        (step.name if alone else f"{step.name}: {', '.join(names)}", target, each)
        for (target, names), each in zip(found.items(), errors, strict=True)
    ]


def newest_rows(table: Table) -> pa.Table:
    """One row a window: the newest."""
    return _newest(read_table(table))


def _newest(rows: pa.Table) -> pa.Table:
    rows = rows.sort_by([("window_start", "ascending"), ("through_seq", "ascending"),
                         ("recorded_at", "ascending")])  # fmt: skip
    starts = np.asarray(pc.cast(rows["window_start"], pa.int64()))
    last = np.append(starts[1:] != starts[:-1], True) if len(starts) else np.zeros(0, bool)
    return rows.filter(pa.array(last))


def _early(one: Measured | None, old: dict[str, Any]) -> dict[str, Any]:
    """What the controller saw, now or when the window was first recorded."""
    if one is not None:
        return {
            "slack_us": one.slack,
            "alpha": one.alpha,
            "threshold": one.threshold,
            "records_early": one.records,
            "coverage_early": one.coverage,
        }
    names = ("slack_us", "alpha", "threshold", "records_early", "coverage_early")
    return {name: old.get(name) for name in names}


def _greatest(errors: Iterable[str]) -> str:
    found = list(errors)
    return f"greatest({', '.join(found)})" if found else "0"
