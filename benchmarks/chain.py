"""A chain of steps over a step: what it takes from the first one, and how late each level is.

    python benchmarks/chain.py [--rate 8000] [--seconds 60] [--records 12000000]

Each level answers, of each key and window of a second, the greatest n of the level above. Each
log has a host, a process of its own; they share the cores of this machine.

- latency: of the answers of a window, from when a level has published them until the next one has;
- throughput: records a second that the first step answers of a log that is sealed, in micro-batches
  of 100,000, alone and with the levels over it; and from its first record to the last answer of the
  last level;
- shared: processor time of all hosts for a sealed log and its chain, for one pipeline, and for ten
  whose chains are equal.
"""

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import latency
import measuring
from topology import Told, processor_seconds, running

from penstock.config.catalog import Catalog
from penstock.config.pipeline import Pipeline
from penstock.config.shares import Shares, shared
from penstock.core.clock import SystemClock
from penstock.lake.history.generation import generations
from penstock.lake.history.position import position
from penstock.lake.storage.tables import Tables
from penstock.spark.correct import correct_pipeline
from penstock.spark.stream_host import StreamHost

LEVELS = 3
WARM = 20.0
SIZE = "micro_batch: {least: 100000, most: 100000}"
"""Of a sealed log: enough micro-batches for a rate, in place of three of four million records."""


GUEST = "source: {pipeline: %s}\n" + latency.PIPELINE[latency.PIPELINE.index("steps:") :]
LEVEL = """
source: {{pipeline: {above}, step: live}}
columns: {{key: string, n: long}}
steps: {{live: {{keys: [key], window: {{size: PT1S}}, measures: {{n: max(n)}}}}}}
"""


def chain_over(home: Path, pipeline: Pipeline, levels: int, others: int = 0) -> list[Pipeline]:
    """The pipelines of a chain, the lowest first; their files are beside that of the first step.

    So are those of others with the same step and the same chain.
    """
    names = [f"level{n + 1}" for n in range(levels)]
    for other in ["", *(f"other{n}_" for n in range(others))]:
        above = other.strip("_") or pipeline.name
        if other:
            (home / f"{above}.yaml").write_text(GUEST % pipeline.name)
        for name in names:
            (home / f"{other}{name}.yaml").write_text(LEVEL.format(above=above))
            above = f"{other}{name}"
    found = {each.name: each for each in catalog_of(home)}
    return [found[name] for name in names]


def catalog_of(home: Path) -> Sequence[Pipeline]:
    """All pipelines, which know their runs and logs."""
    found = Catalog.read(home).pipelines
    shared(found, Shares())
    return found


def host_of(home: Path, name: str, stop: Any) -> None:
    """The host of a log, until it is told to stop; in a process of its own."""
    mine, pulse = [each for each in catalog_of(home) if each.log == name], Told()
    pulse.stop = stop
    pipeline = next(each for each in mine if each.name == name)
    with measuring.session(name) as spark:
        StreamHost(spark, tables_of(home, pipeline), pipeline, home, SystemClock(), pulse,
                   linked=lambda: mine).run()  # fmt: skip


@contextmanager
def hosts(home: Path, pipelines: Sequence[Pipeline]) -> Iterator[None]:
    """A host for each, until the block ends."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    every = [context.Process(target=host_of, args=(home, each.name, stop)) for each in pipelines]
    for process in every:
        process.start()
    try:
        yield
    finally:
        stop.set()
        for process in every:
            process.join()


def tables_of(home: Path, pipeline: Pipeline) -> Tables:
    """Of its log, where ``measuring`` has that of the first one."""
    return Tables(str(home / "log"), pipeline.name)


def published(tables: Tables, pipeline: Pipeline) -> dict[Any, float]:
    """When the timely answers of each window were, by its start."""
    (step,) = pipeline.specs
    rows = latency.rows_of(tables.answers(step).uri, "window_start")
    return {row["window_start"]: when for when, row in rows}


def late(home: Path, rate: int, seconds: float) -> dict[str, Any]:
    """Seconds from level to level, of each window."""
    with running(home, rate) as log:
        levels = chain_over(home, log.pipeline, LEVELS)
        with hosts(home, levels):
            for each in levels:  # a level waits until the past of the one above is corrected
                tables = tables_of(home, each)
                while position(tables, each.specs[0]) is None:
                    time.sleep(0.1)
                correct_pipeline(log.host.spark, tables, each, SystemClock(), each.name)
            time.sleep(WARM)
            begin = time.time()
            time.sleep(seconds)
        every = [(tables_of(home, each), each) for each in levels]
        told = [published(*each) for each in [(log.tables, log.pipeline), *every]]
    found = list[float]()
    for above, below in pairwise(told):
        waits = [at - above[start] for start, at in below.items()
                 if start in above and above[start] > begin]  # fmt: skip
        found.append(statistics.median(waits))
    return {"levels": found}


def through(home: Path, records: int, levels: int, others: int = 0) -> dict[str, float]:
    """Records a second of a sealed log: of the first step, and to the end of the chain.

    And processor seconds of the hosts of all that is linked.
    """
    pipeline, tables = measuring.pipeline_in(home, latency.PIPELINE + SIZE)
    measuring.start_of_log(tables, pipeline)
    (home / "source").mkdir()
    latency.some(home / "source", records)
    measuring.ingest(tables, pipeline, home)
    every = chain_over(home, pipeline, levels, others)
    with hosts(home, every):
        while not all(generations(tables_of(home, each), each.specs[0]) for each in every):
            time.sleep(0.1)
        return _measured(home, tables, pipeline, every, records)


def _measured(
    home: Path, tables: Tables, pipeline: Pipeline, levels: Sequence[Pipeline], records: int
) -> dict[str, float]:
    """With the host of the first step, which begins last: so nobody has a past to wait for."""
    with hosts(home, [pipeline]):
        while mark(tables, pipeline) is None:
            time.sleep(0.02)
        began, before = time.monotonic(), newest_answered(tables, pipeline)
        spent = processor_seconds()
        while newest_answered(tables, pipeline) < records:
            time.sleep(0.05)
        first, last = time.monotonic() - began, mark(tables, pipeline)
        while any(mark(tables_of(home, each), each) != last for each in levels):
            time.sleep(0.05)
        whole, spent = time.monotonic() - began, processor_seconds() - spent
    count = records - before  # of those after its first micro-batch
    return {"first": count / first, "whole": count / whole, "cpu": spent}


def mark(tables: Tables, pipeline: Pipeline) -> int | None:
    """The watermark that its step has sealed; none: it has sealed nothing of the log."""
    at = position(tables, pipeline.specs[0])
    return None if at is None or at.sealed.seq < 0 else at.sealed.state.watermark


def newest_answered(tables: Tables, pipeline: Pipeline) -> int:
    """Records that its step has answered."""
    at = position(tables, pipeline.specs[0])
    return 0 if at is None else at.sealed.seq + 1


RUNS = {"late": late, "through": through}


def main() -> None:
    """Measure, and print Markdown tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=8_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--records", type=int, default=12_000_000)
    args = measuring.asked(parser, RUNS)
    print(f"{args.rate:,} records/s; {measuring.machine()}\n")
    apart = partial(measuring.apart, __file__)
    found = apart("late", rate=args.rate, seconds=args.seconds)
    print(measuring.markdown(
        ["level", "after the level above, s"],
        [[f"{n}", f"{wait:.2f}"] for n, wait in enumerate(found["levels"], 1)]))  # fmt: skip
    rows = [(n, apart("through", records=args.records, levels=n)) for n in (0, LEVELS)]
    print(measuring.markdown(
        ["levels over it", "first step, records/s", "to the last answer, records/s"],
        [[f"{n}", f"{r['first']:,.0f}", f"{r['whole']:,.0f}"] for n, r in rows]))  # fmt: skip
    rows = [(n, apart("through", records=args.records // 3, levels=LEVELS, others=n - 1))
            for n in (1, 10)]  # fmt: skip
    print(measuring.markdown(
        ["pipelines with the chain", "processor s", "to the last answer, records/s"],
        [[f"{n}", f"{r['cpu']:.1f}", f"{r['whole']:,.0f}"] for n, r in rows]))  # fmt: skip


if __name__ == "__main__":
    main()
