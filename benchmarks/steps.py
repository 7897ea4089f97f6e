"""What a further step costs: several steps on one log, together and each apart, beside one.

    python benchmarks/steps.py [--steps 8] [--records 1000000] [--batch 100000] [--rounds 2]

Each run is a process of its own over a log that is sealed: four key sets, windows of one and of two
minutes. Printed: seconds from the session to the first sealed micro-batch of every step, the median
micro-batch after it, memory of all processes (PSS: what they share counts once), and by how many
the answers in force differ in number from DuckDB's over the same files.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import measuring
import psutil
import step as single
import yaml

from penstock.core.batch_size import Bounds
from penstock.core.clock import SystemClock
from penstock.lake.history.standing import answers_in_force
from penstock.spark.correct import correct_pipeline
from penstock.spark.query import LogQuery

KEYS = (["sip", "type"], ["sip"], ["type"], [])
MODES = ("one", "together", "apart")


def pipeline_of(home: Path, steps: int, *, apart: bool) -> str:
    """A pipeline file with so many steps over ``home/source``."""
    content = yaml.safe_load(single.MARS.yaml)
    ((_, base),) = content["steps"].items()
    content["source"]["files"] = str(home / "source")
    content["steps"] = {
        f"s{n}": {
            **base, "keys": KEYS[n % 4], "window": {"size": f"PT{60 * (1 + n // 4)}S"},
            "apart": apart,
        }
        for n in range(steps)
    }  # fmt: skip
    return yaml.safe_dump(content)


def memory() -> int:
    """Bytes of this process and all below it (PSS)."""
    own = psutil.Process()
    return sum(p.memory_full_info().pss for p in [own, *own.children(recursive=True)])


def run(home: Path, steps: int, batch: int, *, apart: bool) -> dict[str, float]:
    """Answer a log; figures of this process."""
    pipeline, tables = measuring.pipeline_in(home, pipeline_of(home, steps, apart=apart))
    measuring.start_of_log(tables, pipeline)
    measuring.ingest(tables, pipeline, home)
    sealed: dict[str, float] = {}

    def told(name: str, row: dict[str, int]) -> None:
        sealed.setdefault(name, time.monotonic())

    began = time.monotonic()
    with measuring.session("steps") as spark:
        queries = [
            LogQuery(spark, tables, pipeline, name, SystemClock(), told,
                     lambda step, cause: sys.exit(f"{step}: {cause}"), Bounds.fixed(batch))
            .start(steps)
            for name, steps in pipeline.queries.items()
        ]  # fmt: skip
        for query in queries:
            query.processAllAvailable()
        held = memory()
        spans = [p["durationMs"]["triggerExecution"] for p in queries[0].recentProgress
                 if p["numInputRows"]]  # fmt: skip
        for query in queries:
            query.stop()
        correct_pipeline(spark, tables, pipeline, SystemClock(), "steps")
    wrong = sum(differing(home, n, answers_in_force(tables, spec).num_rows)
                for n, spec in enumerate(pipeline.specs))  # fmt: skip
    return {
        "start_s": max(sealed.values()) - began,
        "micro_batch_ms": statistics.median(spans[1:]),
        "micro_batches": len(spans),
        "memory_mb": held / 1e6,
        "wrong": wrong,
    }


def differing(home: Path, number: int, found: int) -> int:
    """By how many answers a step differs in number from DuckDB; the source has ended."""
    keys = ", ".join(["", *KEYS[number % 4]])
    size = f"interval '{60 * (1 + number // 4)} seconds'"
    sql = f"select count(*) from (select distinct time_bucket({size}, ts){keys} from source)"
    source = duckdb.read_parquet(f"{home}/source/*.parquet")
    ((wanted,),) = source.query("source", sql).fetchall()
    return abs(wanted - found)


def main() -> None:
    """Run the modes one after the other, each in a process of its own, twice, in turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--run", choices=MODES)
    parser.add_argument("--home", type=Path)
    a = parser.parse_args()
    if a.run:
        steps = 1 if a.run == "one" else a.steps
        print(json.dumps(run(a.home, steps, a.batch, apart=a.run == "apart")))
        return
    for number in range(a.rounds):
        for mode in MODES:
            with tempfile.TemporaryDirectory() as scratch:
                home = Path(scratch)
                single.generate(home / "source", a.records, 100, a.records / 3333, 10)
                command = [sys.executable, __file__, "--run", mode, "--home", scratch,
                           "--steps", str(a.steps), "--batch", str(a.batch)]  # fmt: skip
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                print(number, mode, done.stdout.splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
