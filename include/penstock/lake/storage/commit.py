"""Appending to a Delta table exactly once, without a JVM.

A commit carries an application transaction that is checked first, and is a compare-and-swap on
the table's version: of two writers that race, one fails, looks again, and either finds its
transaction done or appends after the other. Measured: 5 ms a small commit (Spark's own writer:
350 ms and more).
"""

import logging
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from penstock.core.crash import reached
from penstock.core.errors import ConfigError, TransientError
from penstock.lake.storage.damage import require_log, told
from penstock.lake.storage.drafts import RISING, ROW_GROUP, STEPS, Drafts
from penstock.lake.storage.durable import (
    Summed,
    may_be_newer,
    summed_up,
    sync_checkpoint,
    sync_commits,
    sync_folders,
    take_back,
)
from penstock.lake.storage.room import require_room, written
from penstock.lake.storage.snapshots import Snapshots
from penstock.lake.storage.spec import UNDECLARED, TableSpec

log = logging.getLogger(__name__)

RACES = 30
FORM = "penstock form"
"""What a table's description says of what its columns mean."""
CHECKPOINT_EVERY = 100
"""Commits; a table is opened by its last checkpoint and the commits after it."""
UPDATES = 32
"""Commits; then a handle is opened anew: each that it took note of makes all later ones dearer
(deltalake 1.6: 20 ms a commit, 89 ms after 600 of them)."""
BY_HAND = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""A checkpoint must be on the disk before the entries that it replaces are cleaned away."""
LOG_KEPT = "interval 1 hours"
"""Nobody reads a former version; at Delta's 30 days a stream of 5 commits/s leaves 13 M files."""
KEEP_HOURS = 24
"""Replaced files stay a day, longer than any run of a job reads one snapshot, and so do their names
in every checkpoint."""
_STEPS = ColumnProperties(dictionary_enabled=False, encoding=STEPS)


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
        self._seen: DeltaTable | None = None  # others may read it, too: it never moves
        self._opened = 0  # the version at which it was
        self._summed: Summed | None = None  # the log's sum, before the last look for newer entries
        self._lasting = -1  # the version that this handle knows to be on the disk

    @property
    def delta(self) -> DeltaTable:
        """The table at the version at hand, not to be changed; made when it is not there.

        Raises:
            ConfigError: it is there with other types than the pipeline file declares now.
            DamagedTableError: its log is not whole.
        """
        return self._delta or self._seen or self._keep(self._open())

    def own(self) -> DeltaTable:
        """The same, to be changed: nobody else reads it."""
        if self._delta is None and self._seen is not None:
            with told(self.spec.uri):
                return self._keep(DeltaTable(self.spec.uri, self._seen.version()))
        return self.delta

    def exists(self) -> bool:
        """Whether it was ever made; does not make it.

        Raises:
            ConfigError: another version wrote it, in another form.
        """
        return (self._delta or self._seen or self._look()) is not None

    def newest(self) -> DeltaTable | None:
        """The underlying table at its newest version, not to be changed; none: it was never made.

        Raises:
            ConfigError: another version wrote it, in another form.
        """
        follows = self._seen is not None and not SNAPSHOTS.is_newest(self.spec.uri, self._seen)
        return self.refresh() if self._delta is not None or follows else self._look()

    def _look(self) -> DeltaTable | None:
        """A snapshot that others may read, too."""
        try:
            self._seen = self._of_form(SNAPSHOTS.newest(self.spec.uri))
        except TableNotFoundError:
            self._seen = None
        return self._seen

    def refresh(self) -> DeltaTable:
        """The underlying table at its newest version, to be changed."""
        delta, uri = self._delta, self.spec.uri
        if delta is None and self._seen is None:
            return self.delta  # opened at its newest version
        with told(uri):
            summed = summed_up(uri)
            if delta is None or delta.version() - self._opened >= UPDATES:
                return self._keep(DeltaTable(uri), summed)
            if summed != self._summed or may_be_newer(uri, delta.version()):
                delta.update_incremental()
                self._summed = summed
        return delta

    def _keep(self, delta: DeltaTable, summed: Summed | None = None) -> DeltaTable:
        self._seen = None
        self._delta, self._opened, self._summed = delta, delta.version(), summed
        return delta

    def last(self, application: str) -> int | None:
        """The last transaction of an application in the snapshot at hand."""
        version = self.delta.transaction_version(application)
        return None if version is None else int(version)

    def append(self, rows: pa.Table | Drafts, application: str, number: int) -> bool:
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
        return bool(self.append_each({application: (number, rows)}))

    def append_each(self, parts: Mapping[str, tuple[int, pa.Table | Drafts]]) -> set[str]:
        """Append some parts in one commit, each once, as ``append`` does.

        Args:
            parts: number of the transaction and rows, by application; drafts only alone.

        Returns:
            Applications whose parts this call appended.

        Raises:
            ConflictError: other writers won every race.
        """
        for _ in range(RACES):
            self.refresh()
            fresh = {who: part for who, part in parts.items() if not self._has(who, part[0])}
            if not fresh:
                self.settle()
                return set()
            first, *others = [Transaction(who, number) for who, (number, _) in fresh.items()]
            every = [rows for _, rows in fresh.values()]
            rows = every[0] if len(every) == 1 else pa.concat_tables(every)
            try:
                self.swap(rows, first.app_id, first.version, *others)
            except ConflictError:
                continue
            return {*fresh}
        raise ConflictError(f"{self.spec.uri}: {RACES} races for one commit were lost; try again")

    def _has(self, application: str, number: int) -> bool:
        last = self.last(application)
        return last is not None and last >= number

    def swap(
        self, rows: pa.Table | Drafts, application: str, number: int, *others: Transaction
    ) -> None:
        """Append at exactly the version at hand: what was decided from it is still true.

        Another process may have made that version and ended before it lasted: it lasts first.

        Args:
            rows: with the table's columns.
            application: who numbers the transactions.
            number: of this one.
            others: transactions of the same commit, whose rows are among these.

        Raises:
            ConflictError: the table has moved on.
        """
        transactions = [Transaction(application, number), *others]
        properties = CommitProperties(app_transactions=transactions, max_commit_retries=0)
        who, version = application.partition(":")[0], self.own().version() + 1
        files = self._files(rows) if isinstance(rows, Drafts) else []
        content, options = (None, {}) if files else self._content(rows)
        self.settle()
        reached("before", who, self.spec.name)
        try:
            with written(self.spec.uri):
                if isinstance(rows, Drafts) and content is None:
                    with rows.handed_over():
                        self.delta.create_write_transaction(
                            files, "append", self.delta.schema(), [*self.spec.partitioned],
                            commit_properties=properties, post_commithook_properties=BY_HAND,
                        )  # fmt: skip
                else:
                    write_deltalake(
                        self.delta, content, mode="append",
                        writer_properties=writer(self.spec.schema),
                        commit_properties=properties, post_commithook_properties=BY_HAND,
                        **options,
                    )  # fmt: skip
        except CommitFailedError as lost:
            raise ConflictError(f"{self.spec.uri}: another process committed first") from lost
        reached("within", who, self.spec.name)
        sync_commits(self.spec.uri, [version])
        self._lasting = version
        reached("after", who, self.spec.name)
        if version % CHECKPOINT_EVERY == 0:
            checkpoint(self.refresh(), self.spec.uri)
        self.refresh()

    def _files(self, rows: Drafts) -> list[AddAction]:
        """The files of a commit to be; none: it has no rows, or they bring new columns.

        Raises:
            ConflictError: the table has other columns by now than they were written for.
        """
        if pa.schema(self.delta.schema()) != rows.schema:
            raise ConflictError(f"{self.spec.uri}: another process added columns first")
        return rows.finish()

    def _content(
        self, rows: pa.Table | Drafts
    ) -> tuple[pa.Table | pa.RecordBatchReader, dict[str, Any]]:
        """Rows as the library writes them, and how: new columns are part of their commit."""
        rows = rows.rows() if isinstance(rows, Drafts) else rows
        if isinstance(rows, pa.Table):  # else they come bit by bit, and have the table's columns
            rows = self._widened(self._without_unused(rows))
            require_room(self.spec.uri, rows)
        return rows, {"schema_mode": "merge"} if self._grows(rows.schema) else {}

    def settle(self) -> None:
        """Put the newest commit at hand on the disk, whoever made it: something depends on it."""
        version = self.delta.version()
        if version != self._lasting:
            sync_commits(self.spec.uri, [version])
            if version == 0:
                sync_folders(self.spec.uri)
            self._lasting = version

    def _without_unused(self, rows: pa.Table) -> pa.Table:
        """Without columns that the table need not have, where nothing stands in them."""
        names = [name for name in self.spec.optional if name in rows.column_names]
        return rows.drop_columns([n for n in names if rows[n].null_count == rows.num_rows])

    def _widened(self, rows: pa.Table) -> pa.Table:
        """With null in the table's columns that the pipeline file does not declare any more."""
        for field in pa.schema(self.delta.schema()):
            if field.name not in rows.schema.names:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        return rows

    def _grows(self, schema: pa.Schema) -> bool:
        there = pa.schema(self.delta.schema())
        if UNDECLARED in schema.names and UNDECLARED in there.names:
            fields, known = (f.field(UNDECLARED).type for f in (schema, there))
            if not {field.name for field in fields} <= {field.name for field in known}:
                return True
        return not set(schema.names) <= set(there.names)

    def _open(self) -> DeltaTable:
        spec = self.spec
        try:
            delta = self._of_form(opened(spec.uri))
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

    def _of_form(self, delta: DeltaTable) -> DeltaTable:
        """A table whose columns mean what this version takes them for.

        Raises:
            ConfigError: they mean something else.
        """
        spec = self.spec
        form = int((delta.metadata().description or f"{FORM} 1").removeprefix(f"{FORM} "))
        if form != spec.form:
            whose = "a former" if form < spec.form else "a later"
            raise ConfigError(
                f"{spec.uri} was written by {whose} version (form {form}; this one reads"
                f" {spec.form}). Use that version, or penstock remove the pipeline to start afresh."
            )
        return delta

    def _create(self) -> DeltaTable:
        spec = self.spec
        configuration = {
            "delta.logRetentionDuration": LOG_KEPT,
            "delta.deletedFileRetentionDuration": f"interval {KEEP_HOURS} hours",
        }
        if spec.indexed:
            configuration["delta.dataSkippingStatsColumns"] = ",".join(spec.indexed)
        reached("before create")
        try:
            delta = DeltaTable.create(
                spec.uri,
                spec.least,
                mode="ignore",
                description=f"{FORM} {spec.form}",
                partition_by=list(spec.partitioned) or None,
                configuration=configuration,
            )
        except DeltaError:  # another process made it at the same moment
            delta = DeltaTable(spec.uri)
        reached("within create")
        sync_commits(spec.uri, [0])
        sync_folders(spec.uri)
        self._lasting = 0
        reached("after create")
        return delta


def settle(*specs: TableSpec) -> None:
    """Put the newest commits of some tables on the disk: what comes next was decided from them.

    Whoever made them may be about to, or was killed before it could.
    """
    for table in map(Table, specs):
        if table.exists():
            table.settle()


def opened(uri: str) -> DeltaTable:
    """A table of the lake at its newest version.

    Raises:
        TableNotFoundError: it was never made.
        DamagedTableError: its log is not whole.
        TableAwayError: the system does not give it now.
    """
    with told(uri):
        take_back(uri)
        require_log(uri)
        return DeltaTable(uri)


SNAPSHOTS = Snapshots(opened)


def checkpoint(delta: DeltaTable, uri: str) -> None:
    """Sum up a table's log at the version at hand, then clean away what is older than it keeps."""
    sync_commits(uri, [delta.version()])  # another process's, perhaps: the sum speaks for it
    reached("before checkpoint")
    with written(uri):
        delta.create_checkpoint()
    reached("within checkpoint")
    sync_checkpoint(uri, delta.version())
    reached("before cleanup")
    delta.cleanup_metadata()
    reached("after cleanup")
