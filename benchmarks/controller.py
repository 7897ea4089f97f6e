"""What a controller of slack costs a step: two queries over one log, ``fixed`` and ``quantile``.

    python benchmarks/controller.py [--records 4000000] [--reps 3]

Mars' count (``step.py``). Spark says of every micro-batch how long it took as a whole, and how long
the choice of its offset: reading blocks, for ``quantile`` also event times, and the fold. The
difference of the two queries' offsets is the controller's; its share is of the micro-batch.
"""

import argparse
import itertools
import shutil
import statistics
import tempfile
from pathlib import Path

import measuring
import step as bench
from pyspark.sql import SparkSession

from penstock.config.pipeline import Pipeline
from penstock.lake.storage.tables import Tables

FIXED = "slack: {fixed: PT10S}"
QUANTILE = """slack: {quantile: {}}
    quality: {epsilon: 0.05, delta: 0.05, records: 1000}"""
SIZES = (100_000, 1_000_000)


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--reps", type=int, default=3)
    args = parser.parse_args()
    print(measuring.machine())
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        bench.generate(home / "source", args.records, 100)
        logs = {}
        for name, slack in (("fixed", FIXED), ("quantile", QUANTILE)):
            place = home / name
            place.mkdir()
            (place / "source").symlink_to(home / "source")
            text = bench.MARS.yaml.replace(FIXED, slack)
            pipeline, tables = measuring.pipeline_in(place, text)
            measuring.start_of_log(tables, pipeline)
            measuring.ingest(tables, pipeline, place)
            logs[name] = pipeline, Path(tables.lake)
        with measuring.session("benchmark") as spark:
            rows = measured(spark, logs, home / "work", args.reps)
        headers = ("records a micro-batch", "offset, fixed, ms", "offset, quantile, ms",
                   "micro-batch, fixed, ms", "micro-batch, quantile, ms", "share")  # fmt: skip
        print("\n" + measuring.markdown(headers, rows))


def measured(
    spark: SparkSession, logs: dict[str, tuple[Pipeline, Path]], work: Path, reps: int
) -> list[tuple[str, ...]]:
    """A row a size of micro-batch."""
    rows = []
    runs = itertools.count()
    for size in SIZES:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in logs}
        for rep in range(reps + 1):
            for name, (pipeline, lake) in logs.items():
                place = work / str(next(runs))  # a fresh one: Spark tidies up old ones late
                shutil.copytree(lake, place)
                tables = Tables(str(place), pipeline.name)
                query = measuring.stream(spark, tables, pipeline, records=size)
                query.processAllAvailable()
                told = [p["durationMs"] for p in query.recentProgress if p["numInputRows"]]
                query.stop()
                shutil.rmtree(place)
                if rep:  # the first warms up
                    offset = statistics.median(t["latestOffset"] for t in told[1:])
                    whole = statistics.median(t["triggerExecution"] for t in told[1:])
                    found[name].append((offset, whole))
        offsets = {n: statistics.median(o for o, _ in f) for n, f in found.items()}
        wholes = {n: statistics.median(w for _, w in f) for n, f in found.items()}
        cost = offsets["quantile"] - offsets["fixed"]
        rows.append(
            (f"{size:,}", f"{offsets['fixed']:.0f}", f"{offsets['quantile']:.0f}",
             f"{wholes['fixed']:.0f}", f"{wholes['quantile']:.0f}",
             f"{cost / wholes['quantile']:.1%}")
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
