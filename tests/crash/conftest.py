"""One Spark for the recoveries, one undisturbed life a seed, and the table at the end."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from penstock.config.settings import Settings
from tests.crash.life import Life
from tests.crash.matrix import Kept
from tests.spark.conftest import spark

__all__ = ["spark"]

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
def kept() -> Kept:
    found = Kept(Settings().home / "crash-points" / f"{fingerprint()}.jsonl")
    _shown.append(found)
    return found


@pytest.fixture(scope="session")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Life]:
    @cache
    def of(seed: int) -> Life:
        life = Life(seed, Path(tmp_path_factory.mktemp(f"seed{seed}")))
        life.undisturbed()
        return life

    return of


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for found in _shown:
        terminalreporter.section("crash points")
        for line in found.table():
            terminalreporter.write_line(line)
