"""What the door takes: where records come from, their columns, and how their instants are read."""

import json
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, Self
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
from penstock.config.model import ColumnName, Model, alike
from penstock.core.measure import ColumnType

RESERVED = (
    "event_time", "arrival_seq", "block", "ingest_time", "origin", "extra", "undeclared", "read_as"
)  # fmt: skip


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
