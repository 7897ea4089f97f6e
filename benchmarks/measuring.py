"""What the benchmarks share: scratch pipelines, the session, tables and pictures."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from penstock.config.catalog import read_pipeline
from penstock.config.pipeline import TOGETHER, Pipeline
from penstock.core.batch_size import Bounds
from penstock.core.clock import SystemClock
from penstock.core.step import StepSpec
from penstock.lake.history.position import position
from penstock.lake.history.registry import Registry
from penstock.lake.ingest import source as waiting
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from penstock.lake.storage.tables import Tables
from penstock.spark.query import LogQuery
from penstock.spark.session import configuration, open_session
from penstock.spark.sink import Told

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "penstock"

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "benchmarks"


def pipeline_in(home: Path, text: str, name: str = "measured") -> tuple[Pipeline, Tables]:
    """A pipeline of its own in a scratch folder; its log lies in ``home/log``."""
    home.mkdir(parents=True, exist_ok=True)
    (home / f"{name}.yaml").write_text(text)
    pipeline, problems = read_pipeline(home / f"{name}.yaml")
    if pipeline is None:
        raise SystemExit("\n".join(map(str, problems)))
    return pipeline, Tables(str(home / "log"), pipeline.name)


def appear(table: pa.Table, path: Path, **how: Any) -> None:
    """Write a source file; it has its name once it is whole.  ``how``: of ``write_table``."""
    pq.write_table(table, path.with_suffix(".writing"), **how)
    path.with_suffix(".writing").rename(path)


def asked(
    parser: argparse.ArgumentParser, runs: Mapping[str, Callable[..., Any]]
) -> argparse.Namespace:
    """What a script is asked for; a run that ``apart`` began is done, and ends the process."""
    parser.add_argument("--run")
    parser.add_argument("--arguments", default="{}")
    args = parser.parse_args()
    if args.run:
        with tempfile.TemporaryDirectory() as scratch:
            print(json.dumps(runs[args.run](Path(scratch), **json.loads(args.arguments))))
        sys.exit()
    return args


def apart(script: str, name: str, **arguments: Any) -> dict[str, Any]:
    """Figures of a run of a script, in a process of its own."""
    command = [sys.executable, script, "--run", name, "--arguments", json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(name, arguments, found, file=sys.stderr, flush=True)
    return found


def start_of_log(tables: Tables, pipeline: Pipeline) -> None:
    """Begin every step at the log's beginning, so that all of it is the stream's."""
    registry = Registry(tables, SystemClock(), pipeline)
    for step in pipeline.specs:
        registry.begin_epoch(step, "benchmark")


def stream(
    spark: SparkSession,
    tables: Tables,
    pipeline: Pipeline,
    told: Told = lambda *_: None,
    records: int = 4_000_000,
) -> StreamingQuery:
    """The query of a pipeline whose steps all run together.

    Args:
        spark: the session.
        tables: of the pipeline.
        pipeline: its file.
        told: gets the name of a step and what it sealed.
        records: a micro-batch takes no further block once it has so many.
    """

    def stands_still(step: str, cause: str) -> None:
        raise SystemExit(f"{step}: {cause}")

    return LogQuery(
        spark, tables, pipeline, TOGETHER, SystemClock(), told, stands_still, Bounds.fixed(records)
    ).start(pipeline.queries[TOGETHER])


def answered(query: StreamingQuery, tables: Tables, step: StepSpec, records: int) -> None:
    """Wait until a step has answered so many records, then stop its query."""
    while (at := position(tables, step)) is None or at.sealed.seq + 1 < records:
        if query.exception() is not None:
            raise SystemExit(str(query.exception()))
        time.sleep(0.2)
    query.stop()


def ingest(tables: Tables, pipeline: Pipeline, home: Path, *, each: bool = False) -> int:
    """Take in all that waits; returns the records.

    Args:
        tables: of the pipeline.
        pipeline: its file.
        home: the scratch folder.
        each: every source file becomes one commit, however small.
    """
    if each:
        waiting.FILES_PER_PLAN = 1
    return run_through(Door(tables, pipeline, home, SystemClock()), LIVE, None, None)


@contextmanager
def session(name: str, **more: str) -> Iterator[SparkSession]:
    """Spark as the product configures it, on two cores."""
    options = configuration(ROOT / "jars", master="local[2]", memory="3g")
    with open_session(name, {**options, **more}) as spark:
        yield spark


def machine() -> str:
    """One line about the machine and how busy it is."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    version = java.stderr.split('"')[1] if '"' in java.stderr else "?"
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, Java {version},"
        f" load average {os.getloadavg()[0]:.1f}"
    )


def markdown(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [list(headers), ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def bars(name: str, title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> Path:
    """A picture of grouped bars in ``docs/benchmarks``: group -> bar -> value."""
    from matplotlib.figure import Figure

    series = list(dict.fromkeys(s for values in groups.values() for s in values))
    figure = Figure(figsize=(8, 0.6 + 0.28 * sum(len(v) for v in groups.values())))
    axes = figure.add_subplot()
    colours = dict(
        zip(series, ["#0b7285", "#adb5bd", "#868e96", "#e8590c", "#fab005"], strict=False)
    )
    at, ticks = 0.0, []
    for group, values in groups.items():
        first = at
        for label, value in values.items():
            axes.barh(at, value, color=colours.get(label, "#ced4da"), height=0.8)
            axes.text(value, at, f" {label}: {value:,.3g} {unit}", va="center", fontsize=8)
            at += 1
        ticks.append(((first + at - 1) / 2, group))
        at += 0.6
    axes.set_yticks([t for t, _ in ticks], [g for _, g in ticks], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.35)
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.svg"
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    return path


def bytes_read(spark: SparkSession) -> int:
    """Bytes that Spark's file systems and this process's system calls have read so far.

    Spark's Python workers read nothing in batch jobs: their rows come from the JVM.
    """
    statistics = spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics()
    own = Path("/proc/self/io").read_text().split()[1]
    return sum(one.getBytesRead() for one in statistics) + int(own)
