"""Whether every executor has what a job's driver has: versions, the package, the folders.

What workers need lies at the same place on every host: the checkout, the virtual environment, the
home folder and the lake. Jars travel with the job. A host that differs is refused at the start, in
words, before it answers otherwise.
"""

import hashlib
import platform
import re
import socket
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.config.settings import Settings
from penstock.control.nodes import registered_hosts
from penstock.core.errors import ConfigError
from penstock.core.place import is_remote, path_of
from penstock.spark.cores import partition
from penstock.spark.nodes import Executors, pool_of

PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "deltalake")
"""Those that a task computes with."""
NOT_THERE = re.compile(r"(No module named \S+|Cannot run program [^:]+)")
Versions: TypeAlias = tuple[tuple[str, str], ...]
Answer: TypeAlias = tuple[str, Versions, tuple[str, ...]]
"""Of one worker: its host, its versions, the files that it does not see."""
ROUNDS = 10
"""Of tasks, as many as fit at once: an executor that none of them reached is not looked at."""


def require_alike(spark: SparkSession, settings: Settings) -> None:
    """Compare every executor with the driver; the session's jobs then share all their cores.

    Raises:
        ConfigError: one has other versions, or does not see the lake or the home folder.
    """
    if settings.spark_master.startswith("local"):
        return
    if pool_of(settings) is not None:
        Executors(spark).wait(len(registered_hosts(settings.home)))
    wanted, folders = _versions(), _folders(settings)
    probes = [folder / f".seen-by-{uuid.uuid4().hex}" for folder in folders]
    try:
        for probe in probes:
            probe.write_text(str(probe))
        found = _asked(spark, [str(probe) for probe in probes])
    finally:
        for probe in probes:
            with suppress(OSError):
                probe.unlink()
    partition(spark)
    differs = [*_differences(wanted, found)]
    if differs:
        raise ConfigError(
            "nodes differ from this host: " + "; ".join(differs) + ". Every host needs the same"
            " checkout, virtual environment, home folder and lake at the same place (or one image)"
        )


def _differences(wanted: Versions, found: set[Answer]) -> Iterator[str]:
    for host, versions, unseen in sorted(found):
        theirs = dict(versions)
        for name, mine in wanted:
            if theirs.get(name) != mine:
                yield f"{host} has {name} {theirs.get(name, 'none')}, here it is {mine}"
        for path in unseen:
            yield f"{host} does not see {Path(path).parent}, where a file was written a moment ago"


def _asked(spark: SparkSession, probes: list[str]) -> set[Answer]:
    """What the hosts say.

    Raises:
        ConfigError: one cannot even say it.
    """
    context = spark.sparkContext
    tasks = max(context.defaultParallelism, 1)

    def told(_: Iterator[int]) -> Iterator[Answer]:
        yield socket.gethostname(), _versions(), tuple(p for p in probes if _content(p) != p)

    found: set[Answer] = set()
    for _ in range(ROUNDS):
        before = len(found)
        try:
            found |= {*context.parallelize(range(tasks), tasks).mapPartitions(told).collect()}
        except Py4JJavaError as failed:
            said = str(failed.java_exception)
            if missing := NOT_THERE.search(said):
                raise ConfigError(f"a node lacks what this host has: {missing[0]}") from failed
            raise
        if len(found) == before:
            break
    return found


def _content(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None


def _folders(settings: Settings) -> list[Path]:
    folders = [settings.home.absolute()]
    if not is_remote(settings.lake_uri):
        folders.append(path_of(settings.lake_uri))
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    return list(dict.fromkeys(folders))


@cache
def _versions() -> Versions:
    found = {"Python": platform.python_version(), "penstock": _digest()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return tuple(found.items())


def _digest() -> str:
    """Of the package's source files."""
    root, whole = Path(__file__).resolve().parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        whole.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()[:12]
