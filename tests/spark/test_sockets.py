"""A running driver listens to this machine alone, and shows its secrets to nobody."""

import ipaddress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tests.doubles import RecordingPulse
from tests.spark.conftest import Scene

pytestmark = pytest.mark.spark


def tree() -> list[psutil.Process]:
    """This process, the JVM, Spark's Python workers."""
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def listening(processes: list[psutil.Process]) -> set[str]:
    """Addresses on which some process waits for connections."""
    found = set()
    for each in processes:
        try:
            connections = each.net_connections("inet")
        except psutil.NoSuchProcess:
            continue
        found |= {c.laddr.ip for c in connections if c.status in (psutil.CONN_LISTEN, "NONE")}
    return found


def shown_by(process: psutil.Process) -> str | None:
    """Command line and environment, which others of this user can read; None: it has ended."""
    try:
        with process.oneshot():
            return " ".join([*process.cmdline(), *process.environ().values()])
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return None


def is_loopback(address: str) -> bool:
    known = ipaddress.ip_address(address)
    return (getattr(known, "ipv4_mapped", None) or known).is_loopback


def test_a_running_stream_listens_on_the_loopback_alone_and_asks_for_a_secret(
    spark: SparkSession, log: Scene, tmp_path: Path
) -> None:
    looks: list[set[str]] = []

    def look(_: RecordingPulse) -> bool:
        looks.append(listening(tree()))
        return False

    log.copy(tmp_path).answer(spark, blocks=1_000, stop_when=look)
    assert looks
    assert looks[-1], "the driver, at least, listens"
    assert [a for each in looks for a in each if not is_loopback(a)] == []

    settings = spark.sparkContext._jsc.sc().conf()
    assert settings.get("spark.authenticate") == "true"
    security = spark._jvm.org.apache.spark.SparkEnv.get().securityManager()
    secret = security.getSecretKey()
    assert len(secret) >= 32
    shown = [words for each in tree() if (words := shown_by(each)) is not None]
    assert len(shown) > 1, "this process and the JVM, at least"
    assert not [words for words in shown if secret in words]
