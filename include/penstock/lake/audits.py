"""The ``audits`` table: what each audit compared and found."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.core.window import micros
from penstock.lake.commit import Table
from penstock.lake.tables import Tables


def record_audit(
    tables: Tables,
    run_id: str,
    at: datetime,
    rows: Sequence[Mapping[str, Any]],
    passed: bool,
    failed: Sequence[str],
) -> None:
    """Append one row a step."""
    table = Table(tables.audits())
    content = [
        {
            "run_id": run_id,
            "audited_at": at,
            "step": row["step"],
            "through_seq": row["through_seq"],
            "passed": passed,
            "comparisons": json.dumps(dict(row)),
            "failed": json.dumps(list(failed)),
        }
        for row in rows
    ]
    table.append(
        pa.Table.from_pylist(content, schema=table.spec.schema), f"audit:{run_id}", micros(at)
    )
