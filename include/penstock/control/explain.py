"""What a pipeline file means, as a value: what ``penstock explain`` prints is walked from here."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from cron_descriptor import Options, get_description
from croniter import croniter

from penstock.config.pipeline import Ambiguous, History, Pipeline
from penstock.config.settings import Settings
from penstock.config.slack import Quality
from penstock.core.slack import SlackSpec
from penstock.core.step import StepSpec
from penstock.core.window import WindowSpec, instant, micros

MAINTENANCE = "17 3 * * *"
"""Schedule of the DAG ``maintain__lake``, which all pipelines share."""
SHOWN_WINDOWS = 4
NONE = timedelta(0)
YEAR_AND_MORE = 400 * 24
"""Hours in which a zone that changes its clocks does it."""
AMBIGUOUS = {
    None: "a reading of the hour that comes twice is taken as the earlier, with a warning in the"
    " audit; ambiguous says otherwise",
    Ambiguous.EARLIER: "a reading of the hour that comes twice is the earlier",
    Ambiguous.LATER: "a reading of the hour that comes twice is the later",
    Ambiguous.QUARANTINE: "a reading of the hour that comes twice, or never, is refused",
    Ambiguous.BY_ORDER: "a reading of the hour that comes twice is the later once the earlier would"
    " be half of that hour or more before the newest event time",
}
BY_HAND = "when you trigger it"


@dataclass(frozen=True, slots=True)
class PlacePlan:
    """Where records come from.

    Attributes:
        uri: folder or table.
        format: of its files; delta: the files a Delta table's commits added.
        order: in which waiting files are taken.
        ending: whether it ends, and what silence means.
    """

    uri: str
    format: str
    order: str
    ending: str


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """A declared column.

    Attributes:
        source: its name in the source.
        used_by: key of, values of, condition of: step names.
    """

    name: str
    type: str
    source: str
    used_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The windows of a step.

    Attributes:
        kind: tumbling, sliding or landmark.
        size, slide, pane: lengths.
        panes: panes a window.
        since: of a landmark.
        example: an event time.
        windows: those that hold it, [start, end), the first ones.
        more: how many further windows hold it.
    """

    kind: str
    size: timedelta
    slide: timedelta
    pane: timedelta
    panes: int
    since: datetime | None
    example: datetime
    windows: tuple[tuple[datetime, datetime], ...]
    more: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step.

    Attributes:
        keys: names of the key columns.
        where: the condition as written; none: every record.
        values: what an answer says: name, meaning and type of each.
        quality: what its timely answers must hold; none: nothing.
    """

    name: str
    keys: tuple[str, ...]
    where: str | None
    window: WindowPlan
    values: tuple[tuple[str, str, str], ...]
    slack: SlackSpec
    quality: Quality | None


@dataclass(frozen=True, slots=True)
class DagPlan:
    """One DAG.

    Attributes:
        schedule: in words.
        next: when it runs next by itself; none: never.
    """

    dag: str
    does: str
    schedule: str
    next: datetime | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A pipeline, explained."""

    name: str
    description: str
    file: str
    digest: str
    source: PlacePlan
    history: PlacePlan | None
    columns: tuple[ColumnPlan, ...]
    event_time: str
    arrival_time: str
    zone: str
    clock_changes: str
    refused: tuple[tuple[str, str], ...]
    steps: tuple[StepPlan, ...]
    dags: tuple[DagPlan, ...]
    correction: str
    audit: str


def explain(
    pipeline: Pipeline, settings: Settings, now: datetime, example: datetime | None = None
) -> Explanation:
    """Explain a pipeline.

    Args:
        pipeline: as its file says it.
        settings: where the home folder is.
        now: the next runs are those after it, aware.
        example: an event time to show windows with, aware; none: ``now``.
    """
    arrival = pipeline.arrival_time or "the instant the batch was taken in"
    return Explanation(
        name=pipeline.name,
        description=pipeline.description,
        file=str(pipeline.path),
        digest=pipeline.digest,
        source=_place(pipeline.source, settings, _ending(pipeline)),
        history=None
        if pipeline.history is None
        else _place(pipeline.history, settings, "taken in by preload, once"),
        columns=tuple(_columns(pipeline)),
        event_time=pipeline.event_time,
        arrival_time=arrival,
        zone=pipeline.zone,
        clock_changes=_clock_changes(pipeline, now),
        refused=tuple(_refused(pipeline)),
        steps=tuple(_step(pipeline, spec, example or now) for spec in pipeline.specs),
        dags=tuple(_dags(pipeline, now)),
        correction=in_words(pipeline.correction.cron),
        audit=in_words(pipeline.audit.cron),
    )


def in_words(cron: str) -> str:
    """A cron line as people say it: ``every 15 minutes``."""
    options = Options()
    options.use_24hour_time_format = True
    options.locale_code = "en_US"
    said = str(get_description(cron, options))
    return said[:1].lower() + said[1:]


def next_run(cron: str, now: datetime) -> datetime:
    """When a cron line, read in UTC, is due after an instant."""
    due: datetime = croniter(cron, now.astimezone(UTC)).get_next(datetime)
    return due


def _place(place: History, settings: Settings, ending: str) -> PlacePlan:
    where = place.delta or place.files or ""
    uri = where if "://" in where else str((settings.home / where).absolute())
    if place.delta is not None:
        return PlacePlan(uri, "delta", "in the order of its commits", ending)
    order = f"files in the order of {'name' if place.order.value == 'name' else 'modification'}"
    return PlacePlan(uri, place.format.value, order, ending)


def _ending(pipeline: Pipeline) -> str:
    source = pipeline.source
    if source.mode.value == "bounded":
        return "bounded: after its last file every window closes and the stream ends"
    return (
        f"live: it never ends; after {spoken(source.idle_after)} of silence the watermark goes"
        " to the newest event time"
    )


def _columns(pipeline: Pipeline) -> list[ColumnPlan]:
    return [
        ColumnPlan(
            name,
            column.type.value,
            column.source or name,
            tuple(spec.name for spec in pipeline.specs if name in spec.columns),
        )
        for name, column in pipeline.columns.items()
    ]


def _clock_changes(pipeline: Pipeline, now: datetime) -> str:
    """When the zone's clocks go back next, and what their readings then mean; empty: never."""
    first = now.replace(minute=0, second=0, microsecond=0)
    hours = ((first + timedelta(hours=n)).astimezone(pipeline.tz) for n in range(YEAR_AND_MORE))
    for one, other in pairwise(hours):
        back = (one.utcoffset() or NONE) - (other.utcoffset() or NONE)
        if back > NONE:
            said = f"on {other:%Y-%m-%d} clocks go back by {spoken(back)}"
            return f"{said}; {AMBIGUOUS[pipeline.ambiguous]}"
    return ""


def _refused(pipeline: Pipeline) -> list[tuple[str, str]]:
    earliest = pipeline.not_before
    oldest = "1900-01-01" if earliest is None else f"{earliest:%Y-%m-%d %H:%M %Z}"
    doubles = [name for name, kind in pipeline.types.items() if kind.value == "double"]
    rules = [
        ("malformed, unreadable", "not a record of this format; the whole file cannot be read"),
        ("not castable", "a declared column, or an instant, holds what its type does not allow"),
    ]
    if pipeline.ambiguous is Ambiguous.QUARANTINE:
        rules.append(
            ("ambiguous clock reading", f"two instants in {pipeline.zone} have it, or none")
        )
    rules.append(("missing event time", f"no {pipeline.event_time}"))
    if pipeline.keys:
        rules.append(("missing key", f"no {' or '.join(pipeline.keys)}"))
    if pipeline.arrival_time is not None:
        ahead = f"{pipeline.arrival_time} more than {spoken(pipeline.skew)} after it was taken in"
        rules.append(("arrival time ahead of ingest", ahead))
    rules.append(
        (
            "event time ahead of arrival",
            f"more than {spoken(pipeline.skew)} after {pipeline.arrival_time or 'it was taken in'}",
        )
    )
    rules.append(("event time before not_before", f"before {oldest}"))
    if doubles:
        rules.append(("NaN or infinity", f"in {', '.join(doubles)}"))
    if pipeline.id is not None:
        same = (
            f"one with its {pipeline.id.column} arrived within {spoken(pipeline.id.horizon)} of it"
        )
        rules.append(("repeated id", same))
    return rules


def _step(pipeline: Pipeline, spec: StepSpec, example: datetime) -> StepPlan:
    config = pipeline.steps[spec.name]
    values = tuple((value.name, config.said(value.name), value.type.value) for value in spec.values)
    window = _window(spec.window, micros(example))
    return StepPlan(
        spec.name, spec.key_names, config.where, window, values, spec.slack, config.quality
    )


def _window(spec: WindowSpec, example: int) -> WindowPlan:
    if spec.landmark:
        kind, example = "landmark", max(example, spec.origin)
    else:
        kind = "tumbling" if spec.size == spec.slide else "sliding"
    starts = list(spec.windows_of(example))
    return WindowPlan(
        kind=kind,
        size=timedelta(microseconds=spec.size),
        slide=timedelta(microseconds=spec.slide),
        pane=timedelta(microseconds=spec.pane),
        panes=spec.panes,
        since=instant(spec.origin) if spec.landmark else None,
        example=instant(example),
        windows=tuple((instant(s), instant(s + spec.size)) for s in starts[:SHOWN_WINDOWS]),
        more=max(0, len(starts) - SHOWN_WINDOWS),
    )


def _dags(pipeline: Pipeline, now: datetime) -> list[DagPlan]:
    name, live = pipeline.name, pipeline.source.mode.value == "live"
    correct, audit = pipeline.correction.cron, pipeline.audit.cron
    dags = [
        DagPlan(
            f"stream__{name}",
            "takes records in and answers in time",
            "always" if live else f"{BY_HAND}; ends with its source",
            None,
        ),
        DagPlan(
            f"correct__{name}",
            "repairs answers that late records touched",
            in_words(correct),
            next_run(correct, now),
        ),
        DagPlan(
            f"audit__{name}",
            "recomputes every answer another way",
            f"{in_words(audit)}, and after each correction",
            next_run(audit, now),
        ),
        DagPlan(
            "maintain__lake",
            "keeps the tables small and quick",
            in_words(MAINTENANCE),
            next_run(MAINTENANCE, now),
        ),
    ]
    soon = pipeline.correction.soon
    if soon is not None:
        what = f"by itself: a late record is repaired within {spoken(soon.within)}"
        if soon.span is not None:
            what += f", sooner when they span more than {spoken(soon.span)}"
        dags.insert(2, DagPlan(f"correct_soon__{name}", "the same, before its time", what, None))
    if pipeline.history is None:
        return dags
    return [DagPlan(f"preload__{name}", "takes the history in", BY_HAND, None), *dags]


SECOND, MINUTE = 1_000_000, 60_000_000
UNITS = (("d", 24 * 60 * MINUTE), ("h", 60 * MINUTE), ("min", MINUTE), ("s", SECOND))


def spoken(span: timedelta | int) -> str:
    """A duration as people write it: ``1 h 30 min``, ``500 ms``; at most two units.

    Args:
        span: a duration, or its microseconds.
    """
    whole = span if isinstance(span, int) else micros(span)
    left, sign = abs(whole), "-" if whole < 0 else ""
    if left < MINUTE:
        small = f"{left / 1_000:g} ms" if left else "0 s"
        return sign + (small if left < SECOND else f"{left / SECOND:.3g} s")
    last = next(low for (_, high), (_, low) in pairwise(UNITS) if left >= high)
    left = round(left / last) * last
    parts: list[str] = []
    for unit, length in UNITS:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {unit}")
    return sign + " ".join(parts)
