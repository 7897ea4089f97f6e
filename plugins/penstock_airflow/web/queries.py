"""What the page *Queries* shows: results of questions that were asked by form."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.lake.serve.kept import Kept, first_rows, newest
from penstock_airflow.web.cells import cell

SHOWN = 20
"""Rows of a result."""


@dataclass(frozen=True, slots=True)
class Result:
    """One result.

    Attributes:
        pipeline: whose.
        kept: the question, and what came of it.
        columns: of its rows.
        rows: the first ones, as they are shown.
        note: why there are none to see; empty: there are.
    """

    pipeline: str
    kept: Kept
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def results(folder: Path, pipelines: Iterable[str]) -> Iterator[Result]:
    """All that are kept, by pipeline, the newest first.

    Args:
        folder: of all results.
        pipelines: names.
    """
    for pipeline in pipelines:
        for kept in newest(folder / pipeline):
            yield _result(folder, pipeline, kept)


def _result(folder: Path, pipeline: str, kept: Kept) -> Result:
    try:
        columns, rows = first_rows(folder / pipeline, kept, SHOWN)
    except (OSError, pa.ArrowException) as wrong:  # it went meanwhile, or is not whole
        return Result(pipeline, kept, [], [], f"Its file cannot be read: {wrong}")
    return Result(pipeline, kept, columns, [[cell(value) for value in row] for row in rows])
