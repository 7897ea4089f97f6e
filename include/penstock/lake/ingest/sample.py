"""A look at a source before anything runs: how disordered it is, and what a slack would mean.

It reads the first files as ingest would, judges them, and folds the same watermark over them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import decoded
from penstock.columns.digest import lateness_of
from penstock.columns.expressions import true_for
from penstock.columns.marks import Marks
from penstock.columns.watermark import Steering, after_each
from penstock.columns.windows import closed_of, panes_of, windows_a_pane
from penstock.config.intake import FileFormat, History
from penstock.config.pipeline import Pipeline
from penstock.config.slack import Quality, SlackConfig
from penstock.core.controller import Controller
from penstock.core.controllers import KINDS, fresh
from penstock.core.slack import SlackPolicy, SlackSpec
from penstock.core.slack import WatermarkState as State
from penstock.core.step import ONLY, STREAM, StepSpec
from penstock.core.window import BEGINNING, WindowSpec, micros
from penstock.lake.ingest import notices
from penstock.lake.ingest.item import Item, opened
from penstock.lake.ingest.origins import take_all
from penstock.lake.ingest.plan import APPLICATION
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.received import receive
from penstock.lake.ingest.source import Waiting
from penstock.lake.ingest.verdict import judge
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables

ENOUGH = 100_000
"""Records a sample."""
BEGUN = "planned, and not all of it read yet"
APART = {notices.CHANGED, notices.EMPTIED}
"""What a queue says of its own accord."""
TEXT_BYTES = 16 << 20
"""At most so much of one text file is read."""
MANY_FILES = 1_000
QUANTILES = {"half": 0.5, "95 %": 0.95, "99 %": 0.99, "all": 1.0}

Micros = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Queue:
    """Files of a source.

    Attributes:
        files: all there are, at most as many as were looked at.
        waiting: those that nothing has been taken of, or not all.
        more: whether there are more than were looked at.
        away: why the source cannot be looked at; empty: it can.
        changed: files, by their paths in the folder, that were changed after they were taken.
        gone: files that were taken from folders that hold nothing any more.
        notices: what else is odd about files, by their paths in the folder.
    """

    files: int
    waiting: int
    more: bool
    away: str = ""
    changed: tuple[str, ...] = ()
    gone: int = 0
    notices: dict[str, list[str]] = field(default_factory=dict)


def queue(config: History, home: Path, tables: Tables, origin: str, stream: str = ONLY) -> Queue:
    """How many files a source has and how many wait.

    Args:
        config: source or history of a pipeline file.
        home: where relative places start.
        tables: of the pipeline; its plans say what was taken.
        origin: live or history.
        stream: whose.
    """
    rest = Waiting(config, home)
    take_all({(stream, origin): rest}, tables)
    try:
        every, more = _paths(Waiting(config, home))
        waiting, still_more = _paths(rest)
    except SourceError as away:
        return Queue(0, 0, False, f"{away.path}: {away.why}")
    changed, gone = tuple(rest.changed), sum(rest.emptied.values())
    found = {BEGUN: _begun(tables, origin, stream), **rest.notices.found}
    others = {what: some for what, some in found.items() if what not in APART and some}
    return Queue(len(every), len(waiting), more or still_more, "", changed, gone, others)


def _begun(tables: Tables, origin: str, stream: str) -> list[str]:
    """Files of plans that are not sealed."""
    plans, blocks = Table(tables.plans()), Table(tables.blocks())
    if not plans.exists():
        return []
    sealed = blocks.refresh().transaction_version(APPLICATION) if blocks.exists() else None
    open_ = pc.field("number") > (-1 if sealed is None else sealed)
    open_ &= pc.field("origin") == origin
    if stream:
        open_ &= pc.field(STREAM) == stream
    rows = read_table(plans, ["positions"], open_).to_pylist()
    return [item["path"] for row in rows for item in json.loads(row["positions"])]


def _paths(waiting: Waiting) -> tuple[set[str], bool]:
    paths: set[str] = set()
    while len(paths) < MANY_FILES:
        items = waiting.items()
        if not items:
            return paths, False
        paths.update(item.path for item in items)
        waiting.take(items)
    return paths, True


@dataclass(frozen=True)
class Sample:
    """The first records of a source.

    Attributes:
        files: files read.
        received: records read.
        refused: reason -> records.
        at: place in the arrival order of each accepted record, shape (n,).
        times: their event times, us, shape (n,).
        lateness: behind the newest event time before them, us, shape (n,).
        columns: declared columns of the accepted records.
    """

    files: int
    received: int
    refused: dict[str, int]
    at: Micros
    times: Micros
    lateness: Micros
    columns: pa.Table

    @property
    def late_share(self) -> float:
        """Share of the accepted records that came after a newer one."""
        return float(np.mean(self.lateness > 0)) if len(self.lateness) else 0.0

    def lateness_at(self, share: float) -> int:
        """Lateness, us, that this share of the accepted records does not exceed."""
        if not len(self.lateness):
            return 0
        return int(np.quantile(self.lateness, share, method="inverted_cdf"))


def read_sample(
    pipeline: Pipeline, home: Path, now: datetime, enough: int = ENOUGH, stream: str = ONLY
) -> Sample:
    """Read and judge the first records of the source, whether taken already or not.

    Args:
        pipeline: as its file says it.
        home: where relative places start.
        now: arrival of records that carry no arrival time.
        enough: stop after so many records.
        stream: whose records.
    """
    definition = pipeline.definitions[stream]
    waiting = Waiting(definition.source, home)
    parts: list[pa.Table] = []
    reasons: dict[str, int] = {}
    paths: set[str] = set()
    received, newest = 0, BEGINNING
    for item in _first(waiting):
        read = receive(waiting.places.full(item), waiting.filesystem, definition)
        judged = judge(read, definition, micros(now), newest)
        newest = max(newest, judged.newest)
        left = enough - received
        kept = judged.accepted[:left]
        for verdict in judged.verdicts[:left][~kept]:
            reason, _ = judged.why[verdict - 1]
            reasons[reason] = reasons.get(reason, 0) + 1
        rows = np.flatnonzero(kept)
        table = decoded(judged.columns.take(rows))
        parts.append(table.append_column("at", pa.array(received + rows, pa.int64())))
        received += len(kept)
        paths.add(item.path)
        if received >= enough:
            break
    names = ["at", "event_time", *definition.types]
    if not parts:
        nothing = np.zeros(0, np.int64)
        return Sample(0, 0, {}, nothing, nothing, nothing, pa.table({}))
    table = pa.concat_tables([part.select(names) for part in parts], promote_options="default")
    times = np.asarray(pc.cast(table["event_time"], pa.int64()))
    return Sample(
        len(paths),
        received,
        reasons,
        np.asarray(table["at"]),
        times,
        lateness_of(times, BEGINNING),
        table.select([n for n in names if n != "at"]),
    )


def _first(waiting: Waiting) -> Iterator[Item]:
    while items := _items(waiting):
        for item in items:
            yield _start_of(item, waiting)
        waiting.take(items)


def _items(waiting: Waiting) -> list[Item]:
    try:
        return waiting.items()
    except SourceError:  # ``queue`` says why
        return []


def _start_of(item: Item, waiting: Waiting) -> Item:
    """The item, or the first lines of a large text file."""
    end = item.size if item.end < 0 else item.end
    if item.format == FileFormat.PARQUET.value or end - item.first <= TEXT_BYTES:
        return item
    with opened(waiting.places.full(item)) as stream:
        stream.seek(item.first)
        last = stream.read(TEXT_BYTES).rfind(b"\n")
    return item if last < 0 else replace(item, end=item.first + last + 1)


@dataclass(frozen=True, slots=True)
class SlackEffect:
    """What a slack means on a sample.

    Attributes:
        slack: the policy.
        k: K at the end of the sample, us.
        records: that the step keeps.
        late_records: those that miss at least one of their windows.
        pairs: (record, window) pairs.
        late_pairs: pairs that come after their window was answered.
        beyond: records later than the bound of ``max_delay``.
        marks: watermark in force after each record of the sample, us, shape (n,): exact where a
            window closes.
        controller: as it was left; none: the slack is not steered.
    """

    slack: SlackSpec
    k: int
    records: int
    late_records: int
    pairs: int
    late_pairs: int
    beyond: int
    marks: Micros
    controller: Controller | None

    @property
    def timely_share(self) -> float:
        """Share of the pairs that the timely answers hold."""
        return 1.0 - self.late_pairs / self.pairs if self.pairs else 1.0


def effect(sample: Sample, step: StepSpec, slack: SlackSpec | None = None) -> SlackEffect:
    """Fold a slack over a sample, as the speed layer does.

    Args:
        sample: of the source.
        step: its window and its condition.
        slack: instead of the step's.
    """
    slack = slack or step.slack
    watermarks, state, controller = _watermarks(sample, slack, step.window)
    kept = np.asarray(true_for(step.where, sample.columns), dtype=bool)
    times = sample.times[kept]
    pairs, late = _pairs(step.window, times, watermarks[kept])
    bounded = slack.policy is SlackPolicy.MAX_DELAY
    return SlackEffect(
        slack=slack,
        k=state.slack,
        records=len(times),
        late_records=int(np.count_nonzero(late)),
        pairs=int(pairs.sum()),
        late_pairs=int(late.sum()),
        beyond=int(np.count_nonzero(sample.lateness[kept] > slack.span)) if bounded else 0,
        marks=np.append(watermarks[1:], state.watermark)[: len(watermarks)],
        controller=controller,
    )


def alternatives(sample: Sample, step: StepSpec) -> dict[str, SlackEffect]:
    """What fixed slacks would mean: none, and as much as most records need."""
    spans = {"no waiting": 0}
    for said, share in QUANTILES.items():
        span = sample.lateness_at(share)
        if span and span not in spans.values():
            spans[f"{said} of the records"] = span
    return {
        said: effect(sample, step, SlackSpec(SlackPolicy.FIXED, span))
        for said, span in spans.items()
    }


def policies(sample: Sample, step: StepSpec, quality: Quality) -> dict[str, SlackEffect]:
    """What the policies would mean that move K, with default settings.

    Args:
        sample: of the source, not empty.
        step: its window, its condition, and what can be judged of it: else nothing is steered.
        quality: the target that is steered for.
    """
    slacks = dict[str, SlackSpec]()
    if greatest := sample.lateness_at(1.0):
        slacks["max_delay"] = SlackSpec(SlackPolicy.MAX_DELAY, greatest)
    for policy in KINDS if step.judged else ():
        plain = SlackConfig.model_validate({policy.value: {}})
        slacks[policy.value] = plain.spec(quality, step.judged, step.window.size)
    return {said: effect(sample, step, slack) for said, slack in slacks.items()}


def _watermarks(
    sample: Sample, slack: SlackSpec, window: WindowSpec
) -> tuple[Micros, State, Controller | None]:
    """The watermark in force for each record, us; the state after the last one; what steered."""
    times = sample.times
    if not len(times):
        return times, State(), None
    if slack.tuning is None:
        after, state = after_each(State(), times, BEGINNING, slack)
        return np.append(BEGINNING, after[:-1]), state, None
    last = sample.received - 1
    steering = Steering(fresh(window, slack), -1)
    marks = Marks.of([(0, BEGINNING), *steering.take(sample.at, times, BEGINNING, last)])
    return marks.at(sample.at), steering.controller.state(State()), steering.controller


def _pairs(window: WindowSpec, times: Micros, marks: Micros) -> tuple[Micros, Micros]:
    """Windows of each record, and how many of them are closed."""
    panes = panes_of(window, times)
    count = windows_a_pane(window, panes)
    if window.landmark:
        count = np.where(times < window.origin, 0, count)
    return count, np.minimum(closed_of(window, panes, marks), count)
