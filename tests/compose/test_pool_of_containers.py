"""Nodes as containers: a stream goes on while they come, are drained, killed and found again."""

import os
import signal
from collections.abc import Iterator

import pytest

from penstock.control.nodes import STATE_FILE
from penstock.lake.cluster.executors import CAME, WENT, changes
from penstock.runtime.cluster.state import ClusterFiles, ClusterState
from penstock.runtime.streams.paths import read_json
from tests.compose.services import SLOW, Services, docker
from tests.e2e.rides import RideFiles
from tests.e2e.running import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.all]

CLUSTER = """\
pool: compose
worker: {cores: 1, memory: 512m}
nodes: {start: 1, least: 1, most: 3}
scale: {come: PT20M, drain: PT10M}
"""
WISH = """\
from penstock.config.settings import Settings
from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.spec import StreamSpec
settings = Settings()
paths = StreamPaths(settings.streams, "rides")
control.ask_runner(paths, StreamSpec.of(settings, "rides", None))
"""
"""What Airflow does once the stream's DAG runs."""
WANT = """\
from penstock.config.settings import Settings
from penstock.runtime.cluster.state import ClusterFiles
files = ClusterFiles(Settings().home)
assert files.read().alive
files.want({nodes})
"""
"""What scale__cluster does."""


class Pooled:
    """The services that a stream needs, on a pool of containers."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.files = ClusterFiles(services.seen.settings.home)
        self.rides = RideFiles(services.seen.settings.home)

    def cluster(self, what: str) -> str:
        done = self.services.seen.call("cluster", what)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def nodes(self) -> dict[str, str]:
        """Containers' ids by name."""
        label = f"label=com.docker.compose.project={self.services.project}"
        told = docker("ps", "--no-trunc", "--filter", label, "--filter", "label=penstock.node",
                      "--format", '{{.Label "penstock.node"}} {{.ID}}')  # fmt: skip
        return dict(line.split() for line in told.splitlines())

    def want(self, nodes: int) -> ClusterState:
        """Asked for in a container, brought about from the host."""
        asked = WANT.format(nodes=nodes)
        self.services.inside("stream-runner", "python", "-c", asked)
        assert eventually(lambda: self.files.read().settled, SLOW), self.files.read()
        return self.files.read()

    def arrive(self) -> None:
        self.rides.arrive(1)
        seen = self.services.seen
        assert eventually(lambda: seen.sealed() == self.rides.received, SLOW), (
            seen.sealed(), self.rides.received, seen.stream,
        )  # fmt: skip

    def changed(self, kind: str, node: str) -> bool:
        """Whether the stream has said that it got, or lost, a node."""
        found = changes(self.services.seen.tables)
        return any((each.what, each.node) == (kind, node) for each in found)


@pytest.fixture(scope="module")
def pooled(image: str, request: pytest.FixtureRequest) -> Iterator[Pooled]:
    services = Services.made(CLUSTER)
    pooled = Pooled(services)
    before = request.session.testsfailed
    with pytest.MonkeyPatch.context() as patched:
        for name, value in services.environment.items():
            patched.setenv(name, value)
        try:
            services.compose("up", "-d", "spark-master", "stream-runner", seconds=SLOW)
            pooled.cluster("up")
            yield pooled
        finally:
            if request.session.testsfailed > before:
                print(services.compose("logs", "--tail", "30"))
                for node in pooled.nodes().values():
                    print(docker("logs", "--tail", "30", node))
            pooled.cluster("down")
            services.end()


def test_a_stream_runs_on_a_node_that_came(pooled: Pooled) -> None:
    assert [node.name for node in pooled.files.read().nodes] == ["node1"]
    pooled.rides.live.mkdir(parents=True)
    for folder in (pooled.rides.live.parent, pooled.rides.live):
        os.chown(folder, 1000, 1000)
    pooled.services.inside("stream-runner", "python", "-c", WISH)
    pooled.arrive()
    assert eventually(lambda: pooled.changed(CAME, "node1"), SLOW)


def test_it_goes_on_while_a_node_comes_and_is_drained(pooled: Pooled) -> None:
    before, first = pooled.services.seen.stream.said["incarnation"], pooled.nodes()
    assert pooled.want(2).registered == 2
    assert eventually(lambda: pooled.changed(CAME, "node2"), SLOW)
    pooled.arrive()
    pooled.want(1)
    assert pooled.nodes() == first, "the one that was drained is gone, and no other one"
    assert eventually(lambda: pooled.changed(WENT, "node2"), SLOW)
    pooled.arrive()
    assert pooled.services.seen.stream.said["incarnation"] == before


def test_a_killed_supervisors_node_stays_and_is_kept_by_the_next_one(pooled: Pooled) -> None:
    before = pooled.nodes()
    os.kill(read_json(pooled.files.folder / STATE_FILE)["supervisor"], signal.SIGKILL)
    assert eventually(lambda: not pooled.files.read().alive, SLOW)
    pooled.arrive()
    pooled.cluster("up")
    assert pooled.nodes() == before


def test_a_killed_node_comes_back(pooled: Pooled) -> None:
    docker("kill", pooled.nodes()["node1"])
    assert eventually(lambda: not pooled.files.read().settled, SLOW)
    assert eventually(lambda: pooled.files.read().settled, SLOW), pooled.files.read()
    pooled.arrive()


def test_at_the_end_the_nodes_are_gone_and_the_master_is_not(pooled: Pooled) -> None:
    pooled.cluster("down")
    assert pooled.nodes() == {}
    states = pooled.services.states()
    assert states["spark-master"] == "healthy", states
