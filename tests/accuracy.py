"""Mars' accuracy test: nodes are cut off while records are counted, and no count is wrong.

Source: Mars, accuracy: 40 M records, three nodes cut off during the run, the sum of counts must
equal 40 M. Here every answer must also equal DuckDB's.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from penstock.config.catalog import Catalog
from penstock.lake.history.position import position
from penstock.lake.storage.tables import Tables
from tests.clusters import TestCluster
from tests.hosts import Hosts
from tests.spark.conftest import python_path

YAML = """
description: Mars' count of the accuracy test
source: {files: live, format: parquet, mode: bounded}
columns: {sip: long, type: long}
event_time: at
steps:
  count:
    keys: [sip, type]
    window: {size: PT1M}
    measures: {n: count(*)}
    slack: {fixed: PT10S}
"""
EACH = 100_000
"""Records of a file."""
RATE = 10_000
"""Records a second of event time."""
PATIENCE = 1_800.0


@dataclass(frozen=True)
class Loss:
    """A node that is lost once a share of the records is answered, and perhaps comes back.

    Attributes:
        node: its number.
        at: share of the records.
        back: share at which its cable is put back; none: at the end.
    """

    node: int
    at: float
    back: float | None = None


@dataclass(frozen=True)
class Found:
    """What came out.

    Attributes:
        records: that were sent.
        counted: sum of all counts in force.
        wrong: answers that are missing, doubled, or other than DuckDB's.
        answers: in force.
        seconds: from the start of the stream to its end.
        pause: longest time without a sealed micro-batch, s.
    """

    records: int
    counted: int
    wrong: int
    answers: int
    seconds: float
    pause: float


def write_records(
    folder: Path, count: int, share_late: float, each: int = EACH, seed: int = 1
) -> None:
    """Files of records in order of arrival; a share is up to five minutes late."""
    folder.mkdir(parents=True)
    draw = np.random.default_rng(seed)
    for first in range(0, count, each):
        number = np.arange(first, min(first + each, count))
        late = draw.random(len(number)) < share_late
        at = number * (1_000_000 // RATE) - late * draw.integers(0, 300_000_000, len(number))
        columns = {
            "sip": draw.integers(0, 1_000, len(number)),
            "type": draw.integers(0, 5, len(number)),
            "at": pa.array(np.maximum(at, 0) + 1_600_000_000_000_000).cast(
                pa.timestamp("us", tz="UTC")
            ),
        }
        pq.write_table(pa.table(columns), folder / f"{first // each:06d}.parquet")


def accuracy(
    home: Path,
    cluster: TestCluster,
    count: int,
    losses: Sequence[Loss],
    hosts: Hosts | None,
    share_late: float = 0.02,
    each: int = EACH,
    micro_batch: int = 1,
) -> Found:
    """Count so many records on a cluster that loses nodes.

    Args:
        home: of the pipeline.
        cluster: that is up.
        count: records.
        losses: what happens to its nodes.
        hosts: whose cables are pulled; none: processes are killed instead.
        share_late: of the records; none late: there is nothing to correct.
        each: records of a file.
        micro_batch: takes no further block once it has so many records.
    """
    write_records(home / "live", count, share_late, each)
    (home / "pipelines").mkdir(exist_ok=True)
    (home / "pipelines" / "mars.yaml").write_text(YAML)
    pipeline = Catalog.read(home / "pipelines").pipeline("mars")
    tables = Tables(str(home / "lake"), "mars")

    def answered() -> int:
        at = position(tables, pipeline.specs[0])
        return 0 if at is None else at.sealed.seq + 1

    began = time.monotonic()
    script = Path(__file__).parent / "spark" / "one_block_a_micro_batch.py"
    command = _command(script, "mars", str(micro_batch))
    pause = _run(command, home, cluster, _Nodes(cluster, losses, hosts, count), answered)
    seconds = time.monotonic() - began
    job = cluster.settings.root / "spark_jobs" / "correct.py"
    if share_late:
        words = ("--job=correct", "--run-id=accuracy", "--pipeline=mars")
        _run(_command(job, *words), home, cluster)
    command = [sys.executable, "-m", "penstock", "export", "mars", str(home / "answers")]
    _run(command, home, cluster)
    return _compared(home, count, seconds, pause)


class _Nodes:
    """Loses nodes, and gives them back, as a run goes on."""

    def __init__(
        self, cluster: TestCluster, losses: Sequence[Loss], hosts: Hosts | None, count: int
    ) -> None:
        self.cluster, self.hosts, self.count = cluster, hosts, count
        self.due = sorted(losses, key=lambda loss: loss.at)
        self.back: list[Loss] = []

    def look(self, answered: int) -> None:
        share = answered / self.count
        while self.due and share >= self.due[0].at:
            loss = self.due.pop(0)
            self._lose(loss.node)
            self.back.append(loss)
        for loss in [each for each in self.back if each.back is not None and share >= each.back]:
            self.back.remove(loss)
            if self.hosts is not None:
                self.hosts.heal(loss.node)

    def _lose(self, node: int) -> None:
        if self.hosts is not None:
            self.hosts.cut(node)
            return
        self.cluster.lose(f"node{node}")

    def end(self) -> None:
        assert not self.due, f"over before {self.due}"
        for loss in self.back:
            if self.hosts is not None:
                self.hosts.heal(loss.node)


def _command(script: Path, *words: str) -> list[str]:
    return [sys.executable, str(script), *words]


def _run(
    command: list[str],
    home: Path,
    cluster: TestCluster,
    nodes: _Nodes | None = None,
    answered: Callable[[], int] = lambda: 0,
) -> float:
    """Run to the end, with what happens to nodes; the longest pause between two answers, s."""
    environment = os.environ | cluster.environment | {
        "PENSTOCK_HOME": str(home), "PENSTOCK_LAKE": str(home / "lake"),
        "PENSTOCK_PIPELINES": str(home / "pipelines"), "PENSTOCK_DRIVER_MEMORY": "1g",
        "PYTHONPATH": python_path(),
    }  # fmt: skip
    output = home / "run.log"
    with output.open("ab") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True,
            cwd=cluster.settings.root,
        )  # fmt: skip
        until, last, moved, pause = time.monotonic() + PATIENCE, -1, time.monotonic(), 0.0
        try:
            while process.poll() is None:
                assert time.monotonic() < until, output.read_text()[-3_000:]
                if nodes is not None:
                    now = answered()
                    if now != last:
                        if last > 0:
                            pause = max(pause, time.monotonic() - moved)
                        last, moved = now, time.monotonic()
                    nodes.look(now)
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.kill()
    assert process.returncode == 0, output.read_text()[-3_000:]
    if nodes is not None:
        nodes.end()
    return pause


def _compared(home: Path, count: int, seconds: float, pause: float) -> Found:
    """The answers in force beside DuckDB's over the files."""
    asked = duckdb.connect()
    asked.execute("SET TimeZone = 'UTC'")
    records = ds.dataset(str(home / "live"), format="parquet")
    answers = pq.read_table(home / "answers" / "count.parquet")
    asked.register("records", records)
    asked.register("answers", answers)
    asked.execute(
        'CREATE TABLE truth AS SELECT time_bucket(INTERVAL 1 MINUTE, "at") AS window_start, sip,'
        " type, count(*) AS n FROM records GROUP BY ALL"
    )
    asked.execute("CREATE TABLE found AS SELECT window_start, sip, type, n FROM answers")
    wrong = asked.execute(
        "SELECT count(*) FROM truth FULL JOIN found USING (window_start, sip, type)"
        " WHERE truth.n IS DISTINCT FROM found.n"
    ).fetchone()
    told = asked.execute("SELECT sum(n)::BIGINT, count(*) FROM found").fetchone()
    assert wrong is not None
    assert told is not None
    return Found(count, told[0], wrong[0], told[1], seconds, pause)
