"""Penstock as one of several engines that a common harness runs on the same Parquet files.

The harness gives ``--input DIR --work DIR --workload W1|W2`` and a module ``common`` with
``parser`` and ``Bench``: ``Bench.loop(run)`` times ``run(folder)``, which returns what gives the
answers. W1 is Mars' count, W2 the aircraft sightings (see step.py). Timed are ingest and step; the
correction that makes the answers exact is timed by itself and written to the statistics.
"""

import importlib
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.catalog import read_pipeline
from penstock.core.clock import SystemClock
from penstock.lake.commit import Table
from penstock.lake.generation import Registry
from penstock.lake.ingest.door import Door, run_through
from penstock.lake.log import LIVE
from penstock.lake.tables import Tables
from penstock.lake.view import answers_in_force
from penstock.spark.correct import correct_pipeline
from penstock.spark.query import start_query
from penstock.spark.session import configuration, open_session

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = {"W1": "{sip: string, type: string}", "W2": "{site: string, lag_s: long}"}
STEPS = {
    "W1": "keys: [sip, type], window: {size: PT60S}, measures: {n: count(*)},"
    " slack: {fixed: PT10S}",
    "W2": "keys: [site], window: {size: PT1H, slide: PT15M},"
    " measures: {n: count(*), value: avg(lag_s)}, slack: {fixed: PT2H}",
}


def main() -> None:
    """Run under the harness."""
    harness = importlib.import_module("common")
    args = harness.parser().parse_args()
    bench = harness.Bench(args, "ours")
    options = configuration(ROOT / "jars", master="local[2]", memory="3g", partitions=2)
    with open_session("peer", options) as spark:
        bench.ready()

        def run(folder: str) -> Callable[[], pa.Table]:
            home, clock = Path(folder), SystemClock()
            (home / "peer.yaml").write_text(
                f"source: {{files: {Path(args.input).resolve() / 'in'}, mode: bounded}}\n"
                f"columns: {COLUMNS[args.workload]}\nevent_time: ts\nskew: P36500D\n"
                f"steps: {{answers: {{{STEPS[args.workload]}}}}}\n"
            )
            pipeline, problems = read_pipeline(home / "peer.yaml")
            if pipeline is None:
                raise SystemExit("\n".join(map(str, problems)))
            tables, spec = Tables(str(home / "lake"), pipeline.name), pipeline.specs[0]
            Registry(tables, clock, Table(tables.events(pipeline.types))).begin_epoch(spec)
            began = time.monotonic()
            run_through(Door(tables, pipeline, home, clock), LIVE, None, None)
            ingested = time.monotonic()
            query = start_query(spark, tables, pipeline, spec, clock, lambda _: None)
            query.processAllAvailable()
            answered = time.monotonic()
            query.stop()

            def answers() -> pa.Table:
                start = time.monotonic()
                correct_pipeline(spark, tables, pipeline, clock, "peer")
                bench.extra = {
                    "ingest_s": round(ingested - began, 2),
                    "step_s": round(answered - ingested, 2),
                    "correct_s": round(time.monotonic() - start, 2),
                }
                found = answers_in_force(tables, spec)
                if args.workload == "W1":
                    found = found.append_column("value", pc.cast(found["n"], pa.float64()))
                return found.select(["window_start", *spec.key_names, "value", "n"])

            return answers

        bench.loop(run)


main()
