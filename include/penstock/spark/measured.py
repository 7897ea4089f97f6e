"""What a coverage threshold goes by, measured: records, variation, late values, violations.

The pipeline file only estimates records and CV of a window. After each correction they are taken
from the log: N from the windows that were recorded, CV from the newest records, rho (how much
greater late values are than others) from the late rows, and how often answers were off. A threshold
that differs noticeably is proposed to the controller.
Source: HPM (coverage threshold); theory sections 1 and 2 for epsilon / rho and the closed loop.
"""

import logging
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.expressions import evaluate, rows_where
from penstock.config.pipeline import Pipeline
from penstock.config.slack import Quality
from penstock.core.clock import Clock
from penstock.core.coverage import coverage_threshold, squared_cv
from penstock.core.errors import ConfigError
from penstock.core.expression import Expression
from penstock.core.step import StepSpec
from penstock.kinds.aggregate.layout import SUMS, AggregateLayout
from penstock.lake.history.position import Position, position
from penstock.lake.history.view import late_at
from penstock.lake.log.blocks import decisions_of
from penstock.lake.log.proposed import in_force, propose
from penstock.lake.proof.covered import newest_rows
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

SAMPLE = 50_000
"""Numbers of the log looked back for values."""
WINDOWS, LEAST_WINDOWS = 500, 20
MOST_RHO = 10.0
NOTICEABLE = 0.002
HALF = 0.5


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of a step.

    Attributes:
        records: of a typical answer, or of a window's total.
        cv2: squared CV of the most varied measure.
        rho: late values / all values, of the measure where it is greatest; 1: no greater.
        violations: share of answers off by epsilon or more.
    """

    records: int
    cv2: float
    rho: float
    violations: float

    def threshold(self, quality: Quality, step: StepSpec) -> float:
        """Coverage that is enough, with more room where answers were off too often.

        Up to half of the room above the formula's threshold is used up as the rate of violations
        goes from half of delta to one and a half.
        """
        targets = [(m, t.for_values(self.rho)) for m, t in quality.targets(step.judged)]
        needed = coverage_threshold(targets, self.records, self.cv2)
        share = quality.share(step.judged)
        often = min(max(self.violations / share - HALF, 0.0), 1.0)
        return min(needed + HALF * often * (1 - needed), 1.0)

    def __str__(self) -> str:
        return (
            f"measured: {self.records} records, CV^2 {self.cv2:.3g}, rho {self.rho:.3g},"
            f" {self.violations:.2%} of answers off"
        )


def figures(tables: Tables, pipeline: Pipeline, step: StepSpec) -> Figures | None:
    """Measure a step; none: too little is recorded, or its values have no relative error."""
    quality, at = pipeline.steps[step.name].quality, position(tables, step)
    rows = newest_rows(Table(tables.coverage(step)))
    rows = rows.slice(max(0, rows.num_rows - WINDOWS))
    if quality is None or at is None or rows.num_rows < LEAST_WINDOWS:
        return None
    windows = rows.to_pylist()
    if quality.of == "total":
        records = median(r["records"] for r in windows)
        beyond = sum(r["error_observed"] >= quality.epsilon for r in windows) / len(windows)
    else:
        windows = [r for r in windows if r["answers"]]
        if not windows:
            return None
        records = median(r["records_judged"] / r["answers"] for r in windows)
        beyond = sum(r["answers_beyond"] for r in windows) / sum(r["answers"] for r in windows)
    try:
        cv2, rho = _values(tables, pipeline, step, at)
    except ConfigError as meaningless:
        log.warning("step=%s: no threshold is measured: %s", step.name, meaningless)
        return None
    return Figures(max(2, round(records)), cv2, rho, beyond)


def _values(
    tables: Tables, pipeline: Pipeline, step: StepSpec, at: Position
) -> tuple[float, float]:
    """CV^2 and rho of the newest values."""
    overs = [m.over for m in step.measures if m.function in SUMS and m.over is not None]
    if not overs:
        return 0.0, 1.0
    newest = Spans("arrival_seq", ((max(0, at.sealed.seq - SAMPLE + 1), at.sealed.seq),))
    events = Table(tables.events(pipeline.types))
    sample = rows_where(step.where, read_table(events, list(step.columns), within=newest))
    layout = AggregateLayout(step)
    late = late_at(tables, step, at, layout.fields, replace(newest, column="last_seq"))
    cv2, rho = 0.0, 1.0
    for over in dict.fromkeys(overs):
        values = _plain(over, sample)
        if not len(values):
            continue
        unit = float(np.abs(values).max()) or 1.0  # no double holds the square of the largest
        mean = float((values / unit).mean())
        cv2 = max(cv2, squared_cv(mean, float((values / unit).var())))
        i = layout.overs.index(over)
        count = pc.sum(late[f"n_{i}"]).as_py() or 0
        if count:
            total = float((layout.total(i, late) / unit).sum())
            rho = max(rho, min(abs(total / count / mean), MOST_RHO))
    return cv2, rho


def _plain(over: Expression, rows: pa.Table) -> np.ndarray:
    values = evaluate(over, rows)
    if isinstance(values, pa.Scalar):
        values = pa.chunked_array([pa.repeat(values, rows.num_rows)])
    return np.asarray(pc.drop_null(values), float)


def propose_threshold(tables: Tables, pipeline: Pipeline, step: StepSpec, clock: Clock) -> None:
    """Propose the measured threshold, if the one in force is noticeably another."""
    quality, tuning = pipeline.steps[step.name].quality, step.slack.tuning
    if quality is None or tuning is None:
        return
    found = figures(tables, pipeline, step)
    now = in_force(decisions_of(Table(tables.decisions()), step.name))
    if found is None or now is None or now.tuning is None or now.policy is not step.slack.policy:
        return
    threshold = found.threshold(quality, step)
    if abs(threshold - now.tuning.threshold) <= NOTICEABLE:
        return
    spec = replace(step.slack, tuning=replace(tuning, threshold=threshold))
    propose(tables, step, spec, str(found), clock)
    log.info("step=%s proposed threshold=%.4f %s", step.name, threshold, found)
