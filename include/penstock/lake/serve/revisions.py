"""Answers beside what was first said: of some windows and keys, newest first."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.expression import Column, MeasureSpec
from penstock.core.measure import ColumnType
from penstock.lake.history.position import BACKFILL, SPEED
from penstock.lake.history.standing import Standing
from penstock.lake.history.unread import answers as rows_at
from penstock.lake.history.unread import asking, newest, pair, quoted
from penstock.lake.ingest.cast import cast
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.tables import Tables

TOLERANCE = 1e-9
"""A double that a correction moved by less, relatively, has not changed for a reader."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One window and key.

    Attributes:
        first: measures and n_records as first answered; none: it had only late records.
        first_reason: speed, or backfill for the history; empty: none.
        now: measures and n_records in force.
        revision, reason: of the answer in force.
        changed: the names in ``now`` whose value is another than at first.
    """

    start: datetime
    end: datetime
    key: tuple[Any, ...]
    first: dict[str, Any] | None
    first_reason: str
    now: dict[str, Any]
    revision: int
    reason: str
    changed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answers:
    """Some answers of a step and how many there are.

    Attributes:
        newest: the latest windows, newest first.
        repaired: the latest windows that a correction changed or first answered.
        count: answers in force.
        timely: answers the speed layer gave.
        history: answers that the preload gave.
        only_late: answers that a correction gave first: no record had come in time.
        changed: of the timely and preloaded answers, those that now say something else.
        taken_back: answers that are no more: late records have refuted them.
    """

    newest: tuple[Shown, ...]
    repaired: tuple[Shown, ...]
    count: int
    timely: int
    history: int
    only_late: int
    changed: int
    taken_back: int


def answers(
    tables: Tables,
    shown: Standing | None,
    pipeline: Pipeline,
    keys: Mapping[str, str],
    limit: int,
) -> Answers:
    """Answers in force beside what was answered first.

    Args:
        tables: of the pipeline.
        shown: the step's definition that readers are shown; none: there are no answers.
        pipeline: for the zone of instants without one.
        keys: key column -> value, as typed; only these.
        limit: at most so many newest and so many repaired ones.

    Raises:
        ConfigError: no such key column, or a value its type does not allow.
    """
    if shown is None:
        return Answers((), (), 0, 0, 0, 0, 0, 0)
    step = shown.step
    with _asked(tables, shown, pipeline, keys) as connection:
        by = pair(step)
        connection.execute(
            f"CREATE TEMP TABLE several AS SELECT DISTINCT {by} FROM answer"  # noqa: S608
            f" WHERE reason <> '{SPEED}' OR revision > 0"
        )
        some = f"SEMI JOIN several USING ({by})"
        connection.execute(f"CREATE TEMP TABLE again AS {_beside(step, some)}")
        once = _value(connection, f"SELECT count(*) FROM answer ANTI JOIN several USING ({by})")  # noqa: S608
        count, *counts = connection.sql(
            "SELECT count(*), count(*) FILTER (first_reason = 'speed'),"
            " count(*) FILTER (first_reason = 'backfill'),"
            " count(*) FILTER (first_reason IS NULL), count(*) FILTER (changed),"
            " count(*) FILTER (n_records = 0) FROM again"
        ).fetchall()[0]
        newest = _newest(connection, step, limit, once + count)
        repaired = connection.sql(
            "FROM again WHERE changed OR first_reason IS NULL"
            f" ORDER BY {_order(step)} LIMIT {limit}"
        ).to_arrow_table()
    return Answers(
        tuple(_shown(row, step) for row in newest.to_pylist()),
        tuple(_shown(row, step) for row in repaired.to_pylist()),
        once + count - counts[-1],
        once + counts[0],
        *counts[1:],
    )


def _newest(
    connection: duckdb.DuckDBPyConnection, step: Definition, limit: int, count: int
) -> pa.Table:
    """The newest windows, from no more rows than that takes: all keys of the first windows."""
    rows, found = limit, pa.table({})
    while found.num_rows < min(limit, count):
        rows *= 8
        last = f"SELECT window_start FROM answer ORDER BY window_start DESC LIMIT {rows}"  # noqa: S608
        since = _value(connection, f"SELECT epoch_us(min(window_start)) FROM ({last})")  # noqa: S608
        only = f"WHERE window_start >= make_timestamptz({since})"
        order = f"ORDER BY {_order(step)} LIMIT {limit}"
        found = connection.sql(f"{_beside(step, only)} {order}").to_arrow_table()
    return found


def all_revisions(
    tables: Tables,
    shown: Standing,
    pipeline: Pipeline,
    keys: Mapping[str, str],
    limit: int,
) -> list[dict[str, Any]]:
    """Every answer ever given for the latest windows that have several, newest window first."""
    by, order = pair(shown.step), _order(shown.step)
    with _asked(tables, shown, pipeline, keys) as connection:
        found = connection.sql(
            f"WITH several AS (SELECT {by} FROM answer GROUP BY ALL HAVING count(*) > 1"  # noqa: S608
            f" ORDER BY {order} LIMIT {limit})"
            f" SELECT answer.* FROM answer JOIN several USING ({by})"
            f" ORDER BY {order}, through_seq, revision"
        )
        revisions: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
    return revisions


@contextmanager
def _asked(
    tables: Tables, shown: Standing, pipeline: Pipeline, keys: Mapping[str, str]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with ``answer``: the rows a position has, of some keys."""
    wanted = _wanted(shown.step, pipeline, keys)
    with asking({"answer": rows_at(tables, shown.step, shown.at, wanted)}) as connection:
        yield connection


def _wanted(step: Definition, pipeline: Pipeline, keys: Mapping[str, str]) -> pc.Expression:
    types, wanted = {key.name: key.type for key in step.identity}, pc.scalar(True)
    for name, text in keys.items():
        if name not in types:
            known = ", ".join(types) or "none"
            raise ConfigError(f"{step.name} has no key {name}. Its keys: {known}.")
        value, _ = cast(pa.array([text]), types[name], pipeline.tz)
        if not value[0].is_valid:
            raise ConfigError(f"--key {name}={text}: {name} is a {types[name].value}.")
        wanted &= pc.field(name) == value[0]
    return wanted


def _order(step: Definition) -> str:
    return ", ".join(["window_start DESC", *map(quoted, step.identity_names)])


def _value(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    (found,) = connection.sql(sql).fetchall()[0]
    return int(found)


def _beside(step: Definition, some: str) -> str:
    """SQL that gives the answer in force, with the first one as ``first_...``.

    ``some`` says of which windows and keys: a condition, or a join over both.
    Of a history that came in parts, the first is what the last part gave.
    """
    by = pair(step)
    names = [*(v.name for v in step.values), "n_records"]
    first = ", ".join(f"{quoted(n)} AS {quoted('first_' + n)}" for n in names)
    changed = ", ".join(
        [
            *(f"{_differs(v)} AS {quoted('changed_' + v.name)}" for v in step.values),
            "n_records IS DISTINCT FROM first_n_records AS changed_n_records",
        ]
    )
    any_changed = " OR ".join(quoted(f"changed_{n}") for n in names)
    return (
        f"WITH asked AS (SELECT answer.* FROM answer {some}),"  # noqa: S608
        f" force AS ({newest(step).replace('{rows}', 'asked')}),"
        f" early AS (SELECT {by}, {first}, reason AS first_reason FROM asked"
        f" WHERE reason IN ('{SPEED}', '{BACKFILL}')"
        f" QUALIFY row_number() OVER (PARTITION BY {by} ORDER BY through_seq DESC) = 1),"
        f" compared AS (SELECT *, {changed} FROM force LEFT JOIN early USING ({by}))"
        f" SELECT *, first_reason IS NOT NULL AND ({any_changed}) AS changed FROM compared"
    )


def _differs(value: MeasureSpec | Column) -> str:
    now, first = quoted(value.name), quoted(f"first_{value.name}")
    distinct = f"{now} IS DISTINCT FROM {first}"
    if value.type is not ColumnType.DOUBLE:
        return f"({distinct})"
    far = f"abs({now} - {first}) > {TOLERANCE} * greatest(abs({now}), abs({first}))"
    return f"({distinct} AND coalesce({far}, TRUE))"


def _shown(row: dict[str, Any], step: Definition) -> Shown:
    names = [*(v.name for v in step.values), "n_records"]
    known = row["first_reason"] is not None
    return Shown(
        start=row["window_start"],
        end=row["window_end"],
        key=tuple(row[k] for k in step.identity_names),
        first={n: row[f"first_{n}"] for n in names} if known else None,
        first_reason=row["first_reason"] or "",
        now={n: row[n] for n in names},
        revision=row["revision"],
        reason=row["reason"],
        changed=frozenset(n for n in names if row[f"changed_{n}"]) if known else frozenset(),
    )
