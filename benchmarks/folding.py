"""What it costs to merge answers at each read, to write them anew, and as the product chooses.

    python benchmarks/folding.py [--days 50] [--touched 1000 100 10] [--reads 1 4 16] [--rounds 8]

Answers of so many days, 14,400 a day. First table: ``merged at read`` is the product's view over
answers of which one of ``touched`` was corrected; ``copy`` the same view once maintenance has
merged them; ``merging`` is what that takes. Second table: so many rounds of a correction that
touches as many again, anywhere, then maintenance, then so many reads of everything: by seconds of
all processors a round, once the first rounds are over.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import measuring
import numpy as np
import pyarrow as pa
from age import DAY, FIRST, KEYS, PIPELINE, RECORDS, SECOND, aged, seconds, table_of

from penstock.config.pipeline import Pipeline
from penstock.core.step import StepSpec
from penstock.lake.history import merging
from penstock.lake.history.position import DONE, LATE, PLANNED
from penstock.lake.history.reads import READ, note
from penstock.lake.serve.query import answered
from penstock.lake.serve.views import views
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables

WHOLE = "SELECT key, sum(n) FROM s GROUP BY ALL"
NEVER = 10**9
LEARNING = 8
"""Rounds before those that count: the product knows nothing of its readers yet."""


def hour(days: int) -> str:
    """A question about the last hour but those of the last day."""
    end = FIRST + (days - 1) * DAY * SECOND
    span = f"make_timestamptz({end - 3_600 * SECOND}) AND make_timestamptz({end})"
    return f"SELECT key, sum(n) FROM s WHERE window_start BETWEEN {span} GROUP BY ALL"


def asked(tables: Tables, pipeline: Pipeline, sql: str) -> list[tuple[object, ...]]:
    """What a reader gets."""
    with answered(views(tables, pipeline), sql) as found:
        rows = sorted(found.fetchall())
    if not rows or rows[0][-1] is None:
        raise SystemExit(f"nothing is answered: {sql}")
    return rows


def merged(tables: Tables, step: StepSpec) -> float:
    """Merge whatever it costs; returns milliseconds."""
    note(tables.merges(), step, READ, 1, 1e6)
    noted, began = merging.Noted.of(tables, step), time.perf_counter()
    due = merging.due_of(tables, step, noted)
    if due is None or not merging.write(tables, step, due):
        raise SystemExit("there is nothing to merge")
    return 1e3 * (time.perf_counter() - began)


def once(home: Path, days: int, touched: int) -> tuple[float, ...]:
    """Milliseconds: everything merged at read, of the copy; an hour so, and so; merging."""
    pipeline, tables, step = aged(home, days, 10, touched)
    questions = (WHOLE, hour(days))
    works = [lambda sql=sql: asked(tables, pipeline, sql) for sql in questions]
    said, before = [work() for work in works], seconds(works)
    took = merged(tables, step)
    if [work() for work in works] != said:
        raise SystemExit("the two differ")
    pairs = zip(before, seconds(works), strict=True)
    return (*(1e3 * each for pair in pairs for each in pair), took)


def corrected(tables: Tables, step: StepSpec, days: int, touched: int, number: int) -> None:
    """One of so many answers is corrected once more."""
    spec, last = tables.answers(step), days * DAY * RECORDS - 1
    minutes = np.arange(days * DAY // 60, dtype=np.int64) * 60 * SECOND + FIRST
    which = np.arange(number % touched, len(minutes) * KEYS, touched)
    start, count = minutes[which // KEYS], len(which)
    columns = dict.fromkeys(spec.schema.names, np.zeros(count, np.int64))
    columns |= {
        "key": np.array([f"key{n}" for n in range(KEYS)])[which % KEYS], "reason": [LATE] * count,
        "n": which + number, "window_start": start, "window_end": start + 60 * SECOND,
        "revision": np.full(count, number), "published_at": start,
        "plan": np.full(count, number), "through_seq": np.full(count, last),
        "n_records": np.ones(count, np.int64),
    }  # fmt: skip
    Table(spec).append(table_of(spec.schema, columns), "corrected", number)
    plan = {
        "step": step.name, "fingerprint": step.fingerprint, "epoch": 0, "plan": number,
        "reason": LATE, "through_seq": last, "after_seq": -1, "watermark_us": FIRST,
    }  # fmt: skip
    done = plan | {"state": DONE, "answers": count}
    rows = [plan | {"state": PLANNED, "recheck": False}, done]
    table = Table(tables.corrections())
    table.append(pa.Table.from_pylist(rows, table.spec.schema), "corrected", number)


def a_round(
    home: Path, policy: Callable[[Tables, Pipeline], object], days: int, touched: int, reads: int,
    rounds: int,
) -> float:  # fmt: skip
    """Seconds of all processors that maintenance and reads take a round."""
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    step, spent = pipeline.specs[0], 0.0
    merges = Table(tables.merges())
    for number in range(2, 2 + LEARNING + rounds):
        if merges.exists():  # maintenance joins its files, too
            merges.refresh().optimize.compact()
        corrected(tables, step, days, touched, number)
        began = time.process_time()
        policy(tables, pipeline)
        for _ in range(reads):
            asked(tables, pipeline, WHOLE)
        if number >= 2 + LEARNING:
            spent += time.process_time() - began
    return spent / rounds


POLICIES: dict[str, Callable[[Tables, Pipeline], object]] = {
    "append": lambda _tables, _pipeline: None,
    "rewrite": lambda tables, pipeline: merged(tables, pipeline.specs[0]),
    "chosen": merging.merge,
}


def main() -> None:
    """Run and print two Markdown tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=50)
    parser.add_argument("--touched", type=int, nargs="*", default=[1_000, 100, 10])
    parser.add_argument("--reads", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    state, one, grid = measuring.machine(), [], []
    for touched in args.touched:
        with tempfile.TemporaryDirectory() as scratch:
            times = once(Path(scratch), args.days, touched)
            one.append((f"1 of {touched:,}", *(f"{each:,.0f}" for each in times)))
    heads = ("corrected", "everything, merged at read, ms", "copy, ms",
             "an hour, merged at read, ms", "copy, ms", "merging, ms")  # fmt: skip
    print(f"\n{state}\n\n{measuring.markdown(heads, one)}\n", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        first = Path(scratch) / "first"
        first.mkdir()
        aged(first, args.days, 10, NEVER)
        for touched in args.touched:
            for reads in args.reads:
                costs = []
                for policy in POLICIES.values():
                    home = Path(scratch) / "home"
                    shutil.copytree(first, home)
                    costs.append(a_round(home, policy, args.days, touched, reads, args.rounds))
                    shutil.rmtree(home)
                share = costs[2] / min(costs[:2])
                row = (f"1 of {touched:,}", reads, *(f"{c:.2f}" for c in costs), f"{share:.2f}")
                grid.append(row)
                print(*row, flush=True)
    heads = ("corrected a round", "reads a round", *(f"{name}, s" for name in POLICIES),
             "chosen / the better of the two")  # fmt: skip
    print(f"\n{state}\n\n{measuring.markdown(heads, grid)}")


if __name__ == "__main__":
    main()
