"""What must be true before a start: each with what is wrong and the remedy."""

import hashlib
import re
import shutil
import socket
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

import psutil

from penstock.config.settings import Settings, child_environment
from penstock.core.errors import ConfigError
from penstock.runtime.embedded import privacy
from penstock.runtime.embedded.airflow_environment import HOST, spark_home

OLDEST_JAVA = 17
LEAST_FREE_BYTES = 1_000_000_000
_JAVA_REMEDY = (
    f"Install Java {OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jre-headless),"
    " or set JAVA_HOME to one."
)


def check_start(settings: Settings) -> None:
    """All checks; the cheap ones first.

    Raises:
        ConfigError: Something is missing; nothing was started.
    """
    check_home(settings.home)
    check_port(settings.port)
    check_jars(settings.root / "jars" / "SHA256SUMS", settings.jars)
    check_pyspark()
    check_java()


def check_home(home: Path) -> None:
    """The home can be written and has room."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        privacy.close(home)  # made by a former version, or by hand
        with tempfile.TemporaryFile(dir=home) as probe:
            probe.write(b"room?")
    except OSError as error:
        raise ConfigError(
            f"{home} cannot be written ({error.strerror}): all run-time files go there."
            " Free or unlock it, or set PENSTOCK_HOME to another folder."
        ) from error
    free = shutil.disk_usage(home).free
    if free < LEAST_FREE_BYTES:
        raise ConfigError(
            f"only {free / 1e6:.0f} MB are free on the disk of {home}; at least"
            f" {LEAST_FREE_BYTES / 1e6:.0f} MB are needed. Free some room, or set PENSTOCK_HOME to"
            " a folder on another disk."
        )


def check_port(port: int) -> None:
    """The user interface's port is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            holder = _listener(port) or "another process"
            raise ConfigError(
                f"port {port} cannot be used ({error.strerror}): {holder} has it."
                f" Stop that, or take another port: PENSTOCK_PORT={port + 1} make up"
            ) from error


def check_jars(sums: Path, folder: Path) -> None:
    """Delta's jars are there and are the right ones."""
    for line in sums.read_text().splitlines():
        checksum, name = line.split()
        jar = folder / name
        if not jar.exists():
            raise ConfigError(f"{jar} is missing: Spark needs it for Delta tables. Run: make setup")
        if hashlib.sha256(jar.read_bytes()).hexdigest() != checksum:
            raise ConfigError(f"{jar} is damaged (wrong checksum). Remove it and run: make setup")


def check_pyspark() -> None:
    """Both pyspark distributions, which share files, are of one version."""
    found = re.search(
        r'__version__.*["\']([^"\']+)["\']', (spark_home() / "version.py").read_text()
    )
    versions = {
        "pyspark": version("pyspark"),
        "pyspark-client": version("pyspark-client"),
        "the files of both": found[1] if found else "unknown",
    }
    if len(set(versions.values())) > 1:
        listed = ", ".join(f"{name} {number}" for name, number in versions.items())
        raise ConfigError(
            f"the versions of Spark's Python packages differ: {listed}. They overwrite each other."
            " Run: make clean setup"
        )


def check_java() -> str:
    """Java is there and new enough.

    Returns:
        Its version.
    """
    environment = child_environment()
    home = environment.get("JAVA_HOME", "")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        answer = subprocess.run(
            (java, "-version"), capture_output=True, text=True, check=False, timeout=30
        )
    except OSError as error:
        where = f"JAVA_HOME is {home}, but {java} cannot be run" if home else "no java on the PATH"
        raise ConfigError(f"Java is missing: {where}. {_JAVA_REMEDY}") from error
    found = re.search(r'version "(1\.)?(\d+)[^"]*"', answer.stderr + answer.stdout)
    if not found:
        raise ConfigError(f"{java} does not tell its version. {_JAVA_REMEDY}")
    if int(found[2]) < OLDEST_JAVA:
        raise ConfigError(f"Java is too old: {java} is version {found[2]}. {_JAVA_REMEDY}")
    return found[2]


def _listener(port: int) -> str | None:
    """Who listens on a port, when the system tells us."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for one in connections:
        if one.laddr and one.laddr.port == port and one.status == psutil.CONN_LISTEN and one.pid:
            try:
                return f"{psutil.Process(one.pid).name()} (pid {one.pid})"
            except psutil.Error:
                return f"the process with pid {one.pid}"
    return None
