"""Penstock as one of several engines that a common harness runs on the same Parquet files.

The harness gives ``--input DIR --work DIR --workload W1|W2`` and a module ``common`` with
``parser`` and ``Bench``: ``Bench.loop(run)`` times ``run(folder)``, which returns what gives the
answers. W1 is Mars' count, W2 the aircraft sightings (see step.py).
Timed are ingest and step, beside each other as in the stream host; the correction that makes the
answers exact is timed by itself and written to the statistics. Spark's workers must find the
package, too: call the harness with ``PYTHONPATH`` naming ``include`` and this folder.
"""

import importlib
import time
from collections.abc import Callable
from pathlib import Path

import files_to_answers
import measuring
import pyarrow as pa
import pyarrow.compute as pc
import step

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
            text = workload.yaml.replace("files: source", f"files: {source}")
            taken = files_to_answers.take(spark, Path(folder), text)

            def answers() -> pa.Table:
                start = time.monotonic()
                found = files_to_answers.correct(spark, taken)
                bench.extra = {
                    "ingest_s": round(taken.ingested, 2),
                    "timely_s": round(taken.timely, 2),
                    "correct_s": round(time.monotonic() - start, 2),
                }
                found = found.append_column("value", pc.cast(found[value], pa.float64()))
                keys = taken.pipeline.specs[0].key_names
                return found.select(["window_start", *keys, "value", "n"])

            return answers

        bench.loop(run)


main()
