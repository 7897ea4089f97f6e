"""A Spark executor killed with -9 on a standalone master: the stream goes on, nothing is lost."""

import os
import re
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest

from penstock.lake.history.generation import generations
from tests import reference as ref
from tests.spark.conftest import Scene, python_path
from tests.spark.test_law0_on_spark import assert_answers_of_the_log, batches, eventually, slow_host

pytestmark = [pytest.mark.spark, pytest.mark.all]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"


@pytest.fixture
def known(tmp_path: Path) -> dict[str, str]:
    """Where every process finds the secret that others ask it for: a file of mode 0600."""
    folder = tmp_path / "conf"
    folder.mkdir()
    defaults = folder / "spark-defaults.conf"
    defaults.touch(mode=0o600)
    secret = secrets.token_hex(16)
    defaults.write_text(f"spark.authenticate true\nspark.authenticate.secret {secret}\n")
    return {"SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def daemon(known: dict[str, str], log: Path, *words: str) -> Iterator[psutil.Process]:
    """A process of Spark's own, with all that it starts."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [SPARK_CLASS, *words], stdout=output, stderr=output, start_new_session=True,
            env=os.environ | {"PYTHONPATH": python_path()} | known,
        )  # fmt: skip
        try:
            yield psutil.Process(process.pid)
        finally:
            for each in [*psutil.Process(process.pid).children(recursive=True), process]:
                each.kill()
            process.wait()


def found(log: Path, pattern: str) -> list[str]:
    return re.findall(pattern, log.read_text(errors="replace"))


def executors(worker: psutil.Process) -> list[psutil.Process]:
    """The JVMs that run tasks."""
    name = "CoarseGrainedExecutorBackend"
    living = (p for p in worker.children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE)
    return [p for p in living if any(name in w for w in p.cmdline())]


@pytest.fixture
def worker(tmp_path: Path, known: dict[str, str]) -> Iterator[tuple[str, psutil.Process]]:
    """A master's URL, and its one worker with one core."""
    logs = tmp_path / "master.log", tmp_path / "worker.log"
    ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with daemon(known, logs[0], f"{DEPLOY}.master.Master", *ports):
        eventually(lambda: found(logs[0], r"spark://127\.0\.0\.1:\d+") != [])
        master = found(logs[0], r"spark://127\.0\.0\.1:\d+")[0]
        room = ("--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work"))
        with daemon(known, logs[1], f"{DEPLOY}.worker.Worker", master, *ports, *room) as process:
            eventually(lambda: found(logs[1], "Successfully registered with master") != [])
            yield master, process


def test_a_stream_goes_on_when_its_executor_is_killed(
    worker: tuple[str, psutil.Process],
    known: dict[str, str],
    log: Scene,
    truth: dict[str, ref.Answers],
    tmp_path: Path,
) -> None:
    scene = log.copy(tmp_path)
    hourly = scene.lakes["hourly"]
    environment = scene.environment(PENSTOCK_SPARK_MASTER=worker[0], **known)
    with slow_host(environment, tmp_path / "host.log") as process:
        killed = []
        for count in (3, 8):
            eventually(lambda n=count: batches(hourly) >= n or process.poll() is not None)
            running = executors(worker[1])
            assert running, (tmp_path / "host.log").read_text()[-2_000:]
            killed += [p.pid for p in running]
            running[0].send_signal(signal.SIGKILL)
        assert len(set(killed)) == len(killed) > 1, "the second one is a new one"
        eventually(lambda: process.poll() is not None)
    assert process.returncode == 0, (tmp_path / "host.log").read_text()[-2_000:]
    assert_answers_of_the_log(scene, truth)
    assert len(generations(hourly.tables, hourly.step)) == 1, "the host itself went on"
