"""Mars' accuracy test: three of four hosts are cut off while records are counted.

    PYTHONPATH=include:plugins:. .venv/bin/python benchmarks/mars_accuracy.py [--records N]
        [--orders NAME ...]

Needs root and iproute2: a host is a network namespace whose cable is pulled. Counts by 5,000 keys
and minute, 2 % of the records up to five minutes late, 80 micro-batches. The sum of the counts must
be the number of records, and every answer DuckDB's. The exit status is 1 where that is not so.

Source: Mars, accuracy: 40 M records, three nodes cut off during the run.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import measuring

from tests.accuracy import EACH, Found, Loss, accuracy
from tests.clusters import a_cluster
from tests.hosts import AVAILABLE, REMEDY, hosts
from tests.spark.test_accuracy import ORDERS

MICRO_BATCHES = 80


def counted(records: int, losses: Sequence[Loss]) -> Found:
    """One run, on hosts and in a folder of its own."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        hosts(4) as four,
        a_cluster(Path(scratch), 4, four) as cluster,
    ):
        each = max(EACH, records // (MICRO_BATCHES // 2))
        whole = -(-records // MICRO_BATCHES) if each > EACH else 1
        return accuracy(Path(scratch), cluster, records, losses, four, 0.02, each, whole)


def told(loss: Loss) -> str:
    """Of one cut: the host, and the shares of the records at which it went and came back."""
    back = "the end" if loss.back is None else f"{loss.back:.0%}"
    return f"host {loss.node} from {loss.at:.0%} to {back}"


def main() -> int:
    """Run, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=40_000_000)
    parser.add_argument("--orders", nargs="+", choices=list(ORDERS), default=list(ORDERS))
    args = parser.parse_args()
    if not AVAILABLE:
        raise SystemExit(REMEDY)
    state, rows, right = measuring.machine(), [], True
    for order in args.orders:
        found = counted(args.records, ORDERS[order])
        right &= found.counted == found.records and not found.wrong
        rows.append(
            [order, "; ".join(map(told, ORDERS[order])), f"{found.records:,}",
             f"{found.counted:,}", f"{found.wrong:,} of {found.answers:,}",
             f"{found.seconds:,.0f}", f"{found.pause:.0f}", f"{os.getloadavg()[0]:.1f}"]
        )  # fmt: skip
        print(rows[-1], file=sys.stderr, flush=True)
    headers = ["order", "cut off", "records", "sum of counts", "answers wrong", "stream, s",
               "longest pause, s", "load"]  # fmt: skip
    print(f"{state}\n")
    print(measuring.markdown(headers, rows))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
