"""A stream on a cluster whose nodes come, go, and are lost: it goes on, and answers the same."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import pytest

from penstock.core.window import instant
from penstock.kinds.windowed.layout import layout_of
from penstock.lake.cluster.executors import CAME, WENT, changes
from penstock.lake.cluster.load import loads
from penstock.lake.history.generation import generations
from penstock.lake.history.position import position
from penstock.lake.history.standing import timely_answers
from penstock.lake.history.view import late_at
from tests import reference as ref
from tests.answers import assert_same, blocks_of, late_by_pair, rows_by_pair
from tests.clusters import TestCluster, a_cluster
from tests.lakes import Lake
from tests.spark.conftest import EACH_FILE, Scene, flow, make_scene
from tests.spark.test_law0_on_spark import eventually, slow_host
from tests.streams import write_parquet

pytestmark = pytest.mark.spark


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TestCluster]:
    with a_cluster(tmp_path, 2) as found:
        yield found


@dataclass
class Fed:
    """A stream on a cluster that always has something to do."""

    scene: Scene
    output: Path
    process: "Popen[bytes]"
    files: list[list[dict[str, object]]]
    fed: int = field(default=0)

    @property
    def lake(self) -> Lake:
        return self.scene.lake("hourly")

    def until(self, true: Callable[[], bool]) -> None:
        """Feed a file whenever all is answered, until something is true."""

        def looked() -> bool:
            assert self.process.poll() is None, self.output.read_text()[-3_000:]
            at = position(self.lake.tables, self.lake.step)
            if at is not None and at.sealed.seq + 1 == self.fed * EACH_FILE:
                self.feed()
            return true()

        eventually(looked)

    def feed(self) -> None:
        live = self.scene.home / "live"
        live.mkdir(exist_ok=True)
        hidden = live / ".new"
        write_parquet(hidden, self.files[self.fed])
        hidden.rename(live / f"{self.fed:05d}.parquet")
        self.fed += 1

    def seen(self, what: str, *nodes: str) -> bool:
        found = {c.node for c in changes(self.lake.tables) if c.what == what}
        return {*nodes} <= found


def test_nodes_come_and_go_and_are_lost_under_a_stream(
    cluster: TestCluster, tmp_path: Path
) -> None:
    source = {"files": str(tmp_path / "live"), "format": "parquet", "mode": "live"}
    scene, output, rows = make_scene(tmp_path, source=source), tmp_path / "host.log", flow(200_000)
    files = [rows[i : i + EACH_FILE] for i in range(0, len(rows), EACH_FILE)]
    with slow_host(scene.environment(**cluster.environment), output) as process:
        stream = Fed(scene, output, process, files)
        stream.until(lambda: stream.seen(CAME, "node1", "node2"))
        stream.until(lambda: stream.fed > 1)  # it is under way, and not about to start
        cluster.want(3)
        stream.until(lambda: stream.seen(CAME, "node3"))
        cluster.lose("node1")
        stream.until(lambda: stream.seen(WENT, "node1"))
        # What starts in its place, as a rule on a node that goes, is not known to its driver yet.
        eventually(lambda: len(cluster.executors) == 3)
        cluster.want(1)
        stream.until(lambda: stream.seen(WENT, "node2", "node3"))
        before = stream.fed
        stream.until(lambda: stream.fed > before + 1)
        (tmp_path / "stop").touch()
        eventually(lambda: process.poll() is not None)
    assert process.returncode == 0, output.read_text()[-3_000:]
    assert "by force" not in (cluster.settings.logs / "cluster" / "supervisor.log").read_text()
    assert stream.fed < len(files)
    for lake in scene.lakes.values():
        assert_true(lake)
        assert len(generations(lake.tables, lake.step)) == 1, "the host itself went on"
    found = loads(stream.lake.tables, instant(0))
    assert {"node1", "node2", "node3"} <= {row.node for row in found if row.node is not None}
    assert sum(row.busy for row in found if row.node is None) > 0


def assert_true(lake: Lake) -> None:
    """What was answered is what the oracle says of the log up to there."""
    at = position(lake.tables, lake.step)
    assert at is not None
    blocks = blocks_of(lake.tables, lake.pipeline)[: at.sealed.block]
    truth = ref.run(lake.oracle, blocks)
    timely = rows_by_pair(lake.step, timely_answers(lake.tables, lake.step), "through_seq")
    assert_same(truth.timely, timely)
    rows = late_at(lake.tables, lake.step, at, layout_of(lake.step).fields)
    assert_same(truth.late, late_by_pair(lake.step, rows))
    assert at.sealed.open_pairs == truth.open_pairs
    assert timely
    assert truth.late
