"""Penstock as one of several engines that a common harness runs on the same Parquet files.

The harness gives ``--input DIR --work DIR --workload W1|W2`` and a module ``common`` with
``parser`` and ``Bench``: ``Bench.loop(run)`` times ``run(folder)``, which returns what gives the
answers. W1 is Mars' count, W2 the aircraft sightings (see step.py). Timed are ingest and step; the
correction that makes the answers exact is timed by itself and written to the statistics. Spark's
workers must find the package, too: call the harness with ``PYTHONPATH`` naming ``include`` and this
folder.
"""

import importlib
import time
from collections.abc import Callable
from pathlib import Path

import measuring
import pyarrow as pa
import pyarrow.compute as pc
import step

from penstock.core.clock import SystemClock
from penstock.lake.history.view import answers_in_force
from penstock.spark.correct import correct_pipeline

WORKLOADS = {"W1": (step.MARS, "n"), "W2": (step.AIRCRAFT, "mean")}
"""Each with the measure that the harness calls value."""


def main() -> None:
    """Run under the harness."""
    harness = importlib.import_module("common")
    args = harness.parser().parse_args()
    bench = harness.Bench(args, "ours")
    workload, value = WORKLOADS[args.workload]
    source = Path(args.input).resolve() / "in"
    with measuring.session("peer") as spark:
        bench.ready()

        def run(folder: str) -> Callable[[], pa.Table]:
            home, clock = Path(folder), SystemClock()
            text = workload.yaml.replace("files: source", f"files: {source}")
            pipeline, tables = measuring.pipeline_in(home, text)
            spec = pipeline.specs[0]
            measuring.start_of_log(tables, pipeline)
            began = time.monotonic()
            measuring.ingest(tables, pipeline, home)
            ingested = time.monotonic()
            query = measuring.stream(spark, tables, pipeline)
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
                found = found.append_column("value", pc.cast(found[value], pa.float64()))
                return found.select(["window_start", *spec.key_names, "value", "n"])

            return answers

        bench.loop(run)


main()
