"""One Spark for the recoveries, one undisturbed life a seed, and the table at the end."""

import hashlib
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.config.settings import Settings
from tests.crash.feeding import copied as copied_feed
from tests.crash.feeding import fed_apart, fed_once
from tests.crash.life import Life
from tests.crash.points import Reached, read_trace
from tests.crash.rows import Kept
from tests.crash.scaling import scaled_apart
from tests.lakes import Lake
from tests.spark.conftest import quick, spark
from tests.spark.freezing import copied, due_lake, maintained_apart

__all__ = ["quick", "spark"]

CODE = ("include/penstock", "spark_jobs", "tests/crash", "tests/spark")
_shown: list[Kept] = []


def fingerprint() -> str:
    """Of the code the matrix is about."""
    root, digest = Settings().root, hashlib.sha256()
    for folder in CODE:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@pytest.fixture(scope="session")
def folder() -> Path:
    """What is kept for this code; of other code nothing is."""
    every = Settings().home / "crash-points"
    mine = every / fingerprint()
    for other in every.glob("*"):
        if other != mine:
            shutil.rmtree(other)
    mine.mkdir(parents=True, exist_ok=True)
    return mine


@pytest.fixture(scope="session")
def kept(folder: Path) -> Kept:
    found = Kept(folder / "rows.jsonl")
    _shown.append(found)
    return found


@pytest.fixture(scope="session")
def lives(folder: Path) -> Callable[[int], Life]:
    @cache
    def of(seed: int) -> Life:
        life = Life(seed, folder / f"life-{seed}")
        life.undisturbed()
        return life

    return of


@pytest.fixture(scope="session")
def due(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake of which the next run of maintenance freezes the greater part; copy it."""
    return due_lake(spark, tmp_path_factory.mktemp("due"))


@pytest.fixture(scope="session")
def freezing(due: Lake, tmp_path_factory: pytest.TempPathFactory) -> list[Reached]:
    """What that run reaches."""
    home = tmp_path_factory.mktemp("freezing")
    assert maintained_apart(copied(due, home).home, home / "trace") == 0
    return read_trace(home / "trace")


@pytest.fixture(scope="session")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a lake over which there is more to feed; copy it."""
    home = tmp_path_factory.mktemp("fed")
    fed_once(home)
    return home


@pytest.fixture(scope="session")
def feeding(fed: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Reached]:
    """What a feed reaches."""
    home = tmp_path_factory.mktemp("feeding")
    copied_feed(fed, home)
    assert fed_apart(home, home / "trace") == 0
    return read_trace(home / "trace")


@pytest.fixture(scope="session")
def scaling(tmp_path_factory: pytest.TempPathFactory) -> list[Reached]:
    """What a run of ``scale__cluster`` reaches."""
    home = tmp_path_factory.mktemp("scaling")
    assert scaled_apart(home, home / "trace") == 0
    return read_trace(home / "trace")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for found in _shown:
        terminalreporter.section("crash points")
        for line in found.table():
            terminalreporter.write_line(line)
