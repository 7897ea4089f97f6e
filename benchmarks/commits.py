"""What a commit costs as others pile up before maintenance: python benchmarks/commits.py [COMMITS].

One row a commit into ``blocks``, by one handle that is kept, as a stream's sink keeps its own; and
beside it a handle that is never opened anew. The mean of each hundred, in turn.
"""

import sys
import tempfile
import time
from pathlib import Path

import measuring
import pyarrow as pa

from penstock.lake.storage import commit
from penstock.lake.storage.commit import UPDATES, Table
from penstock.lake.storage.tables import Tables

EACH = 100
NEVER = 1 << 30


def hundred(table: Table, first: int) -> float:
    """Milliseconds a commit."""
    schema = table.spec.schema
    began = time.perf_counter()
    for number in range(first, first + EACH):
        row = dict.fromkeys(schema.names, number) | {"kind": "data", "origin": "live"}
        table.append(pa.Table.from_pylist([row], schema=schema), "measured", number)
    return (time.perf_counter() - began) / EACH * 1e3


def main() -> None:
    """Run and print a Markdown table."""
    commits = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    state, body = measuring.machine(), []
    with tempfile.TemporaryDirectory() as scratch:
        kept = [Table(Tables(str(Path(scratch)), name).blocks()) for name in ("anew", "never")]
        for first in range(0, commits, EACH):
            times = []
            for table, updates in zip(kept, (UPDATES, NEVER), strict=True):
                commit.UPDATES = updates
                times.append(hundred(table, first))
            body.append((f"{first + EACH:,}", *(f"{t:.1f}" for t in times)))
    print(f"\n{state}\n")
    heads = ("commits", f"opened anew after {UPDATES}, ms a commit", "kept for ever, ms a commit")
    print(measuring.markdown(heads, body))


if __name__ == "__main__":
    main()
