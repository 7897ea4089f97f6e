"""What a slack would cost and bring, on a sample of the source: the worth before anything runs.

Each policy is folded over the sample as the stream would do it, record by record. Of the windows
that are final there it is counted how many held too little for the target when they closed.
"""

import numpy as np

from penstock.columns.arrays import Longs
from penstock.columns.expressions import true_for
from penstock.columns.windows import closed_of, first_window, panes_of, windows_a_pane
from penstock.config.slack import USUAL, Quality
from penstock.core.controller import Controller
from penstock.core.patient import UNSEEN, Patient
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.ingest.sample import Sample, SlackEffect
from penstock.lake.proof.worth import Rate, Spread, Worth

MANY = 5_000_000
"""A sample that spans more windows has an event time from another age: nothing is counted."""


def sampled(sample: Sample, step: StepSpec, effect: SlackEffect, quality: Quality | None) -> Worth:
    """The worth of a slack on a sample.

    The wait is that of records judged one by one: blocks add to it. Windows that began before the
    first record, and those not final at the end, are left out: final is a window once hardly a
    record of the sample still came for one so old.

    Args:
        sample: of the source, not empty.
        step: its window, its condition, and what can be judged of it.
        effect: of the slack on the sample.
        quality: the target; none: the usual one is looked at.
    """
    judged, since = quality or USUAL, _since(effect.controller)
    needed = judged.threshold(step.judged) if step.judged else 1.0
    newest = np.maximum.accumulate(sample.times)
    starts = _starts(sample, step, judged.delta * (1 - needed), int(newest[-1]))
    ends = starts + step.window.size
    closing = np.searchsorted(effect.marks, ends)
    some = closing < len(newest)
    if since < FOREVER:
        some &= ends > since
    starts, ends, closing = starts[some], ends[some], closing[some]
    came, held = _counted(sample, step, effect, starts)
    rates = []
    if step.judged:
        there = came > 0
        of, off = int(there.sum()), int((there & (held < needed * came)).sum())
        known = since < FOREVER
        expected = off / of if of and known else None
        rates = [
            Rate(step.name, judged.target(), of if known else 0, off if known else 0, expected)
        ]
    return Worth(
        policy=effect.slack.policy,
        targeted=quality is not None,
        counts="windows",
        known=since < FOREVER,
        since=since,
        windows=len(starts),
        slack=float((newest - effect.marks)[closing].mean()) if len(starts) else None,
        wait=Spread.of(newest[closing] - ends),
        processing=None,
        rates=tuple(rates),
    )


def _since(controller: Controller | None) -> int:
    """Windows that end after this instant follow from what the policy has learned, us."""
    if isinstance(controller, Patient):
        return FOREVER if controller.since is None else controller.since
    return BEGINNING if controller is None or controller.steady else FOREVER


def _starts(sample: Sample, step: StepSpec, missing: float, newest: int) -> Longs:
    """Of the windows that began in the sample and are final at its end, us.

    Args:
        sample: of the source.
        step: the step.
        missing: share of the records that may be missing altogether.
        newest: event time of the sample, us.
    """
    window = step.window
    horizon = sample.lateness_at(1 - UNSEEN * missing)
    first = window.floor(int(sample.times[0]) - 1) + window.slide
    if window.landmark:
        first = max(first, window.origin)
    last = window.floor(newest - horizon - window.size)
    if last < first or (last - first) // window.slide > MANY:
        return np.zeros(0, np.int64)
    return np.arange(first, last + 1, window.slide, dtype=np.int64)


def _counted(
    sample: Sample, step: StepSpec, effect: SlackEffect, starts: Longs
) -> tuple[Longs, Longs]:
    """Records of each window, and those that were there when it closed.

    Windows of a record follow each other, and those that are closed for it come first: so they are
    counted by where such runs begin and end.
    """
    window = step.window
    kept = np.asarray(true_for(step.where, sample.columns), dtype=bool)
    before = np.append(BEGINNING, effect.marks[:-1])[kept]
    panes = panes_of(window, sample.times[kept])
    first, count = first_window(window, panes), windows_a_pane(window, panes)
    closed = np.minimum(closed_of(window, panes, before), count)
    ends = first + count * window.slide
    return _covering(first, ends, starts), _covering(first + closed * window.slide, ends, starts)


def _covering(begins: Longs, ends: Longs, starts: Longs) -> Longs:
    """How many of the runs [begin, end) hold each start."""
    begun = np.searchsorted(np.sort(begins), starts, side="right")
    return np.asarray(begun - np.searchsorted(np.sort(ends), starts, side="right"), np.int64)
