"""The pool of containers: nodes come, are drained, go and are found again; Docker is a file."""

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.config.cluster import Cluster
from penstock.config.settings import Settings
from penstock.control.nodes import DOWN, DRAINING, REGISTERED, STARTING, STATE_FILE
from penstock.core.errors import ConfigError, TransientError
from penstock.runtime.cluster import compose, control
from penstock.runtime.cluster.compose import Compose
from penstock.runtime.cluster.state import ClusterFiles
from penstock.runtime.cluster.supervisor import ClusterSupervisor
from penstock.runtime.streams.paths import take_lock
from penstock.spark.nodes import on_a_cluster
from tests.unit.cluster import fake_docker


class World:
    """What Docker and Spark's master know, in a file.

    Args:
        bin: folder of the programs that stand in for Docker's.
        home: the containers' home folder.
    """

    def __init__(self, bin: Path, home: Path) -> None:  # noqa: A002
        self.bin, self.file = bin, bin / "world.json"
        self.all: dict[str, Any] = {
            "plugin": True,
            "answers": True,
            "home": str(home),
            "master": "127.0.0.1",
            "containers": {},
            "removed": [],
        }
        for service in ("spark-master", "stream-runner"):
            fake_docker.container(self.all, f"p-{service}", service, False, {})
        self.save()
        self.program("docker")

    def program(self, name: str) -> None:
        path = self.bin / name
        path.write_text(f"#!{sys.executable} -SE\n{Path(fake_docker.__file__).read_text()}")
        path.chmod(0o755)

    def save(self) -> None:
        self.file.write_text(json.dumps(self.all))

    def read(self) -> dict[str, Any]:
        self.all = json.loads(self.file.read_text())
        return self.all

    def change(self, name: str, **values: object) -> None:
        self.read()["containers"][name].update(values)
        self.save()

    def say(self, **values: object) -> None:
        self.read().update(values)
        self.save()

    def register(self) -> None:
        """Workers that run say so to the master."""
        for one in self.read()["containers"].values():
            if one["labels"]["com.docker.compose.service"] == "spark-worker" and not one["worker"]:
                one["worker"] = "ALIVE"
        self.save()

    def page(self) -> dict[str, Any]:
        known = self.read()["containers"].values()
        return {"workers": [{"host": f"127.0.9.{c['number']}", "state": c["worker"]}
                            for c in known if c["worker"]]}  # fmt: skip

    def own_worker(self) -> str:
        """What a plain ``up`` starts."""
        fake_docker.container(self.read(), "p-spark-worker-1", "spark-worker", False, {})
        self.save()
        return "p-spark-worker-1"

    @property
    def workers(self) -> set[str]:
        found = self.read()["containers"].items()
        return {n for n, c in found
                if c["labels"]["com.docker.compose.service"] == "spark-worker"}  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "home").mkdir()
    return Settings(home=tmp_path / "home", root=tmp_path)


@pytest.fixture
def world(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    (tmp_path / "bin").mkdir()
    made = World(tmp_path / "bin", settings.home)

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(made.page()).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.setattr(compose, "PAGE", f"http://{{}}:{server.server_port}/json/")
    monkeypatch.setattr(compose, "LOOK_SECONDS", 0.0)
    yield made
    server.shutdown()
    server.server_close()


class Kept:
    """A supervisor of that world that looks when it is told to."""

    def __init__(self, settings: Settings, drain: str = "PT1H") -> None:
        cluster = Cluster.model_validate(
            {"pool": "compose", "worker": {"cores": 2, "memory": "1g"}, "scale": {"drain": drain}}
        )
        self.files, self.pool = ClusterFiles(settings.home), Compose(settings, cluster)
        self.supervisor = ClusterSupervisor(self.files, self.pool)
        self.pool.open()

    def look(self, times: int = 1) -> dict[str, str]:
        for _ in range(times):
            self.supervisor.look()
        return {node.name: node.state for node in self.pool.nodes()}


@pytest.fixture
def three(settings: Settings, world: World) -> Kept:
    """Nodes that are registered."""
    kept = Kept(settings)
    kept.files.want(3)
    kept.look()
    world.register()
    assert kept.look() == dict.fromkeys(("node1", "node2", "node3"), REGISTERED)
    return kept


def test_nodes_come_as_containers_with_their_cores_memory_and_name(
    settings: Settings, world: World
) -> None:
    kept = Kept(settings)
    kept.files.want(2)
    assert kept.look() == {"node1": STARTING, "node2": STARTING}
    assert world.workers == {"p-node1", "p-node2"}
    one = world.read()["containers"]["p-node1"]
    assert sorted(one["environment"]) == ["SPARK_WORKER_CORES=16", "SPARK_WORKER_MEMORY=8g"]
    assert one["restart"] == "unless-stopped", "as run makes it, nobody would start it again"
    world.register()
    assert kept.look() == {"node1": REGISTERED, "node2": REGISTERED}
    hosts = [node.host for node in kept.pool.nodes()]
    assert hosts == [worker["host"] for worker in world.page()["workers"]]


def test_a_node_goes_when_its_tasks_have_ended_and_no_other_one_does(
    three: Kept, world: World
) -> None:
    for name in world.workers:
        world.change(name, executors=2)
    three.files.want(2)
    assert three.look(5) == {"node1": REGISTERED, "node2": REGISTERED, "node3": DRAINING}
    assert world.workers == {"p-node1", "p-node2", "p-node3"}, "its tasks run"
    world.change("p-node3", executors=0)
    assert three.look(2) == {"node1": REGISTERED, "node2": REGISTERED}
    assert world.read()["removed"] == [["p-node3", 0, "DECOMMISSIONED"]]


def test_a_node_whose_tasks_do_not_end_goes_by_force(settings: Settings, world: World) -> None:
    kept = Kept(settings, drain="PT0S")
    kept.files.want(1)
    kept.look()
    world.register()
    world.change("p-node1", executors=1)
    kept.files.want(0)
    assert kept.look(3) == {}
    assert world.read()["removed"] == [["p-node1", 1, "DECOMMISSIONED"]]


def test_a_node_that_goes_before_it_has_registered_is_not_told_to(
    settings: Settings, world: World
) -> None:
    kept = Kept(settings)
    kept.files.want(1)
    kept.look()
    kept.files.want(0)
    assert kept.look(2) == {}
    assert world.read()["removed"] == [["p-node1", 0, ""]]


def test_a_killed_supervisors_nodes_are_the_next_ones(
    three: Kept, settings: Settings, world: World
) -> None:
    world.change("p-node3", executors=1)
    three.files.want(2)
    three.look(2)
    following = Kept(settings)
    assert following.look(2) == {"node1": REGISTERED, "node2": REGISTERED, "node3": DRAINING}
    world.change("p-node3", executors=0)
    assert following.look(2) == {"node1": REGISTERED, "node2": REGISTERED}
    assert world.workers == {"p-node1", "p-node2"}


def test_a_worker_that_compose_has_started_counts_and_goes_first(three: Kept, world: World) -> None:
    own = world.own_worker()
    world.register()
    assert three.look(3) == dict.fromkeys(("node1", "node2", "node3"), REGISTERED)
    assert [name for name, *_ in world.read()["removed"]] == [own]


def test_a_container_for_something_else_is_no_node(three: Kept, world: World) -> None:
    fake_docker.container(world.read(), "p-somebodys", "spark-worker", True, {})
    world.save()
    assert len(three.look()) == 3
    assert "p-somebodys" in world.workers


def test_a_node_that_has_ended_is_started_again(three: Kept, world: World) -> None:
    world.change("p-node2", status="exited", worker="")
    assert three.look()["node2"] == DOWN
    world.register()
    assert three.look()["node2"] == REGISTERED
    assert world.read()["removed"] == []


def test_while_docker_or_the_master_is_away_nothing_is_lost(three: Kept, world: World) -> None:
    world.say(answers=False)
    three.files.want(4)
    assert three.look(2) == dict.fromkeys(("node1", "node2", "node3"), REGISTERED)
    world.say(answers=True)
    world.change("p-spark-master", status="exited")
    assert three.look(2) == dict.fromkeys(("node1", "node2", "node3"), STARTING)
    world.change("p-spark-master", status="running")
    three.pool._add_due = 0.0
    three.look()
    assert "p-node4" in world.workers


def test_at_the_end_its_nodes_end_and_what_is_composes_stays(three: Kept, world: World) -> None:
    own = world.own_worker()
    three.pool.close()
    assert world.workers == {own}
    assert "p-spark-master" in world.read()["containers"]


def test_jobs_in_containers_have_one_executor_on_each_node_and_their_own_address(
    three: Kept, settings: Settings
) -> None:
    (settings.home / "cluster.yaml").write_text("pool: compose\nworker: {cores: 2, memory: 3g}\n")
    job = settings.model_copy(
        update={"spark_master": three.pool.url, "cluster": settings.home / "cluster.yaml"}
    )
    found = on_a_cluster(job)
    assert found["spark.dynamicAllocation.initialExecutors"] == "3"
    assert (found["spark.executor.cores"], found["spark.executor.memory"]) == ("2", "3g")
    assert "spark.driver.host" not in found


def test_a_cluster_is_not_stopped_from_where_its_supervisor_cannot_be_seen(
    three: Kept, settings: Settings
) -> None:
    lock = take_lock(three.files.lock)
    assert lock is not None
    with pytest.raises(ConfigError, match="stop it where it was started"):
        control.down(settings)
    os.close(lock)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root leaves files to others: be root")
def test_what_root_says_is_readable_for_the_owner_of_the_home_folder(
    three: Kept, settings: Settings
) -> None:
    os.chown(three.files.folder, 1000, 1000)
    three.files.want(2)
    three.look()
    for file in ("wanted.json", STATE_FILE):
        assert (three.files.folder / file).stat().st_uid == 1000


def test_compose_as_a_program_of_its_own_does_as_well(settings: Settings, world: World) -> None:
    world.say(plugin=False)
    world.program("docker-compose")
    kept = Kept(settings)
    kept.files.want(1)
    kept.look()
    assert world.workers == {"p-node1"}


def test_what_is_missing_is_said_with_its_remedy(
    settings: Settings, world: World, tmp_path: Path
) -> None:
    pool = Compose(settings, Cluster.model_validate({"pool": "compose"}))
    pool.check()
    world.say(home=str(tmp_path))
    with pytest.raises(ConfigError, match=r"is not the home folder of the .* Set PENSTOCK_HOME"):
        pool.check()
    world.change("p-stream-runner", status="exited")
    with pytest.raises(ConfigError, match=r"stream-runner: not running\. .* docker compose up -d"):
        pool.check()
    world.say(answers=False)
    with pytest.raises(TransientError, match=r"daemon\. Start Docker, or let \w+ use it"):
        pool.check()
    world.say(plugin=False)
    with pytest.raises(ConfigError, match="Compose is not installed here"):
        pool.check()
    shutil.rmtree(world.bin)
    with pytest.raises(ConfigError, match="is kept from the host"):
        pool.check()
