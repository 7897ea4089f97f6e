"""How fast a cluster scales under a stream, and how long the stream pauses meanwhile.

    PYTHONPATH=include:plugins:. .venv/bin/python benchmarks/scaling.py [--reps 3] [--pace S]

Nodes of the pool ``standalone`` with one core each; the product's stream job; files of 20,000
records, one every few seconds at first and then as fast as they are answered, or one every S
seconds. What Airflow's DAG ``scale__cluster`` does (look at the load, decide, act, verify) is done
here without Airflow, whose scheduler adds its own seconds. The hold time is the product's, 30 s;
tau2 is set to 20 %, which two cores reach under anything.

"Runs tasks": the executor of the new node has a Python worker. Pause: the longest time between two
sealed micro-batches while something happens and 15 s after it; "usual" is the median before. At the
end every window that closed is compared with DuckDB's, late records corrected.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import cluster as nodes
import duckdb
import measuring
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import step

from penstock.config.catalog import Catalog
from penstock.config.cluster import read_cluster
from penstock.core.clock import SystemClock
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from penstock.runtime.cluster import control
from penstock.runtime.cluster.scaler import LoadReader, Scaler
from penstock.runtime.streams.paths import StreamPaths, read_json
from penstock.runtime.streams.processes import marked
from penstock.spark.correct import correct_pipeline
from tests.clusters import TestCluster, a_cluster
from tests.spark.conftest import python_path

NAME, EACH, RATE, SIPS, AHEAD = "measured", 20_000, 200, 100, 3
BEGIN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e6)
OVERLOADED = 0.2
SCALE = "scale: {idle: 0.01, busy: 0.19, overloaded: 0.2}\n"
LIGHT, USUAL, AFTER, PATIENCE, LOOKS = 3.0, 30.0, 15.0, 240.0, 2.0
"""Seconds: between two files at first, of the usual pause, looked at after an event, at most, and
between two looks of Airflow's trigger at the load."""


def eventually(true: Callable[[], bool], every: float = 0.2) -> float:
    """Poll until it is true; when it was, in seconds of the wall clock."""
    until = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > until:
            raise SystemExit("it did not happen in time")
        time.sleep(every)
    return time.time()


@dataclass
class Feed:
    """Files of records: one now and then, or many.

    Attributes:
        home: of the stream.
        streams: where its driver says how far it is.
        pace: seconds between files when there are many; 0: as fast as they are answered, so that
            new nodes start on processors that have nothing left.
        fast: whether there are many now.
        sent: records.
    """

    home: Path
    streams: Path
    pace: float
    fast: bool = False
    sent: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def answered(self) -> int:
        """Records, as the driver last said."""
        steps = read_json(StreamPaths(self.streams, NAME).driver).get("steps", {})
        return int(steps.get("counts", {}).get("through_seq", -1)) + 1

    def run(self) -> None:
        """Send until it is over."""
        draw, last = np.random.default_rng(20261125), 0.0
        while not self.over.wait(0.1):
            apart = self.pace if self.fast else LIGHT
            due = self.sent - self.answered < AHEAD * EACH and time.monotonic() - last > apart
            if due:
                self._send(draw)
                last = time.monotonic()

    def _send(self, draw: np.random.Generator) -> None:
        late = (draw.random(EACH) < 0.01) * draw.uniform(11e6, 300e6, EACH)
        at = np.arange(self.sent, self.sent + EACH) * (1_000_000 // RATE) - late.astype(np.int64)
        columns = {
            "ts": pa.array(BEGIN + np.maximum(at, 0), pa.timestamp("us", "UTC")),
            "sip": pa.array([f"10.0.0.{n}" for n in draw.integers(0, SIPS, EACH)]),
            "type": pa.array([step.TYPES[n] for n in draw.integers(0, 5, EACH)]),
        }
        folder = self.home / "source"
        pq.write_table(pa.table(columns), folder / ".new")
        (folder / ".new").rename(folder / f"{self.sent:012d}.parquet")
        self.sent += EACH


@dataclass(frozen=True)
class Scene:
    """A cluster, a stream on it, and what feeds the stream."""

    cluster: TestCluster
    home: Path
    feed: Feed

    def sealed(self) -> list[float]:
        """When each micro-batch was sealed, in seconds of the wall clock."""
        spec = Catalog.read(self.home / "pipelines").pipeline(NAME).specs[0]
        control = Table(Tables(str(self.home / "lake"), NAME).control(spec))
        return sorted(at.timestamp() for at in read_table(control)["published_at"].to_pylist())

    def works(self, name: str) -> bool:
        """Whether a node's executor has a Python worker."""
        host = next((n.host for n in self.cluster.state.nodes if n.name == name), None)
        mine = marked(control.mark_of(self.cluster.settings))
        for process in psutil.process_iter():
            try:
                words = process.cmdline() if process.pid in mine else []
                if host in words and any("CoarseGrainedExecutor" in word for word in words):
                    return len(process.children(recursive=True)) > 1
            except psutil.Error:
                continue
        return False

    def registered(self) -> int:
        """Nodes that take tasks."""
        return self.cluster.state.registered

    def pause(self, began: float, ended: float) -> tuple[float, float]:
        """Longest time between sealed micro-batches, and what was usual before, s."""
        eventually(lambda: self.sealed()[-1] > ended + AFTER, 1.0)
        sealed = self.sealed()
        apart = [(a, b, b - a) for a, b in pairwise(sealed)]
        during = max(gap for a, b, gap in apart if b >= began and a <= ended + AFTER)
        before = [gap for a, b, gap in apart if b < began and a > began - USUAL]
        return during, statistics.median(before)


@contextmanager
def streaming(cluster: TestCluster, home: Path, pace: float) -> Iterator[Scene]:
    """The stream job and its feed; ended once all that was sent is answered."""
    for name in ("source", "pipelines"):
        (home / name).mkdir()
    source = f"{{files: '{home}/source', format: parquet, mode: live}}"
    text = step.MARS.yaml.replace("{files: source, mode: bounded}", source)
    (home / "pipelines" / f"{NAME}.yaml").write_text(text)
    environment = os.environ | cluster.environment | {
        "PENSTOCK_HOME": str(cluster.settings.home), "PENSTOCK_LAKE": str(home / "lake"),
        "PENSTOCK_PIPELINES": str(home / "pipelines"), "PYTHONPATH": python_path(),
    }  # fmt: skip
    command = (sys.executable, "spark_jobs/stream.py", "--job=stream", "--run-id=scaling",
               f"--pipeline={NAME}")  # fmt: skip
    feed = Feed(home, cluster.settings.streams, pace)
    thread = threading.Thread(target=feed.run, name="feed", daemon=True)
    with (home / "stream.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=measuring.ROOT, env=environment, stdout=log, stderr=log
        )
        try:
            thread.start()
            yield Scene(cluster, home, feed)
            feed.over.set()
            thread.join()
            eventually(lambda: feed.answered == feed.sent)
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        finally:
            feed.over.set()
            process.kill()


def by_the_rule(scene: Scene) -> dict[str, float]:
    """Overload one node until the rule has a second one run tasks: seconds after each moment."""
    settings = scene.cluster.settings.model_copy(update={"lake": str(scene.home / "lake")})
    scaler = Scaler(settings, read_cluster(settings.cluster), SystemClock(), [NAME])
    reader = LoadReader(scaler)
    eventually(lambda: (t := scaler.observe()["tau"][-3:]) and max(t) < OVERLOADED and len(t) > 2)
    scene.feed.fast, began = True, time.time()
    decided = eventually(lambda: reader.verdict() is not None, LOOKS)
    scaling = scaler.decide("benchmark", scaler.observe(), None, "")
    assert scaling is not None
    scaler.act(scaling)
    print(scaling.reason, file=sys.stderr, flush=True)
    registered = eventually(lambda: scene.registered() == 2)
    works = eventually(lambda: scene.works("node2"))
    scaler.verify(scaling)
    return {"overload to decision": decided - began, "decision to registered": registered - decided,
            "registered to its first task": works - registered, "whole": works - began}  # fmt: skip


def joins(scene: Scene) -> tuple[float, float]:
    """A node more is wanted until it runs tasks."""
    began = time.time()
    scene.cluster.files.want(2)
    eventually(lambda: scene.registered() == 2)
    return scene.pause(began, eventually(lambda: scene.works("node2")))


def drains(scene: Scene) -> tuple[float, float]:
    """A node is not wanted any more until it is gone."""
    began = time.time()
    scene.cluster.files.want(1)
    return scene.pause(began, eventually(lambda: len(scene.cluster.state.nodes) == 1))


def is_lost(scene: Scene) -> tuple[float, float]:
    """A worker and its executors are killed, until the node, started again, runs tasks."""
    began = time.time()
    scene.cluster.lose("node2")
    eventually(lambda: not scene.works("node2"))
    return scene.pause(began, eventually(lambda: scene.works("node2")))


def compared(home: Path) -> str:
    """Windows that closed, late records corrected, beside DuckDB's."""
    os.environ["PENSTOCK_SPARK_MASTER"] = "local[2]"
    pipeline, tables = Catalog.read(home / "pipelines").pipeline(NAME), Tables(
        str(home / "lake"), NAME
    )  # fmt: skip
    spec = pipeline.specs[0]
    with measuring.session("check") as spark:
        correct_pipeline(spark, tables, pipeline, SystemClock(), "benchmark")
    at = position(tables, spec)
    assert at is not None
    asked = duckdb.connect()
    asked.execute("SET TimeZone = 'UTC'")
    asked.register("answers", answers_in_force(tables, spec))
    lost, doubled, wrong, windows = asked.execute(
        f"""WITH source AS (FROM '{home}/source/*.parquet'), truth AS ({step.MARS.truth}),
            closed AS (FROM truth WHERE epoch_us(window_start) + 60000000 <= $1)
            SELECT coalesce(sum(greatest(t.n - coalesce(a.n, 0), 0)), 0)::BIGINT,
                   coalesce(sum(greatest(coalesce(a.n, 0) - coalesce(t.n, 0), 0)), 0)::BIGINT,
                   count(*) FILTER (a.n IS DISTINCT FROM t.n), count(*)
            FROM closed t FULL JOIN answers a USING (window_start, sip, type)""",
        [at.sealed.state.watermark],
    ).fetchone()  # type: ignore[misc]
    return f"{lost:,} records lost, {doubled:,} doubled; {wrong:,} of {windows:,} answers wrong"


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--pace", type=float, default=0.0, help="s between files; 0: no pause")
    args = parser.parse_args()
    state = measuring.machine()
    events = {"a node is drained": (drains, 10), "a node joins": (joins, 5),
              "a node is killed": (is_lost, 60)}  # fmt: skip
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in events}
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        with a_cluster(home / "cluster", 1) as cluster:
            file = cluster.settings.cluster
            file.write_text(file.read_text().replace("most: 4", "most: 2") + SCALE)
            with streaming(cluster, home, args.pace) as scene:
                times = by_the_rule(scene)
                print(times, file=sys.stderr, flush=True)
                for _ in range(args.reps):
                    for name, (event, _) in events.items():
                        found[name].append(event(scene))
                        print(f"{name}: {found[name][-1]}, load {os.getloadavg()[0]:.1f}",
                              file=sys.stderr, flush=True)  # fmt: skip
        said = nodes.by_itself(compared, home)
    print(f"{scene.feed.sent:,} records; {said}; {state}; after: {os.getloadavg()[0]:.1f}\n")
    print(measuring.markdown(["", "s"], [[name, f"{each:.1f}"] for name, each in times.items()]))
    rows = [
        [name, ", ".join(f"{pause:.1f}" for pause, _ in found[name]),
         ", ".join(f"{usual:.2f}" for _, usual in found[name]),
         ", ".join(f"{pause - usual:.1f}" for pause, usual in found[name]), goal]
        for name, (_, goal) in events.items()
    ]  # fmt: skip
    print()
    print(measuring.markdown(["", "longest pause, s", "usual, s", "more, s", "goal, s"], rows))


if __name__ == "__main__":
    main()
