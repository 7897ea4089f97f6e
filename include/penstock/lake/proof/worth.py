"""What a step's slack costs and what it brings: the wait, the expected and the observed rate.

One computation for all that shows it: ``explain`` (on a sample: ``penstock.lake.proof.sampled``),
``show --quality``, ``show --beside``, the audit's page and pictures, the demo. It reads what was
recorded of windows, and of their answers some columns; errors of answers only where a target binds
them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.config.pipeline import Pipeline
from penstock.config.slack import USUAL, Quality
from penstock.core.controllers import KINDS
from penstock.core.coverage import QualityTarget, coverage_threshold
from penstock.core.feedback import ALLOWED
from penstock.core.limit import upper_limit
from penstock.core.slack import BlockKind, SlackPolicy
from penstock.core.step import STREAM, StepSpec
from penstock.core.window import BEGINNING, FOREVER, instant
from penstock.lake.history.position import SPEED, Position, position, rows_of, sealed_only
from penstock.lake.log.blocks import LIVE, newest_live_before, slack_changes
from penstock.lake.proof.covered import errors_of, newest_rows
from penstock.lake.proof.observed import relative
from penstock.lake.proof.present import since as present_since
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

WINDOWS = 2_000
"""The newest windows that K and the wait are taken from."""
MOST = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """Of some spans the median, and what 95 % do not exceed."""

    half: float
    most: float

    @classmethod
    def of(cls, spans: np.ndarray) -> "Spread | None":
        """None: there are none."""
        if not len(spans):
            return None
        return cls(float(np.median(spans)), float(np.quantile(spans, MOST)))


@dataclass(frozen=True, slots=True)
class Rate:
    """How often what a target binds is off, as expected and as observed.

    Attributes:
        name: of the step, and of the measures if others have another target.
        target: the quality target.
        of: answers that were judged, or windows: what came of them is final.
        off: of these how many were off by epsilon or more; of a sample's windows, how many held
            too little for the target.
        expected: share of them. Under ``quantile`` and ``pd_final`` what feedback bounds in the
            long run, three quarters of delta; under others the share in windows whose final
            coverage is below what the target needs. None: not known yet.
        errors: one of each judged, if they are known one by one; the newest first.
    """

    name: str
    target: QualityTarget
    of: int
    off: int
    expected: float | None
    errors: tuple[float, ...] = ()

    @property
    def share(self) -> float:
        """Observed; 0 of none."""
        return self.off / self.of if self.of else 0.0

    @property
    def upper(self) -> float:
        """The greatest rate that is likely, one-sided, 95 %."""
        return upper_limit(self.off, self.of)

    @property
    def says_something(self) -> bool:
        """Whether so many without any violation would put the limit below delta."""
        return upper_limit(0, self.of) < self.target.delta

    @property
    def kept(self) -> bool:
        """Whether not more were off than the target allows."""
        return self.share <= self.target.delta


@dataclass(frozen=True, slots=True)
class Worth:
    """What a slack costs and brings.

    Attributes:
        policy: in force.
        targeted: whether the step has a target of its own; else it is looked at with the usual.
        counts: what the target binds: answers, windows' totals or pairs; of a sample, windows.
        known: whether K follows from what the policy has learned: before, it is the greatest
            lateness so far, and nothing is expected.
        since: windows that end after this instant are judged, us: they closed under the policy.
        windows: how many the following is taken from, the newest; all while K is not known.
        slack: K, mean, us; none: no window.
        wait: event time from a window's end to the newest event time at the end of the block in
            which it was answered, us: K, and what blocks add. Windows that were answered because
            the source was silent or ended did not wait for K and are left out. None, too, of a step
            that answers at once.
        processing: from the arrival of that block until its answers were published, seconds.
        rates: one for each target; none: nothing of the step can be off.
    """

    policy: SlackPolicy
    targeted: bool
    counts: str
    known: bool
    since: int
    windows: int
    slack: float | None
    wait: Spread | None
    processing: Spread | None
    rates: tuple[Rate, ...]

    @property
    def steered(self) -> bool:
        """Whether the policy goes by a target at all."""
        return self.policy in KINDS

    @property
    def bounded(self) -> bool:
        """Whether what is expected is a bound, not a forecast."""
        return self.policy in (SlackPolicy.QUANTILE, SlackPolicy.PD_FINAL)

    @property
    def added(self) -> float | None:
        """What blocks and micro-batches add to K, us: the median wait without the mean K."""
        if self.wait is None or self.slack is None:
            return None
        return max(0.0, self.wait.half - self.slack)


def all_worths(tables: Tables, pipeline: Pipeline) -> dict[str, Worth]:
    """Of every step that has sealed something, by name."""
    found = ((step.name, worth(tables, pipeline, step)) for step in pipeline.specs)
    return {name: one for name, one in found if one is not None}


def worth(tables: Tables, pipeline: Pipeline, step: StepSpec) -> Worth | None:
    """What the slack of a step that runs costs and brings; none: it sealed nothing yet."""
    at, quality = position(tables, step), pipeline.steps[step.name].quality
    changes = slack_changes(tables, step.id)
    if at is None or not changes:
        return None
    rows, since = newest_rows(Table(tables.coverage(step))), present_since(tables, step, at)
    known = since < FOREVER
    present = rows.filter(pc.greater(rows["window_end"], instant(since)))
    judged = quality or USUAL
    rates = _rates(tables, step, quality, present)
    found = Worth(
        policy=changes[-1].spec.policy,
        targeted=quality is not None,
        counts=judged.counted,
        known=known,
        since=since,
        windows=0,
        slack=None,
        wait=None,
        processing=None,
        rates=(),
    )
    found = replace(found, rates=tuple(_expecting(found, step, judged, rates, present)))
    newest = present if known else rows
    newest = newest.slice(max(0, newest.num_rows - WINDOWS))
    return replace(found, **_waits(tables, step, at, newest)) if newest.num_rows else found


def _rates(
    tables: Tables, step: StepSpec, quality: Quality | None, present: pa.Table
) -> list[Rate]:
    """Observed; of a step without a target by what was recorded of windows, which is cheap."""
    if quality is None and not relative(step):
        return []
    if quality is None:
        of, off = (pc.sum(present[name]).as_py() or 0 for name in ("answers", "answers_beyond"))
        return [Rate(step.name, USUAL.target(), of, off, None)]
    return [
        Rate(name, target, len(errors), sum(e >= target.epsilon for e in errors), None, (*errors,))
        for name, target, errors in errors_of(tables, step, quality)
    ]


def _expecting(
    found: Worth, step: StepSpec, quality: Quality, rates: list[Rate], present: pa.Table
) -> Iterator[Rate]:
    """With what is to be expected."""
    for rate in rates:
        expected = ALLOWED * rate.target.delta if found.known else None
        if not found.steered:
            expected = None
        elif not found.bounded:
            expected = _predicted(step, quality, rate.target, present)
        yield replace(rate, expected=expected)


def _predicted(
    step: StepSpec, quality: Quality, target: QualityTarget, present: pa.Table
) -> float | None:
    """Share of what is judged that lies in windows of less final coverage than it needs."""
    bound = [(m, t) for m, t in quality.targets(step.judged) if t == target]
    needed = 1 - target.epsilon  # of pairs
    if quality.of != "pairs":
        needed = coverage_threshold(bound, quality.records, quality.cv**2)
    weights = np.ones(present.num_rows)
    if quality.of == "answer":
        weights = np.asarray(present["answers"], float)
    if not weights.sum():
        return None
    return float(weights[np.asarray(present["coverage"]) < needed].sum() / weights.sum())


def _waits(tables: Tables, step: StepSpec, at: Position, windows: pa.Table) -> dict[str, Any]:
    """K, wait and processing of some windows, in the order of their starts."""
    starts = _longs(windows["window_start"])
    slack = pc.cast(windows["slack_us"], pa.float64()).to_numpy().copy()  # Arrow's is read-only
    found = {"windows": windows.num_rows, "wait": None, "processing": None}
    # What hangs on a key is answered at once.
    if not step.by_key and (answered := _answered(tables, step, at, windows)).num_rows:
        ends, through = _longs(answered["window_end_min"]), _longs(answered["through_seq_min"])
        held = _slacks(tables, step, at, through)
        place = np.searchsorted(starts, _longs(answered["window_start"]))
        slack[place] = np.where(np.isnan(slack[place]), held, slack[place])
        newest, arrived, silent = _blocks(tables, step, through)
        waited = (arrived > BEGINNING) & (~silent | (ends + held <= newest))
        published = _longs(answered["published_at_min"])
        found["wait"] = Spread.of((newest - ends)[waited])
        found["processing"] = Spread.of((published - arrived)[waited] / 1e6)
    known = slack[~np.isnan(slack)]
    return found | {"slack": float(known.mean()) if len(known) else None}


def _answered(tables: Tables, step: StepSpec, at: Position, windows: pa.Table) -> pa.Table:
    """By window when it was answered in time: all keys are at once."""
    starts = _longs(windows["window_start"])
    names = ["window_start", "window_end", "through_seq", "published_at"]
    span = Spans("window_start", ((int(starts[0]), int(starts[-1])),))
    where = (pc.field("reason") == SPEED) & (pc.field("through_seq") <= at.seq)
    table = Table(tables.answers(step))
    rows = read_table(table, [*names, "generation", "micro_batch"], where, within=span)
    rows = sealed_only(rows, at)
    rows = rows.filter(pc.is_in(rows["window_start"], windows["window_start"].combine_chunks()))
    return rows.group_by("window_start", use_threads=False).aggregate(
        [(name, "min") for name in names[1:]]
    )


def _slacks(tables: Tables, step: StepSpec, at: Position, through: Longs) -> Longs:
    """K after the micro-batch that sealed each position, us."""
    every = rows_of(tables, step, at, Spans("through_seq", ((int(through.min()), FOREVER),)))
    seqs = np.maximum.accumulate(np.array([row.seq for row in every], np.int64))
    places = np.minimum(np.searchsorted(seqs, through), len(every) - 1)
    return np.array([row.state.slack for row in every], np.int64)[places]


def _blocks(tables: Tables, step: StepSpec, through: Longs) -> tuple[Longs, Longs, np.ndarray]:
    """Of the block that ends at each position, or holds it, what is known to a step at its end.

    Returns:
        The newest event time, us; when it arrived, us, ``BEGINNING`` if it is gone; whether the
        source was silent or ended there.
    """
    names = ["block", "kind", "origin", "first_seq", "last_seq", "t_max", "arrived_at", STREAM]
    span = Spans("last_seq", ((int(through.min()), FOREVER),))
    rows = read_table(Table(tables.blocks()), names, within=span).sort_by("block")
    if not rows.num_rows:
        nothing = np.full(len(through), BEGINNING)
        return nothing, nothing, np.zeros(len(through), bool)
    mine = pa.repeat(True, rows.num_rows)
    if step.streams:
        mine = pc.is_in(rows[STREAM], pa.array(step.streams, pa.string()))
    live = pc.and_(mine, pc.equal(rows["origin"], LIVE))
    times = _longs(pc.fill_null(pc.if_else(live, rows["t_max"], None), instant(BEGINNING)))
    newest = np.maximum.accumulate(times)
    newest = np.maximum(newest, newest_live_before(tables, rows["block"][0].as_py(), step.streams))
    lasts = _longs(rows["last_seq"])
    first = np.minimum(np.searchsorted(lasts, through), len(lasts) - 1)
    last = np.maximum(np.searchsorted(lasts, through, side="right") - 1, first)
    there = _longs(rows["first_seq"])[first] <= through
    silent = lasts[np.asarray(pc.and_(mine, pc.not_equal(rows["kind"], BlockKind.DATA.value)))]
    arrived = np.where(there, _longs(rows["arrived_at"])[first], BEGINNING)
    return newest[last], arrived, np.isin(through, silent)


def _longs(column: pa.ChunkedArray) -> Longs:
    return np.asarray(pc.cast(column, pa.int64()))
