"""What a coverage threshold goes by, measured: records, variation, late values, violations.

The pipeline file only estimates records and CV of a window. After each correction they are taken
from the log: N from the windows that were recorded, CV from the newest records, rho (how much
greater late values are than others) from the late rows, and how often answers were off.
Source: HPM (coverage threshold); theory sections 1 and 2 for epsilon / rho and the closed loop;
``penstock.core.feedback``.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.expressions import evaluate, rows_where
from penstock.config.pipeline import Pipeline
from penstock.config.slack import Quality
from penstock.core.coverage import coverage_threshold, squared_cv
from penstock.core.errors import ConfigError
from penstock.core.expression import Expression, MeasureSpec
from penstock.core.feedback import room
from penstock.core.step import StepSpec, measures_of
from penstock.core.window import micros
from penstock.kinds.aggregate.layout import SUMS, AggregateLayout
from penstock.lake.history.position import SHED, Position, position
from penstock.lake.history.view import late_at
from penstock.lake.log.sheds import shed_windows
from penstock.lake.proof.covered import newest_rows
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

SAMPLE = 50_000
"""Numbers of the log looked back for values."""
WINDOWS, LEAST_WINDOWS = 500, 20
FED_BACK = 5_000
"""Windows whose answers are fed back: what those before them said has worn off."""
MOST_RHO = 10.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of a step.

    Attributes:
        records: of a typical answer, or of a window's total.
        cv2: squared CV of the most varied measure.
        late: late values / all values, by measures of them; negative where they have another sign.
        violations: share of answers off by epsilon or more.
        room: of what is above the formula's threshold, the part that final answers ask for.
    """

    records: int
    cv2: float
    late: Mapping[str, float]
    violations: float
    room: float

    @property
    def rho(self) -> float:
        """Of the measure whose late values are the greatest; 1: no greater."""
        return max([1.0, *(min(abs(ratio), MOST_RHO) for ratio in self.late.values())])

    def threshold(self, quality: Quality, measures: Collection[MeasureSpec]) -> float:
        """Coverage that is enough, with more room where answers were off too often."""
        targets = [(m, t.for_values(self.rho)) for m, t in quality.targets(measures)]
        needed = coverage_threshold(targets, self.records, self.cv2)
        return min(needed + self.room * (1 - needed), 1.0)

    def __str__(self) -> str:
        return (
            f"measured: {self.records} records, CV^2 {self.cv2:.3g}, rho {self.rho:.3g},"
            f" {self.violations:.2%} of answers off, room {self.room:.3g}"
        )


def figures(tables: Tables, pipeline: Pipeline, step: StepSpec) -> Figures | None:
    """Measure a step; none: too little is recorded, or its values have no relative error."""
    quality, at = pipeline.steps[step.name].quality, position(tables, step)
    if quality is None or at is None:
        return None
    try:
        return figures_of(tables, pipeline, step, at, fed_back(tables, step, quality))
    except ConfigError as meaningless:
        log.warning("step=%s: no threshold is measured: %s", step.name, meaningless)
        return None


def fed_back(tables: Tables, step: StepSpec, quality: Quality) -> list[dict[str, Any]]:
    """The recorded windows of which nothing was shed, in order: of each the newest row."""
    rows = newest_rows(Table(tables.coverage(step)))
    rows = rows.slice(max(0, rows.num_rows - FED_BACK))
    if rows.num_rows:  # no slack brings back what was shed
        shed = shed_windows(tables, step, micros(rows["window_start"][0].as_py()))
        rows = rows.filter(pc.invert(pc.is_in(rows["window_start"], shed.unique())))
    every = rows.to_pylist()
    return [row for row in every if quality.of != "answer" or row["answers"]]


def figures_of(
    tables: Tables, pipeline: Pipeline, step: StepSpec, at: Position, every: list[dict[str, Any]]
) -> Figures | None:
    """Measure a step with a quality target.

    Args:
        tables: of the pipeline.
        pipeline: the pipeline.
        step: the step.
        at: its position.
        every: what ``fed_back`` gave.

    Returns:
        None: too little is recorded.

    Raises:
        ConfigError: its values have no relative error.
    """
    quality = pipeline.steps[step.name].quality
    if quality is None or len(every) < LEAST_WINDOWS:
        return None
    windows = every[-WINDOWS:]
    if quality.of == "answer":
        records = median(r["records_judged"] / r["answers"] for r in windows)
    else:
        records = median(r["records"] for r in windows)
    answers = sum(_judged(quality, r)[1] for r in windows)
    beyond = sum(_judged(quality, r)[0] for r in windows) / answers
    steered = (_judged(quality, r) for r in every if r["threshold"] is not None)
    used = room((off / of for off, of in steered), quality.share(step.judged))
    cv2, late = _values(tables, pipeline, step, at)
    return Figures(max(2, round(records)), cv2, late, beyond, used)


def _judged(quality: Quality, row: dict[str, Any]) -> tuple[int, int]:
    """Of a window how many of the answers that the target binds were off, and how many it has."""
    if quality.of == "answer":
        return row["answers_beyond"], row["answers"]
    return int(row["error_observed"] >= quality.epsilon), 1


def _values(
    tables: Tables, pipeline: Pipeline, step: StepSpec, at: Position
) -> tuple[float, dict[str, float]]:
    """CV^2 of the newest values, and how great late ones are, by measure."""
    overs = named(m for m in measures_of(step) if m.function in SUMS)
    if not overs:
        return 0.0, {}
    newest = Spans("arrival_seq", ((max(0, at.sealed.seq - SAMPLE + 1), at.sealed.seq),))
    events = Table(tables.events(pipeline.types, step.streams))
    sample = rows_where(step.where, read_table(events, list(step.columns), within=newest))
    layout = AggregateLayout(step)
    mine = replace(newest, column="last_seq"), pc.field("reason") != SHED
    late = late_at(tables, step, at, layout.fields, *mine)
    cv2, ratios = 0.0, dict[str, float]()
    for over, name in overs.items():
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
            ratios[name] = total / count / mean
    return cv2, ratios


def named(measures: Iterable[MeasureSpec]) -> dict[Expression, str]:
    """What some measures are over, each with the names of those that are over it."""
    found = dict[Expression, str]()
    for m in measures:
        if m.over is not None:
            found[m.over] = f"{found[m.over]}, {m.name}" if m.over in found else m.name
    return found


def _plain(over: Expression, rows: pa.Table) -> np.ndarray:
    values = evaluate(over, rows)
    if isinstance(values, pa.Scalar):
        values = pa.chunked_array([pa.repeat(values, rows.num_rows)])
    return np.asarray(pc.drop_null(values), float)
