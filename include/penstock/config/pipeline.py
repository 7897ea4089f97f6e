"""The model of a pipeline file. The reference page is generated from the descriptions here."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    AwareDatetime,
    Field,
    NonNegativeInt,
    field_validator,
    model_validator,
)

from penstock.config.columns import ColumnConfig, Id
from penstock.config.forms import Cron, Form, Place, Zone
from penstock.config.model import ColumnName, Model, Name, Named, alike
from penstock.config.running import Correction, MicroBatch, Schedule
from penstock.config.side import SideConfig
from penstock.config.snapshots import Snapshots
from penstock.config.step import ByKind, Given, StepConfig, code_of
from penstock.core.measure import ColumnType
from penstock.core.side import SideTable
from penstock.core.step import ONLY, StepSpec

RESERVED = (
    "event_time", "arrival_seq", "block", "ingest_time", "origin", "extra", "undeclared", "read_as"
)  # fmt: skip
TOGETHER, APART = "together", "apart"
"""Names of queries: of the one that runs all steps but those that run apart."""


class Ambiguous(StrEnum):
    """What a reading of a local clock means that two instants have."""

    EARLIER = "earlier"
    LATER = "later"
    QUARANTINE = "quarantine"
    BY_ORDER = "by order"


class FileFormat(StrEnum):
    """How a source file is written."""

    PARQUET = "parquet"
    JSONL = "jsonl"
    CSV = "csv"


class FileOrder(StrEnum):
    """In which order files that wait together are taken."""

    NAME = "name"
    MODIFIED = "modified"


class Mode(StrEnum):
    """Whether a source ends."""

    LIVE = "live"
    BOUNDED = "bounded"


class After(StrEnum):
    """What becomes of a source's file once its records are sealed."""

    KEEP = "keep"
    DELETE = "delete"
    ARCHIVE = "archive"


OF_SOURCE = {"after", "archive"}
"""Keys of a source that say nothing of how it is read."""


class History(Model):
    """Records that were there before the stream: a folder of files, or a Delta table."""

    files: Place | None = Field(
        default=None, description="Folder; relative: below the home folder."
    )
    delta: Place | None = Field(default=None, description="Delta table; relative: below home.")
    format: FileFormat = Field(default=FileFormat.PARQUET, description="Format of the files.")
    order: FileOrder = Field(default=FileOrder.NAME, description="Order of waiting files.")
    skip: tuple[NonNegativeInt, ...] = Field(
        default=(), description="Versions of the Delta table of which nothing is taken."
    )
    cron: Cron = Field(
        default="0 0 1 * *", description="Data intervals of the preload's Backfill dialog."
    )

    @model_validator(mode="before")
    @classmethod
    def _stays(cls, value: Any) -> Any:
        mine = OF_SOURCE - cls.model_fields.keys()
        if isinstance(value, dict) and (strange := sorted(mine & value.keys())):
            raise ValueError(
                f"{' and '.join(strange)}: files of a history stay, since it may be preloaded by"
                " intervals. Name it at source, or delete it"
            )
        return value

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.files is None) == (self.delta is None):
            raise ValueError("name one place: files (a folder) or delta (a table)")
        if self.skip and self.delta is None:
            raise ValueError("skip names versions of a Delta table; files have none")
        return self


class Source(History):
    """Where records come from while the stream runs."""

    cron: Literal[None] = Field(default=None, exclude=True)  # type: ignore[assignment]
    mode: Mode = Field(default=Mode.LIVE, description="live never ends; bounded ends.")
    idle_after: timedelta = Field(
        default=timedelta(minutes=10),
        gt=timedelta(0),
        description="Silence after which a live source's watermark goes to the newest event time.",
    )
    after: After = Field(
        default=After.KEEP,
        description="What becomes of a file all of whose records are sealed: it stays, is deleted,"
        " or is moved to `archive`.",
    )
    archive: Place | None = Field(
        default=None,
        description="Folder, outside the source; relative: below the home folder. Files keep their"
        " paths from the source's folder.",
    )

    @model_validator(mode="after")
    def _has_an_archive(self) -> Self:
        if self.delta is not None and self.after is not After.KEEP:
            raise ValueError(
                f"after: {self.after}: the files of a Delta table are the table's. Delete after,"
                " and vacuum the table instead"
            )
        if self.archive is None and self.after is After.ARCHIVE:
            raise ValueError("after: archive needs a folder: archive: FOLDER, outside the source")
        if self.archive is not None and self.after is not After.ARCHIVE:
            raise ValueError("archive has no effect without after: archive. Add that, or delete it")
        return self


class Intake(Model):
    """The part of a pipeline file on which the door's verdicts depend."""

    source: Source = Field(description="Where live records come from.")
    history: History | None = Field(default=None, description="What is preloaded.")
    columns: dict[ColumnName, ColumnConfig] = Field(
        description="Columns the steps use, with their types; others are kept beside them."
    )
    event_time: str = Field(description="Source column of the event time.")
    arrival_time: str | None = Field(
        default=None, description="Source column of the arrival instant; none: when ingested."
    )
    zone: Zone = Field(default="UTC", description="Zone of instants that carry none.")
    ambiguous: Ambiguous | None = Field(
        default=None,
        description="What a clock reading of a repeated hour means; none: earlier, with a warning"
        " in the audit.",
    )
    formats: dict[str, Form] = Field(
        default_factory=dict,
        description="How a source column writes its instants: `s`, `ms`, `us` since 1970, or a"
        " `strptime` form; others: ISO 8601.",
    )
    skew: timedelta = Field(
        default=timedelta(minutes=5),
        ge=timedelta(0),
        description="How far an event time may lie after its arrival, and an arrival after ingest.",
    )
    not_before: AwareDatetime | None = Field(
        default=None, description="Earlier event times are refused."
    )
    id: Id | None = Field(default=None, description="Refuse repeated records.")

    @field_validator("columns", mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: {"type": v} if isinstance(v, str) else v for k, v in value.items()}

    @classmethod
    def reserved(cls) -> Sequence[str]:
        """Names of columns that the tables use themselves."""
        return RESERVED

    @field_validator("columns")
    @classmethod
    def _names_are_free(cls, value: dict[str, ColumnConfig]) -> dict[str, ColumnConfig]:
        for name in value:
            if name.lower() in cls.reserved():
                raise ValueError(
                    f"column {name}: the tables use this name themselves. Declare it under"
                    f" another one: my_{name}: {{type: ..., from: {name}}}"
                )
        if same := alike(value):
            raise ValueError(f"columns {same} differ only in case")
        return value

    @model_validator(mode="after")
    def _columns_are_there(self) -> Self:
        if self.id is not None and self.id.column not in self.columns:
            raise ValueError(f"id.column {self.id.column} is not declared under columns")
        instants = {self.event_time, self.arrival_time} | {
            column.source or name
            for name, column in self.columns.items()
            if column.type is ColumnType.TIMESTAMP
        }
        if strange := sorted(self.formats.keys() - instants):
            raise ValueError(
                f"formats: {', '.join(strange)} is no source column of an instant: event_time,"
                " arrival_time, or a column of type timestamp (by its name in the source)"
            )
        return self

    @cached_property
    def types(self) -> dict[str, ColumnType]:
        """Type of each declared column."""
        return {name: column.type for name, column in self.columns.items()}

    @cached_property
    def wanted(self) -> frozenset[str]:
        """Source columns that the file names; of others only the text is kept."""
        declared = {column.source or name for name, column in self.columns.items()}
        return frozenset(declared | {self.event_time, self.arrival_time or self.event_time})

    @cached_property
    def reading(self) -> str:
        """How event times are read, as text: another one reads another instant."""
        form = self.formats.get(self.event_time)
        return json.dumps([self.event_time, self.zone, self.ambiguous or Ambiguous.EARLIER, form])

    @property
    def tz(self) -> ZoneInfo:
        """Zone of instants that carry none."""
        return ZoneInfo(self.zone)


class Definition(Intake):
    """What a plan of the door is carried out by, written down with it."""

    keys: tuple[str, ...]

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what ``to_text`` wrote."""
        return cls.model_validate_json(text)

    def to_text(self) -> str:
        """As JSON; of a source whose files stay as before there was a choice."""
        stays = {"source": OF_SOURCE} if self.source.after is After.KEEP else None
        return self.model_dump_json(by_alias=True, exclude=stays)


class Pipeline(Snapshots, Intake, Named):
    """One pipeline: a source, its columns, and the steps over its events."""

    load: dict[Name, SideConfig] = Field(
        default_factory=dict, description="Side data: small tables that steps look things up in."
    )
    steps: dict[Name, Annotated[StepConfig, ByKind()]] = Field(
        min_length=1, description="Answers wanted, by name."
    )
    micro_batch: MicroBatch = Field(
        default=MicroBatch(least=4_000_000),
        description="Bounds between which the stream finds the size of its micro-batches; without"
        " them it takes up to 4,000,000 records at once.",
    )
    correction: Correction = Field(
        default=Correction(cron="*/15 * * * *"), description="When late records are repaired."
    )
    audit: Schedule = Field(
        default=Schedule(cron="7 * * * *"), description="When the answers are recomputed."
    )
    keep: timedelta | None = Field(
        default=None,
        gt=timedelta(0),
        description="Event time for which records stay; then their windows are frozen, and only"
        " answers stay. None: for ever.",
    )

    @property
    def intakes(self) -> Mapping[str, Intake]:
        """What the door takes, by stream; the stream of the only source has no name."""
        return {ONLY: self}

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams; none: there is one source."""
        return ()

    def is_live(self, streams: Sequence[str] = ()) -> bool:
        """Whether one of some sources never ends; by default of all."""
        asked = streams or self.intakes.keys()
        return any(self.intakes[name].source.mode is Mode.LIVE for name in asked)

    @property
    def histories(self) -> dict[str, History]:
        """What is preloaded, by stream."""
        found = {name: intake.history for name, intake in self.intakes.items()}
        return {name: history for name, history in found.items() if history is not None}

    @cached_property
    def specs(self) -> tuple[StepSpec, ...]:
        """The steps with their expressions read.

        Raises:
            ValueError: an expression is wrong; ``Catalog`` reports it with its line.
        """
        return tuple(step.whole(name, self.given_to(step)) for name, step in self.steps.items())

    def given_to(self, step: StepConfig) -> Given:
        """What a step is given: columns of the streams that it reads."""
        some = tuple(self.intakes[name].types for name in step.streams or self.intakes)
        types = {name: kind for each in some for name, kind in each.items()}
        return Given(types, self.sides, code_of(self.path), some)

    @cached_property
    def sides(self) -> dict[str, SideTable]:
        """Side data by name."""
        return {name: side.table(name) for name, side in self.load.items()}

    @cached_property
    def side_tables(self) -> dict[str, SideTable]:
        """Side data by name, with what steps hold of it."""
        own = (declared.table for spec in self.specs for declared in spec.declares)
        return {**self.sides, **{table.name: table for table in own}}

    @property
    def least_kept(self) -> tuple[int, str]:
        """The shortest ``keep`` by which nothing of an open window goes, us, and for which step."""
        spans = ((s.lag + s.window.size + s.lead + s.slack.longest, s.name) for s in self.specs)
        return max(spans)

    @cached_property
    def queries(self) -> dict[str, tuple[StepSpec, ...]]:
        """The steps by the query that runs them: one for all, and one for each that is apart."""
        found: dict[str, list[StepSpec]] = {}
        for step in self.specs:
            name = f"{APART}-{step.name}" if self.steps[step.name].apart else TOGETHER
            found.setdefault(name, []).append(step)
        return {name: tuple(steps) for name, steps in found.items()}

    def query_of(self, step: str) -> str:
        """Name of the query that runs a step."""
        found = self.queries.items()
        return next(name for name, steps in found if step in {s.name for s in steps})

    def spec(self, step: str) -> StepSpec:
        """One step; KeyError if there is none of that name."""
        return {s.name: s for s in self.specs}[step]

    def keys_of(self, stream: str) -> tuple[str, ...]:
        """Columns some step uses as a key: none of them may be missing in a record of a stream."""
        mine = (spec for spec in self.specs if stream in (spec.streams or (ONLY,)))
        keys = {key.name for spec in mine for key in spec.required}
        return tuple(sorted(keys & self.intakes[stream].types.keys()))

    @cached_property
    def digest(self) -> str:
        """Names the content of the file: equal digests mean the same.

        But for what a stream follows by itself, or readers ask for: no process starts again then.
        """
        followed = {name: step.followed for name, step in self.steps.items() if step.followed}
        text = self.model_dump_json(exclude={"steps": followed, "snapshots": True})
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def keys(self) -> tuple[str, ...]:
        """Those of the only stream."""
        return self.keys_of(ONLY)

    @property
    def definition(self) -> Definition:
        """That of the only stream."""
        return self.definitions[ONLY]

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """What the door's verdicts on records of each stream depend on."""
        found = {}
        for stream, intake in self.intakes.items():
            known = {name: getattr(intake, name) for name in Intake.model_fields}
            known["keys"] = self.keys_of(stream)
            found[stream] = Definition.model_validate(known)
        return found
