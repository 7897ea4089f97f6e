"""What there is to say of a pipeline before it runs, as values."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.config.slack import Quality
from penstock.core.parallelism import UNSAID
from penstock.core.shedding import Shedding
from penstock.core.slack import SlackSpec


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
        slack: how far its watermark stays behind; none: it waits for no late record.
        compares: each record with what; empty: it answers windows.
        late: then, which records are, and what becomes of them, with ``{correction}`` for when.
        found_by: what partners are looked up by; empty: it has none.
        shed: what it may leave to the correction under load; none: nothing.
        parallelism: into how many tasks it is cut (``core.parallelism``).
    """

    name: str
    keys: tuple[str, ...]
    where: str | None
    window: WindowPlan
    values: tuple[tuple[str, str, str], ...]
    slack: SlackSpec | None
    quality: Quality | None
    compares: str = ""
    late: str = ""
    found_by: str = ""
    shed: Shedding | None = None
    parallelism: int = UNSAID


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
    """A pipeline, explained, or one stream of several with the steps over it.

    Attributes:
        stream: which one; empty: the only one.
    """

    name: str
    description: str
    file: str
    digest: str
    stream: str
    source: PlacePlan
    history: PlacePlan | None
    columns: tuple[ColumnPlan, ...]
    event_time: str
    arrival_time: str
    zone: str
    clock_changes: str
    kept: str
    refused: tuple[tuple[str, str], ...]
    steps: tuple[StepPlan, ...]
    dags: tuple[DagPlan, ...]
    correction: str
    audit: str
