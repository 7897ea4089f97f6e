"""SQL over a pipeline's answers with DuckDB, without a JVM: one view per step, and the log."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.step import StepSpec
from penstock.lake.commit import Table
from penstock.lake.landmark import so_far
from penstock.lake.read import data_files, read_table
from penstock.lake.tables import Tables, TableSpec
from penstock.lake.view import answers_in_force, timely_answers

INTERNAL = ("generation", "micro_batch")
Content: TypeAlias = pa.Table | ds.Dataset


@dataclass(frozen=True, slots=True)
class View:
    """Something SQL can name.

    Attributes:
        says: what a row is.
        schema: its columns.
        content: reads it.
    """

    says: str
    schema: pa.Schema
    content: Callable[[], Content]


def views(tables: Tables, pipeline: Pipeline) -> dict[str, View]:
    """All views of a pipeline by name; nothing is read yet."""
    found: dict[str, View] = {}
    for step in pipeline.specs:
        schema = _public(tables.answers(step).schema.empty_table()).schema
        found[step.name] = View("one answer in force", schema, _in_force(tables, step))
    for step in pipeline.specs:
        found.setdefault(
            f"{step.name}_timely",
            View("one answer as first published", found[step.name].schema, _timely(tables, step)),
        )
        if step.window.landmark:
            name = f"{step.name}_so_far"
            empty = so_far(tables.answers(step).schema.empty_table(), step)
            found.setdefault(name, View("since the landmark", empty.schema, _so_far(tables, step)))
    events, quarantine = tables.events(pipeline.types), tables.quarantine()
    found.setdefault("events", View("one accepted record", *_log(tables, events)))
    found.setdefault("quarantine", View("one refused record", *_log(tables, quarantine)))
    return found


@contextmanager
def answered(known: dict[str, View], sql: str) -> Iterator[duckdb.DuckDBPyRelation]:
    """The result of a query, open inside the ``with``.

    Args:
        known: views by name; only those that the text mentions are read.
        sql: one statement that gives rows.

    Raises:
        ConfigError: DuckDB refuses it; says why and which views there are.
    """
    words = {word.casefold() for word in re.findall(r"\w+", sql)}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, view in known.items():
            if name.casefold() in words:
                connection.register(name, view.content())
        try:
            found = connection.sql(sql)
            if found is None:
                raise ConfigError("this statement gives no rows. Write a SELECT.")
            yield found
        except duckdb.Error as wrong:
            said = str(wrong).split('\nDid you mean "pg_')[0].strip()
            raise ConfigError(f"{said}\nViews: {', '.join(known)}.") from wrong


def _in_force(tables: Tables, step: StepSpec) -> Callable[[], Content]:
    return lambda: _public(answers_in_force(tables, step))


def _timely(tables: Tables, step: StepSpec) -> Callable[[], Content]:
    return lambda: _public(timely_answers(tables, step))


def _so_far(tables: Tables, step: StepSpec) -> Callable[[], Content]:
    return lambda: so_far(answers_in_force(tables, step), step)


def _public(answers: pa.Table) -> pa.Table:
    """Without the columns that only the product needs, windows first."""
    first = ["window_start", "window_end"]
    rest = [n for n in answers.column_names if n not in {*first, *INTERNAL}]
    return answers.select([*first, *rest])


def _log(tables: Tables, spec: TableSpec) -> tuple[pa.Schema, Callable[[], Content]]:
    def content() -> Content:
        blocks = read_table(Table(tables.blocks()), ["last_seq"])
        sealed = pc.max(blocks["last_seq"]).as_py()
        table = Table(spec)
        if sealed is None or not table.exists():
            return spec.schema.empty_table()
        paths = [f.path for f in data_files(table.refresh(), "arrival_seq")]
        if not paths:
            return spec.schema.empty_table()
        return _dataset(spec, paths).filter(pc.field("arrival_seq") <= sealed)

    return spec.schema, content


def _dataset(spec: TableSpec, paths: list[str]) -> ds.Dataset:
    """The files unread: DuckDB takes the columns and rows it needs."""
    uri = spec.uri if "://" in spec.uri else f"file://{spec.uri}"
    filesystem, root = pa.fs.FileSystem.from_uri(uri)
    parts = pa.schema([f for f in spec.schema if f.name in spec.partitioned])
    return ds.dataset(
        [f"{root}/{path}" for path in paths],
        schema=spec.schema,
        format="parquet",
        filesystem=filesystem,
        partitioning=ds.partitioning(parts, flavor="hive"),
        partition_base_dir=root,
    )
