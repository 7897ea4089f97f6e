"""Results of questions that were asked by form: files, for a page and for whoever takes them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import pyarrow.parquet as pq

from penstock.lake.serve.query import answered, as_of, mentioned
from penstock.lake.serve.question import Question
from penstock.lake.serve.views import View

NEWEST = 20
"""So many results of a pipeline are kept."""


@dataclass(frozen=True, slots=True)
class Result:
    """A result.

    Attributes:
        run: who asked: the run of the DAG.
        sql: what was asked.
        about: and what beside it, in words.
        asked_at: when, ISO 8601.
        record: number of the log's record that it is as of, from 1; none: of no record.
        rows: how many.
        notes: what there is to know of the views.
        file: name of the Parquet file, in the pipeline's folder.
    """

    run: str
    sql: str
    about: str
    asked_at: str
    record: int | None
    rows: int
    notes: tuple[str, ...]
    file: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """From the file that ``keep`` wrote beside the rows."""
        told = json.loads(path.read_text(encoding="utf-8"))
        return cls(**told | {"notes": tuple(told["notes"])})


def keep(
    folder: Path, known: Mapping[str, View], question: Question, run: str, at: datetime
) -> Result:
    """Ask, and keep what comes: ``<name>.parquet``, then ``<name>.json``; the oldest ones go.

    The same run writes the same files again.

    Args:
        folder: of the pipeline; made if need be.
        known: views by name.
        question: what is asked, with a statement.
        run: who asks.
        at: when.

    Raises:
        ConfigError: DuckDB refuses the question; says why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sql = question.statement or ""
    name = hashlib.sha256(run.encode()).hexdigest()[:16]
    fresh, rows = folder / f".{uuid4().hex[:8]}.parquet", folder / f"{name}.parquet"
    try:
        with answered(known, sql, folder) as found:
            found.write_parquet(str(fresh))
        count = pq.read_metadata(fresh).num_rows
        fresh.replace(rows)
    finally:
        fresh.unlink(missing_ok=True)
    seq = as_of(known, sql)
    notes = dict.fromkeys(view.note for view in mentioned(known, sql).values() if view.note)
    record = None if seq is None else seq + 1
    result = Result(
        run, sql, question.about, at.isoformat(), record, count, tuple(notes), rows.name
    )
    draft = folder / f".{uuid4().hex[:8]}.json"
    draft.write_text(json.dumps(asdict(result)), encoding="utf-8")
    draft.replace(folder / f"{name}.json")
    for old in newest(folder)[NEWEST:]:
        for path in (folder / old.file, (folder / old.file).with_suffix(".json")):
            path.unlink(missing_ok=True)
    return result


def newest(folder: Path) -> list[Result]:
    """All results of a pipeline, the newest first."""
    found = [Result.read(path) for path in folder.glob("[!.]*.json")]
    return sorted(found, key=lambda each: each.asked_at, reverse=True)


def first_rows(folder: Path, result: Result, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns of a result, and its first rows."""
    file = pq.ParquetFile(folder / result.file)
    batches = file.iter_batches(batch_size=limit)
    some = next(batches, None)
    rows = [] if some is None else [tuple(row.values()) for row in some.to_pylist()]
    return file.schema_arrow.names, rows
