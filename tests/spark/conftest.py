"""One Spark for all tests of this folder, and one log that several runs answer anew."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from penstock.config.settings import Settings
from penstock.control.nodes import folder_of
from penstock.core.batch_size import Bounds
from penstock.lake.history.registry import Registry
from penstock.lake.ingest import door as door_module
from penstock.spark.alike import require_alike
from penstock.spark.session import configuration, open_session, settings_of
from penstock.spark.stream_host import StreamHost
from tests import reference as ref
from tests.answers import blocks_of
from tests.clusters import a_cluster, nodes_asked_for
from tests.doubles import RecordingPulse, RisingClock
from tests.lakes import Lake
from tests.lookups import NOBODY
from tests.steps import HOURLY, HOURLY_REF, LAST, LAST_REF, SINCE, SINCE_REF, make_pipeline
from tests.streams import disordered, write_files

RECORDS, EACH_FILE, BLOCK = 20_000, 900, 1_024
STEPS = {"hourly": (HOURLY, HOURLY_REF), "since": (SINCE, SINCE_REF), "last": (LAST, LAST_REF)}


def python_path() -> str:
    """What every Python process of a test needs to find."""
    root = Settings().root
    return os.pathsep.join(str(path) for path in (root / "include", root / "plugins", root))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """On this machine; with PENSTOCK_TEST_NODES=n on a cluster of so many nodes."""
    os.environ["PYTHONPATH"] = python_path()  # Spark's workers import penstock and tests, too
    nodes = nodes_asked_for()
    if nodes:
        with on_nodes(tmp_path_factory.mktemp("cluster"), nodes) as session:
            yield session
        return
    # A life of the crash matrix leaves some 5 MB: 1 GB was full after 212 of them.
    options = configuration(Settings().jars, master="local[2]", memory="2g")
    with open_session("penstock-tests", options) as session:
        yield session


@contextmanager
def on_nodes(home: Path, nodes: int) -> Iterator[SparkSession]:
    """A session on a cluster of its own, which every process of the tests then knows of."""
    with a_cluster(home, nodes) as cluster:
        os.environ.update(cluster.environment, PENSTOCK_HOME=str(home))
        options = settings_of(cluster.settings) | {
            "spark.driver.memory": "2g", "spark.executorEnv.PYTHONPATH": python_path(),
        }  # fmt: skip
        with open_session("penstock-tests", options) as session:
            require_alike(session, cluster.settings)
            yield session


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark for a few hundred rows: compiling a query would cost more than running it."""
    options = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode":
               "NO_CODEGEN", "spark.sql.shuffle.partitions": "1"}  # fmt: skip
    before = {name: spark.conf.get(name, None) for name in options}
    for name, value in options.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@dataclass(frozen=True)
class Scene:
    """A home folder with one pipeline of several steps."""

    home: Path
    config: dict[str, Any]

    def lake(self, step: str) -> Lake:
        """The scene as seen by one step."""
        pipeline = make_pipeline(self.home, **self.config)
        oracle = STEPS[step][1] if step in STEPS else NOBODY
        return Lake(self.home, pipeline, oracle, self.config, step)

    @property
    def lakes(self) -> dict[str, Lake]:
        return {name: self.lake(name) for name in self.config["steps"]}

    def begin(self) -> None:
        """Register every step on the log as it is now, so that what follows is no history."""
        lake = next(iter(self.lakes.values()))
        Registry(lake.tables, lake.clock, lake.pipeline).start_all()

    def copy(self, home: Path) -> "Scene":
        """The same tables in another place; the source files stay where they are."""
        shutil.copytree(self.home / "lake", home / "lake")
        return replace(self, home=home)

    def write_yaml(self) -> Path:
        """The pipeline file, for a process of its own."""
        pipelines = self.home / "pipelines"
        pipelines.mkdir(parents=True, exist_ok=True)
        base = make_pipeline(self.home, **self.config).model_dump(
            mode="json", by_alias=True, exclude={"name", "steps", "history"}
        )
        base["source"].pop("delta")
        content = base | self.config
        text = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
        (pipelines / "p.yaml").write_text(text)
        if (code := self.home / "p.py").exists():
            shutil.copy(code, pipelines)
        return pipelines

    def environment(self, **more: str) -> dict[str, str]:
        """Of a process that works in the scene; where the tests' session has a cluster, on it."""
        shared, own = folder_of(Settings().home), folder_of(self.home)
        if shared.exists() and not own.exists():
            own.symlink_to(shared)
        return os.environ | {
            "PENSTOCK_HOME": str(self.home),
            "PENSTOCK_PIPELINES": str(self.write_yaml()),
            "PENSTOCK_DRIVER_MEMORY": "512m",
            "PYTHONPATH": python_path(),
            **more,
        }

    def answer(
        self,
        spark: SparkSession,
        blocks: int,
        stop_when: Callable[[RecordingPulse], bool] = lambda _: False,
        shards: int = 0,
    ) -> RecordingPulse:
        """Run the stream host until the bounded source is answered, or until it is to stop."""
        pulse = RecordingPulse(stop_when)
        lake = next(iter(self.lakes.values()))
        host = StreamHost(
            spark, lake.tables, lake.pipeline, self.home, RisingClock(), pulse, shards=shards
        )
        host.run(Bounds.fixed((blocks - 1) * BLOCK + 1))
        return pulse


def make_scene(home: Path, **overrides: Any) -> Scene:
    source = {"files": str(home / "live"), "format": "parquet", "mode": "bounded"}
    steps = {name: step for name, (step, _) in STEPS.items()}
    return Scene(home, {"source": source, "steps": steps} | overrides)


def flow(count: int = RECORDS, seed: int = 7) -> list[dict[str, Any]]:
    """Several hundred records are too late, some are refused."""
    rows = disordered(count, seed=seed)
    for row in rows[50::400]:
        row["site"] = None
    return rows


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A log that is taken in to its end, with both steps registered before its first record."""
    scene = make_scene(tmp_path_factory.mktemp("log"))
    write_files(scene.home / "live", flow(), EACH_FILE)
    scene.begin()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", BLOCK)
        assert scene.lake("hourly").ingest() == RECORDS
    return scene


@pytest.fixture(scope="session")
def truth(log: Scene) -> dict[str, ref.Answers]:
    """What the oracle says of that log."""
    blocks = blocks_of(log.lake("hourly").tables, log.lake("hourly").pipeline)
    assert len(blocks) > 15
    found = {name: ref.run(lake.oracle, blocks) for name, lake in log.lakes.items()}
    assert all(sum(a.n_records for a in t.late.values()) > 200 for t in found.values())
    return found


@pytest.fixture(scope="session")
def answered(spark: SparkSession, log: Scene, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The log, answered in as few micro-batches as possible; nothing corrected. Copy it."""
    scene = log.copy(tmp_path_factory.mktemp("answered"))
    scene.answer(spark, blocks=1_000)
    return scene
