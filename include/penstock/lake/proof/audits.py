"""The ``audits`` table: what each audit compared and found."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.core.step import StepSpec
from penstock.core.window import micros
from penstock.lake.storage.commit import Table, settle
from penstock.lake.storage.tables import Tables

PASSED, FAILED, NOTHING = "passed", "failed", "nothing"
APART = ("everything", "footing", "covered")
"""Of a step's comparisons what stands in columns of its own, or in the report."""


def _state(row: Mapping[str, Any], passed: bool) -> str:
    """Of a step: what was not compared has not passed, though nothing failed."""
    if not passed:
        return FAILED
    return PASSED if row["answers_compared"] else NOTHING


def record_audit(
    tables: Tables,
    steps: Sequence[StepSpec],
    run_id: str,
    at: datetime,
    rows: Sequence[Mapping[str, Any]],
    passed: bool,
    failed: Sequence[str],
) -> None:
    """Append one row a step.

    Args:
        tables: of the pipeline.
        steps: of the pipeline.
        run_id: the audit's run.
        at: its instant, aware.
        rows: the comparisons, one a step.
        passed: no critical expectation failed.
        failed: what did not hold, for people.
    """
    table = Table(tables.audits())
    content = [
        {
            "run_id": run_id,
            "audited_at": at,
            "step": row["step"],
            "through_seq": row["through_seq"],
            "state": (state := _state(row, passed)),
            "passed": None if state == NOTHING else passed,
            "comparisons": json.dumps({name: row[name] for name in row if name not in APART}),
            "failed": json.dumps(list(failed)),
            "everything": row.get("everything", True),
            "footing": row.get("footing") if state == PASSED else None,
        }
        for row in rows
    ]
    settle(tables.blocks(), tables.corrections(), *(tables.control(step) for step in steps))
    names = ("audit", *filter(None, {step.guest for step in steps}), run_id)  # of one log
    rows_of_it = pa.Table.from_pylist(content, schema=table.spec.schema)
    table.append(rows_of_it, ":".join(names), micros(at))
