"""Whether what maintenance merged is what was in force: by all of its answers, once more."""

import json
from dataclasses import dataclass
from typing import Any

from penstock.core.step import StepSpec
from penstock.lake.history.merged import merged_at, since
from penstock.lake.history.position import Position
from penstock.lake.history.unread import (
    BY,
    answers,
    asking,
    in_force,
    pair,
    quoted,
)
from penstock.lake.proof.scope import Run
from penstock.lake.storage.read import Spans
from penstock.lake.storage.tables import Tables

WHAT = "merged answer"


@dataclass(frozen=True, slots=True)
class Copied:
    """What was found.

    Attributes:
        wrong: windows and keys of which the copy says something else, or more, or nothing.
        examples: some of them, as examples of an audit.
    """

    wrong: int
    examples: tuple[dict[str, Any], ...]


def copied(
    tables: Tables, step: StepSpec, at: Position, reach: tuple[Run, ...], most: int
) -> Copied:
    """Compare the merged answers of some windows with those they were merged from.

    Args:
        tables: of the pipeline.
        step: the step.
        at: the audit's position.
        reach: runs of window starts, us.
        most: examples.

    Raises:
        DamagedTableError: a data file is not whole; names it.
    """
    merged = merged_at(tables, step, at)
    if merged is None:  # no reader takes it
        return Copied(0, ())
    within = Spans(BY, reach).where(tables.merged(step).schema)
    parts = {
        "rows": answers(tables, step, at, ~since(merged) & within),
        "merged": merged.rows.filter(within),
    }
    names = ", ".join(map(quoted, tables.merged(step).schema.names))
    by = pair(step)
    sql = (
        f"WITH said AS (SELECT {names} {in_force(step).replace('{rows}', 'rows')}),"  # noqa: S608
        " more AS (FROM merged EXCEPT ALL FROM said), less AS (FROM said EXCEPT ALL FROM merged)"
        f" SELECT {by}, any_value(found) AS found, any_value(said) AS said FROM"
        f" (SELECT {by}, more AS found, NULL AS said FROM more"
        f" UNION ALL SELECT {by}, NULL, less FROM less) GROUP BY {by}"
    )
    with asking(parts) as connection:
        connection.execute(f"CREATE TEMP TABLE wrong AS {sql}")
        (count,) = connection.sql("SELECT count(*) FROM wrong").fetchall()[0]
        some = connection.sql(f"FROM wrong ORDER BY {by} LIMIT {most}").to_arrow_table()
    return Copied(count, tuple(_example(row, step) for row in some.to_pylist()))


def _example(row: dict[str, Any], step: StepSpec) -> dict[str, Any]:
    names = [*(v.name for v in step.values), "n_records", "revision", "through_seq"]
    shown = {
        side: None if row[side] is None else json.dumps(
            {name: row[side][name] for name in names}, default=str
        )
        for side in ("said", "found")
    }  # fmt: skip
    return {
        "window_start": row[BY].isoformat(),
        "key": {key: str(row[key]) for key in step.identity_names},
        "what": WHAT,
        "expected": shown["said"],
        "found": shown["found"],
    }
