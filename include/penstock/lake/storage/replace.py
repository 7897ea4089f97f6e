"""Putting rows in the place of others of a table, in one commit."""

import logging
from collections.abc import Mapping

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from penstock.core.crash import reached
from penstock.lake.storage.commit import BY_HAND, Table, writer
from penstock.lake.storage.durable import sync_commits
from penstock.lake.storage.room import written

log = logging.getLogger(__name__)


def replace(
    table: Table,
    rows: pa.Table | pa.RecordBatchReader,
    where: str | None,
    who: str,
    done: Mapping[str, int],
    size: int | None = None,
    version: int | None = None,
) -> bool:
    """Put rows in the place of all of which something is true; twice, it changes nothing.

    Not by DELETE or MERGE: those write text that pyarrow cannot filter (deltalake 1.6).

    Args:
        table: where others may have appended meanwhile.
        rows: with the table's columns.
        where: SQL, true for all of ``rows``, too; none: in the place of everything.
        who: names the points of a crash.
        done: the commit's transactions.
        size: of a file, about, bytes; none: the library's own.
        version: of the table that this was decided from, if nothing may have been committed since.

    Returns:
        Whether it was done: not if another process committed meanwhile.
    """
    delta, spec = table.refresh(), table.spec
    table.settle()
    before = delta.version()
    if version not in {None, before}:
        return False
    retries = None if version is None else 0
    transactions = [Transaction(name, number) for name, number in done.items()]
    reached("before", who, spec.name)
    try:
        with written(spec.uri):
            write_deltalake(
                delta, rows, mode="overwrite", predicate=where, target_file_size=size,
                writer_properties=writer(spec.schema),
                commit_properties=CommitProperties(
                    app_transactions=transactions, max_commit_retries=retries
                ),
                post_commithook_properties=BY_HAND, partition_by=[*spec.partitioned] or None,
            )  # fmt: skip
    except CommitFailedError:  # a writer was faster: the next run does it
        log.info("not replaced this time who=%s table=%s", who, spec.uri)
        return False
    reached("within", who, spec.name)
    sync_commits(spec.uri, range(before + 1, delta.version() + 1))
    reached("after", who, spec.name)
    return True


def literal(us: int) -> str:
    """An instant in the SQL of a predicate."""
    return f"arrow_cast({us}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
