"""Whether anything serial is left in a micro-batch: its tasks sleep in place of work.

    PYTHONPATH=include:plugins:. .venv/bin/python benchmarks/simulated_cluster.py [--nodes 1 2 4 8]
        [--records N] [--batch N] [--micros 0 20 100] [--sips N]

Nodes of the pool ``standalone`` with one core each. A task that reads records first sleeps so many
microseconds for each of them, and so does the task that holds a shard for each record that came
into it: half of the work each, and two real cores can stand for any number. All the rest is the
product's: cuts, exchange, state, commits. Efficiency at n nodes is T(1) / (n T(n)), T being the
mean time from one sealed micro-batch to the next. What is left of T beside the work's n-th part
does not shrink with nodes: with 0 us it is all there is. Every answer is compared with DuckDB's.

Source: Mars, whose simulated cluster runs tasks that sleep in proportion to their records.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cluster as nodes
import measuring
import pyarrow as pa
import pyarrow.compute as pc
import step
from pyspark.sql.types import StructType

from penstock.config.settings import Settings
from penstock.kinds.windowed.reducer import Advance, Reduced
from penstock.spark import query
from penstock.spark.alike import require_alike
from penstock.spark.scan import Part
from penstock.spark.source import LogReader, LogSource, SourceSpec
from penstock.spark.state_host import StateHost
from tests.clusters import TestCluster, a_cluster

FIRST = 2
"""Micro-batches that are not measured: they start Python workers, and open the state."""


@contextmanager
def sleeping(seconds: float) -> Iterator[None]:
    """Queries that start meanwhile sleep so long for each record, in each of their two stages.

    The classes are local so that they travel to the nodes by value.
    """
    reduces = Callable[[Advance, pa.Table, pa.Table], Reduced]

    class Reader(LogReader):
        def read(self, partition: Part) -> Iterator[pa.RecordBatch]:
            time.sleep(seconds * max(0, partition.last - partition.first + 1))
            return super().read(partition)

    class Source(LogSource):
        def streamReader(self, schema: StructType) -> Reader:  # noqa: N802  Spark's name
            return Reader(SourceSpec.read(Path(self.options["spec"])))

    class Host(StateHost):
        def init(self, handle: Any) -> None:
            super().init(handle)
            for reducer in self.reducers.values():
                reducer.reduce = self.slow(reducer.reduce)

        def slow(self, reduce: reduces) -> reduces:
            def slept(advance: Advance, partials: pa.Table, seed: pa.Table) -> Reduced:
                time.sleep(seconds * (pc.sum(partials["n_records"]).as_py() or 0))
                return reduce(advance, partials, seed)

            return slept

    query.LogSource, query.StateHost = Source, Host
    try:
        yield
    finally:
        query.LogSource, query.StateHost = LogSource, StateHost


def measured(
    settings: Settings, home: Path, log: Path, batch: int, micros: Sequence[float]
) -> tuple[int, list[float]]:
    """Shards of the state, and the mean seconds of a micro-batch, for each length of sleep."""
    found = list[float]()
    with nodes.session_on(settings) as spark:
        require_alike(spark, settings)
        for each in micros:
            with sleeping(each / 1e6):
                every = nodes.answered(spark, home, log, batch)
            sealed = [(at, records) for at, records in every if records]  # the first has none
            sizes = {records for _, records in sealed}
            assert sizes == {batch}, f"micro-batches of {sizes}"
            first, last = sealed[FIRST - 1][0], sealed[-1][0]
            found.append((last - first) / (len(sealed) - FIRST))
            print(f"{len(sealed)} micro-batches, {each:g} us: {found[-1]:.2f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
        return spark.sparkContext.defaultParallelism, found


def runs(
    cluster: TestCluster, home: Path, args: argparse.Namespace
) -> Iterator[tuple[int, int, list[float], str]]:
    """Number of nodes, shards, seconds by sleep, what is wrong; the most nodes first."""
    for count in sorted(args.nodes, reverse=True):
        cluster.want(count)
        os.environ["PENSTOCK_SPARK_MASTER"] = cluster.settings.spark_master
        shards, seconds = nodes.by_itself(
            measured, cluster.settings, home, home / "log", args.batch, args.micros
        )
        said = nodes.by_itself(nodes.checked, home)
        print(f"{count} nodes, {shards} shards, load {os.getloadavg()[0]:.1f}: {seconds}; {said}",
              file=sys.stderr, flush=True)  # fmt: skip
        yield count, shards, seconds, said


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--records", type=int, default=600_000)
    parser.add_argument("--batch", type=int, default=100_000, help="records of a micro-batch")
    parser.add_argument("--micros", type=float, nargs="+", default=[0, 20, 100],
                        help="sleep for a record in each of two stages, us")  # fmt: skip
    parser.add_argument("--sips", type=int, default=1_000, help="five keys each")
    args = parser.parse_args()
    state, table = measuring.machine(), []
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        step.generate(home / "source", args.records, args.sips, files=args.records // args.batch)
        pipeline, tables = measuring.pipeline_in(home, step.MARS.yaml)
        measuring.start_of_log(tables, pipeline)
        measuring.ingest(tables, pipeline, home, each=True)
        with a_cluster(home / "cluster", max(args.nodes)) as cluster:
            os.environ.update(cluster.environment, PENSTOCK_HOME=str(cluster.settings.home))
            found = [*runs(cluster, home, args)][::-1]
    least, _, alone, _ = found[0]
    for at, micros in enumerate(args.micros):
        work = 2 * micros * args.batch / 1e6
        for count, shards, seconds, said in found:
            rest = seconds[at] - work / count
            ratio = least * alone[at] / (count * seconds[at])
            table.append([f"{work:g}", count, shards, f"{seconds[at]:.2f}", f"{rest:.2f}",
                          f"{ratio:.2f}", said])  # fmt: skip
    headers = ["work of a micro-batch, s", "nodes", "shards", "micro-batch, s",
               "beside the work's part, s", "efficiency", ""]  # fmt: skip
    print(f"{args.records:,} records, {args.batch:,} a micro-batch, {5 * args.sips:,} keys;"
          f" {state}; after: {os.getloadavg()[0]:.1f}\n")  # fmt: skip
    print(measuring.markdown(headers, table))


if __name__ == "__main__":
    main()
