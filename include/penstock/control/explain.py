"""What a pipeline file means, as a value: what ``penstock explain`` prints is walked from here."""

from datetime import datetime, timedelta
from itertools import pairwise

from penstock.config.answers import OverAnswers
from penstock.config.intake import Ambiguous, History, Intake
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.control.explanation import ColumnPlan, Explanation, PlacePlan, StepPlan, WindowPlan
from penstock.control.schedule import dags
from penstock.control.spoken import in_words, spoken
from penstock.core.step import ONLY, StepSpec
from penstock.core.window import WindowSpec, instant, micros

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


def explain(
    pipeline: Pipeline,
    settings: Settings,
    now: datetime,
    example: datetime | None = None,
    stream: str = ONLY,
) -> Explanation:
    """Explain a pipeline, or one of its streams with the steps over it.

    Args:
        pipeline: as its file says it.
        settings: where the home folder is.
        now: the next runs are those after it, aware.
        example: an event time to show windows with, aware; none: ``now``, or over answers the last
            instant of one.
        stream: which one, of several; a step of two is told with the later one.
    """
    intake = pipeline.intakes[stream]
    arrival = intake.arrival_time or "the instant the batch was taken in"
    order = [*pipeline.intakes].index
    specs = [s for s in pipeline.specs if max(s.streams or (ONLY,), key=order) == stream]
    return Explanation(
        name=pipeline.name,
        description=pipeline.description,
        file=str(pipeline.path),
        digest=pipeline.digest,
        stream=stream,
        source=_place(intake.source, settings, _ending(intake)),
        history=None
        if intake.history is None
        else _place(intake.history, settings, "taken in by preload, once"),
        columns=tuple(_columns(pipeline, stream)),
        event_time=intake.event_time,
        arrival_time=arrival,
        zone=intake.zone,
        clock_changes=_clock_changes(intake, now),
        kept=_kept(pipeline),
        refused=tuple(_refused(pipeline, stream)),
        steps=tuple(_step(pipeline, spec, example or _possible(pipeline, now)) for spec in specs),
        dags=tuple(dags(pipeline, now, settings.shards)),
        correction=in_words(pipeline.correction.cron),
        audit=in_words(pipeline.audit.cron),
    )


def _possible(pipeline: Pipeline, now: datetime) -> datetime:
    """An event time that a record can have: of an answer it is the last instant of its window."""
    if not isinstance(pipeline, OverAnswers):
        return now
    window = pipeline.over.window
    ended = window.first_window(window.pane_of(micros(now))) - window.slide
    return instant(ended + window.size - 1)


def _place(place: History, settings: Settings, ending: str) -> PlacePlan:
    where = place.delta or place.files or ""
    uri = where if "://" in where else str((settings.home / where).absolute())
    if place.delta is not None:
        return PlacePlan(uri, "delta", "in the order of its commits", ending)
    order = f"files in the order of {'name' if place.order.value == 'name' else 'modification'}"
    return PlacePlan(uri, place.format.value, order, ending)


def _ending(intake: Intake) -> str:
    source = intake.source
    if source.mode.value == "bounded":
        return "bounded: after its last file every window closes and the stream ends"
    return (
        f"live: it never ends; after {spoken(source.idle_after)} of silence the watermark goes"
        " to the newest event time"
    )


def _columns(pipeline: Pipeline, stream: str) -> list[ColumnPlan]:
    specs = [spec for spec in pipeline.specs if stream in (spec.streams or (ONLY,))]
    return [
        ColumnPlan(
            name,
            column.type.value,
            column.source or name,
            tuple(spec.name for spec in specs if name in spec.columns),
        )
        for name, column in pipeline.intakes[stream].columns.items()
    ]


def _clock_changes(intake: Intake, now: datetime) -> str:
    """When the zone's clocks go back next, and what their readings then mean; empty: never."""
    first = now.replace(minute=0, second=0, microsecond=0)
    hours = ((first + timedelta(hours=n)).astimezone(intake.tz) for n in range(YEAR_AND_MORE))
    for one, other in pairwise(hours):
        back = (one.utcoffset() or NONE) - (other.utcoffset() or NONE)
        if back > NONE:
            said = f"on {other:%Y-%m-%d} clocks go back by {spoken(back)}"
            return f"{said}; {AMBIGUOUS[intake.ambiguous]}"
    return ""


def _kept(pipeline: Pipeline) -> str:
    if pipeline.keep is None:
        return "for ever"
    return f"{spoken(pipeline.keep)} of event time; then windows are frozen, only answers stay"


def _refused(pipeline: Pipeline, stream: str) -> list[tuple[str, str]]:
    intake, keys = pipeline.intakes[stream], pipeline.keys_of(stream)
    earliest = intake.not_before
    oldest = "1900-01-01" if earliest is None else f"{earliest:%Y-%m-%d %H:%M %Z}"
    doubles = [name for name, kind in intake.types.items() if kind.value == "double"]
    rules = [
        ("malformed, unreadable", "not a record of this format; the whole file cannot be read"),
        ("not castable", "a declared column, or an instant, holds what its type does not allow"),
    ]
    if intake.ambiguous is Ambiguous.QUARANTINE:
        rules.append(("ambiguous clock reading", f"two instants in {intake.zone} have it, or none"))
    rules.append(("missing event time", f"no {intake.event_time}"))
    if keys:
        rules.append(("missing key", f"no {' or '.join(keys)}"))
    if intake.arrival_time is not None:
        ahead = f"{intake.arrival_time} more than {spoken(intake.skew)} after it was taken in"
        rules.append(("arrival time ahead of ingest", ahead))
    rules.append(
        (
            "event time ahead of arrival",
            f"more than {spoken(intake.skew)} after {intake.arrival_time or 'it was taken in'}",
        )
    )
    rules.append(("event time before not_before", f"before {oldest}"))
    if pipeline.keep is not None:
        kept = f"more than {spoken(pipeline.keep)} behind the watermark, once that is frozen"
        rules.append(("event time before what is kept", kept))
    if doubles:
        rules.append(("NaN or infinity", f"in {', '.join(doubles)}"))
    if intake.id is not None:
        same = f"one with its {intake.id.column} arrived within {spoken(intake.id.horizon)} of it"
        rules.append(("repeated id", same))
    return rules


def _step(pipeline: Pipeline, spec: StepSpec, example: datetime) -> StepPlan:
    config = pipeline.steps[spec.name]
    values = tuple((value.name, config.said(value.name), value.type.value) for value in spec.values)
    window = _window(spec.window, micros(example))
    where = None if spec.where is None else config.where
    return StepPlan(
        spec.name, spec.key_names, where, window, values,
        spec.slack if spec.has_slack else None, config.quality,
        config.compares, config.late, config.found_by(pipeline.given_to(config)), spec.shed,
        spec.parallelism,
    )  # fmt: skip


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
