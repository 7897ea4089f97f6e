"""What the page *Queries* shows: results of questions that were asked by form."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.lake.serve.results import Result, first_rows, newest
from penstock_airflow.web.cells import cell

SHOWN = 20
"""Rows of a result."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One result.

    Attributes:
        pipeline: whose.
        result: the question, and what came of it.
        columns: of its rows.
        rows: the first ones, as they are shown.
        note: why there are none to see; empty: there are.
    """

    pipeline: str
    result: Result
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def results(folder: Path, pipelines: Iterable[str]) -> Iterator[Shown]:
    """All that are kept, by pipeline, the newest first.

    Args:
        folder: of all results.
        pipelines: names.
    """
    for pipeline in pipelines:
        for result in newest(folder / pipeline):
            yield _shown(folder, pipeline, result)


def _shown(folder: Path, pipeline: str, result: Result) -> Shown:
    try:
        columns, rows = first_rows(folder / pipeline, result, SHOWN)
    except (OSError, pa.ArrowException) as wrong:  # it went meanwhile, or is not whole
        return Shown(pipeline, result, [], [], f"Its file cannot be read: {wrong}")
    return Shown(pipeline, result, columns, [[cell(value) for value in row] for row in rows])
