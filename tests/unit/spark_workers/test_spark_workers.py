"""What Spark starts as its Python: it calls back before it imports."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.serializers import UTF8Deserializer, read_int

from penstock.spark.session import WORKER

HERE = Path(__file__).parent
SPARKS_PATIENCE = 10.0
"""Seconds; written into PythonWorkerFactory of Spark 4.2."""


@pytest.fixture
def spark() -> Iterator[socket.socket]:
    """The driver's side of a worker that is being started."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(SPARKS_PATIENCE)
        yield listening


@pytest.fixture
def worker(
    spark: socket.socket, tmp_path: Path
) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    imported = tmp_path / "imported"
    environment = os.environ | {
        "PYTHON_WORKER_FACTORY_PORT": str(spark.getsockname()[1]),
        "PYTHON_WORKER_FACTORY_SECRET": "secret",
        "WORKER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        "IMPORTED": str(imported),
    }
    process = subprocess.Popen([str(WORKER), "-m", "slow_worker"], env=environment)
    yield process, imported
    process.kill()
    process.wait()


def test_a_worker_calls_back_before_its_slow_imports_are_done(
    spark: socket.socket, worker: tuple["subprocess.Popen[bytes]", Path]
) -> None:
    process, imported = worker
    called, _ = spark.accept()  # fails after Spark's patience
    with called:
        called.settimeout(SPARKS_PATIENCE)
        file = called.makefile("rwb", 65536)
        assert UTF8Deserializer().loads(file) == "secret"
        for part in (b"\0\0\0\2", b"ok"):  # it may come in pieces
            called.sendall(part)
        imported.touch()
        assert read_int(file) > 0  # its process number
        assert read_int(file) == 4711
        assert process.wait(30) == 0


def test_what_else_spark_asks_of_its_python_goes_to_the_interpreter() -> None:
    ask = "import sys; print('%d.%d' % sys.version_info[:2], sys.argv[1:])"
    done = subprocess.run(
        [str(WORKER), "-c", ask, "more"],
        env=os.environ | {"WORKER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{sys.version_info[0]}.{sys.version_info[1]} ['more']\n"
